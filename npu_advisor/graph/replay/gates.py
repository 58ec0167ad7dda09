"""How far the replay can be trusted: calibration, strict self-replay, and the anchor audit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, covered, union
from npu_advisor.graph.replay.arrays import DROPPED, FORK, HOST, LAUNCH, SYNC_FREE
from npu_advisor.graph.replay.build import Graph
from npu_advisor.graph.replay.stats import US

SILENT_HOST, UNEXPLAINED_SYNC, RESIDUAL, LATENCY = 300 * US, 100 * US, 50 * US, 50 * US
_WRAPPERS = ("ProfilerStep#",)


class Calibrated(NamedTuple):
    """Weights with which the unedited graph gives back the recording exactly, and what was added to each edge."""

    w: Ints
    rec: Ints
    residual: Ints
    binding: Ints


def calibrate(graph: Graph) -> Calibrated:
    """Lower edges that exceed the recording; add what a node is later than all its edges to the one that binds.

    The recorded start of an event wait is no measurement: it becomes what its edges say and gets no residual.
    """
    net = graph.net
    w, rec = net.w.copy(), net.rec.copy()
    kept = w > DROPPED // 2
    rows = np.flatnonzero(kept)
    at = rec[net.src] + w
    if len(graph.elastic_start):
        elastic = np.zeros(len(rec), dtype=bool)
        elastic[graph.elastic_start] = True
        into = rows[elastic[net.dst[rows]]]
        lowest = np.full(len(rec), DROPPED)
        np.maximum.at(lowest, net.dst[into], at[into])
        known = elastic & (lowest > DROPPED)
        rec[known] = np.minimum(rec[known], lowest[known])
        at = rec[net.src] + w
    excess = np.maximum(at - rec[net.dst], 0)
    w[rows] -= excess[rows]
    at = rec[net.src] + w
    best = np.full(len(rec), DROPPED)
    np.maximum.at(best, net.dst[rows], at[rows])
    binding = np.full(len(rec), -1, dtype=np.int64)
    tight = rows[at[rows] == best[net.dst[rows]]]
    binding[net.dst[tight[::-1]]] = tight[::-1]
    residual = np.zeros(len(w), dtype=np.int64)
    nodes = np.flatnonzero(binding >= 0)
    residual[binding[nodes]] = rec[nodes] - best[nodes]
    return Calibrated(w + residual, rec, residual, binding)


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


def anchored(graph: Graph, calibrated: Calibrated, steps: list[tuple[int, int]]) -> list[float]:
    """Share of each window that the binding chain holds only by an anchor.

    ``steps`` are windows (ns since the origin) that end on the chain. Anchors are silences of a host thread that no op
    covers, syncs without a cause, residuals, launch latencies, and what lies before a node without any edge.
    """
    spans = _anchors(graph, calibrated)
    shares = []
    for start, end in steps:
        inside = sum(max(0, min(high, end) - max(low, start)) for low, high in spans)
        shares.append(inside / (end - start) if end > start else 0.0)
    return shares


def _anchors(graph: Graph, calibrated: Calibrated) -> list[tuple[int, int]]:
    net, rec = graph.net, calibrated.rec
    covers = {}
    for rank in graph.ranks:
        ops = rank.profile.table("ops")
        inner = np.array([not str(name).startswith(_WRAPPERS) for name in ops["name"].categories] + [True])
        for thread, lane in rank.host.lanes.items():
            rows = np.flatnonzero((ops["track"] == thread) & inner[ops["name"].codes])
            covers[lane] = union(ops["start_ns"][rows] - graph.origin, ops["end_ns"][rows] - graph.origin)
    node = int(np.argmax(rec))
    spans = []
    src, kind, lane = net.src, net.kind, net.lane
    seen = 0
    while seen <= len(rec):
        seen += 1
        edge = int(calibrated.binding[node])
        if edge < 0:
            spans.append((0, int(rec[node])) if not _is_first_host(graph, node) else (0, 0))
            break
        low, high = int(rec[src[edge]]), int(rec[node])
        held = 0
        if kind[edge] in (HOST, FORK):
            free = high - low
            if kind[edge] == HOST:
                free -= int(covered(np.array([low]), np.array([high]), covers[int(lane[edge])])[0])
            held = free if free > SILENT_HOST else 0
        elif kind[edge] == SYNC_FREE:
            held = high - low if high - low > UNEXPLAINED_SYNC else 0
        elif kind[edge] == LAUNCH:
            held = high - low if high - low > LATENCY else 0
        elif calibrated.residual[edge] > RESIDUAL:
            held = int(calibrated.residual[edge])
        if held > 0:
            spans.append((high - held, high))
        node = int(src[edge])
    return spans


def _is_first_host(graph: Graph, node: int) -> bool:
    """Whether a node is the first on a host thread: there the recording begins."""
    return any(rank.host.into.get(node) == -1 for rank in graph.ranks)
