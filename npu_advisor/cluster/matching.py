"""The same collective on different ranks, and what each waits in it; durations only, so clocks need not agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Floats, Ints, Mask
from npu_advisor.derive.comm import is_p2p
from npu_advisor.model.table import Table

_LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Matched:
    """The collective that each row of ``rank_comms`` is part of; the rest is per collective: how many rows it has, its
    shortest duration on any rank (us), the row of that (the last to arrive), what all others wait for that rank alone
    (us, 0 where it is not convicted), and whether it is a send or receive."""

    instance: Ints
    members: Ints
    transit: Floats
    last: Ints
    late: Floats
    p2p: Mask

    @property
    def count(self) -> int:
        """How many collectives there are."""
        return len(self.members)

    def waits(self, comms: Table) -> Floats:
        """What each row of ``comms`` waits: what it takes beyond the shortest (us)."""
        return np.where(self.p2p[self.instance], 0.0, comms["dur_us"] - self.transit[self.instance])


def matched(comms: Table, *, partial: bool = False) -> Matched:
    """Match by step, group, type and ordinal.

    ``partial``: ranks are missing. Then one of these may have been the last, and the first to end is convicted only
    where it waits itself for less than the others wait for it (its duration beyond its transit; unknown: not at all).

    A collective ends at once on all its ranks, so who waits longer lasts longer; the last to arrive has the shortest.
    Sends and receives end at different times on their two sides: they are joined, but convict nobody.
    """
    p2p = is_p2p(comms["type"])
    kind = np.where(p2p, -2, comms["type"].codes)
    instance = numbered(comms["number"], comms["group"].codes, kind, _pairs(comms, p2p), comms["ordinal"])
    count = int(instance.max(initial=-1)) + 1
    dur, members = comms["dur_us"], np.bincount(instance, minlength=count)
    shortest = _least(dur, instance, count)
    last = np.zeros(count, dtype=np.int64)
    rows = np.flatnonzero(dur == shortest[instance])[::-1]
    last[instance[rows]] = rows  # of several the first one
    dur[last] = np.inf  # a copy: us are computed from ns
    excess = _least(dur, instance, count) - shortest  # of the second to arrive; inf where there is none
    convicts = (members > 1) & ~p2p[last]
    if partial:
        convicts &= shortest - comms["transit_us"][last] < excess
    return Matched(instance, members, shortest, last, np.where(convicts, excess, 0.0), p2p[last])


def _pairs(comms: Table, p2p: Mask) -> Ints:
    """A number of the two sides of each send and receive, of which the sender comes first; of a batch, which does both,
    the lower rank. 0 where the other side is not known, and for collectives."""
    found = np.zeros(len(comms), dtype=np.int64)
    rows = np.flatnonzero(p2p)
    own, peer = comms["rank"][rows], _other_sides(comms["rank"][rows], comms["group"].codes[rows], comms["peer"][rows])
    names = [str(name).lower() for name in comms["type"].categories]
    starts = [np.array([name.startswith(part) for name in names], dtype=bool) for part in ("send", "rec")]
    sends, receives = (start[comms["type"].codes[rows]] for start in starts)
    first = np.where(sends, own, np.where(receives, peer, np.minimum(own, peer)))
    found[rows] = np.where(peer < 0, 0, 1 + numbered(sends | receives, first, own + peer - first))
    return found


def _other_sides(own: Ints, group: npt.NDArray[np.integer], peer: Ints) -> Ints:
    """``peer``, and where that is not told (-1) the other rank of a communicator that only two ranks use."""
    count = int(group.max(initial=-1)) + 2  # the last one: no group
    low, high, more = np.full(count, _LATEST), np.full(count, -1), np.zeros(count, dtype=bool)
    np.minimum.at(low, group, own)
    np.maximum.at(high, group, own)
    more[group[(own != low[group]) & (own != high[group])]] = True
    two = (~more & (low < high))[group] & (group >= 0)
    found: Ints = np.where((peer < 0) & two, low[group] + high[group] - own, peer)
    return found


def numbered(*parts: npt.NDArray[np.integer]) -> Ints:
    """One number for each distinct combination of ``parts``, in order of the combinations."""
    key, size = np.zeros(len(parts[0]), dtype=np.int64), 1
    for part in parts:
        low = int(part.min(initial=0))
        width = int(part.max(initial=0)) - low + 1
        if width > len(part):
            codes = np.unique(part, return_inverse=True)[1].reshape(-1)
            low, width = 0, int(codes.max(initial=0)) + 1
            part = codes
        key *= width
        key += part
        key -= low
        size *= width
    if size > 4 * len(key):
        return np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)
    used = np.zeros(size, dtype=np.int64)
    used[key] = 1
    found: Ints = (np.cumsum(used) - 1)[key]
    return found


def _least(values: Floats, of: Ints, count: int) -> Floats:
    least = np.full(count, np.inf)
    np.minimum.at(least, of, values)
    return least


def clock_offsets(comms: Table, found: Matched, of: Ints, count: int) -> Floats:
    """How far the clock of each rank (a position in ``of``) is ahead, in us; NaN where it shares no collective.

    A collective ends everywhere at once, so what its ends differ by is what the clocks differ by. Per rank the median
    over its collectives of its end less the mean end of the members.
    """
    offsets = np.full(count, np.nan)
    instance, end = found.instance, comms["end_ns"]
    known = (found.members > 1)[instance] & (comms["start_ns"] >= 0)
    end[~known] = _LATEST  # a copy: ends are computed
    base = np.full(found.count, _LATEST)
    np.minimum.at(base, instance, end)
    end -= base[instance]
    ahead = np.where(known, end / 1000.0, 0.0)
    size = np.bincount(instance, known, found.count)
    ahead -= (np.bincount(instance, ahead, found.count) / np.maximum(size, 1))[instance]
    bounds = np.searchsorted(of, np.arange(count + 1))
    for rank in range(count):
        rows = slice(bounds[rank], bounds[rank + 1])
        own = ahead[rows][known[rows]]
        if len(own):
            offsets[rank] = np.partition(own, len(own) // 2)[len(own) // 2]
    return offsets
