"""Critical paths of small runs, with every part computed by hand, and of recorded and generated ones: they add up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from places import PROFILES, needs_profiles
from replay_kit import MAIN, Run
from synthetic import Settings
from test_replay_edges import backward, host_bound, synced, two_ranks, two_streams

from npu_advisor.api import load_profiles
from npu_advisor.base.intervals import empty, union
from npu_advisor.derive.comm import waits_for_others
from npu_advisor.findings import PathPart
from npu_advisor.graph.replay import Replayer
from npu_advisor.graph.replay.path import PARTS, StepPath, step_paths

RECORDED = [*(f"npu-alexnet-{form}" for form in ("text-l0", "text-l1", "text-l2", "db-l1")), "npu-trace-only-2024"]


def paths(replayer: Replayer) -> list[list[StepPath]]:
    waits = [empty() for _ in replayer.profiles]
    return step_paths(replayer.graph, replayer.calibrated, waits)


def us(path: StepPath) -> dict[str, float]:
    return {part: ns / 1000.0 for part, ns in path.lengths().items()}


def loading() -> Replayer:
    """200 us of the Python before an op are the loader's."""
    run = Run()
    run.rows["ops"].append({"name": "enumerate(DataLoader)#_Iter.__next__", "at": 100, "us": 200, "track": MAIN})
    run.op("K", 10, python=400)
    return run.replayer()


def staged() -> Replayer:
    """A copy from pageable memory: 5 ms pass between its launch on an idle device and its start."""
    run = Run()
    for number in range(12):
        run.op(f"K{number}", 10, python=60)
    run.op("Copy", 100, kind="tasks", after=run.now[MAIN] + 20 + 5 + 2 + 4 + 3 + 5000)
    run.op("Last", 10)
    return run.replayer()


def late_launch() -> Replayer:
    """The second kernel starts 500 us after its launch and nothing says why; the device was idle."""
    run = Run()
    for number in range(12):
        run.op(f"K{number}", 10, python=60)
    run.op("Late", 10, after=run.now[MAIN] + 600)
    return run.replayer()


# Enqueue to device takes 4 (pop) + 3 (call) + 10 (launch) us; the window begins with the first op.
CASES: dict[str, tuple[Callable[[], Replayer], dict[str, float]]] = {
    # Seven ops of 70 us and one of 110 us, from the first op at 60 to 3 us before the last ends; then its kernel.
    "host bound": (host_bound, {"host": 7 * 70 + 110 - 3 - 60, "dispatch": 17, "compute": 500}),
    # [20, 50] host, a sync of 40, host until the Enqueue at 120, 17 to the device, the slow kernel until 1037, 8 until
    # the sync returns, host until 2098, a sync of 40, host until 2168, 17 to the device, 10 of kernel.
    "two syncs": (
        synced,
        {"host": 30 + 30 + (2098 - 1045) + 30, "sync": 40 + 8 + 40, "dispatch": 2 * 17, "compute": 900 + 10},
    ),
    # The copy is enqueued at 147 and runs for 800; record, release and the gaps around them take 1 + 0.02 + 0.5 + 1.
    "a copy on another stream": (
        two_streams,
        {"host": 147 - 20, "dispatch": 17, "copy": 800, "stream_gap": 2.52, "compute": 600},
    ),
    # Twelve ops of 70 us from 60 on, 27 until the Enqueue ends, 4 + 3 to the launch, 5000 of staging, 100 of copy,
    # a gap of 1 and a kernel.
    "a copy that is staged": (
        staged,
        {"host": 12 * 70 - 60 + 27, "dispatch": 7, "copy": 5000 + 100, "stream_gap": 1, "compute": 10},
    ),
    # The loader has [100, 300]; the kernel's Enqueue ends at 407.
    "a loader": (loading, {"host": 407 - 300, "input": 200, "dispatch": 17, "compute": 10}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_path_is_what_the_hand_computes(name: str) -> None:
    make, expected = CASES[name]
    replayer = make()
    [[path]] = paths(replayer)
    assert us(path) == pytest.approx(expected)
    assert sum(path.lengths().values()) == int(replayer.profiles[0].table("steps")["dur_ns"][0])


def test_the_host_goes_on_after_a_thread_it_waited_for() -> None:
    """Four ops of another thread hold the main thread: all of it is host work."""
    replayer = backward()
    [[path]] = paths(replayer)
    found = us(path)
    assert set(found) == {"host", "dispatch", "compute"}
    assert found["dispatch"] == 17
    assert found["compute"] == 10


def test_a_wait_for_another_rank_is_named_and_the_path_stays_on_its_rank() -> None:
    """Rank 0 comes to the collective at 176, rank 1 at 976; both leave it at 1276.

    The kernel before it is held by its launch.
    """
    first, second = (us(path) for [path] in paths(two_ranks()))
    common = {"host": 27 + 10, "dispatch": 17, "stream_gap": 3, "communication": 300}
    assert first == pytest.approx(common | {"waiting_for_rank": 800, "compute": 100 + 30})
    assert second == pytest.approx(common | {"compute": 900 + 30})


def test_what_the_recording_tells_of_waits_counts_too() -> None:
    """One rank alone: its collective lasts 1100, of which the first 800 are known to be a wait."""
    one = Replayer(two_ranks().profiles[:1])
    start = one.profiles[0].table("comms")["start_ns"]
    blind = step_paths(one.graph, one.calibrated, [empty()])[0][0]
    told = step_paths(one.graph, one.calibrated, [union(start, start + 800_000)])[0][0]
    assert us(blind)["communication"] == 1100
    assert "waiting_for_rank" not in us(blind)
    assert (us(told)["communication"], us(told)["waiting_for_rank"]) == (300, 800)


def test_a_launch_that_nothing_explains_is_an_anchor() -> None:
    [[path]] = paths(late_launch())
    assert us(path)["anchor"] == pytest.approx(570, abs=40)


def test_the_report_knows_every_part() -> None:
    assert get_args(PathPart) == PARTS


def test_steps_of_a_generated_run_add_up(generated: Callable[[Settings], Path]) -> None:
    folder = generated(Settings(steps=4, world=2, ranks=2, seed=33, counters=False, plant=["item", "dispatch"]))
    check(folder)


@needs_profiles
@pytest.mark.parametrize(
    "name",
    ["npu-alexnet-text-l0", "npu-alexnet-text-l1", "npu-alexnet-text-l2", "npu-alexnet-db-l1", "npu-trace-only-2024"],
)
def test_steps_of_recorded_runs_add_up(name: str) -> None:
    check(PROFILES / name)


def check(folder: Path) -> None:
    profiles = load_profiles(folder)
    replayer = Replayer(profiles)
    waits = [waits_for_others(profile) for profile in profiles]
    for profile, own in zip(profiles, step_paths(replayer.graph, replayer.calibrated, waits), strict=True):
        assert [sum(path.lengths().values()) for path in own] == profile.table("steps")["dur_ns"].tolist()
        for path, start, end in zip(
            own, *(profile.table("steps")[key].tolist() for key in ("start_ns", "end_ns")), strict=True
        ):
            middle = (start + end) // 2
            halves = [path.within(start, middle), path.within(middle, end)]
            assert sum(sum(half.values()) for half in halves) == end - start
            assert sum(path.lengths().values()) == end - start


@needs_profiles
@pytest.mark.parametrize(
    ("name", "part", "least"),
    [("npu-alexnet-text-l1/rank0_ascend_pt", "waiting_for_rank", 0.6), ("npu-trace-only-2024", "dispatch", 0.5)],
)
def test_what_binds_a_recorded_step(name: str, part: str, least: float) -> None:
    """AlexNet waits for a rank that is not there; the run of 2024 is held by the thread that empties the queue."""
    profiles = load_profiles(PROFILES / name)
    replayer = Replayer(profiles)
    [[path]] = step_paths(replayer.graph, replayer.calibrated, [waits_for_others(one) for one in profiles])
    lengths = path.lengths()
    assert max(lengths, key=lambda one: lengths[one]) == part
    assert lengths[part] >= least * sum(lengths.values())
