"""What the replay says is no cause: long events whose removal saves nothing, and why."""

from __future__ import annotations

import numpy as np
import pytest
from graph.replay_kit import HCCL, MAIN, Run
from places import PROFILES, needs_profiles

from npu_advisor import analyze
from npu_advisor.base.intervals import empty
from npu_advisor.derive import derive
from npu_advisor.derive.bystanders import Bystander
from npu_advisor.derive.hidden import Claims, hidden
from npu_advisor.engine import savings, summary
from npu_advisor.graph.replay import Replayer
from npu_advisor.graph.replay.path import step_paths


def found(runs: list[Run], claims: Claims = ()) -> list[list[Bystander]]:
    replayer = Replayer([derive(run.profile()) for run in runs])
    paths = step_paths(replayer.graph, replayer.calibrated, [empty() for _ in runs])
    return hidden(replayer, paths, [claims for _ in runs])


def metered(kernel_us: float) -> Run:
    """A meter works on the host for 400 us while one kernel runs; afterwards comes another."""
    run = Run()
    run.op("Big", kernel_us)
    run.rows["ops"].append(
        {"name": "meter", "at": run.now[MAIN] + 5, "us": 400, "track": MAIN, "source": "/home/u/main.py(9): train"}
    )
    run.op("Last", 50, python=420)
    return run


def test_host_work_beside_a_long_kernel_is_no_cause_and_the_kernel_hides_it() -> None:
    [items] = found([metered(2000)])
    meter = next(item for item in items if item.name == "meter")
    # The meter has [35, 435], the kernel begins at 44.
    assert (meter.duration_us, meter.device, str(meter.frame)) == (400.0, False, "/home/u/main.py(9): train")
    assert meter.reason.en == "the step waits for kernels during 98 % of it anyway"


def test_the_same_work_with_nothing_beside_it_is_a_cause() -> None:
    [items] = found([metered(20)])
    assert "meter" not in [item.name for item in items]


def test_a_sync_that_only_watches_the_device_is_no_cause_but_says_what_is_left() -> None:
    """The read waits 2 ms for the kernel; without it the device would still have to finish."""
    run = Run()
    run.op("Big", 2000)
    run.sync()
    run.op("Last", 1500)
    [items] = found([run])
    item = next(item for item in items if item.name == "aten::item")
    assert "kernels during" in item.reason.en
    # After the read: 8 us until it returns, then 23 + 5 + 2 of Python and 17 to the device, less the stream's own gap.
    assert "it would save" in item.reason.en
    assert "Big" not in [item.name for item in items]


def test_a_collective_that_waits_for_a_slow_rank_is_no_cause() -> None:
    runs = [Run(0), Run(1)]
    ends = []
    for run in runs:
        run.op("Before", 20)
        ends.append(run.op("Work", 3000 if run.rank else 100))
        run.op("allReduce", 0, kind="comms", lane=HCCL, after=ends[-1] + 2)
    for run in runs:
        row = run.rows["comms"][-1]
        row["us"] = max(ends) + 2 + 20 - row["at"]
        run.free[HCCL] = max(ends) + 22
        run.rows["ops"].append({"name": "Optimizer.step#SGD.step", "at": run.now[MAIN] + 10, "us": 60, "track": MAIN})
        run.op("Update", 30, after=run.free[HCCL] + 1)
    first, second = found(runs)
    assert [(item.name, item.device) for item in first] == [("allReduce", True)]
    assert "waits for other ranks during 99 %" in first[0].reason.en
    assert second == [], "its own kernel is the cause, and its collective is short"


def test_a_change_of_the_code_is_tried_on_every_rank_at_once() -> None:
    """Both ranks run the same meter before a collective: without it on one rank only, the other one would be late."""
    runs = [Run(0), Run(1)]
    for run in runs:
        run.op("Before", 20)
        run.rows["ops"].append({"name": "meter", "at": run.now[MAIN] + 5, "us": 400, "track": MAIN})
        end = run.op("Work", 100, python=420)
        end = run.op("allReduce", 50, kind="comms", lane=HCCL, after=end + 2)
        run.rows["ops"].append({"name": "Optimizer.step#SGD.step", "at": run.now[MAIN] + 10, "us": 60, "track": MAIN})
        run.op("Update", 30, after=end + 1)
    assert all("meter" not in [item.name for item in items] for items in found(runs))


def test_what_a_finding_claims_is_never_excused() -> None:
    run = metered(2000)
    names = [row["name"] for row in run.rows["ops"]]
    [items] = found([run], [("ops", np.array([names.index("meter")]))])
    assert "meter" not in [item.name for item in items]


@needs_profiles
@pytest.mark.parametrize("folder", ["npu-alexnet-text-l1/rank0_ascend_pt", "npu-alexnet-text-l1"])
def test_the_meter_and_the_optimizer_of_a_recorded_step(folder: str) -> None:
    report = analyze(PROFILES / folder)
    items = {(item.rank, item.name): item for item in report.not_the_cause}
    display, step = items[0, "display"], items[0, "SGD.step"]
    assert display.location is not None
    assert (display.location.line, round(display.duration_us / 1000, 1)) == (373, 93.3)
    assert "waits for rank 5" in display.reason.en
    assert step.location is not None
    assert (step.location.line, step.where) == (366, "host")
    lines = {(found.location.path, found.location.line) for found in report.findings if found.location and found.saving}
    assert not lines & {(item.location.path, item.location.line) for item in report.not_the_cause if item.location}


@needs_profiles
def test_a_fault_of_the_search_leaves_the_answer_of_the_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(summary, "hidden", fail)
    report = analyze(PROFILES / "npu-alexnet-text-l1/rank0_ascend_pt")
    assert {item.name: item.reason.en for item in report.not_the_cause} == {
        "display": "the device communicates during 95 % of it",
        "SGD.step": "the device communicates during 100 % of it",
    }


@needs_profiles
def test_without_a_trusted_replay_nothing_is_said_about_the_critical_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "MAX_ERROR", 0.0)
    report = analyze(PROFILES / "npu-alexnet-text-l1/rank0_ascend_pt")
    assert [(step.critical_path, step.bound_by) for step in report.steps] == [(None, None)]
    assert {item.name for item in report.not_the_cause} >= {"display", "SGD.step"}
