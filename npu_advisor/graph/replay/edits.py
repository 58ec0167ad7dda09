"""Edits of the graph: what a cure removes, shortens, or lets happen earlier.

An edit is a set of changes to edges. Edits are joined by union and their order does not matter: what one of them drops
stays dropped, of several durations the smallest counts. Nothing is inserted: a replacement re-uses nodes of what it
replaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask, distinct, subtract, union
from npu_advisor.graph.replay.arrays import EVENT, LANE, LONG_AGO, SYNC, WAIT, Into, Numbers
from npu_advisor.graph.replay.build import Graph
from npu_advisor.graph.replay.gates import Calibrated
from npu_advisor.graph.replay.index import Index

_NONE, _NO_EDGE = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
Pairs = tuple[Numbers, Ints]


class Edit(NamedTuple):
    """Changes to edges (numbers in the graph's net).

    ``cut``: (lane, low, high) stretches of host work that go; ``drop``: edges that no longer bind; ``limit``: (edge,
    weight) at most this; ``assign``: (edge, weight) durations that replace the recorded one, the smallest of several;
    ``add``: (source node, target node, weight) new constraints; ``gone``: end nodes of removed tasks and Dequeues,
    which hold no place in a queue any more.
    """

    cut: tuple[Ints, Ints, Ints] = (_NONE, _NONE, _NONE)
    drop: Numbers = _NO_EDGE
    limit: Pairs = (_NO_EDGE, _NONE)
    assign: Pairs = (_NO_EDGE, _NONE)
    add: tuple[Numbers, Numbers, Ints] = (_NO_EDGE, _NO_EDGE, _NONE)
    gone: Numbers = _NO_EDGE


_NOTHING = Edit()


def merge(edits: Iterable[Edit]) -> Edit:
    """The union of edits."""
    parts = list(edits)
    if len(parts) == 1:
        return parts[0]

    def joined(name: str, width: int) -> tuple[Ints, ...]:
        return tuple(
            np.concatenate([getattr(part, name)[column] for part in (_NOTHING, *parts)]) for column in range(width)
        )

    return Edit(
        cut=joined("cut", 3),  # type: ignore[arg-type]
        drop=np.concatenate([_NO_EDGE, *(part.drop for part in parts)]),
        limit=joined("limit", 2),  # type: ignore[arg-type]
        assign=joined("assign", 2),  # type: ignore[arg-type]
        add=joined("add", 3),  # type: ignore[arg-type]
        gone=np.concatenate([_NO_EDGE, *(part.gone for part in parts)]),
    )


class Editor:
    """Makes edits of one rank of a graph, from rows of its tables."""

    def __init__(self, graph: Graph, number: int, calibrated: Calibrated) -> None:
        self.graph, self.rank, self.origin = graph, graph.ranks[number], graph.origin
        self._number = number
        self._rec = calibrated.rec
        net, device = graph.net, self.rank.device
        self._call_in, self._call_out, self._entry_end = Into(), Into(), Into()
        calls = device.calls[0]
        self._call_in.put(net.dst[calls], calls)
        self._call_out.put(net.src[calls], calls)
        entries = np.flatnonzero(device.dequeue_end >= 0)
        self._entry_end.put(device.dequeue_end[entries], entries)
        self._sync_edges, self._wait_edges = self._of_kind(SYNC), self._of_kind(WAIT)
        self._syncs_into, self._waits_into = Index(net.dst[self._sync_edges]), Index(net.dst[self._wait_edges])
        self._calls_of, self._tasks_of = Index(device.calls[1]), Index(self.rank.tasks.dequeue)
        self._direct = np.flatnonzero(self.rank.host.direct >= 0)
        self._launched = Index(self.rank.tasks.launch[self._direct])
        enqueues = self.rank.profile.table("enqueues")
        self._popped = Index(self.rank.profile.table("dequeues")["enqueue"])
        self._pushed = {
            int(track): Index(np.where(enqueues["track"] == track, enqueues["start_ns"], -1))
            for track in np.unique(enqueues["track"])
        }
        joined = np.fromiter(self.rank.transit, np.int64, len(self.rank.transit))
        self._joined = np.zeros(len(self.rank.tasks.start), dtype=bool)
        self._joined[joined] = True
        self._transit = self.rank.tasks.end - self.rank.tasks.start
        self._transit[joined] = np.fromiter(self.rank.transit.values(), np.int64, len(joined))
        calls = np.concatenate((self.rank.host.sync_start, self.rank.host.direct))
        lane = self._of_kind(LANE)
        self._drain_edges = lane[np.isin(net.dst[lane], calls)]
        self._drains_into = Index(net.dst[self._drain_edges])
        self._event_edges = self._of_kind(EVENT)
        self._events_into, self._events_from = Index(net.dst[self._event_edges]), Index(net.src[self._event_edges])
        pauses = self.rank.profile.table("gcs")
        self._pauses = union(pauses["start_ns"], pauses["end_ns"])
        self._borders: dict[int, Ints] = {}

    def _of_kind(self, kind: int) -> Ints:
        """The edges of a kind within this rank."""
        own = self.rank.edges
        found: Ints = np.flatnonzero(self.graph.net.kind[own] == kind) + own.start
        return found

    def owns(self, edges: Ints) -> Mask:
        """Whether each edge leads to a node of this rank."""
        return np.asarray(self.graph.net.rank[self.graph.net.dst[edges]] == self._number)

    def transit(self, tasks: Ints) -> Ints:
        """How long tasks run; for joined collectives the data movement without the wait."""
        return self._transit[tasks]

    def run_edges(self, tasks: Ints, ns: Ints) -> Pairs:
        """(edge, weight) that make tasks run ``ns``; a joined collective's edge also holds its rank's clock offset."""
        edge = self.rank.device.run[tasks]
        shift = np.where(self._joined[tasks], self.graph.net.w[edge] - self.transit(tasks), 0)
        return edge, ns + shift

    def remove_tasks(self, tasks: Ints, *, moved: bool = False) -> Edit:
        """Tasks go: each becomes a pass-through of its stream. Its waits stay unless it is ``moved`` away."""
        device = self.rank.device
        edge, value = self.run_edges(tasks, np.zeros(len(tasks), dtype=np.int64))
        stream, launch = device.stream_edge[tasks], device.launch_edge[tasks]
        behind, launched = stream >= 0, launch >= 0
        call = self._launch_calls(device.launch[tasks[launched]])
        alone = launch[launched & ~behind]
        zero = np.concatenate((stream[behind], alone, call))
        drop = launch[launched & behind]
        if moved:
            drop = np.concatenate((drop, self._wait_edges[self._waits_into.of(device.task_start[tasks])]))
        limit = (np.concatenate((edge, zero)), np.concatenate((value, np.zeros(len(zero), dtype=np.int64))))
        return Edit(drop=drop, limit=limit, gone=device.task_end[tasks])

    def _launch_calls(self, nodes: Ints) -> Ints:
        """The edge inside the Dequeue that each launch takes: to the next launch, else from what was before it."""
        nodes = nodes[nodes >= 0]
        after, before = self._call_out.of(nodes), self._call_in.of(nodes)
        target = self.graph.net.dst[np.maximum(after, 0)] if len(after) else after
        last = (after < 0) | (self._entry_end.of(target) >= 0) if len(after) else np.zeros(0, dtype=bool)
        chosen = np.where(last, before, after)
        return chosen[chosen >= 0]

    def remove_dequeues(self, rows: Ints, *, moved: bool = False) -> Edit:
        """Queue entries go with all they launch."""
        device = self.rank.device
        tasks, calls = self._tasks_of.of(rows), device.calls[0][self._calls_of.of(rows)]
        gap, pop = device.gap[rows], device.pop[rows]
        zero = np.concatenate((calls, gap[gap >= 0], pop[(pop >= 0) & (gap < 0)]))
        own = Edit(
            drop=pop[(pop >= 0) & (gap >= 0)],
            limit=(zero, np.zeros(len(zero), dtype=np.int64)),
            gone=device.dequeue_end[rows],
        )
        return merge([own, self.remove_tasks(tasks, moved=moved)])

    def remove_ops(self, ops: Ints, *, moved: bool = False) -> Edit:
        """Ops go with the Python before them, their queue entries, tasks and syncs."""
        table = self.rank.profile.table("ops")
        track, start, end = (table[name][ops] for name in ("track", "start_ns", "end_ns"))
        own = [(one, track == one) for one in np.unique(track).tolist()]
        return merge([self._remove_on(one, start[mine], end[mine], moved) for one, mine in own])

    def _remove_on(self, track: int, start: Ints, end: Ints, moved: bool) -> Edit:
        begin = self.before(track, start)
        spans = union(start, end)
        pushed = self._pushed[track].between(spans.start, spans.end) if track in self._pushed else _NONE
        popped = self._popped.of(pushed)
        host = self.rank.host
        lane = host.lanes.get(track, -1)
        direct = self._direct[self._launched.between(spans.start, spans.end)]
        direct = direct[self.graph.net.lane[self._edge_into(host.direct[direct])] == lane] if len(direct) else direct
        return merge(
            [
                self.cut(track, begin, end),
                self.remove_dequeues(popped, moved=moved),
                self.remove_tasks(direct, moved=moved),
                self._not_drained(host.direct[direct]),
                self.no_wait(track, start, end),
            ]
        )

    def _edge_into(self, nodes: Ints) -> Ints:
        return self.rank.host.into.of(nodes)

    def before(self, track: int, start: Ints) -> Ints:
        """Where the Python before ops that start at ``start`` begins: the last border of any op before."""
        if track not in self._borders:
            ops = self.rank.profile.table("ops")
            mine = ops["track"] == track
            self._borders[track] = distinct(np.concatenate((ops["start_ns"][mine], ops["end_ns"][mine])))
        borders = self._borders[track]
        index = np.searchsorted(borders, start, side="left") - 1
        return np.where(index >= 0, borders[np.maximum(index, 0)], start)

    def cut(self, track: int, low: Ints, high: Ints) -> Edit:
        """Stretches of a thread's own work go (times since the epoch). Pauses of the garbage collector in them stay:
        what allocates less elsewhere is paused elsewhere."""
        work = subtract(union(low, high), self._pauses)
        return self.cut_all(track, work.start, work.end)

    def cut_all(self, track: int, low: Ints, high: Ints) -> Edit:
        """Stretches of a thread go, pauses of the garbage collector and all."""
        lane = self.rank.host.lanes.get(track, -1)
        if lane < 0:
            return Edit()
        return Edit(cut=(np.full(len(low), lane, dtype=np.int64), low - self.origin, high - self.origin))

    def no_wait(self, track: int, low: Ints, high: Ints) -> Edit:
        """Syncs inside these stretches neither wait for the queue to run empty nor for the device."""
        syncs, spans = self.rank.syncs, union(low, high)
        rows = np.flatnonzero((syncs.thread == track) & _within(spans.start, spans.end, syncs.start))
        ends = self.rank.host.sync_end[rows]
        at_once = Edit(drop=self._sync_edges[self._syncs_into.of(ends)])
        return merge([at_once, self._not_drained(self.rank.host.sync_start[rows])])

    def _not_drained(self, calls: Ints) -> Edit:
        """Direct calls (host nodes) that no longer wait until the queue has run empty: that wait goes with them."""
        return Edit(drop=self._drain_edges[self._drains_into.of(calls)])

    def run(self, tasks: Ints, ns: Ints) -> Edit:
        """Tasks run at most ``ns``."""
        return Edit(limit=self.run_edges(tasks, np.minimum(ns, self.transit(tasks))))

    def free_start(self, tasks: Ints) -> Edit:
        """Neither launch nor inferred waits hold these tasks back any more."""
        device = self.rank.device
        launch = device.launch_edge[tasks]
        # The first task of a stream would be left without any edge, and keep its recorded time.
        alone = launch[(launch >= 0) & (device.stream_edge[tasks] < 0)]
        launch = launch[(launch >= 0) & (device.stream_edge[tasks] >= 0)]
        into = self._wait_edges[self._waits_into.of(device.task_start[tasks])]
        long_ago = np.full(len(alone), LONG_AGO, dtype=np.int64)
        return Edit(drop=np.concatenate((launch, into)), limit=(alone, long_ago))

    def release(self, events: Ints) -> Edit:
        """Event waits among these tasks wait for nobody, and no launch holds any of these tasks back."""
        waits = self._event_edges[self._events_into.of(self.rank.device.task_end[events])]
        return merge([Edit(drop=waits), self.free_start(events)])

    def unheard(self, records: Ints) -> Edit:
        """Nobody waits for these event records any more."""
        return Edit(drop=self._event_edges[self._events_from.of(self.rank.device.task_end[records])])

    def replace(self, tasks: Ints, ns: Ints) -> Edit:
        """Tasks run ``ns``, even if that is longer than recorded."""
        return Edit(assign=self.run_edges(tasks, ns))


def _within(low: Ints, high: Ints, at: Ints) -> Mask:
    """Whether each time lies in one of sorted disjoint ``[low, high)``."""
    if not len(low):
        return np.zeros(len(at), dtype=bool)
    index = np.searchsorted(low, at, side="right") - 1
    inside: Mask = (index >= 0) & (at < high[np.maximum(index, 0)])
    return inside
