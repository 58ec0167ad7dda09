"""Each kind of edge on a run made by hand: the saving is known, and without that kind of edge it comes out wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from replay_kit import BACKWARD, HCCL, LATENCY, MAIN, SECOND, Run, named, saved, times, without
from replay_scenarios import SCENARIOS

from npu_advisor.graph.replay import Replayer
from npu_advisor.graph.replay.arrays import (
    CALL,
    COLLECTIVE,
    DEPTH,
    EVENT,
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
    WAIT,
)


def host_bound() -> Replayer:
    run = Run()
    for number in range(8):
        run.op(f"K{number}", 500 if number == 7 else 10, python=100 if number == 5 else 60)
    return run.replayer()


def device_bound() -> Replayer:
    run = Run()
    for number in range(8):
        run.op(f"K{number}", 200 if number == 3 else 100)
    return run.replayer()


def queue_bound() -> Replayer:
    """Every Enqueue is long done when the dequeue thread gets to it."""
    run = Run()
    for number in range(8):
        run.op(f"K{number}", 10, python=0, dequeue=200 if number == 3 else 90)
    return run.replayer()


def synced() -> Replayer:
    """The device is slow once and the host waits for it; the second sync has nothing to wait for."""
    run = Run()
    run.op("Small", 10)
    run.sync(own=40)
    run.op("Slow", 900)
    run.sync(own=40)
    run.op("Small", 10)
    run.now[MAIN] += 1000
    run.sync(own=40)
    run.op("Last", 10)
    return run.replayer()


def two_streams() -> Replayer:
    """A copy stream's EVENT_RECORD releases the compute stream's EVENT_WAIT."""
    run = Run()
    for number in range(4):
        run.op(f"A{number}", 20)
    run.op("Copy", 800, kind="tasks", lane=SECOND)
    record = run.op("EVENT_RECORD", 0.02, kind="tasks", lane=SECOND)
    ready = run.free[3]
    run.op("EVENT_WAIT", 0, kind="tasks")
    wait = run.rows["tasks"][-1]
    wait["us"] = max(0.0, record + 0.5 - wait["at"])
    run.free[3] = max(ready, wait["at"] + wait["us"])
    run.op("B", 600)
    return run.replayer()


def no_event_tasks() -> Replayer:
    """A kernel that starts when a task of another stream ends, where the trace has no event tasks."""
    run = Run()
    for number in range(4):
        run.op(f"A{number}", 20)
    end = run.op("Copy", 800, kind="tasks", lane=SECOND)
    run.op("B", 600, after=end + 3)
    return run.replayer()


def backward() -> Replayer:
    """The main thread stands still, without any event, until the other thread is done."""
    run = Run()
    run.op("Forward", 10)
    run.now[BACKWARD] = run.now[MAIN] + 40
    for number in range(4):
        run.op(f"Grad{number}", 10, python=300 if number == 2 else 30, thread=BACKWARD)
    run.now[MAIN] = run.now[BACKWARD] + 30
    run.op("Update", 10)
    run.op("Update", 10)
    return run.replayer()


def two_ranks() -> Replayer:
    """Rank 1 has a slow kernel; rank 0 waits for it in the collective."""
    runs = [Run(0), Run(1)]
    arrivals = []
    for run in runs:
        run.op("Before", 20)
        end = run.op("Slow" if run.rank else "Fast", 900 if run.rank else 100)
        run.op("allReduce", 0, kind="comms", lane=HCCL, after=end + 2)
        arrivals.append(run.free[HCCL])
    for run in runs:
        row = run.rows["comms"][-1]
        row["us"] = max(arrivals) + 300 - row["at"]
        run.free[HCCL] = max(arrivals) + 300
        run.rows["ops"].append({"name": "Optimizer.step#SGD.step", "at": run.now[MAIN] + 10, "us": 60, "track": MAIN})
        run.op("Update", 30, after=run.free[HCCL] + 1)
    return Replayer([run.profile() for run in runs])


def full_stream() -> Replayer:
    """Eight launches may be outstanding; the ninth waits until the first is done."""
    run, ends = Run(), []
    for number in range(60):
        # Kernels of different lengths: only the true depth keeps a constant distance.
        us = 100 + 13 * (number * 7 % 11)
        launch = max(run.now[MAIN] + 20 + 5 + 2 + 4, run.queue_free + 2) + 3
        held = max(0.0, ends[number - 8] + 2 - launch) if number >= 8 else 0.0
        ends.append(run.op(f"K{number}", us, wait=held))
    run.rows["ops"].append(
        {"name": "tail", "at": run.now[MAIN] + 10, "us": run.queue_free - run.now[MAIN], "track": MAIN}
    )
    return run.replayer()


FULL = SCENARIOS["a long entry before a full stream"]
CASES: dict[str, tuple[Callable[[], Replayer], Callable[[Replayer], float], float, tuple[int, ...]]] = {
    "Python on the way to the last kernel": (
        host_bound,
        lambda r: saved(r, "close", "dequeues", "Dequeue"),
        40.0,
        (HOST, QUEUE, CALL, LAUNCH),
    ),
    "a kernel that others queue behind": (
        device_bound,
        lambda r: saved(r, "cap", "kernels", "K3", 100.0),
        100.0,
        (STREAM, TASK),
    ),
    "a slow queue entry": (
        queue_bound,
        lambda r: r.price(r.fixer(0).context.edit.remove_dequeues(np.array([3]))) / 1000.0,
        202.0,
        (LANE, CALL),
    ),
    "a kernel that the host waits for": (synced, lambda r: saved(r, "cap", "kernels", "Slow", 400.0), 500.0, (SYNC,)),
    "a sync with nothing to wait for keeps its own cost": (
        synced,
        lambda r: saved(r, "cap", "kernels", "Slow", 0.0),
        862.0,
        (SYNC_FREE,),
    ),
    "a copy that another stream waits for": (
        two_streams,
        lambda r: saved(r, "scale", "tasks", "Copy", 0.5),
        400.0,
        (EVENT,),
    ),
    "a wait without event tasks": (no_event_tasks, lambda r: saved(r, "scale", "tasks", "Copy", 0.5), 400.0, (WAIT,)),
    "Python on another thread": (
        backward,
        lambda r: (
            r.price(r.fixer(0).context.edit.cut(BACKWARD, np.array([cut_from(r)]), np.array([cut_from(r) + 200_000])))
            / 1000.0
        ),
        200.0,
        (FORK,),
    ),
    "a slow kernel of another rank": (
        two_ranks,
        lambda r: saved(r, "cap", "kernels", "Slow", 500.0, rank=1),
        400.0,
        (COLLECTIVE,),
    ),
}


CASES["a long entry before a full stream"] = (
    FULL.replayer,
    lambda r: r.price(FULL.edit(r)) / 1000.0,
    FULL.truth,
    (DEPTH,),
)


def cut_from(replayer: Replayer) -> int:
    """The beginning of the long silence before the third op of the backward thread."""
    ops = replayer.profiles[0].table("ops")
    return int(ops["end_ns"][named(replayer, "Grad1", "ops")[0]]) + 10_000


def test_no_kind_of_edge_is_left_out() -> None:
    assert {kind for case in CASES.values() for kind in case[3]} == set(range(len(KINDS)))


@pytest.mark.parametrize("case", CASES)
def test_the_recording_is_given_back(case: str) -> None:
    replayer = CASES[case][0]()
    assert replayer.error == pytest.approx(0.0, abs=0.01)
    assert np.array_equal(times(replayer), replayer.calibrated.rec)


@pytest.mark.parametrize("case", CASES)
def test_a_cure_saves_what_it_frees(case: str) -> None:
    make, price, expected, _ = CASES[case]
    assert price(make()) == pytest.approx(expected, abs=2.0)


@pytest.mark.parametrize(("case", "kind"), [(case, kind) for case in CASES for kind in CASES[case][3]])
def test_without_that_edge_the_figure_is_wrong(case: str, kind: int) -> None:
    make, price, expected, _ = CASES[case]
    assert price(without(make(), kind)) != pytest.approx(expected, abs=2.0)


def test_a_full_stream_is_found_and_counted_again_after_an_edit() -> None:
    replayer = full_stream()
    (limit,) = replayer.graph.ranks[0].limits
    assert limit.depth == 8
    assert (replayer.graph.net.kind == DEPTH).any()
    third = replayer.graph.ranks[0].tasks.of("kernels", named(replayer, "K30"))
    gone = replayer.fixer(0).context.edit.remove_tasks(third)
    assert replayer.price(gone) / 1000.0 == pytest.approx(100 + 13 * (30 * 7 % 11) + 1, abs=3.0)


def test_waits_for_events_that_are_not_recorded_wait_for_nothing() -> None:
    run = Run()
    run.op("A", 20)
    run.op("EVENT_WAIT", 0, kind="tasks")
    run.op("B", 600)
    replayer = run.replayer()
    assert not (replayer.graph.net.kind == EVENT).any()
    assert np.array_equal(times(replayer), replayer.calibrated.rec)


def test_a_launch_that_never_met_an_idle_stream_keeps_no_wait_as_its_latency() -> None:
    replayer = device_bound()
    assert replayer.graph.ranks[0].device.latency <= LATENCY * 1000


def test_hidden_work_saves_nothing() -> None:
    replayer = host_bound()
    assert saved(replayer, "cap", "kernels", "K2", 1.0) == 0.0


def test_a_sync_waits_for_another_stream_where_nobody_is_known_to_have_asked_for_kernels() -> None:
    run = Run()
    run.op("Slow", 900, lane=SECOND)
    run.sync(own=40)
    run.op("Small", 10, lane=SECOND)
    for at in (200, 300, 400):
        run.task("kernels", "Lost", at, 10, STREAM)
    assert saved(run.replayer(), "cap", "kernels", "Slow", 400.0) == 500.0
