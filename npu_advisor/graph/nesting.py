"""Which interval lies in which, per track: parents, pre-order numbers, and the innermost one at a time.

Real profilers write events that end a little after the one they started in, so strict containment would lose them.
An event is the child of the innermost event of its own track that is open when it starts and covers at least half of
it; one that only just overlaps its predecessor is that one's sibling.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints, Mask, distinct
from npu_advisor.base.whole import narrow
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

# How far up an end may be carried: real events are written with their ends a little off, at one or two levels.
_ROUNDS = 8
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
        """Nest one lane; only the stretches of it whose events overlap without nesting are walked event by event."""
        rows = self._order[low:high]
        lane = _Lane(self.start[rows], self.end[rows])
        crossing = lane.crossing()
        for begin, until in _stretches(lane.depth == 0, crossing) if crossing.any() else ():
            _walk(lane, begin, until)
        self.parent[rows] = np.where(lane.parent >= 0, rows[lane.parent], -1)
        self.depth[rows] = lane.depth
        self.last[rows] = lane.last + low

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


class _Lane:
    """The events of one lane in order, nested as if none broke the rule: ``parent`` and ``last`` are positions in the
    lane, ``last`` that of the last event under each."""

    def __init__(self, start: Ints, end: Ints) -> None:
        self.start, self.end = start, end
        # An event that outlasts the one it lies in holds that one open: whoever starts meanwhile lies in both.
        self._until = end.copy()
        for _ in range(_ROUNDS):
            self._nest()
            over = self._beyond() & ~self._breaking()
            if not over.any():
                break
            np.maximum.at(self._until, self.parent[over], self._until[over])

    def _nest(self) -> None:
        start, end = self.start, self._until
        timed = self.end > start
        # Open at a start are the events before it, less those that have ended; one that takes no time never is.
        ended = np.searchsorted(np.sort(end[timed], kind="stable"), start, side="right")
        untimed: Ints = np.cumsum(~timed) - ~timed
        self.depth: Ints = np.arange(len(start)) - ended - untimed
        self.parent = _parents(self.depth)
        self.last: Ints = np.maximum(np.searchsorted(start, end, side="left") - 1, np.arange(len(start)))

    def _beyond(self) -> Mask:
        """Which events end after the one they lie in."""
        beyond: Mask = (self.parent >= 0) & (self._until > self._until[self.parent])
        return beyond

    def _breaking(self) -> Mask:
        """Which events outlast the one they lie in, which does not cover half of them: there they do not lie."""
        end = self.end[self.parent]
        breaking: Mask = (end < self.end) & (2 * (end - self.start) < self.end - self.start)
        return (self.parent >= 0) & breaking

    def crossing(self) -> Mask:
        """Which events are not where they are to be."""
        return self._beyond() | self._breaking()


def _parents(depth: Ints) -> Ints:
    """The latest position before each that is one less deep, -1 for none."""
    parent = np.full(len(depth), -1, dtype=np.int64)
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1)
    for above, level in pairwise(levels):
        parent[level] = above[np.searchsorted(above, level) - 1]
    return parent


def _stretches(outermost: Mask, marked: Mask) -> Iterator[tuple[int, int]]:
    """(begin, end) of each outermost event and all under it in which something is marked."""
    number = np.cumsum(outermost) - 1
    borders = np.append(np.flatnonzero(outermost), len(outermost))
    for stretch in distinct(number[marked]).tolist():
        yield int(borders[stretch]), int(borders[stretch + 1])


def _walk(lane: _Lane, begin: int, until: int) -> None:
    """Nest the events from ``begin`` to ``until`` of a lane one after the other."""
    starts, ends = lane.start[begin:until].tolist(), lane.end[begin:until].tolist()
    parent, depth = [-1] * len(starts), [0] * len(starts)
    last = list(range(len(starts)))
    open_: list[int] = []
    for i, at in enumerate(starts):
        while open_:
            end = ends[open_[-1]]
            if end > at and (end >= ends[i] or 2 * (end - at) >= ends[i] - at):
                break
            last[open_.pop()] = i - 1
        if open_:
            parent[i], depth[i] = open_[-1], len(open_)
        open_.append(i)
    for i in open_:
        last[i] = len(starts) - 1
    above = np.asarray(parent, dtype=np.int64)
    lane.parent[begin:until] = np.where(above >= 0, above + begin, -1)
    lane.depth[begin:until] = depth
    lane.last[begin:until] = np.asarray(last, dtype=np.int64) + begin


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
