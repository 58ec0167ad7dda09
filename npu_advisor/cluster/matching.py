"""The same collective on different ranks, and what each waits in it; durations only, so clocks need not agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npu_advisor.base.intervals import Floats, Ints, Mask
from npu_advisor.derive.ranks import is_p2p
from npu_advisor.model.table import Table


@dataclass(frozen=True)
class Matched:
    """Per row of ``rank_comms``: the collective it is part of, the shortest duration of that on any rank, what is
    beyond (the wait), and what all others wait for this rank alone (us; 0 for all but the last to arrive)."""

    instance: Ints
    transit: Floats
    wait: Floats
    late: Floats
    shared: Mask

    @property
    def count(self) -> int:
        """How many collectives there are."""
        return int(self.instance.max(initial=-1)) + 1


def matched(comms: Table, *, partial: bool = False) -> Matched:
    """Match by step, group, type and ordinal.

    ``partial``: ranks are missing. Then one of these may have been the last, and the first to end is convicted only
    where it waits itself for less than the others wait for it (its duration beyond its transit; unknown: not at all).

    A collective ends at once on all its ranks, so who waits longer lasts longer; the last to arrive has the shortest.
    Sends and receives end at different times on their two sides: they are joined, but convict nobody.
    """
    p2p = np.append(is_p2p([str(name) for name in comms["type"].categories]), False)[comms["type"].codes]
    kind = np.where(p2p, -2, comms["type"].codes.astype(np.int64))
    parts = (comms["number"], comms["group"].codes.astype(np.int64), kind, comms["ordinal"])
    instance = _numbered(parts)
    count = int(instance.max(initial=-1)) + 1
    dur = comms["dur_us"]
    order = np.lexsort((dur, instance))
    first = np.searchsorted(instance[order], np.arange(count))
    size = np.bincount(instance, minlength=count)
    shortest = dur[order[first]] if count else np.zeros(0)
    shared = size[instance] > 1
    second = dur[order[np.minimum(first + 1, max(len(order) - 1, 0))]] if count else np.zeros(0)
    late = np.zeros(len(dur))
    convicts = (size > 1) & ~p2p[order[first]] if count else np.zeros(0, dtype=bool)
    if partial and count:
        own = shortest - comms["transit_us"][order[first]]
        convicts &= own < second - shortest
    late[order[first[convicts]]] = (second - shortest)[convicts]
    wait = np.where(p2p, 0.0, dur - shortest[instance])
    return Matched(instance, shortest[instance], wait, late, shared)


def clock_offsets(comms: Table, found: Matched, of: Ints, count: int) -> Floats:
    """How far the clock of each rank (a position in ``of``) is ahead, in us; NaN where it shares no collective.

    A collective ends everywhere at once, so what its ends differ by is what the clocks differ by. Per rank the median
    over its collectives of its end less the mean end of the members.
    """
    offsets = np.full(count, np.nan)
    rows = np.flatnonzero(found.shared & (comms["start_ns"] >= 0))
    if not len(rows):
        return offsets
    instance, end = found.instance[rows], comms["end_ns"][rows]
    base = np.full(found.count, np.iinfo(np.int64).max)
    np.minimum.at(base, instance, end)
    ahead = (end - base[instance]) / 1000.0
    size = np.bincount(instance, minlength=found.count)
    ahead -= (np.bincount(instance, ahead, found.count) / np.maximum(size, 1))[instance]
    order = np.lexsort((ahead, of[rows]))
    number = np.bincount(of[rows], minlength=count)
    first = np.cumsum(number) - number
    known = number > 0
    offsets[known] = ahead[order[(first + number // 2)[known]]]
    return offsets


def _numbered(parts: tuple[Ints, ...]) -> Ints:
    """One number for each distinct combination, in order of the combinations."""
    key = np.zeros(len(parts[0]), dtype=np.int64)
    for part in parts:
        values, codes = np.unique(part, return_inverse=True)
        key = key * max(len(values), 1) + codes
    return np.unique(key, return_inverse=True)[1].astype(np.int64)
