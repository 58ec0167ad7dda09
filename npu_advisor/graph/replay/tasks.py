"""The device tasks of one rank as one table of arrays: kernels, copies, event tasks, collectives.

A collective is one task; its sub-tasks are left out. Where a collective's sub-tasks name a stream, the collective
lies on that stream, so that it keeps its order with the event tasks there. Without sub-tasks it is the stream of the
event wait that was issued just before: what a collective needs, its stream waits for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.replay.arrays import Numbers
from npu_advisor.model.profile import Profile

KERNEL, COPY, COMM, RECORD, EVENT_WAIT, OTHER = range(6)
SOURCES = ("kernels", "tasks", "comms")
_CLASS_OF_KIND = {"copy": COPY, "event_record": RECORD, "event_wait": EVENT_WAIT}


class Tasks(NamedTuple):
    """One row per device task, in order of stream and start.

    ``table`` indexes SOURCES and ``row`` is the position there; ``launch`` is -1 where unknown; ``asked`` is when the
    host thread asked for it (its Enqueue, else its launch); ``issue`` ranks all tasks in the order they were issued.
    Times are ns since the epoch.
    """

    table: Numbers
    row: Numbers
    kind: Numbers
    lane: Numbers
    start: Ints
    end: Ints
    launch: Ints
    dequeue: Numbers
    op: Numbers
    api: Numbers
    asked: Ints
    issue: Numbers

    def take(self, rows: Ints) -> Tasks:
        """These rows only."""
        return Tasks(*(column[rows] for column in self))

    def narrow(self) -> Tasks:
        """These tasks with all but their times kept in four bytes."""
        times = ("start", "end", "launch", "asked")
        return self._replace(
            **{name: column.astype(np.int32) for name, column in self._asdict().items() if name not in times}
        )

    def of(self, name: str, rows: Ints) -> Ints:
        """Positions of the tasks that are ``rows`` of the table ``name``."""
        if name not in SOURCES:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero((self.table == SOURCES.index(name)) & np.isin(self.row, rows))


def tasks_of(profile: Profile) -> Tasks:
    """The tasks of a linked profile."""
    kernels, tasks, comms = (profile.table(name) for name in SOURCES)
    kept = [np.arange(len(kernels)), _outside_collectives(profile), np.arange(len(comms))]
    kinds = [np.full(len(kernels), KERNEL), _kinds(profile)[kept[1]], np.full(len(comms), COMM)]

    def column(name: str) -> Ints:
        parts = [table[name][rows] for table, rows in zip((kernels, tasks, comms), kept, strict=True)]
        return np.concatenate(parts).astype(np.int64)

    lane = np.concatenate([kernels["track"], tasks["track"][kept[1]], _comm_lanes(profile)]).astype(np.int64)
    launch, dequeue = column("launch_ns"), column("dequeue")
    asked = _asked(profile, dequeue, launch)
    made = Tasks(
        table=np.repeat(np.arange(3), [len(rows) for rows in kept]),
        row=np.concatenate(kept).astype(np.int64),
        kind=np.concatenate(kinds).astype(np.int64),
        lane=lane,
        start=column("start_ns"),
        end=column("end_ns"),
        launch=launch,
        dequeue=dequeue,
        op=column("op"),
        api=column("api"),
        asked=asked,
        issue=_issue(launch, column("connection"), column("start_ns")),
    )
    made = made._replace(lane=_lanes_by_issue(profile, made))
    return made.take(np.lexsort((made.end, made.start, made.lane))).narrow()


def _kinds(profile: Profile) -> Ints:
    kind = profile.table("tasks")["kind"]
    classes = np.array([_CLASS_OF_KIND.get(str(name), OTHER) for name in kind.categories] + [OTHER], dtype=np.int64)
    found: Ints = classes[kind.codes]
    return found


def _outside_collectives(profile: Profile) -> Ints:
    """Rows of ``tasks`` that are no sub-task of a collective and not unexplained (no kind, no launch)."""
    tasks, comms = profile.table("tasks"), profile.table("comms")
    ids = comms["connection"][comms["connection"] > 0]
    inside = np.isin(tasks["connection"], ids)
    idle = (_kinds(profile) == OTHER) & (tasks["launch_ns"] < 0)
    return np.flatnonzero(~inside & ~idle)


def _comm_lanes(profile: Profile) -> Ints:
    """The stream of each collective's sub-tasks where one is named, else its own track."""
    tasks, comms = profile.table("tasks"), profile.table("comms")
    lane: Ints = comms["track"].astype(np.int64).copy()
    if not len(tasks) or not len(comms):
        return lane
    order = np.argsort(tasks["connection"], kind="stable")
    ids = tasks["connection"][order]
    index = np.minimum(np.searchsorted(ids, comms["connection"]), len(ids) - 1)
    known = (comms["connection"] > 0) & (ids[index] == comms["connection"])
    return np.where(known, tasks["track"][order[index]], lane)


def _lanes_by_issue(profile: Profile, tasks: Tasks) -> Ints:
    """The lane of each task, where collectives on a track of their own move to the stream whose event waits are issued
    just before them, most of the time."""
    lane = tasks.lane.copy()
    own = profile.table("comms")["track"]
    apart = np.flatnonzero(tasks.kind == COMM)
    apart = apart[tasks.lane[apart] == own[tasks.row[apart]]]
    order = np.argsort(tasks.issue)
    before = order[np.maximum(tasks.issue[apart] - 1, 0)]
    waited = (tasks.issue[apart] > 0) & (tasks.kind[before] == EVENT_WAIT)
    for track in np.unique(tasks.lane[apart]).tolist():
        mine = tasks.lane[apart] == track
        streams, counts = np.unique(tasks.lane[before[mine & waited]], return_counts=True)
        if len(streams) and 2 * counts.max() > mine.sum():
            lane[apart[mine]] = streams[np.argmax(counts)]
    return lane


def _asked(profile: Profile, dequeue: Ints, launch: Ints) -> Ints:
    dequeues, enqueues = profile.table("dequeues"), profile.table("enqueues")
    pushed = np.full(len(dequeue), -1, dtype=np.int64)
    known = dequeue >= 0
    push = dequeues["enqueue"][dequeue[known]]
    pushed[known] = np.where(push >= 0, enqueues["start_ns"][np.maximum(push, 0)] if len(enqueues) else -1, -1)
    return np.where(pushed >= 0, pushed, launch)


def _issue(launch: Ints, connection: Ints, start: Ints) -> Ints:
    """Rank in issue order: by launch; a task without one comes after the task with the next smaller connection id."""
    at = launch.copy()
    known: Mask = (launch >= 0) & (connection > 0)
    lost = np.flatnonzero((launch < 0) & (connection > 0))
    if known.any() and len(lost):
        order = np.flatnonzero(known)[np.argsort(connection[known], kind="stable")]
        index = np.searchsorted(connection[order], connection[lost], side="right") - 1
        at[lost] = np.where(index >= 0, launch[order[np.maximum(index, 0)]], launch[order[0]] - 1)
    at = np.where(at < 0, start, at)
    rank = np.empty(len(at), dtype=np.int64)
    rank[np.lexsort((start, connection, at))] = np.arange(len(at))
    return rank
