"""What a file has lost the time of (start -1) still counts, but nothing is placed or linked by it."""

from __future__ import annotations

import numpy as np
from graph.build import MAIN, STREAM, TRACKS, arrow, profile

from npu_advisor.derive import derive
from npu_advisor.graph.nesting import Nesting

LOST = -0.001


def _step(at: float) -> dict[str, object]:
    return {"name": "ProfilerStep#1", "track": MAIN, "at": at, "us": 100}


def _kernels(**more: object) -> list[dict[str, object]]:
    made = {"name": "Add", "type": "Add", "track": STREAM, "us": 10}
    return [{**made, "at": 20, **more}, {**made, "at": LOST, **more}, {**made, "at": 50, **more}]


def test_no_step_reaches_back_to_a_lost_time() -> None:
    found = derive(profile(tracks=TRACKS, ops=[_step(0)], kernels=_kernels(step_id=1)))
    steps = found.table("steps")
    assert (steps["start_ns"][0], steps["dur_us"][0]) == (0, 100)
    assert (steps["device_start_ns"][0], steps["device_end_ns"][0]) == (20_000, 60_000)
    assert found.table("kernels")["step"].tolist() == [0, -1, 0]


def test_a_mark_without_a_time_is_no_step() -> None:
    found = derive(profile(tracks=TRACKS, ops=[_step(LOST)], kernels=_kernels()))
    steps = found.table("steps")
    assert steps["number"].tolist() == [-1]
    assert steps["dur_us"].tolist() == [40]


def test_steps_of_a_csv_and_of_a_bare_window_leave_it_out() -> None:
    numbered = derive(profile(kernels=_kernels(step_id=1))).table("steps")
    assert (numbered["start_ns"].tolist(), numbered["dur_us"].tolist()) == ([20_000], [40])
    bare = derive(profile(kernels=_kernels()))
    assert (bare.table("steps")["start_ns"].tolist(), bare.table("steps")["dur_us"].tolist()) == ([20_000], [40])
    assert bare.table("kernels")["step"].tolist() == [0, -1, 0]


def test_two_lost_times_are_not_the_same_time() -> None:
    found = derive(
        profile(
            tracks=TRACKS,
            ops=[{"name": "aten::add", "track": MAIN, "at": LOST, "us": 5}],
            kernels=_kernels(),
            flow_points=arrow("async_npu", 1, (MAIN, LOST), (STREAM, LOST)),
        )
    )
    assert found.table("kernels")["op"].tolist() == [-1, -1, -1]


def test_nothing_is_open_at_a_lost_time() -> None:
    tree = Nesting(np.array([0]), np.array([-1]), np.array([50]))
    assert tree.innermost(np.array([0, 0]), np.array([-1, 7])).tolist() == [-1, 0]
