"""The report as data: everything a reporter, an IDE or CI needs, and nothing that computes.

``Report.model_dump()`` is the JSON contract (schema version below): times in us as numbers, absolute times as decimal
strings of ns-exact microseconds, null where unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from npu_advisor.base.terms import Basis, Effort, PathPart, Severity, Text

if TYPE_CHECKING:
    from npu_advisor.views import Track, Views

SCHEMA_VERSION = "1.0"
JsonValue = str | int | float | bool | None


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tool(_Model):
    """Who wrote the report."""

    name: str = "npu-advisor"
    version: str


class RankInfo(_Model):
    """One rank that was read."""

    rank: int
    path: str
    form: Literal["text", "db", "trace", "csv", "msprof", "kineto"]
    level: str | None = None
    device: str | None = None
    torch_npu: str | None = None
    cann: str | None = None


class ProfileFacts(_Model):
    """The input: the path as given and the ranks found under it."""

    path: str
    ranks: list[RankInfo]


class Step(_Model):
    """The ledger of one step.

    compute + exposed_communication + free + prepare + after_last_kernel = duration;
    the idle owners split free + prepare.

    ``critical_path`` is what holds the end of the step where it is, by part in us (it adds up to the duration): host,
    input, dispatch, compute, copy, communication, waiting_for_rank, sync, stream_gap, anchor (held for no recorded
    reason). ``bound_by`` is its largest part. Both are null without a replay that can be trusted.
    """

    rank: int
    step: int | None
    duration_us: float
    host_us: float | None = None
    complete: bool = True
    compute_us: float
    communication_us: float
    exposed_communication_us: float
    free_us: float
    prepare_us: float
    after_last_kernel_us: float
    waiting_for_rank_us: dict[str, float] = Field(default_factory=dict)
    idle_owners: dict[str, float] = Field(default_factory=dict)
    critical_path: dict[PathPart, float] | None = None
    bound_by: PathPart | None = None


class RankFacts(_Model):
    """Counts and totals of one rank over all its steps; null where the input cannot say."""

    rank: int
    host_ops: int | None = None
    kernels: int | None = None
    kernel_time_us: float | None = None
    kernels_linked_to_op: int | None = None
    kernels_linked_to_line: int | None = None
    enqueues: int | None = None
    dequeues: int | None = None
    device_busy_us: float | None = None
    device_idle_us: float | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None


class TopKernel(_Model):
    """One kernel type's share of the computing time."""

    rank: int
    type: str
    calls: int
    total_us: float
    share: float


class LineCost(_Model):
    """What one line of the user's code keeps the device busy with, its backward included.

    ``device_us_per_step`` sums the compute kernels that it launches, ``communication_us_per_step`` its collectives
    (waiting for other ranks included), both per step; ``share`` is device time in the step. ``kernels`` is a count per
    step. ``rank`` is the rank where the line takes longest; ``text`` the line, where the file is readable.
    """

    rank: int
    path: str
    line: int
    function: str = ""
    local_path: str | None = None
    text: str | None = None
    device_us_per_step: float
    communication_us_per_step: float
    share: float
    kernels: float


class StartShift(_Model):
    """How far strict replay moves the start of a kernel, either way."""

    median_us: float
    p90_us: float


class Replay(_Model):
    """How well replaying the unedited graph gives back one step; ``start_shift`` is over all kernels of the rank."""

    rank: int
    step: int | None
    recorded_us: float
    replayed_us: float
    error: float
    anchored_share: float
    start_shift: StartShift | None = None


class After(_Model):
    """Findings (by fingerprint) that hide another one: once all of them are fixed, that one saves so much."""

    fingerprints: list[str]
    us_per_step: float


class Saving(_Model):
    """What a fix saves per step, alone; negative where it would cost time.

    ``joint_us_per_step`` is its part when every finding is fixed: where replayed, what all fixes save together less
    what all but this one save (leave one out; these parts need not add up to the joint saving); where bounded, what
    its time adds to that of the larger findings before it (each microsecond once). ``after`` is for a fix that saves
    nothing now: what would have to be fixed first for it to matter, and what it saves then. ``freed_bytes`` is the
    memory at the peak that it frees as well, where it does.

    ``per`` iteration: no steps were marked, and "step" stands for an iteration of the recorded loop.
    """

    us_per_step: float
    low_us_per_step: float
    high_us_per_step: float
    joint_us_per_step: float
    share: float
    basis: Basis
    per: Literal["step", "iteration"] = "step"
    assumes: Text | None = None
    after: list[After] = Field(default_factory=list)
    freed_bytes: float | None = None


class JointSaving(_Model):
    """What all findings save together; the range is that of all low and of all high ends at once."""

    joint_us_per_step: float = 0.0
    low_us_per_step: float = 0.0
    high_us_per_step: float = 0.0
    share: float = 0.0
    basis: Basis = Basis.UPPER_BOUND
    per: Literal["step", "iteration"] = "step"


class CodeFrame(_Model):
    """The code around a line, from line ``first_line`` on.

    ``fits`` is False when the line found here cannot be the recorded one (blank, or in another function): the file
    has changed since, or is another one.
    """

    first_line: int
    lines: list[str]
    fits: bool = True


class Location(_Model):
    """A line of the user's code and how it was found.

    ``local_path`` and ``code`` are set when the file is readable here.
    """

    path: str
    line: int
    function: str = ""
    how: str = ""
    local_path: str | None = None
    code: CodeFrame | None = None

    @property
    def text(self) -> str | None:
        """The line itself, as it stands in the local file."""
        if self.code is None or not 0 <= self.line - self.code.first_line < len(self.code.lines):
            return None
        return self.code.lines[self.line - self.code.first_line]


class Link(_Model):
    """One hop of the chain from an event back to the user's line, along recorded edges.

    ``kind`` is kernel, task, communication, idle, exposed communication, launch, call (of a blocking, compiling or
    allocating kind), Dequeue, Enqueue, op, forward op, allocation, ..., and line at the end. ``start`` is an absolute
    time in us, as text.
    """

    kind: str
    name: str
    start: str | None = None
    duration_us: float | None = None


class Evidence(_Model):
    """A small table."""

    columns: list[str] = Field(default_factory=list)
    rows: list[list[JsonValue]] = Field(default_factory=list)


class Suggestion(_Model):
    """Something the reader can type or do; ``codemod`` names what can do it for them."""

    effort: Effort
    text: Text
    before: str | None = None
    after: str | None = None
    codemod: str | None = None


class TextEdit(_Model):
    """Replace what lies between two places of a file; the end is exclusive, nothing between them is an insertion.

    Lines and columns count from 1, columns in Unicode code points. Line ends in ``text`` are ``\\n``.
    """

    start_line: int
    start_column: int
    end_line: int
    end_column: int
    text: str


class CodeFix(_Model):
    """A change that a program can make to the local file ``path``.

    ``safe`` keeps what the program computes, ``unsafe`` changes it in the way that the title says, ``display-only`` is
    to be read and never applied as it is.
    """

    codemod: str
    applicability: Literal["safe", "unsafe", "display-only"]
    title: Text
    path: str
    edits: list[TextEdit]


class Reference(_Model):
    """Where to read more."""

    title: str
    url: str


class Finding(_Model):
    """One cause of lost time (or memory), where it is and what to do.

    ``saving`` is null when the fix saves no priceable time (memory, environment).  ``rank`` is the rank where it costs
    most; ``saving_by_rank`` has the us per step of every rank that shows it.
    """

    rule_id: str
    category: str
    severity: Severity
    title: Text
    message: Text
    rank: int
    step: int | None
    recorded_us: float | None
    saving: Saving | None
    saving_by_rank: dict[str, float] = Field(default_factory=dict)
    location: Location | None
    location_missing: Text | None = None
    stack: list[str] = Field(default_factory=list)
    chain: list[Link] = Field(default_factory=list)
    evidence: Evidence = Field(default_factory=Evidence)
    values: dict[str, JsonValue] = Field(default_factory=dict)
    suggestions: list[Suggestion] = Field(default_factory=list)
    fixes: list[CodeFix] = Field(default_factory=list)
    references: list[Reference] = Field(default_factory=list)
    fingerprint: str


class Suppressed(_Model):
    """A finding that a comment on its line, ``# npu-advisor: ignore[rule-id] reason``, asked to leave out."""

    finding: Finding
    reason: str = ""


class NotTheCause(_Model):
    """Something long in the trace whose change alone would not (or hardly) shorten the step; ``where`` it ran."""

    rank: int
    name: str
    location: Location | None
    duration_us: float
    where: Literal["host", "device"] = "host"
    reason: Text


class Outcome(_Model):
    """How one rule ended on all ranks together; ``docs`` (what it shows, when it is wrong) where it fired."""

    id: str
    title: Text
    docs: Text | None = None
    outcome: Literal["fired", "clean", "skipped", "failed"]
    reason: Text | None = None
    enable: str | None = None


class Remark(_Model):
    """A remark on the quality of the input (a model.Diagnostic, as data)."""

    code: str
    severity: Literal["error", "warning", "info"]
    file: str
    message: Text


class BudgetResult(_Model):
    """One budget against one rank (null: all): its value, the most it may be, and what it is over that.

    ``unit`` is us, share, bytes or empty (a count). ``baseline`` is the earlier value where the budget is of a
    regression. ``not_checked`` where the value, or the baseline, is unknown (``reason``).
    """

    metric: str
    unit: Literal["us", "share", "bytes", ""]
    level: Literal["error", "warning"]
    rank: int | None
    step: int | None
    outcome: Literal["kept", "violated", "not_checked"]
    value: float | None
    limit: float | None
    baseline: float | None
    over: float | None
    reason: Text | None = None


class Report(_Model):
    """Everything one run has to say. Findings are in order of worth."""

    schema_version: str = SCHEMA_VERSION
    tool: Tool
    profile: ProfileFacts
    steps: list[Step] = Field(default_factory=list)
    facts: list[RankFacts] = Field(default_factory=list)
    top_kernels: list[TopKernel] = Field(default_factory=list)
    lines: list[LineCost] = Field(default_factory=list)
    replay: list[Replay] = Field(default_factory=list)
    saving: JointSaving = Field(default_factory=JointSaving)
    findings: list[Finding] = Field(default_factory=list)
    suppressed: list[Suppressed] = Field(default_factory=list)
    not_the_cause: list[NotTheCause] = Field(default_factory=list)
    rules: list[Outcome] = Field(default_factory=list)
    diagnostics: list[Remark] = Field(default_factory=list)
    profiler_call: str | None = None
    budgets: list[BudgetResult] = Field(default_factory=list)

    _views: Views | None = PrivateAttr(None)

    @property
    def views(self) -> Views | None:
        """Tables, curves and timelines to look at; None where the report was not made from a profile just now.

        They are no part of the JSON report.
        """
        return self._views

    @property
    def tracks(self) -> list[Track]:
        """What was found, on the profile's own clock; empty where ``views`` is None."""
        return []

    def worst(self) -> Severity | None:
        """The gravest severity of any finding, None without findings."""
        return min((finding.severity for finding in self.findings), key=lambda severity: severity.order, default=None)


class EditEffect(_Model):
    """What one edit of a what-if touches and saves.

    ``rows`` counts what it matched, by rank; ``reason`` says why it changes nothing, ``enable`` how to record what it
    needs. Savings keep their sign: an edit that makes the step longer saves less than nothing.
    """

    edit: str
    rows: dict[str, int]
    saving: Saving | None = None
    reason: Text | None = None
    enable: str | None = None


class EditedRun(_Model):
    """The ranks of one run with the edits applied, and what costs time then.

    ``new_step_us`` and its range are null when the replay is not believed (``reason``). ``findings`` are in order of
    worth on top of the edits; ``unedited_us_per_step`` is what each (by fingerprint) saves without them.
    """

    ranks: list[int]
    step_us: float
    new_step_us: float | None = None
    low_new_step_us: float | None = None
    high_new_step_us: float | None = None
    saving: Saving | None = None
    reason: Text | None = None
    replay: list[Replay] = Field(default_factory=list)
    edits: list[EditEffect] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    unedited_us_per_step: dict[str, float] = Field(default_factory=dict)


class WhatIf(_Model):
    """The answer to a what-if question; ranks that do not belong together are runs of their own."""

    schema_version: str = SCHEMA_VERSION
    tool: Tool
    profile: ProfileFacts
    runs: list[EditedRun]
    diagnostics: list[Remark] = Field(default_factory=list)

    @property
    def believed(self) -> bool:
        """Whether any run has a figure."""
        return any(run.new_step_us is not None for run in self.runs)
