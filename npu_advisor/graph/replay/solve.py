"""The least solution of the constraints: one pass over the nodes in topological order.

``t[n]`` is the largest ``t[src] + w`` over the edges into n; a node without any keeps its recorded time.  The pass is
a plain loop over lists; where numba is importable the same loop is compiled.
"""

from __future__ import annotations

import heapq
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.replay.arrays import DROPPED

# Compiling takes a second or two, as long as some passes over this many nodes.
WORTH_COMPILING = 50_000
Pass = Callable[[Any, Any, Any, Any], Any]


class CycleError(ValueError):
    """The edges form a cycle; ``nodes`` are those that lie on one or behind one."""

    def __init__(self, nodes: Ints) -> None:
        super().__init__(f"{len(nodes)} nodes lie on a cycle")
        self.nodes = nodes


class Solver:
    """Edges sorted by the topological position of their ends, ready for any number of solutions."""

    def __init__(self, rec: Ints, src: Ints, dst: Ints, *, compiled: bool = True) -> None:
        self._order = topological(rec, src, dst)
        place = np.empty(len(rec), dtype=np.int64)
        place[self._order] = np.arange(len(rec))
        self._edge = np.argsort(place[dst], kind="stable")
        counts = np.bincount(place[dst], minlength=len(rec))
        self._offset = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self._source = place[src][self._edge]
        self._first = rec[self._order]
        self._compiled = _compiled() if compiled and len(rec) >= WORTH_COMPILING else None
        self._lists: tuple[list[int], list[int], list[int]] | None = None

    def solve(self, w: Ints, rec: Ints | None = None) -> Ints:
        """Times of all nodes for edge weights ``w``; ``rec`` replaces the times of nodes without incoming edges."""
        first = self._first.copy() if rec is None else rec[self._order]
        weights = w[self._edge]
        if self._compiled is not None:
            found = self._compiled(self._offset, self._source, weights, first)
        else:
            if self._lists is None:
                self._lists = (self._offset.tolist(), self._source.tolist(), self._first.tolist())
            offset, source, _ = self._lists
            found = np.array(one_pass(offset, source, weights.tolist(), first.tolist()), dtype=np.int64)
        times = np.empty(len(self._order), dtype=np.int64)
        times[self._order] = found
        return times


def one_pass(offset: list[int], source: list[int], weight: list[int], first: list[int]) -> list[int]:
    """The pass itself, over plain lists. A node whose edges are all dropped keeps its recorded time."""
    times = first
    low = 0
    floor = DROPPED // 2
    for node in range(len(first)):
        high = offset[node + 1]
        if high > low:
            best = times[source[low]] + weight[low]
            for edge in range(low + 1, high):
                other = times[source[edge]] + weight[edge]
                if other > best:
                    best = other
            if best > floor:
                times[node] = best
            low = high
    return times


@cache
def _compiled() -> Pass | None:
    """The same loop compiled by numba, None where that is not installed."""
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        return None
    compiled: Pass = numba.njit(one_pass)
    return compiled


def topological(rec: Ints, src: Ints, dst: Ints) -> Ints:
    """Kahn's order of the nodes, earliest recorded first among those that are free. CycleError where none exists."""
    size = len(rec)
    order = np.argsort(src, kind="stable")
    offset = np.concatenate(([0], np.cumsum(np.bincount(src, minlength=size)))).tolist()
    target, waiting = dst[order].tolist(), np.bincount(dst, minlength=size).tolist()
    when = rec.tolist()
    free = [(when[node], node) for node in np.flatnonzero(np.asarray(waiting) == 0).tolist()]
    heapq.heapify(free)
    found = []
    while free:
        node = heapq.heappop(free)[1]
        found.append(node)
        for edge in range(offset[node], offset[node + 1]):
            reached = target[edge]
            waiting[reached] -= 1
            if not waiting[reached]:
                heapq.heappush(free, (when[reached], reached))
    if len(found) < size:
        raise CycleError(np.flatnonzero(np.asarray(waiting) > 0))
    return np.array(found, dtype=np.int64)
