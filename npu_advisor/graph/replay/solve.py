"""The least solution of the constraints, for many sets of edge weights at once.

``t[n]`` is the largest ``t[src] + w`` over the edges into n; a node without any keeps its recorded time.  Along a
chain of nodes that is ``cumsum(w) + maximum.accumulate(release - cumsum(w))``, so a block of the graph takes a few
numpy calls per level (:mod:`npu_advisor.graph.replay.lanes`), whatever the number of nodes in it and of sets.  Of the
blocks that are done only the times that later ones need are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.replay.arrays import DROPPED, Numbers
from npu_advisor.graph.replay.changes import Change, Runs, Sets, drops
from npu_advisor.graph.replay.lanes import Block, Inner, lay_out
from npu_advisor.graph.replay.order import places, topological

# Nodes of a block, and sets of weights that are worked on at once: a few MB an array.
NODES, SETS = 1 << 13, 128


class Homes(NamedTuple):
    """The block that each edge leads into; the edges by that block, and where those of each begin in ``into``; the
    last block that needs the time of each node."""

    home: npt.NDArray[np.uint16]
    into: Numbers
    bounds: Ints
    last: npt.NDArray[np.uint16]


class Solver:
    """Edges ``src`` -> ``dst`` between nodes recorded at ``rec``, ready for any number of solutions.

    ``rank`` orders the edges by how gladly they are taken as part of a chain; it changes the speed only.
    """

    def __init__(self, rec: Ints, src: Numbers, dst: Numbers, rank: Numbers | None = None) -> None:
        self._rec, self._src, self._dst = rec, src, dst
        # Edges of the beginning; others may be taken in behind them.
        self._own = len(src)
        self._rank = np.zeros(len(src), dtype=np.int8) if rank is None else rank.astype(np.int8)
        self._optional: Mask = np.zeros(len(src), dtype=bool)
        self._widest = 1 << 40
        self._ordered(topological(rec, src, dst))

    def _ordered(self, order: Numbers) -> None:
        """Cut ``order``, that of causes, into blocks."""
        self._order, self._place = order.astype(np.int32), places(order).astype(np.int32)
        self._bounds = np.append(np.arange(0, len(order), NODES), len(order))
        self._blocks: list[Block | None] = [None] * (len(self._bounds) - 1)
        self._homes: Homes | None = None

    @property
    def home(self) -> npt.NDArray[np.uint16]:
        """The block that each edge leads into."""
        return self.link().home

    def link(self) -> Homes:
        """Sort the edges by the block that they lead into, unless that is done."""
        if self._homes is None:
            last = (self._place // NODES).astype(np.uint16)
            home = last[self._dst]
            into = np.argsort(home, kind="stable").astype(np.int32)
            bounds = np.searchsorted(home[into], np.arange(len(self._bounds), dtype=np.uint16))
            far = np.flatnonzero(last[self._src] != home)
            np.maximum.at(last, self._src[far], home[far])
            self._homes = Homes(home, into, bounds, last)
        return self._homes

    def extend(self, src: Ints, dst: Ints, rank: int) -> None:
        """Take in more edges, which weights may drop, numbered behind those of the beginning; any that were taken in
        before go. CycleError, and no change, if there is no solution with them."""
        before = self._dst[self._own :]
        ends = [
            np.append(end[: self._own], more.astype(np.int32)) for end, more in ((self._src, src), (self._dst, dst))
        ]
        fits = (self._place[src] < self._place[dst]).all()
        order = None if fits else topological(self._place, *ends)
        self._src, self._dst = ends
        self._rank = np.append(self._rank[: self._own], np.full(len(src), rank, dtype=np.int8))
        self._optional = np.append(self._optional[: self._own], np.ones(len(src), dtype=bool))
        if order is not None:
            self._ordered(order)
            return
        for number in np.unique(self._place[np.append(before, dst)] // NODES).tolist():
            self._blocks[number] = None
        self._homes = None

    def may_drop(self, edges: Ints) -> None:
        """Say in advance which edges some set of weights drops."""
        new = edges[~self._optional[edges]]
        if not len(new):
            return
        self._optional[new] = True
        # Edges may go without a trace where they are part of no chain, and lead into a node that has more than them.
        needed = np.zeros(len(self._optional), dtype=bool)
        for block in self._blocks:
            if block is not None:
                needed[block.along[block.along >= 0]] = True
        solid = np.zeros(len(self._rec), dtype=bool)
        solid[self._dst[~self._optional]] = True
        for number in np.unique(self.home[new[needed[new] | ~solid[self._dst[new]]]]).tolist():
            self._blocks[number] = None

    def _edges_into(self, number: int) -> Numbers:
        homes = self.link()
        return homes.into[slice(*homes.bounds[number : number + 2])]

    def solve(self, w: Ints, rec: Ints | None = None) -> Ints:
        """Times of all nodes for edge weights ``w``; ``rec`` replaces the times of nodes without incoming edges.

        The last edges may be left out: they are dropped.
        """
        times = np.empty(len(self._rec), dtype=np.int64)
        for block, runs, table in self._timed(w, [Change([])], self._rec if rec is None else rec):
            times[block.nodes] = table[block.row, 0] + runs.run[0, :-1]
        return times

    def ends(self, w: Ints, changes: Sequence[Change], rec: Ints | None = None) -> list[int]:
        """The latest time of any node, for each of ``changes`` to the weights ``w``."""
        found: list[int] = []
        for first in range(0, len(changes), SETS):
            some = changes[first : first + SETS]
            own = range(first, first + len(some))
            extra = sorted({one.on for one in some} - {-1, *own})
            spot = {-1: -1} | {number: at for at, number in enumerate((*own, *extra))}
            mine = [one._replace(on=spot[one.on]) for one in (*some, *(changes[number] for number in extra))]
            latest = np.zeros(len(mine), dtype=np.int64)
            for block, runs, table in self._timed(w, mine, self._rec if rec is None else rec):
                at = runs.peaks
                times = table[block.row[at]] + runs.at(at)
                np.maximum(latest, times.max(axis=0), out=latest)
            found += latest[: len(some)].tolist()
        return found

    def _timed(self, w: Ints, changes: Sequence[Change], rec: Ints) -> Iterator[tuple[Block, Runs, Ints]]:
        """Block by block the ways along its chains, and the times of its keys by row and set of weights less these."""
        w = np.append(w, np.full(len(self._src) - len(w), DROPPED))
        self.may_drop(np.concatenate([np.flatnonzero(drops(w)), *_dropped(changes)]))
        sets = Sets(w, changes, rec, self.home, len(self._blocks))
        spot = np.empty(len(self._src), dtype=np.int32)
        alive, times = np.zeros(0, dtype=np.int32), np.zeros((0, len(changes)), dtype=np.int64)
        where, last = np.empty(len(rec), dtype=np.int32), self.link().last
        for number in range(len(self._blocks)):
            block = self._laid_out(number, sets.far)
            where[alive] = np.arange(len(alive))
            runs, weight = sets.of_block(number, block, spot)
            table = np.zeros((len(block.lift), len(changes)), dtype=np.int64)
            table[1 : 1 + len(block.imports)] = times[where[block.imports]]
            _pass(block, table, weight)
            table -= sets.far * block.lift[:, np.newaxis].astype(np.int64)
            yield block, runs, table
            kept, needed = last[alive] > number, np.flatnonzero(last[block.nodes] > number)
            alive = np.concatenate((alive[kept], block.nodes[needed]))
            times = np.concatenate((times[kept], table[block.row[needed]] + runs.at(needed)))

    def _laid_out(self, number: int, far: int) -> Block:
        block = self._blocks[number]
        if block is None or int(block.lift.max(initial=0)) * far >> 61:
            self._widest = min(self._widest, max(1, (1 << 60) // far))
            low, high = self._bounds[number : number + 2].tolist()
            edge = self._edges_into(number)
            src, dst = (self._place[end[edge]].astype(np.int64) - low for end in (self._src, self._dst))
            inner = Inner(edge, src, dst, self._rank[edge], self._optional[edge])
            block = self._blocks[number] = lay_out(self._order, low, high, inner, self._widest)
        return block


def _pass(block: Block, table: Ints, weight: Ints) -> None:
    """Fill in, level by level, the largest source plus weight into every key, or its predecessor on the stretch if
    that is larger."""
    base = 1 + len(block.imports)
    for low, high, one, end in block.levels:
        reached = table.take(block.source[one:end], axis=0)
        reached += weight[one:end]
        if end - one > high - low:
            reached = np.maximum.reduceat(reached, block.first[low - base : high - base], axis=0)
        np.maximum.accumulate(reached, axis=0, out=table[low:high])


def _dropped(changes: Sequence[Change]) -> list[Numbers]:
    """The edges that each part of changes drops."""
    parts = {id(part): part for one in changes for part in one.parts}
    return [edge[drops(w)] for edge, w in parts.values()]
