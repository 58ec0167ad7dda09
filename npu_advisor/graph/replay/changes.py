"""Sets of edge weights that differ from each other in some edges, and what they make of one block of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.replay.arrays import DROPPED, LONG_AGO, Numbers
from npu_advisor.graph.replay.lanes import HOLD, Block


class Change(NamedTuple):
    """Other weights of some edges, on top of those of the change at position ``on``, which is itself on top of none
    (-1: of the plain weights).

    ``parts`` are (edges, weights), each edge in one of them; changes may share them.
    """

    parts: Sequence[tuple[Numbers, Ints]]
    on: int = -1


class Runs(NamedTuple):
    """Sums of weights along the chains of a block, up to each of its nodes (and 0 behind the last one).

    ``run`` has a row for the plain weights and one for each set that has others there; ``of`` is the row of each set.
    ``peaks`` are the positions of nodes that may be later than the next one of their chain.
    """

    run: Ints
    of: Ints
    peaks: Ints

    def at(self, positions: Numbers) -> Ints:
        """The sums up to some nodes, by node and set."""
        return self.run[:, positions].T[:, self.of]


class _Part(NamedTuple):
    """A part of changes by block: what is of block n lies between two of the ``bounds``; ``bound`` is its own."""

    edge: Numbers
    w: Ints
    bounds: list[int]
    bound: Ints


def _part(edge: Numbers, w: Ints, home: npt.NDArray[np.uint16], blocks: int) -> _Part:
    own = home[edge]
    if (own[1:] < own[:-1]).any():
        order = np.argsort(own, kind="stable")
        edge, w, own = edge[order], w[order], own[order]
    return _Part(edge, w, np.searchsorted(own, np.arange(blocks + 1, dtype=np.uint16)).tolist(), _bound(w))


class _Changed(NamedTuple):
    """What changes in a block: edges, the set that each belongs to, the new weights, which of the sets are on others
    (they come last)."""

    edge: Numbers
    set: Numbers
    w: Ints
    upper: Mask

    def where(self, chosen: Mask | slice) -> _Changed:
        return _Changed(self.edge[chosen], self.set[chosen], self.w[chosen], self.upper[chosen])


class Sets:
    """Plain weights of all edges and ``changes`` to them, each a set of weights.

    ``home`` is the block that each edge leads into, of so many ``blocks``.
    """

    def __init__(
        self, w: Ints, changes: Sequence[Change], rec: Ints, home: npt.NDArray[np.uint16], blocks: int
    ) -> None:
        self._plain, self._rec = w, rec
        self._on = np.array([one.on for one in changes], dtype=np.int64)
        self._upper = np.flatnonzero(self._on >= 0)
        parts = {id(part): _part(*part, home, blocks) for one in changes for part in one.parts}
        self._parts = [[parts[id(part)] for part in one.parts] for one in changes]
        bound = [np.sum([part.bound for part in own], axis=0, initial=0) for own in self._parts]
        # Of a set on another one, both together.
        bound = [own + (bound[one.on] if one.on >= 0 else 0) for own, one in zip(bound, changes, strict=True)]
        total, faded = _bound(w) + np.max(bound, axis=0, initial=0)
        # Longer than any path: what a source gives that never binds need not lie further back.
        self._reach = 1 + int(np.abs(rec).max(initial=0)) + int(total)
        # Further than any two times, or sums along chains, can lie apart.
        self.far = 4 * self._reach * (1 + int(faded))

    def _bounded(self, w: Ints) -> Ints:
        if w.min(initial=0) > LONG_AGO:
            return w
        return np.where(drops(w), -self.far, np.where(fades(w), -self._reach, w))

    def of_block(self, number: int, block: Block, spot: Numbers) -> tuple[Runs, Ints]:
        """The sums along chains, and what every edge into a key adds to the time of its source less such sums, by edge
        and set. ``spot`` is scratch space, a number for each edge of the graph."""
        changed = self._changed(number)
        crossing = np.flatnonzero(block.edge >= 0)
        chained = np.flatnonzero(block.along >= 0)
        spot[block.along[chained]] = chained
        spot[block.edge[crossing]] = ~crossing
        at = spot[changed.edge]
        runs = self._runs(block, changed.where(at >= 0), at[at >= 0])
        weight = np.zeros(len(block.edge), dtype=np.int64)
        weight[crossing] = self._bounded(self._plain[block.edge[crossing]])
        found = np.repeat(weight[:, np.newaxis], len(self._on), axis=1)
        self._put(found, ~at[at < 0], changed.where(at < 0))
        if len(block.loose):
            held = np.flatnonzero(block.edge <= HOLD)
            found[held] = self._held(block, changed)[HOLD - block.edge[held]]
        run = runs.run[:, block.leaves] - runs.run[:, block.enters]
        run += self.far * block.apart.astype(np.int64)
        found += run.T[:, runs.of]
        return runs, found

    def _changed(self, number: int) -> _Changed:
        """What changes in a block, in sets on others last."""
        order = np.argsort(self._on >= 0, kind="stable")
        owned = [(one, part, *part.bounds[number : number + 2]) for one in order.tolist() for part in self._parts[one]]
        some = [(one, part.edge[low:high], part.w[low:high]) for one, part, low, high in owned if low < high]
        of = np.repeat([one for one, _, _ in some], [len(edge) for _, edge, _ in some]).astype(np.int64)
        edge = np.concatenate([np.zeros(0, np.int32), *(edge for _, edge, _ in some)])
        w = np.concatenate([np.zeros(0, np.int64), *(w for _, _, w in some)])
        return _Changed(edge, of, self._bounded(w), self._on[of] >= 0)

    def _put(self, out: Ints, at: Ints, changed: _Changed) -> None:
        """Enter by row and set what changes; sets on others begin with what those have."""
        lower = ~changed.upper
        out[at[lower], changed.set[lower]] = changed.w[lower]
        out[:, self._upper] = out[:, self._on[self._upper]]
        out[at[changed.upper], changed.set[changed.upper]] = changed.w[changed.upper]

    def _runs(self, block: Block, changed: _Changed, at: Ints) -> Runs:
        """The sums along chains; ``at`` are the positions of what changes there."""
        size = len(block.nodes)
        begins = block.along < 0
        weight = np.zeros(size, dtype=np.int64)
        weight[~begins] = self._bounded(self._plain[block.along[~begins]])
        active = np.zeros(len(self._on), dtype=bool)
        active[changed.set] = True
        active[self._upper] |= active[self._on[self._upper]]
        mine = np.flatnonzero(active)
        run = np.empty((1 + len(mine), size + 1), dtype=np.int64)
        run[:, :-1] = weight
        of = np.zeros(len(active), dtype=np.int64)
        of[mine] = np.arange(1, 1 + len(mine))
        lower = ~changed.upper
        run[of[changed.set[lower]], at[lower]] = changed.w[lower]
        upper = self._upper[active[self._upper]]
        run[of[upper]] = run[of[self._on[upper]]]
        run[of[changed.set[changed.upper]], at[changed.upper]] = changed.w[changed.upper]
        falls = begins | (weight < 0)
        falls[at[changed.w < 0]] = True
        np.cumsum(run[:, :-1], axis=1, out=run[:, :-1])
        run[:, -1] = 0
        return Runs(run, of, np.append(np.flatnonzero(falls)[1:] - 1, size - 1))

    def _held(self, block: Block, changed: _Changed) -> Ints:
        """By loose node and set the weight of the edge from the origin: it holds a node that no other edge does."""
        edge, node = block.bonds
        order = np.argsort(edge)
        edge, node = edge[order], node[order]
        kept = np.repeat(1 - drops(self._plain[edge])[:, np.newaxis], len(self._on), axis=1)
        spot = np.searchsorted(edge, changed.edge)
        mine = np.append(edge, -1)[spot] == changed.edge
        alive = changed.where(mine)
        self._put(kept, spot[mine], alive._replace(w=(alive.w > -self.far).astype(np.int64)))
        left = np.zeros((len(block.loose), len(self._on)), dtype=np.int64)
        np.add.at(left, node, kept)
        return np.where(left == 0, self._rec[block.loose][:, np.newaxis], -self.far)


def drops(w: Ints) -> Mask:
    """Which edges have no weight at all."""
    return w <= DROPPED // 2


def fades(w: Ints) -> Mask:
    """Which edges never bind."""
    return (w <= LONG_AGO) & ~drops(w)


def _bound(w: Ints) -> Ints:
    """The sum of all weights but those that bind nothing, without their signs, and how many of these never bind."""
    lowest = w.min(initial=0)
    if lowest > LONG_AGO:
        return np.array([w.sum() if lowest == 0 else np.abs(w).sum(), 0])
    odd = w <= LONG_AGO
    return np.array([np.abs(w[~odd]).sum(), fades(w[odd]).sum()])
