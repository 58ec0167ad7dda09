"""Full streams and full queues: a call that must wait until an earlier entry is done.

The limits are not in the trace. At the true depth v every stretched call comes a constant time after entry number -v
was done; at v - 1 and v + 1 that distance spreads. Any constant will do, so shifted clocks do not matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.replay.arrays import DEPTH, Builder, Into, Numbers
from npu_advisor.graph.replay.device import DeviceLanes
from npu_advisor.graph.replay.host import HostLanes
from npu_advisor.graph.replay.stats import US
from npu_advisor.graph.replay.tasks import Tasks
from npu_advisor.model.profile import Profile

# A call is stretched beyond this and this many times the usual length.
STRETCHED, TIMES = 10 * US, 3
# Depths tried around the highest count of outstanding entries.
NEIGHBOURS, DEEP = 4, 100
# So many stretched calls tell the depth, or one that is this long.
CALLS, LONG = 5, 300 * US


class Limit(NamedTuple):
    """A place-holding lane: entry n holds a place until node ``done[n]``; its call is node ``call[n]``.

    At most ``depth`` entries are outstanding; a call waits ``weight[n]`` behind the entry that frees its place.
    ``edges`` are those constraints in the recorded graph.
    """

    done: Numbers
    call: Numbers
    depth: int
    weight: Ints
    edges: Ints

    def without(self, gone: Mask) -> tuple[Numbers, Numbers, Ints]:
        """The constraints (source, target, weight) when the entries whose ``done`` node is ``gone`` hold no place."""
        kept = np.flatnonzero(~gone[self.done])
        done, call = self.done[kept], self.call[kept]
        return done[: -self.depth], call[self.depth :], self.weight[kept][self.depth :]


Found = tuple[Limit, Ints, Ints]


def full_queues(
    builder: Builder, profile: Profile, tasks: Tasks, host: HostLanes, device: DeviceLanes
) -> tuple[list[Limit], list[tuple[Ints, Ints]]]:
    """The limits that bound in this recording, and new weights of the stretched calls' own edges."""
    limits, changed = [], []
    calls = device.calls[0]
    into_call, out_of = Into(), Into()
    into_call.put(builder.target(calls), calls)
    out_of.put(builder.source(calls), calls)
    for lane in np.unique(tasks.lane[device.launch >= 0]):
        mine = np.flatnonzero((tasks.lane == lane) & (device.launch >= 0) & (tasks.dequeue >= 0))
        mine = mine[np.argsort(tasks.issue[mine], kind="stable")]
        # The launch may be written down when the call begins or when it gets its place: before or after it waited.
        launch = device.launch[mine]
        after = out_of.of(launch)
        behind = np.where(after >= 0, builder.target(np.maximum(after, 0)), launch)
        for nodes in (launch, behind):
            found = _limit(builder, device.task_end[mine], tasks.end[mine], nodes, into_call)
            if found:
                limits.append(found[0])
                changed.append(found[1:])
                break
    dequeues = profile.table("dequeues")
    rows = np.flatnonzero(dequeues["enqueue"] >= 0)
    rows = rows[np.argsort(dequeues["start_ns"][rows], kind="stable")]
    for nodes in (host.enqueue_end, host.enqueue_start):
        call = nodes[dequeues["enqueue"][rows]]
        found = _limit(builder, device.dequeue_end[rows], dequeues["end_ns"][rows], call, host.into)
        if found:
            limits.append(found[0])
            changed.append(found[1:])
            break
    return limits, changed


def _limit(builder: Builder, done: Numbers, end: Ints, call: Numbers, into: Into) -> Found | None:
    """The limit of one lane: entries in issue order, done at ``end``; ``into`` gives the edge that a call takes."""
    edge = into.of(call)
    if (edge >= 0).sum() <= CALLS:
        return None
    length = np.where(edge >= 0, builder.span(np.maximum(edge, 0)), 0)
    at = builder.recorded(call) + builder.origin
    outstanding = np.arange(len(call)) - np.searchsorted(np.maximum.accumulate(end), at, side="right")
    highest = int(outstanding.max(initial=0))
    reach = NEIGHBOURS + highest // DEEP
    # Where the queue is full all along, every call waits: then only the shortest tells what a call takes by itself.
    free = length[(edge >= 0) & (outstanding < highest - reach)]
    usual = int(np.median(free)) if len(free) >= CALLS else int(length[edge >= 0].min())
    stretched = np.flatnonzero((length > STRETCHED) & (length > TIMES * usual))
    near = stretched[outstanding[stretched] >= highest - reach]
    if highest < NEIGHBOURS or not (len(near) >= CALLS or (length[near] > LONG).any()):
        return None
    depth = _depth(at, end, near, highest, reach)
    if depth is None:
        return None
    held = near[near >= depth]
    distance = at[held] - end[held - depth]
    rows = np.arange(depth, len(call))
    nearest = np.clip(np.searchsorted(held, np.arange(len(call))), 0, len(held) - 1)
    weight = distance[nearest]
    weight[rows] = np.minimum(weight[rows], at[rows] - end[rows - depth])
    edges = builder.link(done[rows - depth], call[rows], weight[rows], DEPTH)
    return Limit(done, call, depth, weight, edges), edge[held], np.full(len(held), usual, dtype=np.int64)


def _depth(at: Ints, end: Ints, calls: Ints, highest: int, reach: int) -> int | None:
    """The depth at which the stretched calls keep a constant distance from the entry that freed their place."""
    tried = range(max(highest - reach, 1), highest + reach + 3)
    spread = {}
    for depth in (tried.start - 1, *tried, tried.stop):
        mine = calls[(calls >= depth)] if depth > 0 else calls[:0]
        if len(mine) >= CALLS:
            spread[depth] = float(np.subtract(*np.percentile(at[mine] - end[mine - depth], (90, 10))))
    sharp = [
        depth
        for depth in tried
        if depth in spread
        and all(near in spread and 2 * spread[depth] < spread[near] for near in (depth - 1, depth + 1))
    ]
    if sharp:
        return min(sharp, key=lambda depth: spread[depth])
    if len(calls) >= CALLS:
        return None
    # One long stall at the highest count: the entry that ended last before the call went on.
    last = int(calls[-1])
    freed = int(np.searchsorted(np.maximum.accumulate(end), at[last], side="right")) - 1
    return last - freed if freed >= 0 and abs(last - freed - highest) <= reach else None
