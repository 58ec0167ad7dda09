"""Host lanes: what each thread did one after the other, and where one thread waits for another.

A thread's points are its Enqueues, its syncs, launches made without a queue, and step marks. Between two points lies
the thread's own work, a rigid edge. The edge over a sync is elastic: its own cost, while edges from the device make it
wait. A thread that works while the main thread is silent (``loss.backward()``) is forked there and joined there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask, Spans, distinct, union
from npu_advisor.graph.named import STEP_MARK, starting
from npu_advisor.graph.replay.arrays import FORK, HOST, SYNC_FREE, Builder, Into, Numbers
from npu_advisor.graph.replay.syncs import Syncs
from npu_advisor.graph.replay.tasks import Tasks
from npu_advisor.model.profile import Profile

ENQUEUE, SYNC, DIRECT, MARK = range(4)


class _Items(NamedTuple):
    """Things a thread did, by thread and time: what it was, its row there, from when until when."""

    thread: Ints
    what: Ints
    row: Ints
    start: Ints
    end: Ints

    def take(self, rows: Ints) -> _Items:
        return _Items(*(column[rows] for column in self))


@dataclass
class HostLanes:
    """Node numbers of the host points, by Enqueue row, sync and task (direct launches; -1 otherwise).

    ``sync_edge`` is the elastic edge of each sync; ``lanes`` is the lane number of each thread, ``into`` the edge that
    leads along its lane into each host node (-1 where none does).
    """

    enqueue_start: Numbers
    enqueue_end: Numbers
    sync_start: Numbers
    sync_end: Numbers
    sync_edge: Numbers
    direct: Numbers
    lanes: dict[int, int] = field(default_factory=dict)
    into: Into = field(default_factory=Into)


def build_host(
    builder: Builder, profile: Profile, rank: int, tasks: Tasks, direct: Ints, syncs: Syncs, first_lane: int
) -> HostLanes:
    """Add the host lanes of one rank.

    ``direct`` is the thread of each task that was launched without a queue, -1 for the others. Lanes are numbered
    from ``first_lane``. Edges over syncs get the sync's own cost later, through ``sync_edge``.
    """
    items = _items(profile, tasks, direct, syncs)
    main = main_thread(profile)
    forks, marks = _forks(profile, items, main)
    if len(marks):
        rows = np.arange(len(marks), dtype=np.int64)
        marked = _Items(np.full(len(marks), main), np.full(len(marks), MARK), rows, marks, marks)
        items = _Items(*(np.concatenate(pair) for pair in zip(items, marked, strict=True)))
    found = _no_lanes(profile, syncs, tasks)
    spots: dict[int, tuple[Ints, Ints]] = {}
    for lane, thread in enumerate(np.unique(items.thread).tolist(), first_lane):
        found.lanes[thread] = lane
        mine = items.take(np.flatnonzero(items.thread == thread))
        spots[thread] = _lane(builder, rank, mine, lane, found, _cuts(forks, thread, thread == main))
    _join(builder, forks, main, spots)
    return found


def _no_lanes(profile: Profile, syncs: Syncs, tasks: Tasks) -> HostLanes:
    pushes, waits = len(profile.table("enqueues")), len(syncs.start)
    none = [np.full(size, -1, dtype=np.int32) for size in (pushes, pushes, waits, waits, waits, len(tasks.start))]
    return HostLanes(none[0], none[1], none[2], none[3], none[4], none[5])


def main_thread(profile: Profile) -> int:
    """The track of the step marks, else of most ops; -1 without ops."""
    if "main_thread" not in profile.cache:
        profile.cache["main_thread"] = _main_thread(profile)
    return int(profile.cache["main_thread"])


def _main_thread(profile: Profile) -> int:
    ops = profile.table("ops")
    if not len(ops):
        return -1
    rows = np.flatnonzero(starting(ops, STEP_MARK))
    tracks = ops["track"][rows] if len(rows) else ops["track"]
    values, counts = np.unique(tracks, return_counts=True)
    return int(values[np.argmax(counts)])


def _items(profile: Profile, tasks: Tasks, direct: Ints, syncs: Syncs) -> _Items:
    enqueues, ops = profile.table("enqueues"), profile.table("ops")
    launched = np.flatnonzero(direct >= 0)
    threads = np.unique(np.concatenate([enqueues["track"], syncs.thread, direct[launched]]))
    parts = [
        (enqueues["track"], ENQUEUE, np.arange(len(enqueues)), enqueues["start_ns"], enqueues["end_ns"]),
        (syncs.thread, SYNC, np.arange(len(syncs.start)), syncs.start, syncs.end),
        (direct[launched], DIRECT, launched, tasks.launch[launched], tasks.launch[launched]),
    ]
    main = main_thread(profile)
    if main >= 0:
        rows = np.flatnonzero(starting(ops, STEP_MARK))
        mine = np.flatnonzero(ops["track"] == main)
        at = np.concatenate(
            [ops["start_ns"][rows], ops["end_ns"][rows], [ops["start_ns"][mine].min(), ops["end_ns"][mine].max()]]
        )
        at = np.unique(at)
        parts.append((np.full(len(at), main), MARK, np.full(len(at), -1), at, at))
    for thread in threads.tolist():
        if thread != main:
            mine = np.flatnonzero(ops["track"] == thread)
            if len(mine):
                at = ops["end_ns"][mine].max(keepdims=True)
                parts.append((np.full(1, thread), MARK, np.full(1, -1), at, at))
    columns = [
        np.concatenate([np.broadcast_to(np.asarray(part[index], dtype=np.int64), np.shape(part[0])) for part in parts])
        for index in range(5)
    ]
    order = np.lexsort((columns[4], columns[3], columns[0]))
    return _Items(*(column[order] for column in columns))


class _Lane(NamedTuple):
    """One thread's nodes in time order: their recorded times, the item behind each, whether it is that item's end."""

    node: Ints
    at: Ints
    owner: Ints
    closes: Mask


def _lane(builder: Builder, rank: int, items: _Items, lane: int, found: HostLanes, cuts: Ints) -> tuple[Ints, Ints]:
    """One thread's nodes and the edges along it, except over the stretches that begin at a time in ``cuts``."""
    items = items.take(np.lexsort((items.end, items.start)))
    own = _points(builder, rank, items, found)
    linked = ~(np.isin(own.at[:-1], cuts) & (own.at[1:] > own.at[:-1]))
    is_sync = own.closes[1:] & (items.what[own.owner[1:]] == SYNC)
    edges = np.full(len(own.at), -1, dtype=np.int64)
    for chosen, kind in ((linked & ~is_sync, HOST), (linked & is_sync, SYNC_FREE)):
        rows = np.flatnonzero(chosen)
        apart = own.at[rows + 1] - own.at[rows]
        edges[rows + 1] = builder.link(own.node[rows], own.node[rows + 1], apart, kind, lane)
    rows = np.flatnonzero(is_sync & linked) + 1
    found.sync_edge[items.row[own.owner[rows]]] = edges[rows]
    found.into.put(own.node, edges)
    return own.at, own.node


def _points(builder: Builder, rank: int, items: _Items, found: HostLanes) -> _Lane:
    """The nodes of one thread's items (in time order), entered into ``found``."""
    # A thread does one thing at a time: what seems to last into the next Enqueue or sync ended before it.
    long = np.flatnonzero((items.what == ENQUEUE) | (items.what == SYNC))
    end = items.end.copy()
    end[long[:-1]] = np.minimum(end[long[:-1]], items.start[long[1:]])
    at = np.concatenate((items.start, end[long]))
    owner = np.concatenate((np.arange(len(items.start)), long))
    sequence = np.concatenate((2 * np.arange(len(items.start)), 2 * long + 1))
    order = np.lexsort((sequence, at))
    nodes = builder.nodes(at[order] - builder.origin, rank)
    node_of = np.empty(len(at), dtype=np.int64)
    node_of[order] = nodes
    starts, ends = node_of[: len(items.start)], node_of[len(items.start) :]
    for what, start_of, end_of in (
        (ENQUEUE, found.enqueue_start, found.enqueue_end),
        (SYNC, found.sync_start, found.sync_end),
    ):
        mine = np.flatnonzero(items.what == what)
        start_of[items.row[mine]] = starts[mine]
        mine = np.flatnonzero(items.what[long] == what)
        end_of[items.row[long[mine]]] = ends[mine]
    mine = np.flatnonzero(items.what == DIRECT)
    found.direct[items.row[mine]] = starts[mine]
    return _Lane(nodes, at[order], owner[order], order >= len(items.start))


class _Fork(NamedTuple):
    """Work of another thread from ``start`` to ``end``: forked at main time ``at``, joined at ``until`` (-1 never)."""

    thread: int
    at: int
    start: int
    end: int
    until: int


def _forks(profile: Profile, items: _Items, main: int) -> tuple[list[_Fork], Ints]:
    """Where other threads were started from and waited for by the main thread, and the main thread's times there."""
    ops = profile.table("ops")
    none = np.zeros(0, dtype=np.int64)
    if main < 0:
        return [], none
    own = items.take(np.flatnonzero(items.thread == main))
    on_main = ops["track"] == main
    busy = distinct(np.concatenate((ops["start_ns"][on_main], ops["end_ns"][on_main], own.start, own.end)))
    forks: list[_Fork] = []
    for thread in np.unique(items.thread[items.thread != main]).tolist():
        mine = items.take(np.flatnonzero(items.thread == thread))
        rows = np.flatnonzero(ops["track"] == thread)
        open_ = union(ops["start_ns"][rows], ops["end_ns"][rows])
        forks += _bursts(mine, busy, open_, thread)
    marks = {fork.at for fork in forks} | {fork.until for fork in forks if fork.until >= 0}
    return forks, np.array(sorted(marks), dtype=np.int64) if marks else none


def _bursts(items: _Items, busy: Ints, open_: Spans, thread: int) -> list[_Fork]:
    """Split one thread's work at the main thread's times ``busy``; ``open_`` is when it had an op open."""
    gap = np.searchsorted(busy, items.start, side="right")
    joined = (gap > 0) & (gap < len(busy)) & (np.searchsorted(busy, items.end, side="left") == gap)
    joined &= ~(
        _inside(open_, busy[np.clip(gap - 1, 0, len(busy) - 1)]) | _inside(open_, busy[np.clip(gap, 0, len(busy) - 1)])
    )
    # A new burst where the gap changes, or where free running begins or ends.
    border = np.ones(len(gap), dtype=bool)
    border[1:] = (joined[1:] != joined[:-1]) | (joined[1:] & (gap[1:] != gap[:-1]))
    first = np.flatnonzero(border)
    last = np.append(first[1:] - 1, len(gap) - 1)
    found = []
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        start, end = int(items.start[low]), int(items.end[low : high + 1].max())
        index = int(gap[low])
        if index == 0:
            continue
        until = int(busy[index]) if joined[low] else -1
        found.append(_Fork(thread, int(busy[index - 1]), start, end, until))
    return found


def _inside(spans: Spans, at: Ints) -> Mask:
    index = np.searchsorted(spans.start, at, side="left") - 1
    if not len(spans.start):
        return np.zeros(len(at), dtype=bool)
    inside: Mask = (index >= 0) & (at < spans.end[np.maximum(index, 0)])
    return inside


def _cuts(forks: list[_Fork], thread: int, is_main: bool) -> Ints:
    """Times after which a thread's own order does not bind: a main thread that waits, another one before its burst."""
    if is_main:
        cuts = {fork.at for fork in forks if fork.until >= 0}
    else:
        mine = [fork for fork in forks if fork.thread == thread]
        cuts = {before.end for before, after in itertools.pairwise(mine)}
        cuts |= {fork.end for fork in mine[-1:] if fork.until >= 0}
    return np.array(sorted(cuts), dtype=np.int64)


def _join(builder: Builder, forks: list[_Fork], main: int, spots: dict[int, tuple[Ints, Ints]]) -> None:
    """The fork and join edges; without a burst in between the main thread would go on at once."""
    if not forks:
        return

    def at(thread: int, when: int, *, last: bool) -> int:
        own, numbers = spots[thread]
        index = int(np.searchsorted(own, when, side="right" if last else "left")) - (1 if last else 0)
        return int(numbers[min(max(index, 0), len(numbers) - 1)])

    src, dst, w = [], [], []
    for fork in forks:
        src.append(at(main, fork.at, last=True))
        dst.append(at(fork.thread, fork.start, last=False))
        w.append(fork.start - fork.at)
        if fork.until >= 0:
            src.append(at(fork.thread, fork.end, last=True))
            dst.append(at(main, fork.until, last=False))
            w.append(fork.until - fork.end)
            src.append(at(main, fork.at, last=True))
            dst.append(at(main, fork.until, last=False))
            w.append(0)
    builder.link(np.array(src), np.array(dst), np.array(w), FORK)
