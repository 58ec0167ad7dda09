"""The critical path of a step: what holds its end where it is, stretch by stretch back to its start.

Every node of the calibrated graph is held by one edge, the one that binds. Followed back from the end of a step, these
edges tile the step without gap or overlap, so the parts of a path add up to the step:

================ =====================================================================================
host             work of a host thread: operators, and the Python between them
input            the part of it inside the DataLoader
dispatch         the task queue: Enqueue to Dequeue, the Dequeue itself, launch to start on the device
compute          kernels
copy             copies, with the staging of pageable memory before them
communication    collectives moving data
waiting_for_rank collectives waiting for another rank
sync             blocking calls: their own cost, and what passes from the end of their cause to their return
stream_gap       between two tasks of a stream, and event tasks
anchor           stretches that are held in place although nothing recorded explains them
================ =====================================================================================

A path stays on its rank. Where a collective of several ranks was held up by another one, the wait is one stretch, and
the path goes on from this rank's own arrival: what the other rank did meanwhile is on that rank's path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np

from npu_advisor.base.heap import give_back
from npu_advisor.base.intervals import Ints, Spans, clip, empty, intersect, subtract, union
from npu_advisor.base.terms import PathPart
from npu_advisor.graph.idle import DATA_OPS
from npu_advisor.graph.replay.arrays import (
    CALL,
    COLLECTIVE,
    DEPTH,
    FORK,
    HOST,
    KINDS,
    LANE,
    LAUNCH,
    QUEUE,
    STREAM,
    SYNC,
    SYNC_FREE,
    TASK,
    Numbers,
)
from npu_advisor.graph.replay.build import Graph, RankGraph
from npu_advisor.graph.replay.gates import Calibrated, held, open_on, parents, walk
from npu_advisor.graph.replay.host import main_thread
from npu_advisor.graph.replay.tasks import COMM, COPY, KERNEL, OTHER
from npu_advisor.model.profile import Profile

PARTS = get_args(PathPart)
_HOST, _INPUT, _DISPATCH, _COMPUTE, _COPY, _COMMUNICATION, _WAITING, _SYNC, _GAP, _ANCHOR = range(len(PARTS))
# Host work of the main thread, until it is known whether it was the DataLoader's.
_MAIN = len(PARTS)
_OF_EDGE = {HOST: _HOST, FORK: _HOST, SYNC: _SYNC, SYNC_FREE: _SYNC} | dict.fromkeys(
    (QUEUE, LANE, CALL, LAUNCH, DEPTH), _DISPATCH
)
_OF_TASK = {KERNEL: _COMPUTE, COPY: _COPY, COMM: _COMMUNICATION}
# A host thread's own silence is its work, known or not; other anchors are not explained by their kind of edge.
_OWN = (HOST, FORK)


# Row of ``steps``, and from when until when (ns since the epoch).
Windows = list[tuple[int, int, int]]
# Steps less than this share of a step apart follow each other: the loop's own work lies between their marks.
_NEAR = 0.05


class StepPath(NamedTuple):
    """The path of one step (row of ``steps``): disjoint stretches by part, in ns since the epoch."""

    step: int
    parts: dict[str, Spans]

    def within(self, low: int, high: int) -> dict[str, int]:
        """ns of each part inside ``[low, high)``; parts without any are left out."""
        lengths = {part: clip(spans, low, high).total for part, spans in self.parts.items()}
        return {part: ns for part, ns in lengths.items() if ns}

    def lengths(self) -> dict[str, int]:
        """ns of each part of the whole step."""
        return {part: spans.total for part, spans in self.parts.items() if spans.total}


def step_paths(graph: Graph, calibrated: Calibrated, waits: Sequence[Spans]) -> list[list[StepPath]]:
    """By rank (position in the graph) and step row: the step's path.

    ``waits`` is by rank when its collectives waited for other ranks, as far as that was recorded (a union, ns since
    the epoch); what the other ranks of the graph tell is added to it.
    """
    return _paths(graph, calibrated, waits, _each_step)


def run_paths(graph: Graph, calibrated: Calibrated, waits: Sequence[Spans]) -> list[list[StepPath]]:
    """By rank: the path through each stretch of steps that follow each other; ``step`` is the first one's row.

    A step's own path ends with the step. Where host and device are a step apart, what held the end of one step says
    nothing of the next one: only the path through all of them counts each cause as often as it held up the run.
    """
    return _paths(graph, calibrated, waits, _stretches)


def _each_step(profile: Profile) -> Windows:
    steps = profile.table("steps")
    return list(zip(range(len(steps)), steps["start_ns"].tolist(), steps["end_ns"].tolist(), strict=True))


def _stretches(profile: Profile) -> Windows:
    found: Windows = []
    for row, start, end in sorted(_each_step(profile), key=lambda window: window[1]):
        if found and start - found[-1][2] <= _NEAR * (end - start):
            found[-1] = (found[-1][0], found[-1][1], end)
        else:
            found.append((row, start, end))
    return found


def _paths(
    graph: Graph, calibrated: Calibrated, waits: Sequence[Spans], windows: Callable[[Profile], Windows]
) -> list[list[StepPath]]:
    parent = parents(graph, calibrated)
    for rank in graph.ranks:
        joined = np.array(list(rank.transit), dtype=np.int64)
        parent[rank.device.task_end[joined]] = rank.device.task_start[joined]
    found = []
    for number, (rank, told) in enumerate(zip(graph.ranks, waits, strict=True)):
        found.append(_rank_paths(graph, calibrated, number, parent, waiting(rank, told), windows(rank.profile)))
        give_back()
    return found


def waiting(rank: RankGraph, told: Spans) -> Spans:
    """When collectives of a rank waited for others: as it was recorded (``told``), and as long as those that were
    joined across ranks had not begun to move data."""
    late = _joined(rank)
    return union(np.concatenate((told.start, late.start)), np.concatenate((told.end, late.end)))


def _joined(rank: RankGraph) -> Spans:
    tasks = np.array(list(rank.transit), dtype=np.int64)
    moving = np.array(list(rank.transit.values()), dtype=np.int64)
    return union(rank.tasks.start[tasks], rank.tasks.end[tasks] - moving)


def _rank_paths(
    graph: Graph, calibrated: Calibrated, number: int, parent: Ints, waits: Spans, windows: Windows
) -> list[StepPath]:
    rank, rec = graph.ranks[number], calibrated.rec
    mine = np.flatnonzero(graph.net.rank == number)
    mine = mine[np.argsort(rec[mine], kind="stable")]
    when = rec[mine]
    tasks, loading, open_ops = _task_parts(graph, rank), _loading(rank), open_on(graph)
    main = rank.host.lanes.get(main_thread(rank.profile), -1)
    found = []
    for row, start, end in windows:
        low, high = start - graph.origin, end - graph.origin
        last = int(np.searchsorted(when, high, side="right")) - 1
        nodes = mine[:0] if last < 0 else walk(parent, rec, int(mine[last]), low)
        pieces = _pieces(graph, calibrated, nodes, tasks, main, open_ops)
        spans = _tiled(pieces, low, high, graph.origin)
        # Only the main thread loads: what another one did meanwhile is no input.
        loads, waited = clip(loading, start, end), clip(waits, start, end)
        rest = subtract(spans[_MAIN], loads)
        spans[_INPUT] = intersect(spans[_MAIN], loads)
        spans[_HOST] = union(*(np.concatenate(pair) for pair in zip(spans[_HOST], rest, strict=True)))
        spans[_WAITING] = intersect(spans[_COMMUNICATION], waited)
        spans[_COMMUNICATION] = subtract(spans[_COMMUNICATION], waited)
        found.append(StepPath(row, {part: spans[index] for index, part in enumerate(PARTS)}))
    return found


def _task_parts(graph: Graph, rank: RankGraph) -> tuple[Numbers, Numbers]:
    """By node: the part of a path that the task makes which starts there, and the one which ends there; else a gap."""
    own = np.array([_OF_TASK.get(kind, _GAP) for kind in range(OTHER + 1)], dtype=np.int8)[rank.tasks.kind]
    starts, ends = (np.full(len(graph.net.rec), _GAP, dtype=np.int8) for _ in range(2))
    starts[rank.device.task_start] = own
    ends[rank.device.task_end] = own
    return starts, ends


def _loading(rank: RankGraph) -> Spans:
    """When the main thread was inside the DataLoader, in ns since the epoch."""
    ops = rank.profile.table("ops")
    named = np.array([str(name).startswith(DATA_OPS) for name in ops["name"].categories] + [False], dtype=bool)
    rows = np.flatnonzero(named[ops["name"].codes] & (ops["track"] == main_thread(rank.profile)))
    return union(ops["start_ns"][rows], ops["end_ns"][rows])


class _Pieces(NamedTuple):
    """Stretches of a path from its end backwards: from when until when (ns since the origin), and which part."""

    low: Ints
    high: Ints
    part: Ints


def _pieces(
    graph: Graph,
    calibrated: Calibrated,
    nodes: Ints,
    tasks: tuple[Numbers, Numbers],
    main: int,
    open_ops: Mapping[int, Spans],
) -> _Pieces:
    """What lies between the nodes of a chain, which run backwards; host work on the lane ``main`` is ``_MAIN``."""
    net, rec = graph.net, calibrated.rec
    edges, high, low = calibrated.binding[nodes[:-1]], rec[nodes[:-1]], rec[nodes[1:]]
    starting, ending = tasks
    kind = net.kind[edges]
    part = np.array([_OF_EDGE.get(one, _GAP) for one in range(len(KINDS))], dtype=np.int64)[kind]
    part[(kind == HOST) & (net.lane[edges] == main)] = _MAIN
    runs = (kind == TASK) | (kind == COLLECTIVE)
    part[runs] = ending[net.dst[edges[runs]]]
    # A task tied to the start of one that still ran: until then the step waited for that one.
    beside = kind == STREAM
    part[beside] = starting[net.src[edges[beside]]]
    anchor = np.minimum(held(graph, calibrated, edges, open_ops), np.maximum(high - low, 0))
    anchor[np.isin(kind, _OWN)] = 0
    staged = (kind == LAUNCH) & (anchor > 0) & (starting[net.dst[edges]] == _COPY)
    part[staged], anchor[staged] = _COPY, 0
    # On the way back the anchored end of a stretch comes first.
    split = high - anchor
    columns = ((split, low), (high, split), (np.full(len(part), _ANCHOR), part))
    return _Pieces(*(np.stack(pair, axis=1).ravel() for pair in columns))


def _tiled(pieces: _Pieces, low: int, high: int, origin: int) -> dict[int, Spans]:
    """The pieces inside a step as unions by part, in ns since the epoch; what they leave open is anchored.

    Clocks differ, so a task may begin before its launch: each piece reaches no further than where the path already is.
    """
    at = np.minimum.accumulate(np.concatenate((pieces.high[:1], pieces.low)))
    at = np.clip(at, low, high) + origin
    start, end = at[1:], at[:-1]
    parts = dict.fromkeys((*range(len(PARTS)), _MAIN), empty())
    for part in np.flatnonzero(np.bincount(pieces.part)).tolist():
        parts[part] = union(start[pieces.part == part], end[pieces.part == part])
    step = Spans(np.array([low + origin]), np.array([high + origin]))
    rest = subtract(step, union(start, end))
    parts[_ANCHOR] = union(*(np.concatenate(pair) for pair in zip(parts[_ANCHOR], rest, strict=True)))
    return parts
