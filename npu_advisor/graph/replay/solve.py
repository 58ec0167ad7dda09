"""The least solution of the constraints, for many columns of edge weights at once.

``t[n]`` is the largest ``t[src] + w`` over the edges into n; a node without any keeps its recorded time.  Along a
chain of nodes that is ``cumsum(w) + maximum.accumulate(release - cumsum(w))``, so a pass takes a few numpy calls per
level (:mod:`npu_advisor.graph.replay.lanes`), whatever the number of nodes in it and of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.replay.arrays import DROPPED, LONG_AGO
from npu_advisor.graph.replay.lanes import Chains, Levels, chains_of, levels_of, stable
from npu_advisor.graph.replay.order import places, topological

# Weights (edges times columns) that are worked on at once: 8 MB an array, but no fewer columns than repay a pass.
AT_ONCE, FEWEST = 1 << 20, 3


class _Layout(NamedTuple):
    """Chains and levels of the nodes and of the origin, node number ``len(rec)`` at time 0.

    ``loose`` are nodes that may lose all their edges: an edge from the origin, numbered behind all others, then holds
    them at their recorded time. ``source`` and ``target`` are positions in ``chains.order`` by such an edge.
    """

    chains: Chains
    levels: Levels
    loose: Ints
    source: Ints
    target: Ints


class Solver:
    """Edges ``src`` -> ``dst`` between nodes recorded at ``rec``, ready for any number of solutions.

    ``rank`` orders the edges by how gladly they are taken as part of a chain; it changes the speed only.
    """

    def __init__(self, rec: Ints, src: Ints, dst: Ints, rank: Ints | None = None) -> None:
        self._rec, self._src, self._dst = rec, src, dst
        self._place = places(topological(rec, src, dst))
        self._preferred = np.arange(len(src)) if rank is None else stable(rank)
        self._into = np.bincount(dst, minlength=len(rec))
        self._optional: Mask = np.zeros(len(src), dtype=bool)
        self._layout: _Layout | None = None

    def may_drop(self, edges: Ints) -> None:
        """Say in advance which edges some column of weights drops: that spares a new layout later."""
        if not self._optional[edges].all():
            self._optional[edges] = True
            self._layout = None

    def solve(self, w: Ints, rec: Ints | None = None) -> Ints:
        """Times of all nodes for edge weights ``w``; ``rec`` replaces the times of nodes without incoming edges."""
        (times,) = self.solutions([w], rec)
        return times

    def solutions(self, columns: Iterable[Ints], rec: Ints | None = None) -> Iterator[Ints]:
        """As ``solve``, for each of ``columns`` of weights."""
        for order, found in self._along_chains(columns, rec):
            times = np.empty(len(order), dtype=np.int64)
            times[order] = found
            yield times[:-1]

    def ends(self, columns: Iterable[Ints], rec: Ints | None = None) -> list[int]:
        """The latest time of any node, for each of ``columns`` of weights."""
        return [int(found.max()) for _, found in self._along_chains(columns, rec)]

    def _along_chains(self, columns: Iterable[Ints], rec: Ints | None) -> Iterator[tuple[Ints, Ints]]:
        """Nodes (the origin too) and their times, for each of ``columns``."""
        some = iter(columns)
        while chunk := list(islice(some, max(FEWEST, AT_ONCE // max(len(self._src), 1)))):
            yield from self._chunk(chunk, self._rec if rec is None else rec)

    def _chunk(self, columns: list[Ints], rec: Ints) -> Iterator[tuple[Ints, Ints]]:
        dropped = [np.flatnonzero(w <= DROPPED // 2) for w in columns]
        faded = [np.flatnonzero((w <= LONG_AGO) & (w > DROPPED // 2)) for w in columns]
        # Longer than any path: what a source gives that never binds need not lie further back.
        reach = 1 + int(np.abs(rec).max(initial=0))
        reach += max(_total(w, np.concatenate(unbound)) for w, *unbound in zip(columns, dropped, faded, strict=True))
        # Further than any two times, or sums along chains, can lie apart.
        far = 4 * reach * (1 + max(map(len, faded)))
        chains, levels, loose, source, target = self._laid_out(dropped, far)
        apart = far * (levels.stretch[levels.target] - levels.stretch[levels.source])
        crossing = np.flatnonzero(levels.edge >= 0)
        edge = levels.edge[crossing]
        source, target = source[edge], target[edge]
        first = np.flatnonzero(chains.edge < 0)
        along, reduced = [], np.repeat(apart[:, np.newaxis], len(columns), axis=1)
        for column, gone in enumerate(dropped):
            weight = np.concatenate((columns[column], self._held(gone, loose, rec, far)))
            columns[column] = gone
            weight[faded[column]] = -reach
            weight[gone] = -far
            run = weight[chains.edge]
            run[first] = 0
            run = run.cumsum()
            along.append(run)
            reduced[crossing, column] += weight[edge] + run[source] - run[target]
        times = _pass(levels, reduced)
        order = places(levels.keys)
        for column, run in enumerate(along):
            key = times[order, column] - far * levels.stretch[order]
            run += key[chains.of]
            yield chains.order, run

    def _held(self, gone: Ints, loose: Ints, rec: Ints, far: int) -> Ints:
        """Weights of the edges from the origin: they hold the nodes that no other edge does."""
        left = self._into - np.bincount(self._dst[gone], minlength=len(rec))
        return np.where(left[loose] == 0, rec[loose], -far)

    def _laid_out(self, dropped: list[Ints], far: int) -> _Layout:
        """The layout in which none of the ``dropped`` edges is part of a chain."""
        for gone in dropped:
            self.may_drop(gone)
        layout = self._layout
        if layout is None or int(layout.levels.stretch.max()) * far >> 61:
            layout = self._layout = self._lay_out(max(1, (1 << 60) // far))
        return layout

    def _lay_out(self, widest: int) -> _Layout:
        size, solid = len(self._rec), np.flatnonzero(~self._optional)
        loose = np.flatnonzero(np.bincount(self._dst[solid], minlength=size) == 0)
        src = np.concatenate((self._src, np.full(len(loose), size)))
        dst = np.concatenate((self._dst, loose))
        place = np.append(self._place + 1, 0)
        chains = chains_of(place, src, dst, self._preferred[~self._optional[self._preferred]])
        levels = levels_of(place, src, dst, chains, widest)
        spot = places(chains.order)
        return _Layout(chains, levels, loose, spot[src], spot[dst])


def _total(w: Ints, gone: Ints) -> int:
    """The sum of all weights but the dropped ones, without their signs."""
    size = np.abs(w)
    size[gone] = 0
    return int(size.sum())


def _pass(levels: Levels, weight: Ints) -> Ints:
    """The largest source plus weight into every key, or its predecessor on the stretch if that is larger."""
    times = np.zeros((len(levels.keys), weight.shape[1]), dtype=np.int64)
    first = np.searchsorted(levels.target, np.arange(len(levels.keys)))
    nodes, edges = levels.node_bounds, levels.edge_bounds
    for number in range(1, len(nodes) - 1):
        low, high, one, end = nodes[number], nodes[number + 1], edges[number], edges[number + 1]
        reached = times.take(levels.source[one:end], axis=0)
        reached += weight[one:end]
        if end - one > high - low:
            reached = np.maximum.reduceat(reached, first[low:high] - one, axis=0)
        np.maximum.accumulate(reached, axis=0, out=times[low:high])
    return times
