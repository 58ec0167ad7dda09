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
from npu_advisor.model.profile import Profile


class Nesting:
    """The forest of the events of a table.

    ``parent`` is a row position or -1; ``depth`` counts ancestors; ``pre`` numbers rows so that everything under
    row i has ``pre[i] < pre <= last[i]``.
    """

    def __init__(self, track: Ints, start: Ints, end: Ints) -> None:
        self.track, self.start, self.end = track, start, end
        # Equal starts: the longer event is the parent.
        self._order: Ints = np.lexsort((-end, start, track)).astype(np.int64)
        self.parent: Ints = np.full(len(start), -1, dtype=np.int64)
        self.depth: Ints = np.zeros(len(start), dtype=np.int64)
        self.pre: Ints = np.empty(len(start), dtype=np.int64)
        self.pre[self._order] = np.arange(len(start))
        self.last: Ints = self.pre.copy()
        self._lanes: dict[int, tuple[int, int]] = {}
        for lane, low, high in _runs(track[self._order]):
            self._lanes[lane] = (low, high)
            self._nest(low, high)

    def _nest(self, low: int, high: int) -> None:
        rows = self._order[low:high]
        starts, ends = self.start[rows].tolist(), self.end[rows].tolist()
        parent, depth = [-1] * len(starts), [0] * len(starts)
        last = list(range(len(starts)))
        open_: list[int] = []
        for i, begin in enumerate(starts):
            until = ends[i]
            while open_:
                end = ends[open_[-1]]
                if end > begin and (end >= until or 2 * (end - begin) >= until - begin):
                    break
                last[open_.pop()] = i - 1
            if open_:
                parent[i], depth[i] = open_[-1], len(open_)
            open_.append(i)
        for i in open_:
            last[i] = len(starts) - 1
        above = np.asarray(parent, dtype=np.int64)
        self.parent[rows] = np.where(above >= 0, rows[above], -1)
        self.depth[rows] = depth
        self.last[rows] = np.asarray(last, dtype=np.int64) + low

    def innermost(self, track: Ints, at: Ints) -> Ints:
        """Row of the innermost event of ``track`` that is open at each time ``at`` (-1: lost); -1 where none is."""
        found = np.full(len(at), -1, dtype=np.int64)
        for lane in np.unique(track):
            if int(lane) not in self._lanes:
                continue
            low, high = self._lanes[int(lane)]
            asked = np.flatnonzero(track == lane)
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
        out = values.copy()
        for depth in range(1, int(self.depth.max(initial=0)) + 1):
            rows = np.flatnonzero((self.depth == depth) & (out < 0))
            out[rows] = out[self.parent[rows]]
        return out


def nesting_of(profile: Profile, name: str) -> Nesting:
    """The forest of a timed table of ``profile``, made once."""
    key = f"nesting.{name}"
    if key not in profile.cache:
        table = profile.table(name)
        profile.cache[key] = Nesting(table["track"], table["start_ns"], table["end_ns"])
    tree = profile.cache[key]
    assert isinstance(tree, Nesting)
    return tree


def _runs(sorted_values: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """(value, low, high) of each run of equal values."""
    if not len(sorted_values):
        return
    borders = np.flatnonzero(np.diff(sorted_values)) + 1
    lows = np.concatenate(([0], borders))
    highs = np.concatenate((borders, [len(sorted_values)]))
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        yield int(sorted_values[low]), low, high
