"""Replayed savings: what each finding's fix saves, from re-timing the event graph with the fix applied.

A profile whose links are missing, whose replay does not give back the recording, or whose recording is held together
by anchors keeps its upper bounds; :attr:`Savings.reasons` says why.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from npu_advisor.base.aside import Aside
from npu_advisor.base.heap import give_back
from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Basis, Text, joined
from npu_advisor.derive.comm import waits_for_others
from npu_advisor.derive.iterations import per_step, unmarked
from npu_advisor.engine.run import RawFinding, RawFix, RuleResult, guarded
from npu_advisor.findings import Replay, Saving, StartShift
from npu_advisor.graph.replay import Edit, Replayer, Variants, merge
from npu_advisor.graph.replay.order import CycleError
from npu_advisor.graph.replay.path import StepPath, step_paths
from npu_advisor.graph.replay.ranks import like_the_others
from npu_advisor.model.profile import Profile

Results = Sequence[tuple[Profile, Sequence[RuleResult]]]
# Strict self-replay further off than this is not believed.
MAX_ERROR = 0.10
# Above the first share of anchors a figure is a range, above the second it is withheld.
RANGE_ANCHORED, MAX_ANCHORED = 0.15, 0.40
MIN_LAUNCHES = 0.5
# A finding that saves less than the first share of the step saves nothing now; one that would save the second one
# after others matters then. They are looked for among so many others, for so many such findings.
REAL_SHARE, AFTER_SHARE = 0.001, 0.0005
MOST_HIDDEN, MOST_BEFORE, SHOWN = 8, 6, 3
# A gap between queued kernels beyond this is the profiler's own work.
USUAL_GAP_US = 20.0
NO_EDIT = Edit()


class Trusted(NamedTuple):
    """A replay that passed its gates: the positions in the results of its ranks; of each one the paths of its steps
    and the rows (by table) that findings claim to be worth something."""

    positions: list[int]
    replayer: Replayer
    paths: list[list[StepPath]]
    claims: list[list[tuple[str, Ints]]]


@dataclass
class Savings:
    """Savings by raw finding (``id``), why a rank has none (by position), and how well each step replays.

    ``ranged`` are findings whose recording is anchored so much that their figure is a range. ``after`` is by raw
    finding: which others must be fixed before it saves anything, and what it saves then (us per step). ``joint`` is
    what all findings save together: expected, low and high; None where nothing is replayed. ``faults`` are errors of
    ours.
    """

    by_finding: dict[int, Saving] = field(default_factory=dict)
    reasons: dict[int, Text] = field(default_factory=dict)
    replay: list[Replay] = field(default_factory=list)
    joint: tuple[float, float, float] | None = None
    ranged: set[int] = field(default_factory=set)
    after: dict[int, list[tuple[list[int], float]]] = field(default_factory=dict)
    trusted: list[Trusted] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def of(self, raw: RawFinding, bound_us: float) -> Saving | None:
        """The replayed saving of a finding. Where anchors may hide part of it, the range reaches up to its bound."""
        saving = self.by_finding.get(id(raw))
        if saving is None or id(raw) not in self.ranged:
            return saving
        return saving.model_copy(update={"high_us_per_step": max(saving.high_us_per_step, bound_us)})


@dataclass(frozen=True)
class Run:
    """Ranks replayed together (``positions`` among the profiles), why they are not (``failed``), our ``error`` if any.

    Savings are on top of ``done``, an edit that is applied already and saves ``done_ns`` per step. ``anchored`` is the
    share of the recorded time that only anchors hold.
    """

    positions: list[int]
    replayer: Replayer | None = None
    failed: Text | None = None
    error: str | None = None
    anchored: float = 0.0
    done: Edit = NO_EDIT
    done_ns: float = 0.0

    @property
    def reason(self) -> Text | None:
        """Why these ranks are not believed; None when they are."""
        if self.error is not None:
            return say("saving.failed", error=self.error)
        if self.replayer is None:
            return self.failed
        if self.replayer.error > MAX_ERROR:
            return say("saving.self_replay", error=f"{self.replayer.error:.0%}")
        if self.anchored > MAX_ANCHORED:
            return say("saving.anchored", share=f"{self.anchored:.0%}")
        return None

    def with_done(self, done: Edit) -> Run:
        """This run with ``done`` applied."""
        assert self.replayer is not None
        return replace(self, done=done, done_ns=self.replayer.price(done))

    def each_saves_us(self, sets: Sequence[Sequence[Edit]]) -> list[float]:
        """What each set of edits saves, in us per step: in one go, as sets share most of the work."""
        assert self.replayer is not None
        together = self.replayer.prices([[self.done, *edits] for edits in sets])
        return [(ns - self.done_ns) / 1000.0 for ns in together]


def replay_runs(profiles: Sequence[Profile], aside: Aside | None = None) -> list[Run]:
    """Build the replay of ``profiles``: the ranks of one run together, others each alone. Their graphs are put
    ``aside``."""
    return [_built(profiles, positions, aside) for positions in _runs(profiles)]


def _built(profiles: Sequence[Profile], positions: list[int], aside: Aside | None) -> Run:
    mine = [profiles[number] for number in positions]
    if (reason := _why_not(mine[0])) is not None:
        return Run(positions, failed=reason)
    made: list[Replayer | Text] = []

    def build() -> None:
        try:
            made.append(Replayer(mine, aside))
        except CycleError:
            made.append(say("saving.cycle"))

    if (error := guarded(build)) is not None:
        return Run(positions, error=error)
    give_back()
    (found,) = made
    if isinstance(found, Text):
        return Run(positions, failed=found)
    return Run(positions, found, anchored=found.anchored_share)


def replayed(results: Results, key: Callable[[RawFinding], str], runs: Sequence[Run] | None = None) -> Savings:
    """Price the findings of ``results`` by replay; equal ``key`` on several ranks is one finding.

    ``runs`` are built here unless given.
    """
    found = Savings()
    for run in replay_runs([profile for profile, _ in results]) if runs is None else runs:
        if (replayer := run.replayer) is not None:
            run = _audited(results, run, replayer)
            run = replace(run, error=guarded(partial(_price_run, results, run, replayer, key, found)))
        if (reason := run.reason) is not None:
            found.reasons |= dict.fromkeys(run.positions, reason)
        if run.error is not None:
            found.faults.append(run.error)
    return found


def _price_run(
    results: Results, run: Run, replayer: Replayer, key: Callable[[RawFinding], str], found: Savings
) -> None:
    try:
        cures = _cures(results, run.positions, key, replayer)
        replayer.forget_fixers()
        give_back()
        replayer.expect([edit for cure in cures for edit in cure.edits])
    finally:
        # That it replays is told of a run with a fix that fails too.
        found.replay += recorded(replayer)
    if run.reason is not None:
        return
    give_back()
    _price(run, cures, found)
    del cures
    give_back()
    paths = step_paths(replayer.graph, replayer.calibrated, [waits_for_others(one) for one in replayer.profiles])
    claims = [_claims(results[number], found) for number in run.positions]
    found.trusted.append(Trusted(run.positions, replayer, paths, claims))


def _runs(profiles: Sequence[Profile]) -> list[list[int]]:
    """Positions of the profiles that are replayed together: ranks of one run, each once; else each alone."""
    usable = [number for number, profile in enumerate(profiles) if _why_not(profile) is None]
    ranks = [profiles[number].rank for number in usable]
    steps = {tuple(profiles[number].table("steps")["number"].tolist()) for number in usable}
    one_run = len(set(ranks)) == len(ranks) and min(ranks, default=-1) >= 0 and len(steps) == 1
    together = [usable] if one_run and usable else [[number] for number in usable]
    return together + [[number] for number in range(len(profiles)) if number not in usable]


def _why_not(profile: Profile) -> Text | None:
    """Why a profile cannot be replayed, None when it can."""
    kernels = profile.table("kernels")
    needed = ("ops", "enqueues", "dequeues")
    if not len(kernels) or not len(profile.table("steps")) or not len(profile.table("ops")):
        return say("saving.no_links")
    if (kernels["launch_ns"] >= 0).mean() < MIN_LAUNCHES:
        return say("saving.no_links")
    if any((profile.table(name)["start_ns"] < 0).any() for name in needed):
        return say("saving.lost_times")
    return None


def _claims(result: tuple[Profile, Sequence[RuleResult]], found: Savings) -> list[tuple[str, Ints]]:
    """The rows of findings that may save something that counts: those behind them and those their fix edits."""
    profile, outcomes = result
    least = REAL_SHARE * float(profile.table("steps")["dur_us"].mean())
    rows = []
    for raw in (raw for outcome in outcomes for raw in outcome.raw_findings):
        saving = found.by_finding.get(id(raw))
        if saving is not None and saving.high_us_per_step >= least and raw.fix is not None:
            rows += [raw.members, (raw.fix.table, raw.fix.rows)]
    return rows


def recorded(replayer: Replayer) -> list[Replay]:
    """How well each step replays."""
    shifts = {rank: _shift(ns) for rank, ns in replayer.kernel_shift.items()}
    return [
        Replay(
            rank=step.rank,
            step=step.step if step.step >= 0 else None,
            recorded_us=step.recorded / 1000.0,
            replayed_us=step.replayed / 1000.0,
            error=step.error,
            anchored_share=step.anchored_share,
            start_shift=shifts[step.rank],
        )
        for step in replayer.recorded
    ]


def _shift(ns: Ints) -> StartShift | None:
    if not len(ns):
        return None
    median, p90 = (float(us) for us in np.quantile(ns / 1000.0, (0.5, 0.9)))
    return StartShift(median_us=median, p90_us=p90)


def _audited(results: Results, run: Run, replayer: Replayer) -> Run:
    """The run without the anchors that a finding is about: silence of the host that it names and its fix removes."""
    named = [
        _silences(results[number][0], raw.fix)
        for number in run.positions
        for outcome in results[number][1]
        for raw in outcome.raw_findings
        if raw.fix is not None and (raw.fix.kind, raw.fix.table) == ("remove", "idle")
    ]
    if not named:
        return run
    start, end = (np.concatenate(column) for column in zip(*named, strict=True))
    left = replayer.anchored_beside(start, end)
    return replace(run, anchored=left)


def _silences(profile: Profile, fix: RawFix) -> tuple[Ints, Ints]:
    """Starts and ends (ns since the epoch) of the idle times in which nothing but the host was late."""
    idle = profile.table("idle")
    rows = fix.rows[np.asarray(idle["owner"][fix.rows] == "dispatch")]
    return idle["start_ns"][rows], idle["end_ns"][rows]


class _Cure(NamedTuple):
    """One finding on all ranks that show it, and the edits on all ranks together."""

    raws: list[tuple[Profile, RawFinding]]
    edits: Variants

    def ends(self) -> list[Edit]:
        """The ends of the range that are edits of their own."""
        return [edit for edit in (self.edits.low, self.edits.high) if edit is not self.edits.expected]


@dataclass
class _Entry:
    """What becomes a cure: ``edited`` are the positions of the ranks whose edits are in ``variants``."""

    raws: list[tuple[Profile, RawFinding]] = field(default_factory=list)
    variants: list[Variants] = field(default_factory=list)
    edited: list[int] = field(default_factory=list)

    def cure(self) -> _Cure:
        """What is to be priced."""
        low, expected, high = (merge(edits) for edits in zip(*self.variants, strict=True))
        own = [
            any(getattr(variants, which) is not variants.expected for variants in self.variants)
            for which in ("low", "high")
        ]
        return _Cure(self.raws, Variants(low if own[0] else expected, expected, high if own[1] else expected))

    def add(self, position: int, variants: Variants | None) -> bool:
        if variants is not None:
            self.variants.append(variants)
            self.edited.append(position)
        return variants is not None


def _cures(results: Results, group: list[int], key: Callable[[RawFinding], str], replayer: Replayer) -> list[_Cure]:
    entries: dict[tuple[str, int], _Entry] = defaultdict(_Entry)
    for position, number in enumerate(group):
        profile, outcomes = results[number]
        seen: dict[str, int] = defaultdict(int)
        for raw in (raw for outcome in outcomes for raw in outcome.raw_findings):
            name = key(raw)
            entry = entries[name, seen[name]]
            seen[name] += 1
            fix = raw.fix
            if fix is None or fix.kind == "memory":
                continue
            fixer, values = replayer.fixer(position), _values(replayer, position, fix)
            if entry.add(position, fixer.variants(fix.kind, fix.table, fix.rows, values)):
                entry.raws.append((profile, raw))
        give_back()
    for entry in entries.values():
        _everywhere(entry, replayer)
    # What is put together is let go apart.
    found = [entry.cure() for entry in (entries.pop(name) for name in [*entries]) if entry.variants]
    if replayer.aside is None:
        return found
    aside = replayer.aside.put_parts([cure.edits for cure in found])
    return [cure._replace(edits=edits) for cure, edits in zip(found, aside, strict=True)]


def _values(replayer: Replayer, position: int, fix: RawFix) -> Floats | None:
    """The numbers of a fix. A rank that is slow as a whole is compared with the others kind by kind."""
    if fix.values is None:
        return None
    whole = fix.table == "kernels" and len(fix.rows) == len(replayer.profiles[position].table("kernels"))
    if fix.kind == "scale" and whole and len(replayer.profiles) > 1:
        return like_the_others(replayer.profiles, position, fix.rows)
    return np.asarray(fix.values, dtype=np.float64)


def _everywhere(entry: _Entry, replayer: Replayer) -> None:
    """Apply a cure of the code on the ranks that did not show the finding too. A slow rank is no matter of the code."""
    if not entry.raws:
        return
    home, fix = replayer.fixer(entry.edited[0]), entry.raws[0][1].fix
    if fix is None or fix.kind == "scale":
        return
    values = None if fix.values is None else np.asarray(fix.values, dtype=np.float64)
    for position in range(len(replayer.profiles)):
        if position not in entry.edited:
            entry.add(position, replayer.fixer(position).elsewhere(home, fix.kind, fix.table, fix.rows, values))


def _price(run: Run, cures: list[_Cure], found: Savings) -> None:
    replayer = run.replayer
    assert replayer is not None
    lows, expected, highs = ([getattr(cure.edits, which) for cure in cures] for which in Variants._fields)
    singles = [[edit] for edit in expected]
    others = [expected[:number] + expected[number + 1 :] for number in range(len(cures))]
    ranges = [[[edit] for edit in cure.ends()] for cure in cures]
    figures = iter(run.each_saves_us([expected, lows, highs, *singles, *others, *itertools.chain(*ranges)]))
    everything, *bounds = itertools.islice(figures, 3)
    known = list(itertools.islice(figures, 2 * len(cures)))
    alone, parts = known[: len(cures)], []
    priced: dict[int, Saving] = {}
    for cure, us, without, range_ in zip(cures, alone, known[len(cures) :], ranges, strict=True):
        part = everything - without
        ends = [us, *itertools.islice(figures, len(range_))]
        parts.append(part)
        for profile, raw in cure.raws:
            rounds = per_step(profile)
            step_us = float(profile.table("steps")["dur_us"].mean()) - run.done_ns / 1000.0
            if run.anchored > RANGE_ANCHORED:
                found.ranged.add(id(raw))
            priced[id(raw)] = Saving(
                us_per_step=us / rounds,
                low_us_per_step=min(ends) / rounds,
                high_us_per_step=max(ends) / rounds,
                joint_us_per_step=part / rounds,
                share=us / step_us if step_us > 0 else 0.0,
                basis=Basis.REPLAYED,
                per="step" if unmarked(profile) is None else "iteration",
                freed_bytes=raw.fix.freed_bytes if raw.fix else None,
                assumes=joined(assumes(run, replayer), per_iteration(profile)),
            )
    after = _after(run, cures, alone, parts)
    # All or nothing: beside bounds, a joint figure would count the same time twice.
    found.by_finding |= priced
    found.after |= after
    if cures:
        rounds = per_step(replayer.profiles[0])
        joint = everything / rounds, min(everything, *bounds) / rounds, max(everything, *bounds) / rounds
        found.joint = joint if found.joint is None else max(found.joint, joint)


def per_iteration(profile: Profile) -> Text | None:
    """That figures are per iteration of a loop, and how iterations were told; None where steps were marked."""
    table = unmarked(profile)
    way = None if table is None else table.text("how", 0)
    if table is None or way is None:
        return None
    how = say(f"saving.how_{way}")
    both = [say("saving.per_iteration", n=len(table), how=text) for text in (how.en, how.zh)]
    return Text(en=both[0].en, zh=both[1].zh)


def _after(
    run: Run, cures: list[_Cure], alone: list[float], parts: list[float]
) -> dict[int, list[tuple[list[int], float]]]:
    """For findings that save nothing now: each one other finding after whose cure they would, the most telling first.

    Only the largest of the others are tried. Where no single one is enough, all of them together may be. ``alone`` and
    ``parts`` (of the joint saving) are in us per step.
    """
    assert run.replayer is not None
    step_us = float(np.mean([step.recorded for step in run.replayer.recorded])) / 1000.0
    rounds = per_step(run.replayer.profiles[0])
    order = sorted(range(len(cures)), key=lambda number: -alone[number])
    hidden = [number for number in order if alone[number] < REAL_SHARE * step_us][:MOST_HIDDEN]
    before = {number: [other for other in order if other != number][:MOST_BEFORE] for number in hidden}
    pairs = [[cures[one].edits.expected for one in (number, other)] for number in hidden for other in before[number]]
    both = iter(run.each_saves_us(pairs))
    found: dict[int, list[tuple[list[int], float]]] = {}
    for number in hidden:
        others = [other for other in order if other != number]
        gains = [([other], next(both) - alone[other]) for other in before[number]]
        least = max(alone[number], 0.0) + AFTER_SHARE * step_us
        worth = sorted((pair for pair in gains if pair[1] >= least), key=lambda pair: -pair[1])[:SHOWN]
        if not worth and len(others) > 1 and parts[number] >= least:
            worth = [(others, parts[number])]
        for _, raw in cures[number].raws if worth else ():
            found[id(raw)] = [([id(cures[other].raws[0][1]) for other in first], us / rounds) for first, us in worth]
    return found


def assumes(run: Run, replayer: Replayer) -> Text:
    """What a replayed figure takes for granted."""
    parts = [say("saving.replayed" if len(replayer.profiles) > 1 else "saving.symmetric")]
    gap_us = replayer.kernel_gap / 1000.0
    if gap_us > USUAL_GAP_US:
        parts.append(say("saving.profiler_gap", gap_us=gap_us))
    if not all(len(profile.table("apis")) for profile in replayer.profiles):
        parts.append(say("saving.no_calls"))
    if run.anchored > RANGE_ANCHORED:
        parts.append(say("saving.range", share=f"{run.anchored:.0%}"))
    return joined(*parts)
