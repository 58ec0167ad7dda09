"""Which interval lies in which, per track: parents, pre-order numbers, and the innermost one at a time.

Real profilers write events that end a little after the one they started in, so strict containment would lose them.
An event is the child of the innermost event of its own track that is open when it starts and covers at least half of
it; one that only just overlaps its predecessor is that one's sibling.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints
from npu_advisor.base.whole import narrow
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

# Holds any row, in half the room of the int64 that tables give out.
ROW = np.int32


class Nesting:
    """The forest of the events of a table.

    ``parent`` is a row position or -1; ``depth`` counts ancestors; ``pre`` numbers rows so that everything under
    row i has ``pre[i] < pre <= last[i]``.
    """

    def __init__(self, track: Ints, start: Ints, end: Ints) -> None:
        self.start, self.end = start, end
        self._order = _in_order(track, start, end).astype(ROW)
        count = len(start)
        self.parent, self.depth = np.full(count, -1, dtype=ROW), np.zeros(count, dtype=ROW)
        self.pre = np.empty(count, dtype=ROW)
        self.pre[self._order] = np.arange(count, dtype=ROW)
        self.last = self.pre.copy()
        self._lanes: dict[int, tuple[int, int]] = {}
        for lane, low, high in _runs(track[self._order]):
            self._lanes[lane] = (low, high)
            self._nest(low, high)

    def _nest(self, low: int, high: int) -> None:
        """Nest one lane."""
        rows = self._order[low:high]
        start, end = self.start[rows], self.end[rows]
        depth = _depths_if_whole(start, end)
        parent, last = _kin(depth)
        under = end[parent]
        if not ((parent < 0) | (start < under) & (end <= under)).all():
            depth = _depths(start, end)
            parent, last = _kin(depth)
        self.parent[rows] = np.where(parent >= 0, rows[parent], -1)
        self.depth[rows] = depth
        self.last[rows] = last + low

    def innermost(self, track: Ints, at: Ints) -> Ints:
        """Row of the innermost event of ``track`` that is open at each time ``at`` (-1: lost); -1 where none is."""
        found = np.full(len(at), -1, dtype=np.int64)
        for lane, (low, high) in self._lanes.items():
            asked = np.flatnonzero(track == lane)
            if not len(asked):
                continue
            rows = self._order[low:high]
            index = np.searchsorted(self.start[rows], at[asked], side="right") - 1
            found[asked] = np.where((index >= 0) & (at[asked] >= 0), rows[np.maximum(index, 0)], -1)
        return self._climb(found, at)

    def _climb(self, rows: Ints, at: Ints) -> Ints:
        """Go up from ``rows`` until the event is still open at ``at``."""
        while True:
            closed = (
                np.flatnonzero((rows >= 0) & (self.end[rows] <= at)) if len(self.end) else np.zeros(0, dtype=np.int64)
            )
            if not len(closed):
                return rows
            rows[closed] = self.parent[rows[closed]]

    def inherit(self, values: Ints) -> Ints:
        """``values`` (-1 missing) with gaps filled from the nearest ancestor that has one."""
        out, above = values.copy(), self.parent.copy()
        while len(rows := np.flatnonzero((out < 0) & (above >= 0))):
            # Whoever was asked in vain has asked further up by now.
            out[rows], above[rows] = out[above[rows]], above[above[rows]]
        return out


def _depths_if_whole(start: Ints, end: Ints) -> Ints:
    """The depth of each event of a lane, if all lie wholly in those that they start in."""
    timed = end > start
    # Open at a start are the events before it, less those that have ended; one that takes no time never is.
    ended = np.searchsorted(np.sort(end[timed], kind="stable"), start, side="right")
    untimed: Ints = np.cumsum(~timed) - ~timed
    return np.arange(len(start)) - ended - untimed


def _depths(start: Ints, end: Ints) -> Ints:
    """The depth of each event of a lane: it lies in the latest one before it that covers half of it, and in all that
    this one lies in. (Whatever began in between ends too early for it.)"""
    enough = start + np.maximum((end - start + 1) // 2, 1)
    # Most lie wholly in the event before them. Only the others are looked at one by one, with what lies so in each.
    heads = np.flatnonzero(np.append(True, (end[:-1] < enough[1:]) | (end[:-1] < end[1:])))
    sizes = np.diff(np.append(heads, len(start)))
    ends, depths = end.tolist(), []
    # Of each event that is open and what lies in it one in the other: the first, the one after the last, the depth.
    open_: list[tuple[int, int, int]] = []
    for head, size, needed in zip(heads.tolist(), sizes.tolist(), enough[heads].tolist(), strict=True):
        while open_ and ends[open_[-1][0]] < needed:
            open_.pop()
        depth = 0
        if open_:
            first, after, depth = open_.pop()
            while ends[after - 1] < needed:
                after -= 1
            open_.append((first, after, depth))
            depth += after - first
        open_.append((head, head + size, depth))
        depths.append(depth)
    return np.repeat(np.array(depths) - heads, sizes) + np.arange(len(start))


def _kin(depth: Ints) -> tuple[Ints, Ints]:
    """Of each event of a lane, as positions in it: the latest before it that is one less deep (-1: none), and the last
    one of those after it that are deeper (itself: none)."""
    parent = np.full(len(depth), -1, dtype=np.int64)
    last = np.empty(len(depth) + 1, dtype=np.int64)
    last[-1] = len(depth) - 1
    by_depth = np.argsort(narrow(depth), kind="stable")
    above = by_depth[:0]
    for level in np.split(by_depth, np.cumsum(np.bincount(depth))[:-1]):
        if len(above):
            parent[level] = above[np.searchsorted(above, level) - 1]
        last[level] = np.minimum(np.append(level[1:] - 1, last[-1]), last[parent[level]])
        above = level
    return parent, last[:-1]


def _in_order(track: Ints, start: Ints, end: Ints) -> Ints:
    """The rows by lane and start. Equal starts: the longer event is the parent."""
    order: Ints = np.argsort(narrow(track), kind="stable")
    lane, begin, until = track[order], start[order], end[order]
    same = (lane[1:] == lane[:-1]) & (begin[1:] == begin[:-1])
    sorted_already = (begin[1:] > begin[:-1]) | (lane[1:] != lane[:-1]) | (same & (until[1:] <= until[:-1]))
    return order if sorted_already.all() else np.lexsort((-end, start, track))


def nesting_of(profile: Profile, name: str) -> Nesting:
    """The forest of a timed table of ``profile``, made once."""
    key = f"nesting.{name}"
    if key not in profile.cache:
        profile.cache[key] = nested(profile.table(name))
    tree = profile.cache[key]
    assert isinstance(tree, Nesting)
    return tree


def nested(table: Table) -> Nesting:
    """The forest of a timed table."""
    return Nesting(table["track"], table["start_ns"], table["end_ns"])


def _runs(sorted_values: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """(value, low, high) of each run of equal values."""
    if not len(sorted_values):
        return
    borders = np.flatnonzero(np.diff(sorted_values)) + 1
    lows = np.concatenate(([0], borders))
    highs = np.concatenate((borders, [len(sorted_values)]))
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        yield int(sorted_values[low]), low, high
