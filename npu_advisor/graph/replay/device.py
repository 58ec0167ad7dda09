"""The Dequeue lane and the device: pop, launch, stream order, and the event tasks between streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.replay.arrays import CALL, EVENT, LANE, LAUNCH, QUEUE, STREAM, TASK, Builder, Numbers
from npu_advisor.graph.replay.host import HostLanes
from npu_advisor.graph.replay.stats import CLEAR, CLOCKS, US, launch_latency, median, per_class
from npu_advisor.graph.replay.tasks import COMM, COPY, EVENT_WAIT, KERNEL, OTHER, RECORD, Tasks
from npu_advisor.model.profile import Profile

# Rows of one stream overlap by a little where clocks round; beyond this the task ran in parallel.
OVERLAP, OVERLAP_SHARE = 2 * US, 0.1
# Ends and starts that touch may be written down this far apart, the wrong way round.
ROUNDING = 2 * US
# From one Dequeue to the next, and from an Enqueue to its Dequeue, where too few show it.
NEXT_ENTRY, TO_DEQUEUE = 5 * US, 10 * US
# A record releases a wait within this time.
RELEASE = 1500
EXACT = 3 * US
# What lies between two tasks of a stream where too few show it.
USUAL_GAP = 2 * US
# A wait is for one of the records issued last before it.
RECENT = 512


@dataclass
class DeviceLanes:
    """Nodes and edges of one rank's Dequeues (by row) and tasks (by position); -1 where there is none.

    ``gap`` is the edge from the previous Dequeue, ``pop`` the one from the Enqueue, ``calls`` pairs (edge, Dequeue)
    of the rigid edges inside Dequeues; ``launch_edge``, ``stream_edge`` and ``run`` lead to a task's start and end,
    ``previous`` is the task before it on its stream. ``ready`` is when those edges let each task start, as recorded;
    ``latency`` is launch to start of a kernel, ``kernel_gap`` what lies between two queued kernels.
    """

    dequeue_start: Numbers
    dequeue_end: Numbers
    gap: Numbers
    pop: Numbers
    calls: tuple[Numbers, Numbers]
    launch: Numbers
    task_start: Numbers
    task_end: Numbers
    launch_edge: Numbers
    stream_edge: Numbers
    run: Numbers
    previous: Numbers
    ready: Ints
    latency: int = 0
    kernel_gap: int = 0


def build_device(
    builder: Builder, profile: Profile, rank: int, tasks: Tasks, host: HostLanes, lane: int
) -> DeviceLanes:
    """Add the Dequeue lanes (numbered from ``lane``) and the streams of one rank."""
    dequeues = len(profile.table("dequeues"))
    entry = [np.full(dequeues, -1, dtype=np.int32) for _ in range(4)]
    own = [np.full(len(tasks.start), -1, dtype=np.int32) for _ in range(7)]
    calls, ready = (entry[0][:0], entry[0][:0]), np.zeros(len(tasks.start), dtype=np.int64)
    found = DeviceLanes(*entry, calls, *own, ready)  # type: ignore[call-arg, arg-type]
    _dequeues(builder, profile, rank, tasks, host, found, lane)
    _streams(builder, rank, tasks, host, found)
    return found


def _dequeues(
    builder: Builder, profile: Profile, rank: int, tasks: Tasks, host: HostLanes, found: DeviceLanes, lane: int
) -> None:
    """Dequeues with their launches inside, lane by lane."""
    dequeues, enqueues = profile.table("dequeues"), profile.table("enqueues")
    calls = []
    for number, track in enumerate(np.unique(dequeues["track"]).tolist(), lane):
        host.lanes[track] = number
        rows = np.flatnonzero(dequeues["track"] == track)
        rows = rows[np.argsort(dequeues["start_ns"][rows], kind="stable")]
        start, end = dequeues["start_ns"][rows], dequeues["end_ns"][rows].copy()
        end[:-1] = np.minimum(end[:-1], start[1:])
        place = np.full(len(dequeues), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        inside = np.flatnonzero((tasks.dequeue >= 0) & (tasks.launch >= 0))
        inside = inside[place[tasks.dequeue[inside]] >= 0]
        entry = place[tasks.dequeue[inside]]
        at = np.clip(tasks.launch[inside], start[entry], end[entry])
        when = np.concatenate((start, at, end))
        owner = np.concatenate((np.arange(len(rows)), entry, np.arange(len(rows))))
        turn = np.concatenate((np.zeros(len(rows)), np.ones(len(at)), np.full(len(rows), 2))).astype(np.int64)
        issue = np.concatenate((np.zeros(len(rows)), tasks.issue[inside], np.zeros(len(rows)))).astype(np.int64)
        order = np.lexsort((issue, when, turn, owner))
        nodes = builder.nodes(when[order] - builder.origin, rank)
        node_of = np.empty(len(when), dtype=np.int64)
        node_of[order] = nodes
        found.dequeue_start[rows] = node_of[: len(rows)]
        found.launch[inside] = node_of[len(rows) : len(rows) + len(at)]
        found.dequeue_end[rows] = node_of[len(rows) + len(at) :]
        within = np.flatnonzero(owner[order][1:] == owner[order][:-1])
        weight = np.diff(when[order])[within]
        made = builder.link(nodes[within], nodes[within + 1], weight, CALL, number)
        calls.append((made, rows[owner[order][within]]))
        _pops(builder, rows, start, end, dequeues["enqueue"][rows], enqueues["end_ns"], host, found)
    if calls:
        edge, row = (np.concatenate(column).astype(np.int32) for column in zip(*calls, strict=True))
        found.calls = edge, row


def _pops(
    builder: Builder, rows: Ints, start: Ints, end: Ints, push: Ints, pushed: Ints, host: HostLanes, found: DeviceLanes
) -> None:
    """Edges into each Dequeue's start: from its Enqueue and from the Dequeue before it."""
    known = push >= 0
    ready = np.where(known, pushed[np.maximum(push, 0)] if len(pushed) else 0, 0)
    gap = start[1:] - end[:-1]
    waiting = known[1:] & (ready[1:] + CLEAR <= end[:-1])
    usual = int(per_class(gap, waiting, np.zeros(len(gap), dtype=np.int64), NEXT_ENTRY)[0]) if len(gap) else 0
    before = np.concatenate(([np.iinfo(np.int64).min // 2], end[:-1]))
    idle = known & (before + ROUNDING <= ready)
    delay = start - ready
    pop = (
        int(per_class(delay[known], idle[known], np.zeros(int(known.sum()), dtype=np.int64), TO_DEQUEUE)[0])
        if known.any()
        else 0
    )
    # A Dequeue whose Enqueue is not recorded keeps its recorded distance to the one before it.
    weight = np.where(known[1:], usual, gap)
    found.gap[rows[1:]] = builder.link(found.dequeue_end[rows[:-1]], found.dequeue_start[rows[1:]], weight, LANE)
    mine = rows[known]
    found.pop[mine] = builder.link(host.enqueue_end[push[known]], found.dequeue_start[mine], pop, QUEUE)


def _streams(builder: Builder, rank: int, tasks: Tasks, host: HostLanes, found: DeviceLanes) -> None:
    direct = host.direct >= 0
    found.launch[direct] = host.direct[direct]
    found.task_start[:] = builder.nodes(tasks.start - builder.origin, rank)
    found.task_end[:] = builder.nodes(tasks.end - builder.origin, rank)
    is_wait = tasks.kind == EVENT_WAIT
    found.run[:] = builder.link(found.task_start, found.task_end, np.where(is_wait, 0, tasks.end - tasks.start), TASK)
    previous, parallel = _previous(tasks)
    found.previous[:] = previous
    before = np.where(previous >= 0, tasks.end[np.maximum(previous, 0)], np.iinfo(np.int64).min // 2)
    launched = found.launch >= 0
    # Without CANN calls event tasks have no launch of their own: they were launched with the task issued before them.
    beside = _issued_with(tasks, launched)
    classes = np.minimum(tasks.kind, OTHER)
    launch_w = _launch_weights(tasks, launched, before, found)
    stream_w = _stream_weights(tasks, launched, previous, before, classes)
    follow = (classes == KERNEL) & (previous >= 0) & (classes[np.maximum(previous, 0)] == KERNEL)
    found.kernel_gap = int(stream_w[follow].max(initial=0))
    behind = previous >= 0
    rows = np.flatnonzero(behind & ~parallel)
    lost = ~launched[rows] & ~is_wait[rows] & (beside[rows] < 0)
    distance = tasks.start[rows] - tasks.end[previous[rows]]
    weight = np.where(lost, distance, stream_w[rows])
    found.stream_edge[rows] = builder.link(found.task_end[previous[rows]], found.task_start[rows], weight, STREAM)
    side = np.flatnonzero(parallel)
    distance = tasks.start[side] - tasks.start[previous[side]]
    found.stream_edge[side] = builder.link(found.task_start[previous[side]], found.task_start[side], distance, STREAM)
    rows = np.flatnonzero(launched)
    found.launch_edge[rows] = builder.link(found.launch[rows], found.task_start[rows], launch_w[rows], LAUNCH)
    ready = np.full(len(tasks.start), np.iinfo(np.int64).min // 2)
    ready[rows] = tasks.launch[rows] + launch_w[rows]
    rows = np.flatnonzero(beside >= 0)
    at, node = tasks.launch[beside[rows]] + found.latency, found.launch[beside[rows]]
    found.launch_edge[rows] = builder.link(node, found.task_start[rows], found.latency, LAUNCH)
    ready[rows] = at
    serial = np.flatnonzero(behind & ~parallel)
    ready[serial] = np.maximum(ready[serial], tasks.end[previous[serial]] + stream_w[serial])
    ready[side] = np.maximum(ready[side], tasks.start[side])
    found.ready[:] = np.where(launched | behind | (beside >= 0), ready, tasks.start)


def _issued_with(tasks: Tasks, launched: Mask) -> Ints:
    """For each event task without a launch the launched task issued last before it; -1 for others and without one."""
    found = np.full(len(tasks.start), -1, dtype=np.int64)
    lost = np.flatnonzero(~launched & ((tasks.kind == RECORD) | (tasks.kind == EVENT_WAIT)))
    known = np.flatnonzero(launched)
    known = known[np.argsort(tasks.issue[known], kind="stable")]
    last = np.searchsorted(tasks.issue[known], tasks.issue[lost]) - 1
    found[lost[last >= 0]] = known[last[last >= 0]]
    return found


def _previous(tasks: Tasks) -> tuple[Ints, Mask]:
    """For each task (they are in stream order) the one that ends last before it on its stream, and whether they
    really overlap."""
    count = len(tasks.start)
    previous = np.full(count, -1, dtype=np.int64)
    parallel = np.zeros(count, dtype=bool)
    start, end, lane = tasks.start.tolist(), tasks.end.tolist(), tasks.lane.tolist()
    last = -1
    for row in range(count):
        if last >= 0 and lane[last] == lane[row]:
            previous[row] = last
            parallel[row] = end[last] - start[row] > OVERLAP + OVERLAP_SHARE * (end[row] - start[row])
            if end[row] >= end[last]:
                last = row
        else:
            last = row
    return previous, parallel


def _launch_weights(tasks: Tasks, launched: Mask, before: Ints, found: DeviceLanes) -> Ints:
    """Launch latency of every task. Waits get the kernels': their recorded start is no measurement."""
    delay = tasks.start - tasks.launch
    idle = launched & (before + CLEAR <= tasks.launch)
    weight = np.zeros(len(delay), dtype=np.int64)
    work = launched & ((tasks.kind == KERNEL) | (tasks.kind == COPY))
    kernels = launched & (tasks.kind == KERNEL)
    latency = launch_latency(delay, idle & kernels, kernels if (idle & kernels).sum() >= 0.1 * kernels.sum() else work)
    found.latency = latency
    weight[:] = latency
    comms = launched & (tasks.kind == COMM)
    if comms.any():
        # Collectives that always found the stream busy say nothing about their launch.
        weight[comms] = min(int(delay[comms].min()), max(latency, 0) + CLOCKS)
    # Pageable memory is staged before the copy starts; on a busy stream that is hidden.
    staged = idle & (tasks.kind == COPY)
    weight[staged] = delay[staged]
    return weight


def _stream_weights(tasks: Tasks, launched: Mask, previous: Ints, before: Ints, classes: Ints) -> Ints:
    """Gap behind the previous task, by the classes of both."""
    gap = np.where(previous >= 0, tasks.start - before, 0)
    queued = launched & (previous >= 0) & (tasks.launch + CLEAR + CLOCKS * (classes == COMM) <= before)
    queued &= tasks.kind != EVENT_WAIT
    pair = np.where(previous >= 0, classes[np.maximum(previous, 0)] * (OTHER + 1) + classes, -1)
    weight = np.zeros(len(gap), dtype=np.int64)
    rows = np.flatnonzero(previous >= 0)
    if len(rows):
        weight[rows] = per_class(gap[rows], queued[rows], pair[rows], _usual_gap(gap, queued))
        # A collective mostly waits for compute or peers, so only its shortest gap is the stream's own.
        comms = rows[tasks.kind[rows] == COMM]
        if len(comms):
            weight[comms] = min(max(int(gap[comms].min()), 0), CLEAR)
    return weight


def _usual_gap(gap: Ints, queued: Mask) -> int:
    # One or two of them may have waited for another stream.
    return median(gap[queued], USUAL_GAP)


def event_waits(builder: Builder, tasks: Tasks, found: DeviceLanes) -> Ints:
    """EVENT_RECORD end -> EVENT_WAIT end; returns the positions of the waits.

    Issue order first: the record is on another stream, issued before the wait and over before the wait ends. Among
    those, if the wait blocked, the latest issued that ends with it (else the nearest); if not, the latest issued.
    How far apart two ends may be that belong together is seen from the pairs that are next to each other in the order
    of issue.
    """
    waits, records = np.flatnonzero(tasks.kind == EVENT_WAIT), np.flatnonzero(tasks.kind == RECORD)
    pairs = []
    records = records[np.argsort(tasks.issue[records], kind="stable")]
    issued, ends, lanes = tasks.issue[records], tasks.end[records], tasks.lane[records]
    exact = _exact(tasks, waits, records)
    for wait in waits.tolist():
        high = int(np.searchsorted(issued, tasks.issue[wait]))
        near = np.arange(max(high - RECENT, 0), high)
        late = tasks.end[wait] - ends[near]
        other = lanes[near] != tasks.lane[wait]
        near, late = near[other], late[other]
        apart, over = np.abs(late), near[late >= -exact]
        if tasks.end[wait] > found.ready[wait] + exact and (apart <= CLOCKS).any():
            # It blocked: what released it ended with it, by the clock a little before or after.
            same = near[apart <= exact]
            near = same if len(same) else near[[int(np.argmin(apart))]]
        else:
            near = over
        if len(near):
            pairs.append((wait, int(records[near[-1]])))
    matched, record = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.clip(tasks.end[matched] - tasks.end[record], 0, RELEASE)
    builder.link(found.task_end[record], found.task_end[matched], weight, EVENT)
    return matched


def _exact(tasks: Tasks, waits: Ints, records: Ints) -> int:
    """How far the recorded ends of a wait and of what released it lie apart, at most: EXACT on a quiet recorder."""
    before = np.searchsorted(tasks.issue[records], tasks.issue[waits]) - 1
    behind = before >= 0
    apart = np.abs(tasks.end[waits[behind]] - tasks.end[records[before[behind]]])
    apart = apart[apart <= CLOCKS]
    return int(np.clip(6 * np.median(apart), EXACT, CLOCKS // 2)) if len(apart) else EXACT
