"""Two profiles compared, as data: everything a reporter needs to show a difference, and nothing that computes.

``Comparison.model_dump()`` is a JSON contract of its own (schema version below). Times are in us per step, changes are
``new - base``: positive is slower. null where a side cannot say.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from npu_advisor.base.terms import Severity, Text
from npu_advisor.findings import Location, ProfileFacts, Remark, Tool

COMPARISON_VERSION = "1.0"

Verdict = Literal["same", "within_noise", "beyond_noise", "untested"]
Phase = Literal["data", "forward", "backward", "optimizer", "other"]
Test = Literal["mann_whitney_exact", "mann_whitney_normal", "spread", "none"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Sample(_Model):
    """Values of one figure, one per step: how many, the median, and the median absolute deviation from it."""

    n: int
    median: float
    mad: float


class Judgement(_Model):
    """Whether two samples differ by more than their noise.

    ``shift`` is the Hodges-Lehmann estimate (median of all pairwise differences). ``p_value`` is of the two-sided
    Mann-Whitney test, null where there are too few steps for it to reach ``alpha``: then ``test`` is ``spread``
    (the shift against the larger spread: noise up to one, a difference from three, between them ``untested``) or
    ``none`` (one step on each side: ``untested``). A shift below
    ``floor`` (what runs of the same program differ by, as a share of base) is noise whatever the test says.
    """

    verdict: Verdict
    test: Test
    shift: float
    p_value: float | None = None
    alpha: float
    floor: float
    base: Sample
    new: Sample


class Change(_Model):
    """One figure on both sides; ``share`` is the change as a share of base (null from nothing)."""

    key: str
    base: float | None
    new: float | None
    change: float | None
    share: float | None = None
    judgement: Judgement | None = None


class InnerChange(_Model):
    """Kernels launched by one op inside matched calls, per step; ``path`` are the ops from below the call down to it,
    with ``/`` between them, empty for the call itself."""

    path: str
    kernels: Change
    kernel_us: Change


class OpChange(_Model):
    """Calls of one kind at one line in one module, per step. ``status``: matched, reshaped (other input shapes), gone,
    added.

    ``name`` is the name of new, where there is one; ``base_name`` the one of base. Shapes and types are those of the
    inputs that are tensors, ``;`` between them. ``base_module`` and ``new_module``
    are the classes of the modules around the calls, the outermost first, with ``/`` between them (null: unknown).
    ``host_us`` is the time their ops are open on the host; ``path_us`` how much of the step's end they hold (on the
    critical path, else in the device's ledger). ``inner`` tells which ops inside launch, where that differs.
    """

    name: str
    base_name: str | None = None
    base_dtypes: str | None = None
    new_dtypes: str | None = None
    base_module: str | None = None
    new_module: str | None = None
    status: Literal["matched", "reshaped", "gone", "added"]
    base_shapes: str | None
    new_shapes: str | None
    base_location: Location | None
    new_location: Location | None
    calls: Change
    kernels: Change
    kernel_us: Change
    host_us: Change
    path_us: Change
    only_base_kernels: dict[str, float] = Field(default_factory=dict)
    only_new_kernels: dict[str, float] = Field(default_factory=dict)
    inner: list[InnerChange] = Field(default_factory=list)


class ModuleChange(_Model):
    """All calls inside one place of the module tree, those of its inner modules and of its backward included, per step.

    ``base`` and ``new`` are its path as in :class:`OpChange`; null where that side has no such module.
    """

    base: str | None
    new: str | None
    calls: Change
    kernels: Change
    kernel_us: Change
    host_us: Change


class Cause(_Model):
    """What changed by itself, and what that did to the step.

    ``kind`` says where: at a ``line``; in an ``op`` (``name``) whose line is unknown; on the ``device`` or the
    ``host``, whose every kernel or call takes ``factor`` times as long; on an ``other_rank`` (``rank``, null where it
    is unknown) that collectives waited for.
    ``us`` is its part of the change: ``direct_us`` (what it holds of the step, after less before) and
    ``knock_on_us`` (its share of what moved where the work is the same: it overlaps differently now).
    ``work`` says what changed: calls, kernels, kernel_us, host_us, communication_us (moving data), waiting_us.
    """

    kind: Literal["line", "op", "device", "host", "other_rank"] = "line"
    base_location: Location | None
    new_location: Location | None
    name: str | None = None
    rank: int | None = None
    factor: float | None = None
    us: float
    share_of_change: float | None
    direct_us: float
    knock_on_us: float
    parts: dict[str, float]
    work: list[Change]
    ops: list[OpChange] = Field(default_factory=list)


class Attribution(_Model):
    """What explains the change of the step: the causes and the remainder add up to ``change_us``.

    ``elsewhere`` are the largest moves at lines whose own work did not change (they count under the causes, and under
    the remainder as far as they are noise). ``basis`` is ``critical_path`` where the replay of both sides can be
    trusted, else ``ledger`` (what the device does in each microsecond of the step).
    """

    basis: Literal["critical_path", "ledger"]
    change_us: float
    causes: list[Cause]
    elsewhere: list[Cause] = Field(default_factory=list)
    remainder_us: float


class Normalised(_Model):
    """The same work of one class on both sides (``base_us`` and ``new_us`` per step: matched calls with equal shapes
    and types) against what the devices can do at most: FLOP/s or bytes/s, whatever bounds the class.

    ``ratio`` is (new_us / base_us) / (base_peak / new_peak): 1 where both use their device equally well, 2 where new
    takes twice what its device should need; null with the ``reason``.
    """

    bound: Literal["flops", "bandwidth"]
    base_us: float
    new_us: float
    base_peak: float | None
    new_peak: float | None
    ratio: float | None
    reason: Text | None = None


class ClassChange(_Model):
    """One class of kernels, per step; ``normalised`` where the devices differ."""

    name: str
    kernels: Change
    us: Change
    normalised: Normalised | None = None


class PhaseChange(_Model):
    """One part of the step's program, per step: the time that it takes on the host, and the kernels that it launches.

    ``forward`` is all of the script that is none of the others; ``other`` are kernels whose op is unknown. Host times
    of threads that run side by side add up to more than the step.
    """

    name: Phase
    host_us: Change
    kernels: Change
    kernel_us: Change


class OneSided(_Model):
    """A kernel type that only one side launches, per step, and the lines it comes from, heaviest first."""

    side: Literal["base", "new"]
    type: str
    kernel_class: str
    kernels: float
    us: float
    locations: list[Location] = Field(default_factory=list)
    ops: list[str] = Field(default_factory=list)


class RankPair(_Model):
    """One rank of base against one of new.

    ``base_chip`` and ``new_chip`` are the devices whose peaks are known.
    ``ledger`` splits the step (the parts add up to it); ``idle`` parts are named by owner; ``extra`` holds what lies
    across: prepare, communication in all and the waits for other ranks in it, memory peaks. ``host_us_per_call`` is
    the mean time that a matched call takes on the host.
    """

    base_rank: int
    new_rank: int
    base_steps: list[int | None]
    new_steps: list[int | None]
    base_runs: int
    new_runs: int
    base_chip: str | None = None
    new_chip: str | None = None
    step: Change
    ledger: list[Change]
    extra: list[Change]
    attribution: Attribution
    ops: list[OpChange]
    modules: list[ModuleChange] = Field(default_factory=list)
    matched_calls: int
    base_only_calls: int
    new_only_calls: int
    host_us_per_call: Change
    classes: list[ClassChange]
    one_sided: list[OneSided]
    phases: list[PhaseChange] = Field(default_factory=list)

    def own_us(self, side: Literal["base", "new"]) -> float:
        """The step of one side without its waits for other ranks."""
        waits = next((each for each in self.extra if each.key == "waiting_us"), None)
        whole, waited = (getattr(each, side) if each else 0.0 for each in (self.step, waits))
        return (whole or 0.0) - (waited or 0.0)


class FindingChange(_Model):
    """One finding on both sides. ``not_checked``: its rule could not run on the side where it is missing."""

    status: Literal["fixed", "new", "worse", "better", "same", "not_checked"]
    fingerprint: str
    rule_id: str
    title: Text
    severity: Severity
    base_us: float | None
    new_us: float | None
    base_location: Location | None
    new_location: Location | None


class Setting(_Model):
    """A setting of the recording, version or environment variable (``env.NAME``) that both sides tell and that differs;
    null where a variable is not set."""

    name: str
    base: str | None
    new: str | None


class Comparison(_Model):
    """Everything one comparison has to say; ``pairs`` in order of base rank."""

    schema_version: str = COMPARISON_VERSION
    tool: Tool
    base: ProfileFacts
    new: ProfileFacts
    base_device: str
    new_device: str
    settings: list[Setting] = Field(default_factory=list)
    pairs: list[RankPair]
    findings: list[FindingChange] = Field(default_factory=list)
    diagnostics: list[Remark] = Field(default_factory=list)

    @property
    def main(self) -> RankPair:
        """The pair that holds up the job: the one whose step is longest without its waits for other ranks."""
        return max(self.pairs, key=lambda pair: max(pair.own_us("base"), pair.own_us("new")))


class Verified(_Model):
    """A finding that was fixed between two profiles: what was predicted to be saved, and what was (us per step).

    ``how`` the realised figure was found: ``step`` (the change of the step: nothing else was fixed) or ``line`` (the
    part of the change attributed to its line). ``error`` is realised against predicted as a share of realised; null
    where nothing was realised. ``counts`` is False for savings too small to be judged by their share.
    """

    time: str
    base: str
    new: str
    fingerprint: str
    rule_id: str
    location: str | None
    step_us: float
    predicted_us: float
    low_us: float
    high_us: float
    basis: str
    realised_us: float
    how: Literal["step", "line"]
    error: float | None
    inside: bool
    counts: bool


class Accuracy(_Model):
    """How well predictions fared: over savings of at least ``smallest_share`` of the step."""

    predictions: int
    counted: int
    smallest_share: float
    median_error: float | None
    p90_error: float | None
    max_error: float | None
    inside: int


class Verification(_Model):
    """Predicted against realised savings of what was fixed; ``record`` is over the whole ledger file."""

    schema_version: str = COMPARISON_VERSION
    tool: Tool
    base: ProfileFacts
    new: ProfileFacts
    step: Change
    verified: list[Verified]
    joint_predicted_us: float | None
    joint_realised_us: float
    summary: Accuracy
    record: Accuracy | None = None
    diagnostics: list[Remark] = Field(default_factory=list)
