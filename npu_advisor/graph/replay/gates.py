"""How far the replay can be trusted: calibration, strict self-replay, and the anchor audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Spans, covered, union
from npu_advisor.graph.named import STEP_MARK, starting
from npu_advisor.graph.replay.arrays import DROPPED, FORK, HOST, KINDS, LAUNCH, SYNC_FREE, Net, Numbers
from npu_advisor.graph.replay.build import Graph
from npu_advisor.graph.replay.stats import US

# What an edge of a kind may hold before it counts as an anchor; of other kinds only their residual can.
_LEAST = {HOST: 300 * US, FORK: 300 * US, SYNC_FREE: 100 * US, LAUNCH: 50 * US}
RESIDUAL = 50 * US


class Calibrated(NamedTuple):
    """Weights with which the unedited graph gives back the recording ``rec`` exactly, and the edge that binds each
    node, -1 for none."""

    w: Ints
    rec: Ints
    binding: Numbers


def calibrate(graph: Graph) -> Calibrated:
    """Lower edges that exceed the recording; add what a node is later than all its edges to the one that binds.

    The recorded start of an event wait is no measurement: it becomes what its edges say and gets no residual.
    """
    net = graph.net
    rec = net.rec
    if len(graph.elastic_start):
        elastic = np.zeros(len(rec), dtype=bool)
        elastic[graph.elastic_start] = True
        into = np.flatnonzero(elastic[net.dst] & (net.w > DROPPED // 2))
        lowest = np.full(len(rec), DROPPED)
        np.maximum.at(lowest, net.dst[into], rec[net.src[into]] + net.w[into])
        known = elastic & (lowest > DROPPED)
        rec = rec.copy()
        rec[known] = np.minimum(rec[known], lowest[known])
    w = _lowered(net, rec, slice(None))
    at = rec[net.src] + w
    best = np.full(len(rec), DROPPED)
    np.maximum.at(best, net.dst, at)
    # Dropped edges bind nobody.
    tight = np.flatnonzero((at == best[net.dst]) & (w > DROPPED // 2))
    binding = np.full(len(rec), -1, dtype=np.int32)
    binding[net.dst[tight[::-1]]] = tight[::-1]
    nodes = np.flatnonzero(binding >= 0)
    w[binding[nodes]] += rec[nodes] - best[nodes]
    return Calibrated(w, rec, binding)


def _lowered(net: Net, rec: Ints, edges: Numbers | slice) -> Ints:
    """Weights of edges that do not exceed the recording."""
    lowered: Ints = np.minimum(net.w[edges], rec[net.dst[edges]] - rec[net.src[edges]])
    return lowered


def step_errors(graph: Graph, strict: Ints) -> list[list[tuple[int, int, float]]]:
    """Per rank and step row: recorded ns, replayed ns, signed error of the strict replay."""
    net, found = graph.net, []
    for number, rank in enumerate(graph.ranks):
        steps = rank.profile.table("steps")
        mine = np.flatnonzero(net.rank == number)
        order = mine[np.argsort(net.rec[mine], kind="stable")]
        rec, replayed = net.rec[order], np.maximum.accumulate(strict[order])
        rows = []
        for start, end in zip(
            (steps["start_ns"] - graph.origin).tolist(), (steps["end_ns"] - graph.origin).tolist(), strict=True
        ):
            shift = [_shift(rec, replayed, at) for at in (start, end)]
            length = end - start
            rows.append((length, length + shift[1] - shift[0], (shift[1] - shift[0]) / length if length else 0.0))
        found.append(rows)
    return found


def _shift(rec: Ints, replayed: Ints, at: int) -> int:
    """How much later than recorded everything up to a time is over."""
    index = int(np.searchsorted(rec, at, side="right")) - 1
    return int(replayed[index] - rec[index]) if index >= 0 else 0


def anchored(anchors: list[tuple[int, int]], windows: list[tuple[int, int]]) -> list[float]:
    """Share of each window (ns since the origin) that lies under ``anchors``."""
    shares = []
    for start, end in windows:
        inside = sum(max(0, min(high, end) - max(low, start)) for low, high in anchors)
        shares.append(inside / (end - start) if end > start else 0.0)
    return shares


def anchors(graph: Graph, calibrated: Calibrated) -> list[tuple[int, int]]:
    """Stretches (ns since the origin) that hold the end of the recording in place and would not move with any cause.

    Walks the binding chain back from the end. Anchors are silences of a host thread that no op covers, syncs that
    nothing explains, launch latencies, residuals, and what lies before a node without any edge.
    """
    rec = calibrated.rec
    if not len(rec):
        return []
    nodes = walk(parents(graph, calibrated), rec, int(np.argmax(rec)), int(rec.min()) - 1)
    edges = calibrated.binding[nodes[:-1]]
    length = held(graph, calibrated, edges, open_on(graph))
    rows = np.flatnonzero(length)
    high = rec[graph.net.dst[edges[rows]]]
    spans = list(zip((high - length[rows]).tolist(), high.tolist(), strict=True))
    first = int(nodes[-1])
    if not any(rank.host.into.begins(first) for rank in graph.ranks):
        spans.append((0, int(rec[first])))
    return spans


def parents(graph: Graph, calibrated: Calibrated) -> Ints:
    """By node: the node at the other end of its binding edge, -1 for a node that nothing binds."""
    found = np.full(len(calibrated.binding), -1, dtype=np.int64)
    bound = np.flatnonzero(calibrated.binding >= 0)
    found[bound] = graph.net.src[calibrated.binding[bound]]
    return found


def walk(parent: Ints, rec: Ints, node: int, low: int) -> Ints:
    """The nodes of the binding chain from ``node`` back to the first one at or before ``low`` (included), or to one
    that nothing binds."""
    # Read one by one, views are as quick as lists and take no room.
    above, at = parent.data, rec.data
    nodes = [node]
    while above[node] >= 0 and at[node] > low:
        node = above[node]
        nodes.append(node)
    return np.array(nodes, dtype=np.int64)


def held(graph: Graph, calibrated: Calibrated, edges: Numbers, open_ops: Mapping[int, Spans]) -> Ints:
    """How much of each edge's recorded length only an anchor holds, in ns; 0 where it is too little to count.

    ``open_ops`` is what :func:`open_on` gives.
    """
    net, rec = graph.net, calibrated.rec
    kind = net.kind[edges]
    length = rec[net.dst[edges]] - rec[net.src[edges]]
    least = np.array([_LEAST.get(one, RESIDUAL) for one in range(len(KINDS))], dtype=np.int64)[kind]
    whole = np.isin(kind, list(_LEAST))
    residual = calibrated.w[edges] - _lowered(net, rec, edges)
    found = np.where(whole, length, residual)
    silent = np.flatnonzero((kind == HOST) & (length > least))
    for lane in np.unique(net.lane[edges[silent]]).tolist():
        rows = silent[net.lane[edges[silent]] == lane]
        low, high = (rec[end[edges[rows]]] for end in (net.src, net.dst))
        found[rows] -= covered(low, high, open_ops[lane])
    return np.where(found > least, found, 0)


def open_on(graph: Graph) -> dict[int, Spans]:
    """When each host lane had an op open, step marks aside, or the garbage collector paused it."""
    found = {}
    for rank in graph.ranks:
        ops = rank.profile.table("ops")
        inner = ~starting(ops, STEP_MARK)
        pauses = rank.profile.table("gcs")
        for thread, lane in rank.host.lanes.items():
            rows = np.flatnonzero((ops["track"] == thread) & inner)
            start, end = (np.concatenate((ops[name][rows], pauses[name])) for name in ("start_ns", "end_ns"))
            found[lane] = union(start - graph.origin, end - graph.origin)
    return found
