"""Replayed savings: what each finding's fix saves, from re-timing the event graph with the fix applied.

A profile whose links are missing, whose replay does not give back the recording, or whose recording is held together
by anchors keeps its upper bounds; :attr:`Savings.reasons` says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Basis, Text, joined
from npu_advisor.derive.iterations import per_step, unmarked
from npu_advisor.engine.run import RawFinding, RawFix, RuleResult, guarded
from npu_advisor.findings import Replay, Saving
from npu_advisor.graph.replay import Edit, Replayer, Variants, merge
from npu_advisor.graph.replay.ranks import like_the_others, same_rows
from npu_advisor.graph.replay.solve import CycleError
from npu_advisor.model.profile import Profile

Results = Sequence[tuple[Profile, Sequence[RuleResult]]]
# Strict self-replay further off than this is not believed.
MAX_ERROR = 0.10
# Above the first share of anchors a figure is a range, above the second it is withheld.
RANGE_ANCHORED, MAX_ANCHORED = 0.15, 0.40
MIN_LAUNCHES = 0.5
# A gap between queued kernels beyond this is the profiler's own work.
USUAL_GAP_US = 20.0


@dataclass
class Savings:
    """Savings by raw finding (``id``), why a rank has none (by position), and how well each step replays.

    ``ranged`` are findings whose recording is anchored so much that their figure is a range.
    """

    by_finding: dict[int, Saving] = field(default_factory=dict)
    reasons: dict[int, Text] = field(default_factory=dict)
    replay: list[Replay] = field(default_factory=list)
    joint_us: float = 0.0
    ranged: set[int] = field(default_factory=set)

    def of(self, raw: RawFinding, bound_us: float) -> Saving | None:
        """The replayed saving of a finding. Where anchors may hide part of it, the range reaches up to its bound."""
        saving = self.by_finding.get(id(raw))
        if saving is None or id(raw) not in self.ranged:
            return saving
        return saving.model_copy(update={"high_us_per_step": max(saving.high_us_per_step, bound_us)})


def replayed(results: Results, key: Callable[[RawFinding], str]) -> Savings:
    """Replay the ranks of ``results`` and price their findings; equal ``key`` on several ranks is one finding."""
    found = Savings()
    for group in _runs([profile for profile, _ in results]):
        error = guarded(partial(_replay_run, results, group, key, found))
        if error is not None:
            found.reasons |= dict.fromkeys(group, say("saving.failed", error=error))
    return found


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
    # Without the CANN lane (Level0 text) blocking calls are invisible: the replay holds where the device would move.
    if not len(profile.table("apis")):
        return say("saving.no_calls")
    if any((profile.table(name)["start_ns"] < 0).any() for name in needed):
        return say("saving.lost_times")
    return None


def _replay_run(results: Results, group: list[int], key: Callable[[RawFinding], str], found: Savings) -> None:
    profiles = [results[number][0] for number in group]
    reason = _why_not(profiles[0])
    if reason is None:
        try:
            replayer = Replayer(profiles)
        except CycleError:
            reason = say("saving.cycle")
    if reason is None:
        found.replay += _recorded(replayer)
        reason = _gate(replayer)
    if reason is not None:
        found.reasons |= dict.fromkeys(group, reason)
        return
    edits = _edits(results, group, key, replayer)
    _price(replayer, [entry for entry in edits.values() if entry.variants], found)


def _recorded(replayer: Replayer) -> list[Replay]:
    return [
        Replay(
            rank=step.rank,
            step=step.step if step.step >= 0 else None,
            recorded_us=step.recorded / 1000.0,
            replayed_us=step.replayed / 1000.0,
            error=step.error,
            anchored_share=step.anchored_share,
        )
        for step in replayer.recorded
    ]


def _gate(replayer: Replayer) -> Text | None:
    if replayer.error > MAX_ERROR:
        return say("saving.self_replay", error=f"{replayer.error:.0%}")
    if replayer.anchored_share > MAX_ANCHORED:
        return say("saving.anchored", share=f"{replayer.anchored_share:.0%}")
    return None


@dataclass
class _Entry:
    """One finding on all ranks that show it; ``edited`` are the positions whose edit is there."""

    raws: list[tuple[Profile, RawFinding]] = field(default_factory=list)
    variants: list[Variants] = field(default_factory=list)
    edited: list[int] = field(default_factory=list)

    def edit(self, which: str) -> Edit:
        return merge(getattr(variants, which) for variants in self.variants)

    def ends(self) -> list[str]:
        """The ends of the range that are edits of their own."""
        return [
            which
            for which in ("low", "high")
            if any(getattr(variants, which) is not variants.expected for variants in self.variants)
        ]

    def add(self, replayer: Replayer, position: int, fix: RawFix, rows: Ints, values: Floats | None) -> bool:
        variants = replayer.fixer(position).variants(fix.kind, fix.table, rows, values)
        if variants is not None:
            self.variants.append(variants)
            self.edited.append(position)
        return variants is not None


def _edits(
    results: Results, group: list[int], key: Callable[[RawFinding], str], replayer: Replayer
) -> dict[tuple[str, int], _Entry]:
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
            if entry.add(replayer, position, fix, fix.rows, _values(replayer, position, fix)):
                entry.raws.append((profile, raw))
    for entry in entries.values():
        _everywhere(entry, replayer)
    return entries


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
    profile, raw = entry.raws[0]
    fix = raw.fix
    if fix is None or fix.kind == "scale":
        return
    for position, other in enumerate(replayer.profiles):
        if position not in entry.edited:
            values = None if fix.values is None else np.asarray(fix.values, dtype=np.float64)
            rows, values = same_rows(profile, other, fix.table, fix.rows, values)
            entry.add(replayer, position, fix, rows, values)


def _price(replayer: Replayer, entries: list[_Entry], found: Savings) -> None:
    expected = [entry.edit("expected") for entry in entries]
    everything = replayer.price(expected) / 1000.0
    priced: dict[int, Saving] = {}
    for number, entry in enumerate(entries):
        others = expected[:number] + expected[number + 1 :]
        part = everything - replayer.price(others) / 1000.0 if others else everything
        us = replayer.price(expected[number]) / 1000.0
        ends = [us, *(replayer.price(entry.edit(which)) / 1000.0 for which in entry.ends())]
        for profile, raw in entry.raws:
            rounds = per_step(profile)
            step_us = float(profile.table("steps")["dur_us"].mean())
            if replayer.anchored_share > RANGE_ANCHORED:
                found.ranged.add(id(raw))
            priced[id(raw)] = Saving(
                us_per_step=max(us, 0.0) / rounds,
                low_us_per_step=max(min(ends), 0.0) / rounds,
                high_us_per_step=max(max(ends), 0.0) / rounds,
                joint_us_per_step=max(part, 0.0) / rounds,
                share=max(us, 0.0) / step_us if step_us else 0.0,
                basis=Basis.REPLAYED,
                per="step" if unmarked(profile) is None else "iteration",
                assumes=joined(_assumes(replayer), per_iteration(profile)),
            )
    # All or nothing: beside bounds, a joint figure would count the same time twice.
    found.by_finding |= priced
    found.joint_us = max(found.joint_us, everything / per_step(replayer.profiles[0]))


def per_iteration(profile: Profile) -> Text | None:
    """That figures are per iteration of a loop, and how iterations were told; None where steps were marked."""
    table = unmarked(profile)
    way = None if table is None else table.strings("how")[0]
    if table is None or way is None:
        return None
    how = say(f"saving.how_{way}")
    both = [say("saving.per_iteration", n=len(table), how=text) for text in (how.en, how.zh)]
    return Text(en=both[0].en, zh=both[1].zh)


def _assumes(replayer: Replayer) -> Text:
    """What a replayed figure takes for granted."""
    parts = [say("saving.replayed" if len(replayer.profiles) > 1 else "saving.symmetric")]
    gap_us = replayer.kernel_gap / 1000.0
    if gap_us > USUAL_GAP_US:
        parts.append(say("saving.profiler_gap", gap_us=gap_us))
    if replayer.anchored_share > RANGE_ANCHORED:
        parts.append(say("saving.range", share=f"{replayer.anchored_share:.0%}"))
    return joined(*parts)
