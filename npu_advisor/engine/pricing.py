"""What each finding may save, which microseconds it claims, and how findings rank.

Savings are replayed (:mod:`npu_advisor.engine.savings`). Where that is not possible a figure is an *upper bound* taken
from the time ledger: the time that a finding's events hold the device, or keep it idle, could at most disappear.
Claims are sets of device time inside the steps, so two findings that point at the same microsecond count it once in
the joint figure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from npu_advisor.base.frame import parse_frame
from npu_advisor.base.intervals import Floats, Ints, Spans, empty, intersect, subtract, union
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Basis, Severity, Text, joined
from npu_advisor.derive.iterations import per_step, unmarked
from npu_advisor.engine.places import Roots, location
from npu_advisor.engine.reach import carry
from npu_advisor.engine.run import RawFinding, RawFix, RuleResult
from npu_advisor.engine.savings import Run, Savings, Trusted, per_iteration, replayed
from npu_advisor.engine.stages import below
from npu_advisor.findings import After, Finding, JointSaving, Link, Remark, Replay, Saving
from npu_advisor.graph.build import EventGraph, event_graph
from npu_advisor.model.profile import Profile

# Tests hold the model of a job to this share of the true saving.
MODEL_ERROR = 0.1


class Priced(NamedTuple):
    """Findings in order of worth, what all of them save together, and ``remarks`` on what could not be priced."""

    findings: list[Finding]
    saving: JointSaving
    replay: list[Replay]
    trusted: list[Trusted]
    remarks: list[Remark]


class Claim(NamedTuple):
    """Device time a finding could win: the spans, and which fraction of them."""

    spans: Spans
    fraction: float

    @property
    def us(self) -> float:
        """The claim in us."""
        return self.spans.total * self.fraction / 1000.0


class _Candidate(NamedTuple):
    profile: Profile
    raw: RawFinding
    claim: Claim | None
    us_per_step: float
    replayed: Saving | None
    why_bound: Text | None


def price(
    results: Sequence[tuple[Profile, Sequence[RuleResult]]],
    roots: Roots,
    runs: Sequence[Run] | None = None,
) -> Priced:
    """Price every raw finding of every rank; the same finding on several ranks becomes one.

    ``runs`` is how the profiles are replayed, where that is built already.
    """
    savings = replayed(results, fingerprint_of, runs)
    per_rank = [
        _joint(_candidates(profile, outcomes, savings, savings.reasons.get(number)))
        for number, (profile, outcomes) in enumerate(results)
    ]
    findings: dict[str, Finding] = {}
    name_of: dict[int, str] = {}
    for ranked in per_rank:
        seen: dict[str, int] = {}
        for candidate, joint_us in ranked:
            made = _finding(candidate, joint_us, roots)
            seen[made.fingerprint] = seen.get(made.fingerprint, 0) + 1
            if seen[made.fingerprint] > 1:
                made = made.model_copy(update={"fingerprint": f"{made.fingerprint}-{seen[made.fingerprint]}"})
            name_of[id(candidate.raw)] = made.fingerprint
            findings[made.fingerprint] = _merge(findings.get(made.fingerprint), made, made.rank)
    for raw, hidden_by in savings.after.items():
        name = name_of[raw]
        findings[name] = _with_after(findings[name], hidden_by, name_of)
    ordered = sorted(findings.values(), key=_worth)
    together = _together(results, per_rank, savings.joint)
    return Priced(ordered, together, savings.replay, savings.trusted, [_fault(error) for error in savings.faults])


def _fault(error: str) -> Remark:
    """An upper bound is all that is left where the replay fails: that is said once, not with each figure alone."""
    return Remark(code="replay_failed", severity="warning", file="", message=say("diag.replay_failed", error=error))


def _with_after(finding: Finding, hidden_by: list[tuple[list[int], float]], name_of: dict[int, str]) -> Finding:
    """A finding that saves nothing now, with the fingerprints of those that must be fixed first."""
    after = [After(fingerprints=[name_of[raw] for raw in before], us_per_step=us) for before, us in hidden_by]
    if finding.saving is None or not after:
        return finding
    return finding.model_copy(update={"saving": finding.saving.model_copy(update={"after": after})})


def _together(
    results: Sequence[tuple[Profile, Sequence[RuleResult]]],
    per_rank: Sequence[Sequence[tuple[_Candidate, float]]],
    replayed_us: tuple[float, float, float] | None,
) -> JointSaving:
    """What all findings save at once: as replayed, and what could only be bounded on top."""
    totals = [
        (sum(us for candidate, us in ranked if candidate.replayed is None), _step_us(profile))
        for (profile, _), ranked in zip(results, per_rank, strict=True)
    ]
    bound_us, step_us = max(totals, default=(0.0, 0.0))
    us, low, high = replayed_us or (0.0, 0.0, 0.0)
    # What is bounded may save nothing at all.
    us, high = (end if not bound_us else min(end + bound_us, step_us) for end in (us, high))
    basis = Basis.UPPER_BOUND if bound_us or replayed_us is None else Basis.REPLAYED
    per: Literal["step", "iteration"] = "iteration" if any(unmarked(profile) for profile, _ in results) else "step"
    return JointSaving(
        joint_us_per_step=us,
        low_us_per_step=low,
        high_us_per_step=high,
        share=us / step_us if step_us else 0.0,
        basis=basis,
        per=per,
    )


def _worth(finding: Finding) -> tuple[int, float, float, str]:
    """The graver first (a cure without a price may be grave), then the larger saving."""
    us = finding.saving.us_per_step if finding.saving else 0.0
    return (finding.severity.order, -us, -(finding.recorded_us or 0.0), finding.rule_id)


def _merge(known: Finding | None, new: Finding, rank: int) -> Finding:
    """The graver of the same finding on two ranks, with every rank's saving."""
    savings = {str(rank): new.saving.us_per_step if new.saving else 0.0}
    if known is None:
        return new.model_copy(update={"saving_by_rank": savings})
    best = min(known, new, key=_worth)
    return best.model_copy(update={"saving_by_rank": known.saving_by_rank | savings})


def _candidates(
    profile: Profile, outcomes: Sequence[RuleResult], savings: Savings, why_bound: Text | None
) -> list[_Candidate]:
    raws = [raw for outcome in outcomes for raw in outcome.raw_findings]
    claims = [_claim(profile, raw) for raw in raws]
    made = []
    for raw, claim in zip(raws, claims, strict=True):
        us = claim.us / _rounds(profile) if claim else 0.0
        made.append(_Candidate(profile, raw, claim, us, savings.of(raw, us), why_bound))
    return made


def _joint(candidates: list[_Candidate]) -> list[tuple[_Candidate, float]]:
    """Largest first, each with what it adds per step to those before it."""
    taken, out = empty(), []
    for candidate in sorted(candidates, key=lambda item: -item.us_per_step):
        added = 0.0
        if candidate.claim is not None and candidate.replayed is None:
            new = subtract(candidate.claim.spans, taken)
            added = new.total * candidate.claim.fraction / 1000.0 / _rounds(candidate.profile)
            taken = union(np.concatenate((taken.start, new.start)), np.concatenate((taken.end, new.end)))
        out.append((candidate, added))
    return out


def _rounds(profile: Profile) -> int:
    """Steps of the recording or, where it has no marks, iterations of its loop: what savings are shared out over."""
    return max(len(profile.table("steps")), 1) * per_step(profile)


def _step_us(profile: Profile) -> float:
    steps = profile.table("steps")
    return float(steps["dur_us"].sum()) / _rounds(profile) if len(steps) else 0.0


# --- claims: what the cure could take away from the device's timeline ---------------------------------------------


def _claim(profile: Profile, raw: RawFinding) -> Claim | None:
    """The device time behind a finding, None when its cure saves no time that the ledger bounds (memory, settings)."""
    fix = raw.fix
    if fix is None or fix.freed_bytes is not None:
        return None
    if fix.kind == "close":
        return Claim(_owned(profile, "dispatch"), 1.0)
    if fix.kind == "fuse":
        return Claim(_inside_steps(profile, _stretches(profile, fix.rows)), 1.0)
    alone = _alone(profile, fix.table, fix.rows)
    if fix.table == "iterations":
        return _shorter(profile, fix, _inside_steps(profile, alone))
    return Claim(_inside_steps(profile, alone), _fraction(fix, profile.table(fix.table)["dur_us"][fix.rows]))


def _fraction(fix: RawFix, dur_us: Floats) -> float:
    """Which part of the rows' time the edit takes away."""
    total = float(dur_us.sum())
    if fix.values is None or not total:
        return 1.0
    values = np.nan_to_num(fix.values.astype(float), nan=1.0 if fix.kind == "scale" else np.inf)
    left = dur_us * values if fix.kind == "scale" else np.minimum(dur_us, values)
    return float(np.clip(1.0 - left.sum() / total, 0.0, 1.0))


def _shorter(profile: Profile, fix: RawFix, idle: Spans) -> Claim:
    """Of the idle time in iterations what goes when each lasts only as long as the fix says."""
    dur_us = profile.table("iterations")["dur_us"][fix.rows]
    saved_us = float(dur_us.sum()) * _fraction(fix, dur_us)
    return Claim(idle, min(1.0, saved_us * 1000.0 / idle.total) if idle.total else 0.0)


def _alone(profile: Profile, name: str, rows: Ints) -> Spans:
    """When only the members keep the device busy: their union without every other kernel (and, for a collective,
    without any kernel: only exposed communication can be won)."""
    mine = profile.table(name)
    spans = union(mine["start_ns"][rows], mine["end_ns"][rows])
    kernels = profile.table("kernels")
    others = np.ones(len(kernels), dtype=bool)
    if name == "kernels":
        others[rows] = False
    return subtract(spans, union(kernels["start_ns"][others], kernels["end_ns"][others]))


def _stretches(profile: Profile, ops: Ints) -> Spans:
    """From the first to the last kernel of each op, without what other kernels and collectives cover."""
    kernels, comms = profile.table("kernels"), profile.table("comms")
    rows_of = below(profile, "kernels", ops)
    each = [rows_of.of(index) for index in range(len(ops)) if len(rows_of.of(index))]
    starts = np.array([kernels["start_ns"][rows].min() for rows in each], dtype=np.int64)
    ends = np.array([kernels["end_ns"][rows].max() for rows in each], dtype=np.int64)
    others = np.ones(len(kernels), dtype=bool)
    others[rows_of.items] = False
    start = np.concatenate((kernels["start_ns"][others], comms["start_ns"]))
    end = np.concatenate((kernels["end_ns"][others], comms["end_ns"]))
    return subtract(union(starts, ends), union(start, end))


def _owned(profile: Profile, owner: str) -> Spans:
    """All idle time of one owner: a cure of the gaps that were counted speeds up the short ones too."""
    idle = profile.table("idle")
    rows = np.asarray(idle["owner"] == owner)
    return union(idle["start_ns"][rows], idle["end_ns"][rows])


def _inside_steps(profile: Profile, spans: Spans) -> Spans:
    steps = profile.table("steps")
    return intersect(spans, union(steps["start_ns"], steps["end_ns"]))


# --- findings ------------------------------------------------------------------------------------------------------


def _finding(candidate: _Candidate, joint_us: float, roots: Roots) -> Finding:
    profile, raw = candidate.profile, candidate.raw
    rule = raw.rule
    frame = parse_frame(raw.source) if raw.source else None
    graph = event_graph(profile)
    table, row = _spokesman(profile, raw)
    op = _op_of(profile, table, row)
    saving = _saving(candidate, joint_us)
    return Finding(
        rule_id=rule.id,
        category=rule.category,
        severity=_severity(raw, saving),
        title=raw.title,
        message=raw.message,
        rank=raw.rank,
        step=raw.step if raw.step is not None else _only_step(profile),
        recorded_us=raw.recorded_us if raw.fix is None or raw.fix.freed_bytes is None else None,
        saving=saving,
        location=location(frame, raw.how or "", roots),
        location_missing=None if frame else _why_no_line(profile, op),
        stack=graph.stack(op) if frame and op is not None else [],
        chain=_chain(graph, table, row),
        evidence=raw.evidence,
        values=raw.values,
        suggestions=raw.suggestions,
        references=raw.references,
        fingerprint=fingerprint_of(raw),
    )


def _only_step(profile: Profile) -> int | None:
    """The number of the one step that was recorded; None when there are several, or no marks."""
    numbers = profile.table("steps")["number"]
    return int(numbers[0]) if len(numbers) == 1 and numbers[0] >= 0 else None


def _saving(candidate: _Candidate, joint_us: float) -> Saving | None:
    if candidate.raw.saves_us is not None:
        return _modelled(candidate.profile, candidate.raw.saves_us)
    if candidate.replayed is not None or candidate.claim is None:
        return candidate.replayed
    step_us = _step_us(candidate.profile)
    us = candidate.us_per_step
    return Saving(
        us_per_step=us,
        low_us_per_step=0.0,
        high_us_per_step=us,
        joint_us_per_step=joint_us,
        share=us / step_us if step_us else 0.0,
        basis=Basis.UPPER_BOUND,
        per="step" if unmarked(candidate.profile) is None else "iteration",
        assumes=joined(_bound(candidate.why_bound), per_iteration(candidate.profile)),
    )


def _modelled(profile: Profile, us: float) -> Saving:
    """What a model of the job says, give or take what it was off by at most on generated jobs."""
    step_us = _step_us(profile)
    return Saving(
        us_per_step=us,
        low_us_per_step=us * (1 - MODEL_ERROR),
        high_us_per_step=us * (1 + MODEL_ERROR),
        joint_us_per_step=us,
        share=us / step_us if step_us else 0.0,
        basis=Basis.MODELLED,
        assumes=say("saving.modelled"),
    )


def _bound(why: Text | None) -> Text:
    """What an upper bound takes for granted, and why it is no more than that."""
    plain = say("saving.upper_bound")
    if why is None:
        return plain
    en, zh = (say("saving.not_replayed", why=text) for text in (why.en, why.zh))
    return joined(Text(en=en.en, zh=zh.zh), plain)


def _severity(raw: RawFinding, saving: Saving | None) -> Severity:
    """The common scale of the saving, unless the rule fixes or caps it."""
    limit = raw.rule.emit.severity
    if limit is not None and limit.is_ is not None:
        return limit.is_
    severity = Severity.of_share(saving.share) if saving else Severity.INFO
    if limit is not None and limit.at_most is not None:
        return max(severity, limit.at_most, key=lambda item: item.order)
    if limit is not None and limit.at_least is not None:
        return min(severity, limit.at_least, key=lambda item: item.order)
    return severity


def _spokesman(profile: Profile, raw: RawFinding) -> tuple[str, int]:
    """The member whose chain and stack the finding shows: the heaviest one at the finding's own line.

    For queue entries and ops it is the heaviest kernel they stand for, where there is one.
    """
    name, rows = raw.members
    table = profile.table(name)
    if raw.source is not None and table.spec.column("source"):
        at_line = rows[np.asarray(table["source"] == raw.source)[rows]]
        rows = at_line if len(at_line) else rows
    kernels = profile.table("kernels")
    if name == "dequeues":
        launched = np.flatnonzero(np.isin(kernels["dequeue"], rows))
    elif name == "ops":
        launched = carry(profile, {"ops": rows}, "kernels")
    else:
        launched = np.zeros(0, dtype=np.int64)
    if len(launched):
        return "kernels", int(launched[np.argmax(kernels["dur_ns"][launched])])
    if not table.spec.timed:
        return name, int(rows[0])
    weight = table["size_bytes"] if name == "peak_owners" else table["dur_ns"]
    return name, int(rows[np.argmax(weight[rows])])


def _chain(graph: EventGraph, table: str, row: int) -> list[Link]:
    hops = graph.chain(row, table)
    return [
        Link(
            kind=hop.kind,
            name=hop.name,
            start=f"{hop.start_ns // 1000}.{hop.start_ns % 1000:03d}" if hop.start_ns >= 0 else None,
            duration_us=hop.dur_us if hop.start_ns >= 0 else None,
        )
        for hop in hops
    ]


def _op_of(profile: Profile, table: str, row: int) -> int | None:
    """The op behind a row, -1 unknown; None where rows of the table have no place in the code (settings)."""
    if table == "ops":
        return row
    rows = profile.table(table)
    key = rows.spec.column("op")
    return int(rows["op"][row]) if key is not None and key.kind == "key" else None


def _why_no_line(profile: Profile, op: int | None) -> Text:
    if op is None:
        return say("location.no_line")
    ops = profile.table("ops")
    stacks = bool((ops["stack"].codes >= 0).any())
    if not stacks and not profile.has("frames"):
        return say("location.no_stack_recorded")
    if op < 0:
        return say("location.not_linked")
    if not stacks:
        return say("location.packages_only", op=ops.text("name", op))
    return say("location.no_python_origin", op=ops.text("name", op))


def fingerprint_of(raw: RawFinding) -> str:
    """A finding's identity, from rule, place and group key; never from times, so that two runs can be compared."""
    frame = parse_frame(raw.source) if raw.source else None
    place = f"{frame.path}|{frame.function}" if frame else ""
    return hashlib.sha256(f"{raw.rule.id}|{place}|{raw.group_key}".encode()).hexdigest()[:16]
