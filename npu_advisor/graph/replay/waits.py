"""Who waits for whom where the trace shows only the waiting: syncs of the host, and waits between streams."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.named import OPTIMIZER_STEP, starting
from npu_advisor.graph.replay.arrays import SYNC, WAIT, Builder
from npu_advisor.graph.replay.device import DeviceLanes
from npu_advisor.graph.replay.host import HostLanes
from npu_advisor.graph.replay.stats import CLOCKS, US, median
from npu_advisor.graph.replay.syncs import Syncs
from npu_advisor.graph.replay.tasks import COMM, EVENT_WAIT, KERNEL, Tasks
from npu_advisor.model.profile import Profile

# A task this late without a reason waits for the task that ends this near before its start.
LATE, NEAR = 30 * US, 15 * US
# Clocks round: a cause may seem to end this much after what it caused.
EARLY = 2 * US
# A task is late beyond what its edges round away.
ROUNDING = US // 2
# No host takes longer than this to notice that the device is done, clock offset included.
MOST = 200 * US
# A sync waited for the device when its cause ended this long after it began.
WAITED = 10 * US
# What a sync costs at most by itself, and how late it returns, where none of its kind tells.
QUICK = 10 * US
# A Dequeue may be written down as over this long after the call that it let go.
HANDOVER = 5 * US
# From the start of an op to the call that it makes itself, at most.
INTO_CALL = 20 * US
NEVER = np.iinfo(np.int64).min // 2


def sync_waits(
    builder: Builder, profile: Profile, tasks: Tasks, syncs: Syncs, host: HostLanes, found: DeviceLanes
) -> Ints:
    """Edges into each sync's end: from the last task asked for before it, and from the last Dequeue.

    Returns each sync's own cost: what it takes when nothing is pending.
    """
    # A device clock that is ahead shows in the launch latency, and lets tasks seem to end after what waited for them.
    ahead = CLOCKS + max(found.latency, 0)
    cause = _sync_causes(tasks, syncs, host, ahead)
    reached = (
        np.where(cause >= 0, tasks.end[np.maximum(cause, 0)], NEVER) if len(tasks.end) else np.full(len(cause), NEVER)
    )
    entry, popped = _last_dequeue(profile, syncs.start)
    entry = np.where(popped <= syncs.end + HANDOVER, entry, -1)
    popped = np.where(entry >= 0, popped, NEVER)
    duration = syncs.end - syncs.start
    by_device = (reached > syncs.start + WAITED) & (reached > popped)
    by_queue = (popped > syncs.start + EARLY) & (popped > reached)
    for chosen, end, bound, ends in (
        (cause, reached, by_device, found.task_end),
        (entry, popped, by_queue, found.dequeue_end),
    ):
        rows = np.flatnonzero(chosen >= 0)
        if len(rows):
            latency = _latency(syncs.end[rows] - end[rows], bound[rows], syncs.name[rows])
            builder.link(ends[chosen[rows]], host.sync_end[rows], latency, SYNC)
    # A sync with nothing to wait for took what it costs; one that waited costs what such a sync usually does.
    quiet = (reached + CLOCKS < syncs.start) & (popped + EARLY < syncs.start)
    own = duration.copy()
    for name in np.unique(syncs.name):
        mine = syncs.name == name
        free = duration[mine & quiet]
        if not len(free):
            free = duration[mine & ~by_device & ~by_queue]
        usual = int(np.median(free)) if len(free) else min(int(duration[mine].min()), QUICK)
        own[mine & ~quiet] = usual
    cost: Ints = np.minimum(own, duration)
    return cost


def _latency(delay: Ints, bound: Mask, names: Ints) -> Ints:
    """Cause to return of a sync: the median of its kind, else of all that waited, else the smallest that waited."""
    waited = delay[bound]
    default = median(waited, min(int(waited.min()), MOST) if len(waited) else QUICK)
    found = np.full(len(delay), default, dtype=np.int64)
    for name in np.unique(names):
        found[names == name] = median(delay[bound & (names == name)], default)
    return found


def _sync_causes(tasks: Tasks, syncs: Syncs, host: HostLanes, ahead: int) -> Ints:
    """The last task asked for before each sync: on the compute stream, on another one only where that one ended well
    (more than ``ahead`` ns) after the sync returned."""
    cause = np.full(len(syncs.start), -1, dtype=np.int64)
    work = np.flatnonzero((tasks.asked >= 0) & (tasks.kind != EVENT_WAIT))
    if not len(work):
        return cause
    lanes, counts = np.unique(tasks.lane[tasks.kind == KERNEL], return_counts=True)
    compute = int(lanes[np.argmax(counts)]) if len(lanes) else int(tasks.lane[work[0]])
    own_call, free = host.direct[work] >= 0, np.ones(len(cause), bool)
    for lane in [compute, *[int(one) for one in np.unique(tasks.lane[work]) if one != compute]]:
        mine = work[tasks.lane[work] == lane]
        if not len(mine):
            continue
        mine = mine[np.lexsort((tasks.issue[mine], tasks.asked[mine]))]
        # A blocking copy waits for the copy that it launches itself.
        until = np.where(own_call.any(), syncs.end, syncs.start)
        last = np.searchsorted(tasks.asked[mine], syncs.start, side="right") - 1
        inner = np.searchsorted(tasks.asked[mine], until, side="right") - 1
        within = (inner > last) & (host.direct[mine[np.maximum(inner, 0)]] >= 0)
        last = np.where(within, inner, last)
        task = np.where(last >= 0, mine[np.maximum(last, 0)], -1)
        fits = (task >= 0) & (tasks.end[np.maximum(task, 0)] <= syncs.end + ahead)
        later = fits & ((cause < 0) | (tasks.end[np.maximum(task, 0)] > tasks.end[np.maximum(cause, 0)]))
        if lane == compute:
            cause = np.where(fits, task, cause)
            free = ~fits
        else:
            cause = np.where(free & later, task, cause)
    return cause


def _last_dequeue(profile: Profile, at: Ints) -> tuple[Ints, Ints]:
    """The last Dequeue whose Enqueue began before each time, and its end; -1 and long ago for none."""
    dequeues, enqueues = profile.table("dequeues"), profile.table("enqueues")
    rows = np.flatnonzero(dequeues["enqueue"] >= 0)
    if not len(rows):
        return np.full(len(at), -1, dtype=np.int64), np.full(len(at), NEVER)
    pushed = enqueues["start_ns"][dequeues["enqueue"][rows]]
    order = np.argsort(pushed, kind="stable")
    rows, pushed = rows[order], pushed[order]
    last = np.searchsorted(pushed, at, side="right") - 1
    row = np.where(last >= 0, rows[np.maximum(last, 0)], -1)
    return row, np.where(row >= 0, dequeues["end_ns"][np.maximum(row, 0)], NEVER)


def domain_waits(builder: Builder, profile: Profile, tasks: Tasks, found: DeviceLanes) -> Ints:
    """Waits that training code always has, where the trace shows no event tasks: a collective waits for the compute
    task issued last before it, the first compute task of the optimizer for the collectives issued before it.

    Returns the waiting tasks. Edges that did not bind are added too: after an edit they may.
    """
    none = np.zeros(0, dtype=np.int64)
    comms = np.flatnonzero((tasks.kind == COMM) & (found.launch >= 0))
    if (tasks.kind == EVENT_WAIT).any() or not len(comms):
        return none
    kernels = np.flatnonzero((tasks.kind == KERNEL) & (found.launch >= 0))
    kernels = kernels[np.argsort(tasks.issue[kernels], kind="stable")]
    last = np.searchsorted(tasks.issue[kernels], tasks.issue[comms]) - 1
    has = last >= 0
    pairs = [(kernels[last[has]], comms[has])]
    first = _first_of_optimizer(profile, tasks, kernels)
    for lane in np.unique(tasks.lane[comms]):
        mine = comms[tasks.lane[comms] == lane]
        mine = mine[np.argsort(tasks.issue[mine], kind="stable")]
        last = np.searchsorted(tasks.issue[mine], tasks.issue[first]) - 1
        has = last >= 0
        pairs.append((mine[last[has]], first[has]))
    return np.concatenate([_wait(builder, tasks, found, cause, waiting) for cause, waiting in pairs])


def _wait(builder: Builder, tasks: Tasks, found: DeviceLanes, cause: Ints, waiting: Ints) -> Ints:
    """Wait edges with the usual distance of those that bound, never more than what was recorded; returns what waits."""
    distance = tasks.start[waiting] - tasks.end[cause]
    keep = distance >= -EARLY
    cause, waiting, distance = cause[keep], waiting[keep], distance[keep]
    bound = (distance <= NEAR) & (tasks.start[waiting] > found.ready[waiting] + ROUNDING)
    usual = median(distance[bound], max(int(distance[bound].min()), 0) if bound.any() else EARLY)
    builder.link(found.task_end[cause], found.task_start[waiting], np.minimum(distance, usual), WAIT)
    return waiting


def _first_of_optimizer(profile: Profile, tasks: Tasks, kernels: Ints) -> Ints:
    """The first compute task in issue order below each ``Optimizer.step#`` op."""
    ops = profile.table("ops")
    rows = np.flatnonzero(starting(ops, OPTIMIZER_STEP))
    start, end, track = (ops[name] for name in ("start_ns", "end_ns", "track"))
    linked = kernels[tasks.op[kernels] >= 0]
    own = track[tasks.op[linked]]
    first = []
    for thread in np.unique(track[rows]).tolist():
        mine = linked[own == thread]
        at = start[tasks.op[mine]]
        by_time = np.argsort(at, kind="stable")
        steps = rows[track[rows] == thread]
        low, high = (np.searchsorted(at[by_time], border[steps]).tolist() for border in (start, end))
        # Of those inside a step the one that was issued first.
        for step, one, other in zip(steps.tolist(), low, high, strict=True):
            if one < other:
                first.append((step, int(mine[by_time[one:other].min()])))
    return np.array([task for _, task in sorted(first)], dtype=np.int64)


def inferred_waits(builder: Builder, tasks: Tasks, found: DeviceLanes, told: Ints) -> None:
    """A task that starts late without a known reason waits for an earlier issued task of another lane that ended just
    before; ``told`` are tasks whose wait is known already."""
    late = (tasks.start > found.ready + LATE) & (tasks.kind != EVENT_WAIT) & (found.launch >= 0)
    late[told] = False
    ends = np.argsort(tasks.end, kind="stable")
    pairs = []
    for row in np.flatnonzero(late).tolist():
        low, high = np.searchsorted(tasks.end[ends], (tasks.start[row] - NEAR, tasks.start[row] + EARLY))
        near = ends[low:high]
        near = near[(tasks.lane[near] != tasks.lane[row]) & (tasks.issue[near] < tasks.issue[row])]
        if len(near):
            pairs.append((int(near[np.argmax(tasks.issue[near])]), row))
    cause, waiting = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    builder.link(found.task_end[cause], found.task_start[waiting], tasks.start[waiting] - tasks.end[cause], WAIT)


def direct_calls(profile: Profile, at: Ints, op: Ints, before: Ints) -> tuple[Ints, Ints]:
    """A call made on the host thread starts after the queue has run empty: Dequeue end -> call.

    ``at`` are the calls' times (ns since the epoch), ``op`` the op around each, ``before`` the
    time of the point before it on its thread. Returns (Dequeue row, own part of the way from that point): the rest of
    that way was waiting; -1 where nothing was pending.
    """
    entry, popped = _last_dequeue(profile, at)
    begin = np.maximum(np.where(op >= 0, profile.table("ops")["start_ns"][np.maximum(op, 0)], before), before)
    waited = (entry >= 0) & (popped > begin) & (popped <= at + HANDOVER)
    usual = median((at - begin)[popped <= begin], int((at - begin).min()) if len(at) else 0)
    own = np.where(waited, np.minimum(at - before, begin - before + min(usual, INTO_CALL)), -1)
    return np.where(waited, entry, -1), own
