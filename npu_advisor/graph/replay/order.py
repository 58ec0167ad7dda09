"""A topological order of the nodes: nearly that of the recorded times."""

from __future__ import annotations

import heapq

import numpy as np

from npu_advisor.base.intervals import Ints, union
from npu_advisor.graph.replay.arrays import Numbers


class CycleError(ValueError):
    """The edges form a cycle; ``nodes`` are those that lie on one or, near it, behind one."""

    def __init__(self, nodes: Ints) -> None:
        super().__init__(f"{len(nodes)} nodes lie on a cycle")
        self.nodes = nodes


def topological(rec: Numbers, src: Numbers, dst: Numbers) -> Ints:
    """The nodes so that every edge leads forward, earliest recorded first where that is free. CycleError if none is.

    Causes come before effects in time too, all but a few: only the stretches between the ends of an edge that leads
    back in time are ordered by hand.
    """
    order = np.argsort(rec, kind="stable")
    place = places(order)
    back = np.flatnonzero(place[src] >= place[dst])
    if not len(back):
        return order
    stretches = union(place[dst[back]], place[src[back]] + 1)
    stretch = np.full(len(rec), -1, dtype=np.int64)
    for number, (low, high) in enumerate(zip(stretches.start.tolist(), stretches.end.tolist(), strict=True)):
        stretch[order[low:high]] = number
    inside = np.flatnonzero((stretch[src] >= 0) & (stretch[src] == stretch[dst]))
    spots = np.flatnonzero(stretch[order] >= 0)
    order[spots] = order[_kahn(place, order[spots], src[inside], dst[inside])]
    return order


def places(order: Numbers) -> Ints:
    """The position of every node in ``order``."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


def _kahn(place: Ints, nodes: Ints, src: Numbers, dst: Numbers) -> Ints:
    """Places of ``nodes`` in topological order, the first place first among those that are free."""
    after: dict[int, list[int]] = {}
    waiting = dict.fromkeys(place[nodes].tolist(), 0)
    for before, behind in zip(place[src].tolist(), place[dst].tolist(), strict=True):
        after.setdefault(before, []).append(behind)
        waiting[behind] += 1
    free = [node for node, count in waiting.items() if not count]
    heapq.heapify(free)
    found = []
    while free:
        node = heapq.heappop(free)
        found.append(node)
        for behind in after.get(node, ()):
            waiting[behind] -= 1
            if not waiting[behind]:
                heapq.heappush(free, behind)
    if len(found) < len(nodes):
        raise CycleError(np.setdiff1d(place[nodes], found))
    return np.array(found, dtype=np.int64)
