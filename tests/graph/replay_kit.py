"""Small runs made by hand for the replay: what a thread, the queue, a stream or another rank does, times in us."""

from __future__ import annotations

from typing import Any

import numpy as np
from graph.build import arrow, profile

from npu_advisor.graph.replay import Edit, Replayer
from npu_advisor.graph.replay.arrays import DROPPED, KINDS, Net
from npu_advisor.graph.replay.reweigh import Reweighing
from npu_advisor.model.profile import Profile

MAIN, QUEUE, CANN, STREAM, SECOND, HCCL, BACKWARD, MAIN_CALLS = range(8)
TRACKS = [
    {"process": "Python", "thread": "main", "pid": 1, "tid": 100},
    {"process": "Python", "thread": "queue", "pid": 1, "tid": 200},
    {"process": "CANN", "thread": "queue", "pid": 2, "tid": 200},
    {"process": "Ascend Hardware", "thread": "Stream 2", "pid": 3, "tid": 2},
    {"process": "Ascend Hardware", "thread": "Stream 3", "pid": 3, "tid": 3},
    {"process": "HCCL", "thread": "Group 0 Communication", "pid": 4, "tid": 0},
    {"process": "Python", "thread": "backward", "pid": 1, "tid": 300},
    {"process": "CANN", "thread": "main", "pid": 2, "tid": 100},
]
# What every run here has between the stages: Enqueue 2, on to the Dequeue 4, on to the launch 3, on to the device 10.
PUSH, POP, CALL, LATENCY, BETWEEN, GAP = 2, 4, 3, 10, 2, 1


class Run:
    """A run that is written down as it happens: every method takes the times that the run would have had."""

    def __init__(self, rank: int = 0) -> None:
        self.rank, self.rows = rank, {name: [] for name in ("ops", "enqueues", "dequeues", "kernels", "apis")}
        self.rows |= {name: [] for name in ("tasks", "comms", "flow_points")}
        self.now = {MAIN: 0.0, BACKWARD: 0.0}
        self.queue_free = -1000.0
        self.free: dict[int, float] = {}
        self.number = 0

    def op(
        self,
        name: str,
        us: float,
        *,
        wait: float = 0,
        python: float = 20,
        thread: int = MAIN,
        lane: int = STREAM,
        kind: str = "kernels",
        dequeue: float = 8,
        after: float = -1000.0,
        source: str | None = None,
        push: float = 0,
    ) -> float:
        """Python, then an op that pushes one entry, which launches one task of ``us`` on ``lane``; its end.

        ``after`` is a time on the device before which it cannot start; ``wait`` and ``push`` hold the calls back.
        """
        self.number += 1
        start = self.now[thread] + python
        pushed = start + 5 + push
        begin = max(pushed + PUSH + POP, self.queue_free + BETWEEN)
        launch = begin + CALL + wait
        self.queue_free = launch + dequeue - CALL
        at = max(launch + LATENCY, self.free.get(lane, -1000.0) + GAP, after)
        self.free[lane] = at + us
        self.now[thread] = pushed + PUSH + 3
        self.rows["ops"].append(
            {"name": name, "at": start, "us": self.now[thread] - start, "track": thread, "source": source}
        )
        self.rows["enqueues"].append(
            {"name": "Enqueue", "at": pushed, "us": PUSH, "track": thread, "correlation": self.number}
        )
        self.rows["dequeues"].append(
            {"name": "Dequeue", "at": begin, "us": self.queue_free - begin, "track": QUEUE, "correlation": self.number}
        )
        self.task(kind, name, at, us, lane)
        self.rows["flow_points"] += arrow("HostToDevice", self.number, (CANN, launch), (lane, at))
        return at + us

    def task(self, kind: str, name: str, at: float, us: float, lane: int) -> None:
        """A device task as recorded."""
        row: dict[str, Any] = {"name": name, "at": at, "us": us, "track": lane}
        if kind == "comms":
            row |= {"type": "allReduce", "group": "g"}
        elif kind == "kernels":
            row |= {"type": name, "core": "AI_CORE"}
        else:
            kinds = {"EVENT_RECORD": "event_record", "EVENT_WAIT": "event_wait"}
            row |= {"kind": kinds.get(name, "copy"), "task_type": name}
        self.rows[kind].append(row)

    def sync(
        self,
        *,
        own: float = 6,
        python: float = 20,
        late: float = 8,
        call: str = "aclrtSynchronizeStream",
        drained: float = -1000.0,
    ) -> None:
        """A blocking ``call`` on the main thread, below an op; it is not made before ``drained``."""
        begin = self.now[MAIN] + python
        start = max(begin, drained)
        end = max(start + own, max(self.free.values(), default=-1000.0) + late)
        self.rows["ops"].append({"name": "aten::item", "at": begin - 2, "us": end - begin + 4, "track": MAIN})
        self.rows["apis"].append({"name": call, "level": "acl", "at": start, "us": end - start, "track": MAIN_CALLS})
        self.now[MAIN] = end + 3

    def direct(self, name: str, us: float, *, python: float = 20) -> None:
        """An op that launches its kernel itself, without the queue."""
        self.number += 1
        start = self.now[MAIN] + python
        launch = start + 8
        at = max(launch + LATENCY, self.free.get(STREAM, -1000.0) + GAP)
        self.free[STREAM] = at + us
        self.now[MAIN] = launch + 6
        self.rows["ops"].append({"name": name, "at": start, "us": self.now[MAIN] - start, "track": MAIN})
        self.rows["apis"].append(
            {"name": "aclnnLaunch", "level": "node", "at": launch - 1, "us": 4, "track": MAIN_CALLS}
        )
        self.task("kernels", name, at, us, STREAM)
        self.rows["flow_points"] += arrow("HostToDevice", self.number, (MAIN_CALLS, launch), (STREAM, at))

    def release(self, record: float) -> None:
        """An EVENT_WAIT on the compute stream that the EVENT_RECORD over at ``record`` releases; the slice of a wait
        that blocks is cut to its last 20 ns."""
        self.op("EVENT_WAIT", 0, kind="tasks")
        wait = self.rows["tasks"][-1]
        end = max(wait["at"], record + 0.5)
        if end > wait["at"]:
            wait |= {"at": end - 0.02, "us": 0.02}
            self.rows["flow_points"][-1]["at"] = end - 0.02
        self.free[STREAM] = end

    def end(self) -> float:
        """When everything was over."""
        return max(self.now[MAIN] + 10, *self.now.values(), *self.free.values(), self.queue_free)

    def profile(self) -> Profile:
        """What a profiler would have kept of it."""
        self.rows["ops"].append({"name": "ProfilerStep#1", "at": -5, "us": self.now[MAIN] + 5 + 10, "track": MAIN})
        return profile(self.rank, tracks=TRACKS, **{name: rows for name, rows in self.rows.items() if rows})

    def replayer(self) -> Replayer:
        return Replayer(self.profile())


def named(replayer: Replayer, name: str, table: str = "kernels", rank: int = 0) -> np.ndarray:
    """Rows of ``table`` that are called ``name``."""
    return np.flatnonzero(replayer.profiles[rank].table(table).strings("name") == name)


def saved(replayer: Replayer, kind: str, table: str, name: str, value: float | None = None, rank: int = 0) -> float:
    """What the expected edit saves, in us."""
    rows = named(replayer, name, table, rank)
    values = None if value is None else np.full(len(rows), value)
    variants = replayer.fixer(rank).variants(kind, table, rows, values)
    assert variants is not None
    return replayer.price(variants.expected) / 1000.0


def without(replayer: Replayer, kind: int) -> Replayer:
    """The same graph with every edge of one kind broken."""
    w = np.where(replayer.graph.net.kind == kind, DROPPED, replayer.calibrated.w)
    assert (w != replayer.calibrated.w).any(), f"no {KINDS[kind]} edge here"
    replayer.calibrated = replayer.calibrated._replace(w=w)
    replayer.end = int(replayer.solver.solve(w, replayer.calibrated.rec).max())
    replayer.reweighing = Reweighing(replayer.graph.net, w)
    return replayer


def weights(net: Net, w: np.ndarray, *edits: Edit) -> np.ndarray:
    """All edge weights with edits applied."""
    return Reweighing(net, w).of(edits, np.arange(len(w)))


def times(replayer: Replayer) -> np.ndarray:
    """When everything happens in the calibrated graph."""
    return replayer.solver.solve(replayer.calibrated.w, replayer.calibrated.rec)
