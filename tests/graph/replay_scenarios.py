"""Runs for the rules of the replay, each made twice: as it was, and as it would have been with the cure.

The difference of their ends is what the cure truly saves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from build import arrow
from replay_kit import BACKWARD, CANN, HCCL, MAIN, QUEUE, SECOND, STREAM, Run, named

from npu_advisor.graph.replay import Edit, Replayer, merge

Runs = list[Run]


class Scenario(NamedTuple):
    """``runs(cured)`` are the ranks with and without the cure; ``edit`` is that cure on the recorded run."""

    runs: Callable[[bool], Runs]
    edit: Callable[[Replayer], Edit]

    @property
    def truth(self) -> float:
        """What the cure saves, in us: the runs simulated with and without it."""
        before, after = (max(run.end() for run in self.runs(cured)) for cured in (False, True))
        return before - after

    def replayer(self) -> Replayer:
        """The replay of the recorded runs."""
        return Replayer([run.profile() for run in self.runs(False)])

    def told(self) -> float:
        """What the replay says that the cure saves, in us."""
        made = self.replayer()
        return made.price(self.edit(made)) / 1000.0


def fix(kind: str, table: str, name: str, value: float | None = None, rank: int = 0) -> Callable[[Replayer], Edit]:
    """The expected edit of a fix of the rows called ``name``."""

    def edit(made: Replayer) -> Edit:
        rows = named(made, name, table, rank)
        values = None if value is None else np.full(len(rows), value)
        variants = made.fixer(rank).variants(kind, table, rows, values)
        assert variants is not None
        return variants.expected

    return edit


def cut(track: int, after: str, us: float, table: str = "ops") -> Callable[[Replayer], Edit]:
    """``us`` of a thread's own work go, 10 us behind the end of each row called ``after``."""

    def edit(made: Replayer) -> Edit:
        low = made.profiles[0].table(table)["end_ns"][named(made, after, table)] + 10_000
        return made.fixer(0).context.edit.cut(track, low, low + int(us * 1000))

    return edit


def kernels_gone(*names: str) -> Callable[[Replayer], Edit]:
    def edit(made: Replayer) -> Edit:
        rows = np.flatnonzero(np.isin(made.profiles[0].table("kernels").strings("name"), names))
        return made.fixer(0).context.edit.remove_tasks(made.graph.ranks[0].tasks.of("kernels", rows))

    return edit


def synced(cured: bool) -> Runs:
    run = Run()
    run.op("Small", 10)
    run.sync()
    run.op("Slow", 400 if cured else 900)
    run.sync()
    run.op("Last", 10)
    return [run]


def blocking_copy(cured: bool) -> Runs:
    run = Run()
    run.op("Slow", 400 if cured else 900)
    run.sync(call="aclrtMemcpy")
    run.op("Last", 10)
    return [run]


def level0(cured: bool) -> Runs:
    """No CANN calls in the trace: an op launches a kernel and is silent until that is done."""
    run = Run()
    for _ in range(3):
        run.op("Small", 10)
    run.op("Slow", 400 if cured else 900)
    end = run.op("aten::nonzero", 20)
    run.now[MAIN] = end + 12
    op = run.rows["ops"][-1]
    op["us"] = run.now[MAIN] - op["at"]
    run.op("Last", 10)
    return [run]


def backward(cured: bool) -> Runs:
    """The main thread stands still, without any event, until the other thread is done."""
    run = Run()
    run.op("Forward", 10)
    run.now[BACKWARD] = run.now[MAIN] + 40
    for number in range(4):
        run.op(f"Grad{number}", 10, python=300 if number == 2 and not cured else 30, thread=BACKWARD)
    run.now[MAIN] = run.now[BACKWARD] + 30
    run.op("Update", 10)
    run.op("Update", 10)
    return [run]


def falling_queue(cured: bool) -> Runs:
    """The device is far behind at first and catches up, but is never idle: only the shortest way from a launch to a
    start is latency."""
    run = Run()
    for number in range(6):
        run.op(f"K{number}", 100 if number == 3 and cured else 200)
    for number in range(13):
        run.op(f"Tail{number}", 20, python=62)
    return [run]


def hidden_copy(cured: bool) -> Runs:
    """A kernel waits for a copy on another stream; nothing in the trace says so but the times."""
    run = Run()
    for number in range(4):
        run.op(f"A{number}", 20)
    end = run.op("Copy", 400 if cured else 800, kind="tasks", lane=SECOND)
    run.op("B", 600, after=end + 3)
    return [run]


def late_collective(cured: bool) -> Runs:
    """A collective launched long after its gradient was ready: that wait binds only once Python is faster."""
    run = Run()
    for number in range(3):
        end = run.op(f"Grad{number}", 400 if number == 2 else 20)
    end = run.op("allReduce", 300, kind="comms", lane=HCCL, python=40 if cured else 640, after=end + 2)
    run.rows["ops"].append({"name": "Optimizer.step#SGD.step", "at": run.now[MAIN] + 10, "us": 60, "track": MAIN})
    run.op("Update", 30, after=end + 2)
    return [run]


def bucket(cured: bool) -> Runs:
    """Explicit events: the collective waits for a gradient, not for the kernel issued last before it."""
    run = Run()
    run.op("Grad", 20)
    record = run.op("EVENT_RECORD", 0.02, kind="tasks")
    run.op("Long", 500)
    run.op("EVENT_WAIT", 0, kind="tasks", lane=SECOND, python=40 if cured else 640, after=record + 0.5)
    run.op("allReduce", 700, kind="comms", lane=SECOND)
    return [run]


def released(cured: bool) -> Runs:
    """A copy stream's EVENT_RECORD releases the compute stream's EVENT_WAIT, whose slice is cut to its end."""
    run = Run()
    for number in range(4):
        run.op(f"A{number}", 20)
    run.op("Copy", 400 if cured else 800, kind="tasks", lane=SECOND)
    run.release(run.op("EVENT_RECORD", 0.02, kind="tasks", lane=SECOND))
    run.op("B", 600)
    return [run]


def two_records(cured: bool) -> Runs:
    """The wait is for the record issued last; another one ended later but has nothing to do with it."""
    run = Run()
    run.op("Slow", 100 if cured else 900)
    run.op("Other", 600, kind="tasks", lane=HCCL)
    run.op("EVENT_RECORD", 0.02, kind="tasks", lane=HCCL)
    run.op("Copy", 100, kind="tasks", lane=SECOND)
    run.release(run.op("EVENT_RECORD", 0.02, kind="tasks", lane=SECOND))
    run.op("B", 600)
    return [run]


def sub_tasks(cured: bool) -> Runs:
    """A collective whose stream holds its sub-tasks, some at once; later work of that stream waits for the whole."""
    run = Run()
    record = run.op("A", 20)
    length = 200 if cured else 400
    end = run.op("allReduce", length, kind="comms", lane=SECOND, after=record)
    comm = run.rows["comms"][-1]
    comm |= {"connection": 77, "track": HCCL}
    run.rows["flow_points"][-1]["track"] = HCCL
    launch = run.rows["flow_points"][-2]["at"]
    for number in range(4):
        run.task("tasks", "SDMA", comm["at"] + 5 + 10 * number, length - 50, SECOND)
        run.rows["tasks"][-1]["connection"] = 77
        at = run.rows["tasks"][-1]["at"]
        run.rows["flow_points"] += arrow("HostToDevice", 100 + number, (CANN, launch), (SECOND, at))
    run.release(run.op("EVENT_RECORD", 0.02, kind="tasks", lane=SECOND, after=end))
    run.op("B", 600)
    run.sync()
    run.op("Last", 10)
    return [run]


def unseen_sub_tasks(cured: bool) -> Runs:
    """Collectives of which only the slices of the communicator are there; their stream shows event tasks alone."""
    run = Run()
    run.op("A", 20)
    for _ in range(4):
        ready = run.op("EVENT_RECORD", 0.02, kind="tasks")
        run.op("EVENT_WAIT", 0.02, kind="tasks", lane=SECOND, after=ready)
        end = run.op("allReduce", 200 if cured else 400, kind="comms", lane=SECOND)
        run.rows["comms"][-1]["track"] = run.rows["flow_points"][-1]["track"] = HCCL
        run.release(run.op("EVENT_RECORD", 0.02, kind="tasks", lane=SECOND, after=end))
    run.op("Last", 10)
    return [run]


def in_parallel(cured: bool) -> Runs:
    """Two kernels of one stream that really overlap: the second does not wait for the first."""
    run = Run()
    for number in range(3):
        run.op(f"A{number}", 200)
    run.op("First", 300)
    begin = run.free[STREAM] - 300
    if cured:
        run.rows["kernels"][-1]["us"] = 100
    run.free[STREAM] = begin + 19
    run.op("Second", 400)
    return [run]


def held_back(
    count: int, us: Callable[[int], float], dequeue: Callable[[int], float] = lambda _: 8, *, early: bool = False
) -> Run:
    """Eight launches may be outstanding on the stream; the next waits until the oldest is done. 0 us is no kernel.

    With ``early`` the launches are written down as they were before that wait.
    """
    run, ends = Run(), []
    for number in range(count):
        launch = max(run.now[MAIN] + 20 + 5 + 2 + 4, run.queue_free + 2) + 3
        if not us(number):
            run.op(f"K{number}", 0, lane=SECOND, kind="tasks", dequeue=dequeue(number))
            continue
        held = max(0.0, ends[-8] + 2 - launch) if len(ends) >= 8 else 0.0
        ends.append(run.op(f"K{number}", us(number), wait=held, dequeue=dequeue(number)))
        if early:
            run.rows["flow_points"][-2]["at"] -= held
    return run


def _uneven(number: int) -> float:
    # Only the true depth keeps a constant distance between kernels of different lengths.
    return 100 + 13 * (number * 7 % 11)


def full_stream(cured: bool) -> Runs:
    return [held_back(60, lambda number: _uneven(number) * (0.5 if cured and number < 50 else 1))]


def stamped_early(cured: bool) -> Runs:
    return [held_back(60, lambda number: _uneven(number) * (0.5 if cured and number < 50 else 1), early=True)]


def small_ones(cured: bool) -> Runs:
    """Every second kernel goes. Then more real work fits into the stream, which bridges one long entry of the queue."""

    def us(number: int) -> float:
        return _uneven(number) if number % 2 else (0 if cured else 3 + number % 5)

    return [held_back(80, us, lambda number: 900 if number == 59 else 8)]


def long_entry(cured: bool) -> Runs:
    """One entry of the queue takes longer than the full stream can bridge."""
    return [held_back(80, _uneven, lambda number: (600 if cured else 3000) if number == 59 else 8)]


def full_queue(cured: bool) -> Runs:
    """Six entries may be queued; the seventh Enqueue waits for a Dequeue to be over."""
    run, ends = Run(), []
    for number in range(60):
        usual = 60 + 9 * (number * 7 % 11)
        length = usual * 0.4 if cured and 10 <= number < 40 else usual
        pushed = run.now[MAIN] + 5
        held = max(0.0, ends[number - 6] + 3 - pushed) if number >= 6 else 0.0
        run.op(f"K{number}", 10, python=0, dequeue=length, push=held)
        ends.append(run.queue_free)
    return [run]


def shorter_entries(made: Replayer) -> Edit:
    dequeues = made.profiles[0].table("dequeues")
    rows = np.arange(10, 40)
    length = dequeues["end_ns"][rows] - dequeues["start_ns"][rows]
    low = dequeues["start_ns"][rows] + 5_000
    return made.fixer(0).context.edit.cut(QUEUE, low, low + (length * 0.6).astype(np.int64))


def drained(cured: bool, *, called: bool = True) -> Runs:
    """A direct call is not made before the queue has run empty."""
    run = Run()
    run.op("Early", 10)
    run.sync(drained=run.queue_free + 2)
    for number in range(4):
        run.op(f"K{number}", 10, dequeue=100 if number == 1 and cured else 400)
    if called:
        run.sync(drained=run.queue_free + 2)
    run.op("After", 10)
    for number in range(3):
        run.op(f"Tail{number}", 10, python=400)
    return [run]


def cut_entry(row: int, us: float) -> Callable[[Replayer], Edit]:
    """``us`` of one Dequeue's own work go."""

    def edit(made: Replayer) -> Edit:
        end = made.profiles[0].table("dequeues")["end_ns"][[row]] - 1_000
        return made.fixer(0).context.edit.cut(QUEUE, end - int(us * 1000), end)

    return edit


def uncalled(made: Replayer) -> Edit:
    """The last sync goes, with its op."""
    return made.fixer(0).context.edit.remove_ops(named(made, "aten::item", "ops")[-1:])


def self_launched(cured: bool) -> Runs:
    run = Run()
    for number in range(6):
        run.direct(f"K{number}", 100)
    if not cured:
        run.direct("Extra", 400)
    run.direct("Last", 100)
    return [run]


def wrapped(cured: bool) -> Runs:
    """Python, the end of a wrapper, Python, an op: only what follows the wrapper belongs to the op."""
    run = Run()
    run.op("First", 10)
    begin = run.now[MAIN] + 10
    run.now[MAIN] = begin + 300
    run.rows["ops"].append({"name": "Optimizer.zero_grad#SGD.zero_grad", "at": begin, "us": 300, "track": MAIN})
    if not cured:
        run.op("Needless", 10, python=50)
    run.op("Last", 10, python=50)
    run.op("Last", 10, python=50)
    return [run]


def _meet(runs: Runs, transit: float, group: str = "g") -> None:
    """All runs' next collective: it starts when each is there and ends together."""
    for run in runs:
        run.op(f"{group}__allReduce", 0, kind="comms", lane=HCCL, after=run.free.get(STREAM, 0) + 2)
        run.rows["comms"][-1]["group"] = group
    end = max(run.free[HCCL] for run in runs) + transit
    for run in runs:
        row = run.rows["comms"][-1]
        row["us"] = end - row["at"]
        run.free[HCCL] = end


def _pass(sender: Run, receiver: Run, transit: float) -> None:
    """Point to point: a send and its receive begin when each side is there and end together."""
    _meet([sender, receiver], transit, "p")
    for run, kind in ((sender, "send"), (receiver, "receive")):
        run.rows["comms"][-1]["type"] = kind


def stages(cured: bool) -> Runs:
    """Two stages of a pipeline, forth and back."""
    runs = [Run(0), Run(1)]
    runs[0].op("Slow", 500 if cured else 900)
    _pass(runs[0], runs[1], 100)
    runs[1].op("Second", 200, after=runs[1].free[HCCL] + 1)
    _pass(runs[1], runs[0], 100)
    runs[0].op("Last", 30, after=runs[0].free[HCCL] + 1)
    return runs


def _update(runs: Runs) -> None:
    for run in runs:
        run.rows["ops"].append({"name": "Optimizer.step#SGD.step", "at": run.now[MAIN] + 10, "us": 60, "track": MAIN})
        run.op("Update", 30, after=run.free[HCCL] + 1)


def two_groups(cured: bool) -> Runs:
    """Each rank is also in a group whose other members are not here."""
    runs = [Run(0), Run(1)]
    _meet(runs[:1], 50, "first")
    for run in runs:
        run.op("Slow" if run.rank else "Fast", (500 if cured else 900) if run.rank else 100)
    _meet(runs, 300)
    _update(runs[:1])
    _meet(runs[1:], 50, "last")
    _update(runs[1:])
    return runs


def slow_rank(us: float) -> Runs:
    runs = [Run(0), Run(1)]
    for run in runs:
        run.op("Before", 20)
        run.op("Slow" if run.rank else "Fast", us if run.rank else 400)
    _meet(runs, 300)
    _update(runs)
    return runs


def slow_link(cured: bool) -> Runs:
    runs = [Run(0), Run(1)]
    for run in runs:
        run.op("Slow" if run.rank else "Fast", 900 if run.rank else 100)
    _meet(runs, 150 if cured else 300)
    _update(runs)
    return runs


def faster_link(made: Replayer) -> Edit:
    return merge(fix("scale", "comms", "g__allReduce", 0.5, rank)(made) for rank in (0, 1))


def device_ahead(run: Run, us: float) -> Run:
    """The device's clock is ahead of the host's by ``us``."""
    (run,) = shifted([run], 1000)
    device = [*run.rows["kernels"], *run.rows["tasks"], *run.rows["comms"]]
    for row in [*device, *(point for point in run.rows["flow_points"] if point["finish"])]:
        row["at"] += us
    return run


def shifted(runs: Runs, us: float) -> Runs:
    """The last rank's clocks are ahead by ``us``."""
    run = runs[-1]
    for rows in run.rows.values():
        for row in rows:
            row["at"] += us
    run.now = {thread: at + us for thread, at in run.now.items()}
    return runs


def half_of_most(made: Replayer) -> Edit:
    own = made.graph.ranks[0].tasks
    first = own.of("kernels", np.concatenate([named(made, f"K{number}") for number in range(50)]))
    return made.fixer(0).context.edit.run(first, (own.end[first] - own.start[first]) // 2)


SCENARIOS = {
    "a kernel that the host waits for": Scenario(synced, fix("cap", "kernels", "Slow", 400.0)),
    "a blocking copy": Scenario(blocking_copy, fix("cap", "kernels", "Slow", 400.0)),
    "a sync without CANN calls": Scenario(level0, fix("cap", "kernels", "Slow", 400.0)),
    "Python of the backward thread": Scenario(backward, cut(BACKWARD, "Grad1", 270)),
    "a kernel while the queue gets shorter": Scenario(falling_queue, fix("cap", "kernels", "K3", 100.0)),
    "a copy that nothing names as the cause": Scenario(hidden_copy, fix("scale", "tasks", "Copy", 0.5)),
    "Python before a collective": Scenario(late_collective, cut(MAIN, "Grad2", 600)),
    "Python before a collective with events": Scenario(bucket, cut(MAIN, "Long", 600)),
    "a copy that an event tells of": Scenario(released, fix("scale", "tasks", "Copy", 0.5)),
    "work before a wait for one of two records": Scenario(two_records, fix("scale", "kernels", "Slow", 100 / 900)),
    "a collective with sub-tasks": Scenario(sub_tasks, fix("scale", "comms", "allReduce", 0.5)),
    "collectives without sub-tasks": Scenario(unseen_sub_tasks, fix("scale", "comms", "allReduce", 0.5)),
    "a stage of a pipeline": Scenario(stages, fix("cap", "kernels", "Slow", 500.0)),
    "a kernel beside another": Scenario(in_parallel, fix("cap", "kernels", "First", 100.0)),
    "kernels on a full stream": Scenario(full_stream, half_of_most),
    "kernels on a full stream, launches noted early": Scenario(stamped_early, half_of_most),
    "small kernels on a full stream": Scenario(small_ones, kernels_gone(*(f"K{number}" for number in range(0, 80, 2)))),
    "a long entry before a full stream": Scenario(long_entry, cut_entry(59, 2400)),
    "entries of a full queue": Scenario(full_queue, shorter_entries),
    "an entry before a direct call": Scenario(drained, cut_entry(2, 300)),
    "a direct call": Scenario(lambda cured: drained(False, called=not cured), uncalled),
    "an op that launches by itself": Scenario(self_launched, fix("remove", "ops", "Extra")),
    "an op behind the end of a wrapper": Scenario(wrapped, fix("remove", "ops", "Needless")),
    "a slow rank, several groups": Scenario(two_groups, fix("cap", "kernels", "Slow", 500.0, rank=1)),
    "a slow rank, clocks apart": Scenario(
        lambda cured: shifted(slow_rank(50 if cured else 900), 200), fix("scale", "kernels", "Slow", 50 / 900, rank=1)
    ),
    "a slow link": Scenario(slow_link, faster_link),
}
