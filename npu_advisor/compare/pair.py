"""One rank of the one side against one rank of the other: everything the comparison says about the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.base.frame import parse_frame
from npu_advisor.base.intervals import Spans, empty
from npu_advisor.compare import pieces
from npu_advisor.compare.causes import PlaceChange, Side, attribute
from npu_advisor.compare.inner import launched
from npu_advisor.compare.kernels import classes, one_sided, types_by_group, used
from npu_advisor.compare.match import Group, Matching, Recording, Site
from npu_advisor.compare.modules import module_changes
from npu_advisor.compare.noise import RUN_FLOOR, change, judged
from npu_advisor.compare.normalised import normalised
from npu_advisor.compare.ops import Counted, op_changes
from npu_advisor.compare.phases import phases
from npu_advisor.compare.tally import Place, Places, Tally, place_of, samples
from npu_advisor.comparison import Attribution, Cause, Change, OpChange, RankPair
from npu_advisor.derive.comm import waits_for_rank, waits_told_by
from npu_advisor.derive.facts import memory_peak
from npu_advisor.derive.peaks import peaks
from npu_advisor.engine.places import Roots, location
from npu_advisor.findings import Location
from npu_advisor.graph.replay.path import StepPath
from npu_advisor.model.profile import Profile


class Run(NamedTuple):
    """One profile, its critical path through the run where its replay can be trusted (else None), and when its
    collectives waited for other ranks."""

    profile: Profile
    path: Sequence[StepPath] | None
    waits: Spans


# The parts of the ledger in the order in which people read a step.
LEDGER = ("compute", "communication", "dispatch", "sync", "data", "compile", "alloc", "gc", "other", "after_last")
# Ops that are told with a cause.
_OPS_OF_CAUSE = 8
_MOST_ELSEWHERE = 10


def compare_runs(base: Sequence[Run], new: Sequence[Run], roots: Roots) -> RankPair:
    """The comparison of the runs of one rank on both sides, at least one with at least one step each."""
    counted = _Counted(base, new)
    lines = _Lines(roots)
    kernels = [used(side) for side in counted.recordings]
    base_ops, new_ops = (
        Counted(work, holding, types_by_group(side), launched(side))
        for work, holding, side in zip(counted.work, counted.holding, kernels, strict=True)
    )
    ops = op_changes(base_ops, new_ops, counted.matching.groups, lines.pair)
    shown = [row for _, row in ops if row.calls.base or row.calls.new]
    calls = [sum(getattr(row.calls, side) or 0.0 for row in shown) for side in ("base", "new")]
    matched = [row for row in shown if row.status in ("matched", "reshaped")]
    common = sum(min(row.calls.base or 0.0, row.calls.new or 0.0) for row in matched)
    infos = [side[0].profile.info for side in (base, new)]
    chips = peaks(base[0].profile), peaks(new[0].profile)
    same_kind = infos[0].device_kind == infos[1].device_kind
    same_chip = same_kind and (None in chips or chips[0] == chips[1])
    ratios = {} if same_chip else normalised(kernels[0], kernels[1], counted.matching.groups, chips)
    return RankPair(
        base_rank=base[0].profile.rank,
        new_rank=new[0].profile.rank,
        base_steps=_numbers(counted.recordings[0]),
        new_steps=_numbers(counted.recordings[1]),
        base_runs=len(base),
        new_runs=len(new),
        step=judged("step_us", counted.steps, 0.0 if min(len(base), len(new)) > 1 else RUN_FLOOR),
        ledger=_ledger(counted.ledger),
        extra=_extra(counted),
        attribution=_attribution(counted, lines, ops),
        ops=[row for _, row in ops],
        modules=module_changes([row for _, row in ops]),
        matched_calls=round(common),
        base_only_calls=round(calls[0] - common),
        new_only_calls=round(calls[1] - common),
        host_us_per_call=_per_call(matched),
        base_chip=chips[0].name if chips[0] else None,
        new_chip=chips[1].name if chips[1] else None,
        classes=classes(kernels[0], kernels[1], ratios),
        one_sided=one_sided(kernels[0], kernels[1], lines.of, same_kind),
        phases=phases(*counted.recordings),
    )


class _Counted:
    """The recordings of both sides, matched, and the tallies of each side."""

    def __init__(self, base: Sequence[Run], new: Sequence[Run]) -> None:
        self.recordings = [[_recording(run.profile) for run in side] for side in (base, new)]
        self.matching, self.places = Matching(self.recordings[0], self.recordings[1]), Places()
        runs = {id(run.profile): run for run in (*base, *new)}
        # Waits that only one side can tell from transfers would look like a change.
        self._apart = len({waits_told_by(run.profile) for run in runs.values()} - {None}) <= 1
        self.trusted = all(run.path is not None for run in runs.values())
        self.ledger = self._tallies(lambda each: pieces.ledger(each.profile))
        self.work = self._tallies(lambda each: _work(each, runs[id(each.profile)].waits if self._apart else empty()))
        self.holding = (
            self._tallies(lambda each: pieces.path(each.profile, runs[id(each.profile)].path or ()))
            if self.trusted
            else self.ledger
        )
        self.steps = [_durations(side) for side in self.recordings]
        self.step_us = [float(np.mean(side)) for side in self.steps]

    def _tallies(self, cut: Callable[[Recording], Iterable[pieces.Pieces]]) -> list[Tally]:
        def told(recording: Recording) -> list[pieces.Pieces]:
            return [each._replace(waits=each.waits and self._apart) for each in cut(recording)]

        return [Tally(self.matching, self.places, side, told) for side in (0, 1)]


class _Lines:
    """Locations of lines, each looked up once; without the code around them, which would be most of the report."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._known: dict[str, Location | None] = {}

    def of(self, source: str | None) -> Location | None:
        """Where a line is, None where it is unknown."""
        if source is None:
            return None
        if source not in self._known:
            found = location(parse_frame(source), "", self._roots)
            self._known[source] = found.model_copy(update={"code": None}) if found else None
        return self._known[source]

    def pair(self, site: Site) -> tuple[Location | None, Location | None]:
        """Where a site is on both sides."""
        return self.of(site.base), self.of(site.new)


def _recording(profile: Profile) -> Recording:
    """The profile with its complete steps; all of them where none is complete."""
    steps = profile.table("steps")
    whole = np.flatnonzero(steps["complete"])
    return Recording(profile, (whole if len(whole) else np.arange(len(steps))).tolist())


def _work(recording: Recording, waits: Spans) -> list[pieces.Pieces]:
    calls, ops = recording.calls, recording.profile.table("ops")
    return [
        *pieces.work(recording.profile, waits),
        pieces.Pieces("call", "ops", calls.row, calls.step, ops["dur_ns"][calls.row]),
    ]


def _durations(recordings: Sequence[Recording]) -> list[float]:
    return _per_step(recordings, "dur_us")


def _per_step(recordings: Sequence[Recording], column: str) -> list[float]:
    return [float(us) for each in recordings for us in each.profile.table("steps")[column][each.steps]]


def _numbers(recordings: Sequence[Recording]) -> list[int | None]:
    numbers = [int(number) for each in recordings for number in each.profile.table("steps")["number"][each.steps]]
    return [number if number >= 0 else None for number in numbers]


def _ledger(tallies: Sequence[Tally]) -> list[Change]:
    """The parts of the step that either side has."""
    sides = [tally.by("part") for tally in tallies]
    return [
        judged(part, [samples(side, (part,), tally.samples) for side, tally in zip(sides, tallies, strict=True)])
        for part in LEDGER
        if any(sum(side.get((part,), [])) for side in sides)
    ]


def _extra(counted: _Counted) -> list[Change]:
    """Figures beside the ledger: idle time before the first device task, communication in all and what of it waits for
    other ranks, peaks of memory."""
    recordings = counted.recordings
    found = [judged(key, [_per_step(side, key) for side in recordings]) for key in ("prepare_us", "comm_us")]
    waits = [samples(side.by("part"), ("waiting",), side.samples) for side in counted.work]
    if any(any(side) for side in waits):
        found.append(judged("waiting_us", waits))
    for key in ("allocated", "reserved"):
        peaked = [[memory_peak(one.profile, f"{key}_bytes") for one in side] for side in recordings]
        highest = [max((peak.size_bytes for peak in side if peak), default=None) for side in peaked]
        found.append(change(f"peak_{key}_bytes", highest))
    return found


def _per_call(rows: Sequence[OpChange]) -> Change:
    """The mean time that a matched call takes on the host."""
    sides: list[float | None] = []
    for side in ("base", "new"):
        count = sum(getattr(row.calls, side) or 0.0 for row in rows)
        time = sum(getattr(row.host_us, side) or 0.0 for row in rows)
        sides.append(time / count if count else None)
    return change("host_us_per_call", sides)


def _attribution(counted: _Counted, lines: _Lines, ops: Sequence[tuple[Group, OpChange]]) -> Attribution:
    base, new = (Side(*columns) for columns in zip(counted.holding, counted.work, counted.step_us, strict=True))
    total, places = new.step_us - base.step_us, counted.places.places
    beside = {counted.places.number(place_of(group)) for group in counted.matching.beside_edits()}
    explained = attribute(base, new, beside)
    by_place: dict[Place, list[OpChange]] = {}
    for group, row in ops:
        by_place.setdefault(place_of(group), []).append(row)
    causes = [_cause(each, total, places[each.place], lines, by_place) for each in explained.causes]
    missed = _missed([one.profile for side in counted.recordings for one in side])
    causes = [each.model_copy(update={"rank": missed}) if each.kind == "other_rank" else each for each in causes]
    elsewhere = [_cause(each, total, places[each.place], lines, {}) for each in explained.elsewhere[:_MOST_ELSEWHERE]]
    return Attribution(
        basis="critical_path" if counted.trusted else "ledger",
        change_us=total,
        causes=causes,
        elsewhere=elsewhere,
        remainder_us=explained.remainder_us,
    )


def _missed(profiles: Sequence[Profile]) -> int | None:
    """The rank that collectives waited longest for alone; None where nobody knows."""
    waited: Counter[int] = Counter()
    for profile in profiles:
        for by_rank in waits_for_rank(profile).values():
            waited.update(by_rank)
    return waited.most_common(1)[0][0] if waited else None


def _cause(cause: PlaceChange, total: float, place: Place, lines: _Lines, ops: dict[Place, list[OpChange]]) -> Cause:
    base, new = lines.pair(place.site)
    return Cause(
        kind=place.kind or ("op" if place.name is not None else "line"),
        base_location=base,
        new_location=new,
        name=place.name,
        factor=cause.factor,
        us=cause.us,
        share_of_change=cause.us / total if total else None,
        direct_us=cause.direct_us,
        knock_on_us=cause.knock_on_us,
        parts=cause.parts,
        work=cause.work,
        ops=[row for row in ops.get(place, []) if _differs(row)][:_OPS_OF_CAUSE],
    )


def _differs(row: OpChange) -> bool:
    return any(each.change for each in (row.calls, row.kernels, row.kernel_us, row.path_us))
