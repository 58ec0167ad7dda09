"""Pair the two ends of flow arrows and look them up from the events they touch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.base.whole import few
from npu_advisor.model.table import Table


class Flows(NamedTuple):
    """Paired arrows of one category: start track and time, end track and time (ns)."""

    from_track: Ints
    from_ns: Ints
    to_track: Ints
    to_ns: Ints
    unmatched: int

    def into(self, track: Ints, at: Ints) -> Ints:
        """For each (track, time) the arrow that ends exactly there, -1 for none."""
        return _exact(self.to_track, self.to_ns, track, at)


def pair(points: Table, category: str) -> Flows:
    """The arrows of ``category``.

    Ids are reused in time, so the ends of one id are matched in time order: an end belongs to the latest start that
    is not later, and to the first start when clocks put it before all of them (device clocks run early by some us).
    One start may have several ends.  Points without a partner are counted in ``unmatched``.
    """
    rows = np.flatnonzero(np.asarray(points["category"] == category)) if len(points) else np.zeros(0, dtype=np.int64)
    ids, at, track = points["id"][rows], points["start_ns"][rows], points["track"][rows]
    finish = points["finish"][rows]
    order = np.lexsort((at, ids))
    ids, at, track, finish = ids[order], at[order], track[order], finish[order]
    starts, ends = np.flatnonzero(~finish), np.flatnonzero(finish)
    if not len(starts) or not len(ends):
        none = np.zeros(0, dtype=np.int64)
        return Flows(none, none, none, none, len(rows))
    # Position among the starts of the last one that sorts before each end; the first of the same id when there is none.
    before = np.searchsorted(starts, ends) - 1
    same = (before >= 0) & (ids[starts[np.maximum(before, 0)]] == ids[ends])
    after = np.minimum(before + 1, len(starts) - 1)
    partner = np.where(same, np.maximum(before, 0), after)
    known = ids[starts[partner]] == ids[ends]
    source = starts[partner[known]]
    used = np.zeros(len(ids), dtype=bool)
    used[source] = True
    unmatched = int((~known).sum()) + len(starts) - int(used.sum())
    return Flows(track[source], at[source], track[ends[known]], at[ends[known]], unmatched)


def _exact(lane: Ints, when: Ints, track: Ints, at: Ints) -> Ints:
    """Position in (lane, when) of each (track, at); the last of equal ones, -1 for none and for lost times."""
    found = np.full(len(at), -1, dtype=np.int64)
    for number in few(lane):
        have = np.flatnonzero(lane == number)
        have = have[np.argsort(when[have], kind="stable")]
        asked = np.flatnonzero(track == number)
        index = np.searchsorted(when[have], at[asked], side="right") - 1
        hit = (index >= 0) & (at[asked] >= 0) & (when[have[np.maximum(index, 0)]] == at[asked])
        found[asked[hit]] = have[index[hit]]
    return found
