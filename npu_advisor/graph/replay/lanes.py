"""The graph cut into stretches that numpy can time at once.

Nearly every node follows one other on its lane, so the nodes fall into *chains*. Along a chain times are a running
sum, and only the *keys* need a look: nodes where another edge comes in, or where a chain begins. Keys that can be
timed as soon as the ones of the levels before are known form a *level*: a level is as many stretches of chains as run
beside each other between two moments at which they wait for one another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.replay.order import places


class Chains(NamedTuple):
    """Nodes in ``order`` chain by chain; ``edge`` leads to each of them along its chain (-1: a chain begins there).

    ``key`` are the positions of the keys, ``of`` is the last key at or before each position.
    """

    order: Ints
    edge: Ints
    key: Ints
    of: Ints


class Levels(NamedTuple):
    """Keys in the order in which they are timed, by level and along chains.

    ``keys`` are their numbers, ``stretch`` counts the stretches of a level; ``edge`` (-1: from the chain's key before)
    and ``source`` (place of the source's key) are the edges into them, ``target`` the place that each leads to.
    ``node_bounds`` and ``edge_bounds`` are where each level begins.
    """

    keys: Ints
    stretch: Ints
    edge: Ints
    source: Ints
    target: Ints
    node_bounds: list[int]
    edge_bounds: list[int]


def chains_of(place: Ints, src: Ints, dst: Ints, chainable: Ints) -> Chains:
    """Chains along the edges ``chainable`` (the best first), through nodes at the topological ``place``."""
    size = len(place)
    chosen = _first_of_each(_first_of_each(chainable, dst, size), src, size)
    into = np.full(size, -1, dtype=np.int64)
    into[dst[chosen]] = chosen
    head = np.arange(size)
    head[dst[chosen]] = src[chosen]
    while not np.array_equal(further := head[head], head):
        head = further
    in_time = places(place)
    order = in_time[stable(place[head[in_time]])]
    crossed = np.bincount(dst, minlength=size) > (into >= 0)
    is_key = (crossed | (into < 0))[order]
    key = np.flatnonzero(is_key)
    return Chains(order, into[order], key, np.cumsum(is_key) - 1)


def _first_of_each(edges: Ints, node: Ints, size: int) -> Ints:
    """Of the ``edges`` that share a ``node``, the first."""
    first = np.full(size, -1, dtype=np.int64)
    first[node[edges[::-1]]] = edges[::-1]
    kept: Ints = edges[first[node[edges]] == edges]
    return kept


def stable(values: Ints) -> Ints:
    """The order of whole numbers from 0, equal ones as they come: 16 bits at a time, which numpy sorts by counting."""
    order: Ints = np.argsort(values.astype(np.uint16), kind="stable")
    highest, shift = int(values.max(initial=0)), 16
    while highest >> shift:
        digit = (values[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
        shift += 16
    return order


def levels_of(place: Ints, src: Ints, dst: Ints, chains: Chains, widest: int) -> Levels:
    """The levels of the keys of ``chains``, of at most ``widest`` stretches each."""
    spot = places(chains.order)
    count = len(chains.key)
    crossing = np.ones(len(src), dtype=bool)
    crossing[chains.edge[chains.edge >= 0]] = False
    edge = np.flatnonzero(crossing)
    source, target = chains.of[spot[src[edge]]], chains.of[spot[dst[edge]]]
    begins = chains.edge[chains.key] < 0
    when = place[chains.order[chains.key]]
    level = _depths(when, np.flatnonzero(~begins), source, target)
    order = stable(level)
    ordered = level[order]
    # A stretch goes on where its chain does, within one level.
    broken = begins[order]
    broken[1:] |= (ordered[1:] != ordered[:-1]) | (order[1:] != order[:-1] + 1)
    first_of_level = _starts(ordered)
    number = np.cumsum(broken)
    stretch: Ints = number - np.repeat(number[first_of_level], np.diff(np.append(first_of_level, count)))
    at = places(order)
    later = np.flatnonzero(broken & ~begins[order])
    edge = np.concatenate((edge, np.full(len(later), -1)))
    source = np.concatenate((at[source], at[order[later] - 1]))
    target = np.concatenate((at[target], later))
    into = stable(target)
    target = target[into]
    wide = np.flatnonzero(broken & (stretch > 0) & (stretch % widest == 0))
    bounds = np.unique(np.concatenate((first_of_level, wide, [count])))
    edges = np.searchsorted(target, bounds)
    return Levels(order, stretch % widest, edge[into], source[into], target, bounds.tolist(), edges.tolist())


def _depths(when: Ints, follows: Ints, source: Ints, target: Ints) -> Ints:
    """How often each key's time has passed from one chain to another: the level it belongs to."""
    before = np.concatenate((follows - 1, source))
    behind = np.concatenate((follows, target))
    more = np.repeat((0, 1), (len(follows), len(source)))
    order = stable(when[behind])
    depth = [0] * len(when)
    for one, other, step in zip(before[order].tolist(), behind[order].tolist(), more[order].tolist(), strict=True):
        reached = depth[one] + step
        if reached > depth[other]:
            depth[other] = reached
    return np.array(depth, dtype=np.int64)


def _starts(values: Ints) -> Ints:
    """Where runs of equal values begin."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(values) else np.zeros(0, dtype=np.int64)
