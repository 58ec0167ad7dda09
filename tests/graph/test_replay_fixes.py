"""Fixes as a rule names them: idle time by its owner, loops, communication, and a rank that is slow as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from replay_kit import BACKWARD, HCCL, MAIN, SECOND, Run, named, saved
from synthetic import Settings

from npu_advisor import load_profile
from npu_advisor.api import load_profiles
from npu_advisor.graph.replay import Replayer, Variants, fix_comm, fixes
from npu_advisor.graph.replay.ranks import like_the_others, same_rows
from npu_advisor.model.table import Table

Generated = Callable[[Settings], Path]


def prices(replayer: Replayer, variants: Variants | None) -> list[float]:
    """Low, expected and high, in us per step."""
    assert variants is not None
    return [replayer.price(edit) / 1000.0 for edit in variants]


def idle_fix(folder: Path, owner: str) -> list[float]:
    profile = load_profile(folder)
    replayer = Replayer(profile)
    rows = np.flatnonzero(np.asarray(profile.table("idle")["owner"] == owner))
    assert len(rows)
    return prices(replayer, replayer.fixer(0).variants("remove", "idle", rows))


@pytest.mark.parametrize(("plant", "owner"), [("item:n=6", "sync"), ("dataloader:ms=9", "data")])
def test_idle_time_goes_with_its_cause(plant: str, owner: str, generated: Generated) -> None:
    settings = Settings(steps=2, layers=3, world=1, seed=41, counters=False, plant=[plant])
    low, expected, high = idle_fix(generated(settings), owner)
    bare = Settings(steps=2, layers=3, world=1, seed=41, counters=False)
    truth = _step_us(generated(settings)) - _step_us(generated(bare))
    assert low <= expected <= high
    # Without the plant the loader still waits 0.25 ms, and a sync still logs the loss once.
    assert expected == pytest.approx(truth, abs=320)


def test_a_sync_right_below_the_step_has_no_op_to_remove() -> None:
    run = Run()
    run.op("A", 10)
    run.op("B", 10)
    profile = run.profile()
    (step,) = np.flatnonzero(profile.table("ops").strings("name") == "ProfilerStep#1")
    idle = {"start_ns": [1000], "dur_ns": [1000], "owner": ["sync"], "op": [step]}
    profile.put(Table.build("idle", idle, 0))
    assert Replayer(profile).fixer(0).variants("remove", "idle", np.arange(1)) is None


def _step_us(folder: Path) -> float:
    times = Replayer(load_profile(folder))
    return times.end / times.count / 1000.0


def test_a_loop_over_layers_is_not_folded() -> None:
    """What backward needs, or a body of many ops, is the network: its gaps can shrink, it cannot go."""
    run = Run()
    for turn in range(6):
        for part in range(6):
            run.op(f"aten::part{part}", 10, python=60 if part else 100, source="net.py(7): forward")
        del turn
    replayer = run.replayer()
    rows = np.arange(len(replayer.profiles[0].table("dequeues")))
    low, expected, high = prices(replayer, replayer.fixer(0).variants("close", "dequeues", rows))
    assert expected == high
    assert 0 < expected < 6 * 40 + 10
    assert 0 < low < 6 * 40 + 10


def test_a_tight_loop_is_folded() -> None:
    run = Run()
    run.op("Before", 10)
    for _ in range(10):
        run.op("aten::mul", 10, python=100, source="net.py(9): forward")
    for number in range(12):
        run.op(f"After{number}", 10, python=20)
    replayer = run.replayer()
    rows = named(replayer, "aten::mul", "ops")
    dequeues = np.flatnonzero(np.isin(replayer.profiles[0].table("dequeues")["op"], rows))
    low, expected, _ = prices(replayer, replayer.fixer(0).variants("close", "dequeues", dequeues))
    assert low == pytest.approx(10 * 80, abs=1)
    assert expected == pytest.approx(9 * 110 + 80, abs=1)


def test_a_collective_that_moves_is_hidden_behind_the_backward_pass() -> None:
    run = Run()
    for number in range(8):
        end = run.op(f"Grad{number}", 200)
    run.op("allReduce", 500, kind="comms", lane=HCCL, after=end + 2)
    run.rows["ops"].append({"name": "Optimizer.step#SGD.step", "at": run.now[MAIN] + 10, "us": 60, "track": MAIN})
    run.op("Update", 30, after=run.free[HCCL] + 1)
    replayer = run.replayer()
    comm = np.array([0])
    _, expected, high = prices(replayer, replayer.fixer(0).variants("overlap", "comms", comm))
    assert expected == pytest.approx(0, abs=5)  # one bucket is ready only when all of backward is done
    assert high == pytest.approx(500, abs=5)
    assert saved(replayer, "remove", "comms", "allReduce") == pytest.approx(500, abs=10)


def test_a_collective_that_moves_takes_its_events_along() -> None:
    run = Run()
    for number in range(4):
        run.op(f"Grad{number}", 200)
    for _ in range(2):
        ready = run.op("EVENT_RECORD", 0.02, kind="tasks")
        run.op("EVENT_WAIT", 0.02, kind="tasks", lane=SECOND, after=ready)
        run.op("allReduce", 400, kind="comms", lane=SECOND)
        done = run.op("EVENT_RECORD", 0.02, kind="tasks", lane=SECOND)
    run.rows["ops"].append({"name": "Optimizer.step#SGD.step", "at": run.now[MAIN] + 10, "us": 120, "track": MAIN})
    run.op("EVENT_WAIT", 0.02, kind="tasks", after=done)
    run.op("Update", 30)
    for comm in run.rows["comms"]:
        comm["payload_bytes"] = 10 * 2**20
    replayer = run.replayer()
    low, expected, high = prices(replayer, replayer.fixer(0).variants("overlap", "comms", np.arange(2)))
    # One bucket, ready when all of backward is done: what is won is one of two latencies, 8 / (8 + 10) of 400 us.
    assert low == pytest.approx(0, abs=15)
    assert expected == pytest.approx(400 * 8 / 18, abs=15)
    assert high == pytest.approx(800, abs=15)


def test_latency_is_fitted_where_sizes_differ() -> None:
    run = Run()
    run.op("Grad", 1000)
    for number in range(4):
        run.op("allReduce", 100 + 50 * (number + 1), kind="comms", lane=HCCL)
        run.rows["comms"][-1]["payload_bytes"] = (number + 1) * 2**20
    run.op("Update", 30, after=run.free[HCCL] + 1)
    replayer = run.replayer()
    low, expected, high = prices(replayer, replayer.fixer(0).variants("overlap", "comms", np.arange(4)))
    assert expected - low == pytest.approx(3 * 100, abs=5)
    # Until the launches bind: the last update is not asked for earlier than it was.
    assert high - expected == pytest.approx(100 + 500, abs=40)


def test_a_pause_of_the_garbage_collector_is_nobodys_python() -> None:
    run = Run()
    for number in range(12):
        run.op(f"Op{number}", 10, python=400 if number == 6 else 20)
    run.op("aten::gone", 10, python=400)
    run.op("Last", 10)
    rows = {name: list(found) for name, found in run.rows.items()}
    replayer = run.replayer()
    plain = saved(replayer, "remove", "ops", "aten::gone")
    paused = Run()
    paused.rows, paused.now, paused.free = rows, run.now, run.free
    at = next(op["at"] for op in rows["ops"] if op["name"] == "aten::gone")
    paused.rows["ops"] = [op for op in rows["ops"] if not op["name"].startswith("ProfilerStep")]
    paused.rows["gcs"] = [{"at": at - 350, "us": 300, "track": MAIN}]
    assert saved(paused.replayer(), "remove", "ops", "aten::gone") == pytest.approx(plain - 300, abs=2)


def test_a_tensor_that_need_not_be_made() -> None:
    def avoided(core: str) -> tuple[Replayer, Variants | None]:
        run = Run()
        run.op("aten::linear", 100)
        run.op("aten::ones", 150, source="net.py(3): forward")
        born = int((run.now[MAIN] - 5) * 1000)
        run.op("aten::mean", 70)
        release = int(run.now[MAIN] * 1000)
        run.op("aten::add", 100)
        for kernel in run.rows["kernels"]:
            kernel["core"] = core
        row = {"name": "aten::ones", "at": born / 1000, "us": 1, "release_ns": release, "size_bytes": 1e9}
        run.rows["allocs"] = [row]
        replayer = run.replayer()
        return replayer, replayer.fixer(0).variants("avoid", "ops", named(replayer, "aten::ones", "ops"))

    replayer, variants = avoided("AI_VECTOR_CORE")
    low, expected, high = prices(replayer, variants)
    assert low == pytest.approx(151, abs=1)
    # Nothing tells what the network needs where no backward was recorded: at best its reader goes, too.
    assert expected == low
    assert high == pytest.approx(151 + 71, abs=1)
    assert avoided("AI_CORE")[1] is None  # a matrix product is work that nothing replaces


def test_a_slow_rank_is_told_from_a_slow_kernel() -> None:
    profiles = []
    for rank in range(3):
        run = Run(rank)
        for number in range(12):
            run.op(f"K{number % 4}", 130 if rank == 1 else 100)
        run.op("Slow", 900)
        profiles.append(run.profile())
    kernels = profiles[1].table("kernels")
    factor = like_the_others(profiles, 1, np.arange(len(kernels)))
    slow = kernels.strings("type") == "Slow"
    assert factor[slow] == pytest.approx(1.0)
    assert factor[~slow] == pytest.approx(100 / 130)
    assert like_the_others(profiles, 0, np.arange(len(kernels))) == pytest.approx(1.0)


def test_the_same_rows_are_found_on_another_rank(generated: Generated) -> None:
    folder = generated(Settings(steps=2, layers=2, world=2, ranks=2, seed=42, counters=False, plant=["top_kernel"]))
    one, other = load_profiles(folder)
    rows = np.flatnonzero(one.table("kernels").strings("type") == "MaskedSelect")
    found, values = same_rows(one, other, "kernels", rows, np.full(len(rows), 5.0))
    assert other.table("kernels").strings("type")[found].tolist() == ["MaskedSelect"] * len(rows)
    assert values is not None
    assert values.tolist() == [5.0] * len(rows)


def test_what_is_scaled_to_nothing_goes_with_its_op() -> None:
    run = Run()
    run.op("Fused", 10, python=100)
    for _ in range(4):
        run.op("Swallowed", 10, python=100)
    run.sync()
    replayer = run.replayer()
    rows = np.flatnonzero(np.isin(replayer.profiles[0].table("kernels").strings("name"), ["Fused", "Swallowed"]))
    kept = (replayer.profiles[0].table("kernels").strings("name")[rows] == "Fused").astype(np.float64)
    low, expected, high = prices(replayer, replayer.fixer(0).variants("scale", "kernels", rows, kept))
    assert expected == high == pytest.approx(saved(replayer, "remove", "kernels", "Swallowed"), abs=1)
    assert low < expected / 2


def test_a_cure_of_the_code_reaches_a_rank_whose_idle_time_hides_it(
    generated: Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(steps=2, layers=3, world=2, ranks=2, seed=41, counters=False, plant=["item:n=6"])
    replayer = Replayer(load_profiles(generated(settings)))
    home, other = replayer.fixer(0), replayer.fixer(1)
    rows = np.flatnonzero(np.asarray(replayer.profiles[0].table("idle")["owner"] == "sync"))
    own = other.variants("remove", "idle", np.flatnonzero(other.context.profile.table("idle")["owner"] == "sync"))
    monkeypatch.setattr(fixes, "same_rows", lambda *_: (np.zeros(0, dtype=np.int64), None))
    assert prices(replayer, other.elsewhere(home, "remove", "idle", rows)) == prices(replayer, own)


def test_silence_before_another_threads_work_goes_from_the_main_thread() -> None:
    run = Run()
    run.op("Forward", 20)
    run.now[BACKWARD] = run.now[MAIN] + 5000
    for number in range(3):
        run.op(f"Grad{number}", 20, thread=BACKWARD)
    run.now[MAIN] = run.now[BACKWARD] + 10
    run.op("Last", 20)
    run.sync()
    gap = run.rows["kernels"][1]["at"] - 50
    run.rows["idle"] = [{"at": 50, "us": gap, "owner": "dispatch", "part": "free", "dequeue": 1, "op": 1}]
    replayer = run.replayer()
    low, expected, high = prices(replayer, replayer.fixer(0).variants("remove", "idle", np.array([0])))
    assert low <= expected <= high
    assert expected == pytest.approx(5000, rel=0.02)


def test_messages_that_other_ranks_compute_with_next_go_into_no_bucket(
    generated: Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    handing = ("hcom_send__1", "hcom_receive__1", "HcclAlltoAllV", "hcom_batchSendRecv_")
    moving = ("hcom_allReduce_", "hcom_reduceScatter_", "hcom_allGather_")
    assert all(fix_comm.HANDED_OVER.search(name) for name in handing)
    assert not any(fix_comm.HANDED_OVER.search(name) for name in moving)
    settings = Settings(steps=2, layers=3, world=2, seed=41, counters=False, plant=["unoverlapped_comm"])
    replayer = Replayer(load_profile(generated(settings)))
    exposed = replayer.profiles[0].table("exposed")
    rows = np.flatnonzero(~np.asarray(exposed["late"]))
    assert len(rows) and replayer.fixer(0).variants("remove", "exposed", rows) is not None
    monkeypatch.setattr(fix_comm, "HANDED_OVER", re.compile("reduce", re.IGNORECASE))
    assert replayer.fixer(0).variants("remove", "exposed", rows) is None
