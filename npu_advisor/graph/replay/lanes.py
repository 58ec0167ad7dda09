"""A stretch of the graph laid out so that numpy can time it at once.

A *block* is a run of the order of causes: what it needs from outside comes from blocks before it. Inside, nearly every
node follows one other on its lane, so the nodes fall into *chains*. Along a chain times are a running sum, and only the
*keys* need a look: nodes where another edge comes in, or where a chain begins. Keys that can be timed as soon as the
ones of the levels before are known form a *level*: a level is as many stretches of chains as run beside each other
between two moments at which they wait for one another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints, Mask, distinct
from npu_advisor.graph.replay.arrays import Numbers
from npu_advisor.graph.replay.order import places

# What stands for an edge: the way from the key before on the same chain, and from the origin to the first loose node.
ONWARD, HOLD = -1, -2


class Inner(NamedTuple):
    """The edges into the nodes of a block: their numbers; their ends as positions in the block (below 0: in an earlier
    one); how gladly each is taken as part of a chain, least first; and which of them some weights drop."""

    edge: Numbers
    src: Ints
    dst: Ints
    rank: Numbers
    optional: Mask


class Block(NamedTuple):
    """A block whose times fill a table of rows: the origin at time 0, the ``imports``, and the keys level by level.

    ``nodes`` are the block's chain by chain, ``along`` is the edge into each along its chain (-1: a chain begins
    there), ``row`` that of the last key at or before each.
    ``imports`` are the nodes of earlier blocks that edges come from. ``loose`` are the nodes that may lose all their
    edges ``bonds`` (edge, which of the nodes): an edge from the origin then holds them at their recorded time.

    ``edge`` are the edges into the keys, in the order of these; or ``ONWARD`` or, from the origin to loose node i,
    ``HOLD`` - i. Each leads from a row ``source`` and from a position ``leaves`` to a position ``enters`` in ``nodes``
    (one behind the last: no run counts), and ``apart`` stretches further. ``lift`` counts the stretches of each row;
    ``first`` is the first edge of each key, from where its level begins. ``levels`` are (first row, end, first edge,
    end).
    """

    nodes: Numbers
    along: Numbers
    row: Numbers
    imports: Numbers
    loose: Numbers
    bonds: tuple[Numbers, Numbers]
    edge: Numbers
    source: Numbers
    leaves: Numbers
    enters: Numbers
    apart: Numbers
    lift: Numbers
    first: Numbers
    levels: list[tuple[int, int, int, int]]


class _Ways(NamedTuple):
    """Edges into keys: what stands for each in ``Block.edge``; the number of the key that it comes from (below 0: the
    row of an import or the origin less that of the first key) and its position (behind all nodes for none of them);
    the number of the key that it leads to."""

    number: Ints
    source: Ints
    leaves: Ints
    target: Ints


class _Keys(NamedTuple):
    """Keys by level: their numbers, how many stretches of their level lie before them, which ones begin a stretch, and
    where each level begins and the last one ends."""

    order: Ints
    stretch: Ints
    broken: Mask
    bounds: Ints


def lay_out(order: Numbers, low: int, high: int, inner: Inner, widest: int) -> Block:
    """The block of the nodes ``order[low:high]``, in levels of at most ``widest`` stretches each; ``order`` is that of
    causes."""
    into = _along_chains(high - low, inner)
    nodes = stable(_heads(into, inner.src))
    begins = (into < 0)[nodes]
    starts = np.flatnonzero(begins | (np.bincount(inner.dst, minlength=len(into)) > (into >= 0))[nodes])
    of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(nodes)))
    loose = np.flatnonzero(np.bincount(inner.dst[~inner.optional], minlength=len(into)) == 0)
    imports = distinct(inner.src[inner.src < 0])
    base = 1 + len(imports)

    ways = _crossing(inner, into, places(nodes), of, loose)
    keys = _by_level(nodes[starts], begins[starts], ways, widest)
    at = places(keys.order)
    # Where a chain goes on in another level, its key before is one more source.
    onward = np.flatnonzero(keys.broken & ~begins[starts[keys.order]])
    target = np.concatenate((at[ways.target], onward))
    source = np.where(ways.source >= 0, at[np.maximum(ways.source, 0)], ways.source)
    source = base + np.concatenate((source, at[keys.order[onward] - 1]))
    number = np.concatenate((ways.number, np.full(len(onward), ONWARD)))
    leaves = np.concatenate((ways.leaves, np.full(len(onward), len(nodes))))
    enters = np.where(number == ONWARD, len(nodes), starts[keys.order[target]])
    by = stable(target)
    lift = np.concatenate((np.zeros(base, dtype=np.int64), keys.stretch))
    borders = np.searchsorted(target[by], keys.bounds)
    first = np.searchsorted(target[by], np.arange(len(starts))) - np.repeat(borders[:-1], np.diff(keys.bounds))
    bonds = np.flatnonzero(np.isin(inner.dst, loose))
    return Block(
        nodes=order[low:high][nodes],
        along=np.append(inner.edge, -1)[into[nodes]].astype(np.int32),
        row=_narrow(base + at[of]),
        imports=order[low + imports],
        loose=order[low:high][loose],
        bonds=(inner.edge[bonds], _narrow(np.searchsorted(loose, inner.dst[bonds]))),
        edge=number[by].astype(np.int32),
        source=_narrow(source[by]),
        leaves=_narrow(leaves[by]),
        enters=_narrow(enters[by]),
        apart=_narrow((lift[base + target] - lift[source])[by]),
        lift=_narrow(lift),
        first=_narrow(first),
        levels=list(
            zip(*(side.tolist() for cut in (base + keys.bounds, borders) for side in (cut[:-1], cut[1:])), strict=True)
        ),
    )


def _narrow(values: Ints) -> Numbers:
    """Positions in a block, in as few bytes as hold them."""
    fits = int(values.min(initial=0)) >= -(2**15) and int(values.max(initial=0)) < 2**15
    return values.astype(np.int16 if fits else np.int32)


def _crossing(inner: Inner, into: Ints, spot: Ints, of: Ints, loose: Ints) -> _Ways:
    """The edges that are part of no chain, and those that hold ``loose`` nodes; ``spot`` is the position of each node
    along the chains, ``of`` the key there."""
    rows = np.setdiff1d(np.arange(len(inner.edge)), into[into >= 0], assume_unique=True)
    src, imports = inner.src[rows], distinct(inner.src[inner.src < 0])
    inside, held = src >= 0, np.full(len(loose), -1 - len(imports))
    leaves = np.where(inside, spot[np.maximum(src, 0)], len(spot))
    source = np.where(inside, np.append(of, -1)[leaves], np.searchsorted(imports, src) - len(imports))
    return _Ways(
        number=np.concatenate((inner.edge[rows], HOLD - np.arange(len(loose)))),
        source=np.concatenate((source, held)),
        leaves=np.concatenate((leaves, np.full(len(loose), len(spot)))),
        target=of[spot[np.concatenate((inner.dst[rows], loose))]],
    )


def _along_chains(size: int, inner: Inner) -> Ints:
    """For each node the position of the edge into it along its chain, -1 where one begins."""
    chainable = np.flatnonzero((inner.src >= 0) & ~inner.optional)
    chainable = chainable[np.argsort(inner.rank[chainable], kind="stable")]
    chosen = _first_of_each(_first_of_each(chainable, inner.dst, size), inner.src, size)
    into = np.full(size, -1, dtype=np.int64)
    into[inner.dst[chosen]] = chosen
    return into


def _first_of_each(edges: Ints, node: Ints, size: int) -> Ints:
    """Of the ``edges`` that share a ``node``, the first."""
    first = np.full(size, -1, dtype=np.int64)
    first[node[edges[::-1]]] = edges[::-1]
    kept: Ints = edges[first[node[edges]] == edges]
    return kept


def _heads(into: Ints, src: Ints) -> Ints:
    """For each node the first one of its chain."""
    head = np.where(into >= 0, src[into], np.arange(len(into))) if len(src) else np.arange(len(into))
    while not np.array_equal(further := head[head], head):
        head = further
    return head


def stable(values: npt.NDArray[np.integer[Any]]) -> Ints:
    """The order of whole numbers from 0, equal ones as they come: 16 bits at a time, which numpy sorts by counting."""
    order: Ints = np.argsort(values.astype(np.uint16), kind="stable")
    highest, shift = int(values.max(initial=0)), 16
    while highest >> shift:
        digit = (values[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
        shift += 16
    return order


def _by_level(when: Ints, begins: Mask, ways: _Ways, widest: int) -> _Keys:
    """The keys by level; they come chain by chain, ``when`` is the position of each in the order of causes."""
    level = _depths(when, np.flatnonzero(~begins), ways)
    order = stable(level)
    ordered = level[order]
    # A stretch goes on where its chain does, within one level.
    broken = begins[order]
    broken[1:] |= (ordered[1:] != ordered[:-1]) | (order[1:] != order[:-1] + 1)
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    number = np.cumsum(broken)
    stretch: Ints = number - np.repeat(number[first], np.diff(first, append=len(order)))
    wide = np.flatnonzero(broken & (stretch > 0) & (stretch % widest == 0))
    return _Keys(order, stretch % widest, broken, distinct(np.concatenate((first, wide, [len(order)]))))


def _depths(when: Ints, follows: Ints, ways: _Ways) -> Ints:
    """How often each key's time has passed from one chain to another: the level it belongs to."""
    inside = ways.source >= 0
    before = np.concatenate((follows - 1, ways.source[inside]))
    behind = np.concatenate((follows, ways.target[inside]))
    more = np.repeat((0, 1), (len(follows), len(behind) - len(follows)))
    order = stable(when[behind])
    depth = [0] * len(when)
    for one, other, step in zip(before[order].tolist(), behind[order].tolist(), more[order].tolist(), strict=True):
        reached = depth[one] + step
        if reached > depth[other]:
            depth[other] = reached
    return np.array(depth, dtype=np.int64)
