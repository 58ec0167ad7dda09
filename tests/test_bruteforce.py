"""What a report says, against the same figures from the raw text of the profile, computed the slow way."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from attack import check_savings, check_step
from bruteforce import Raw
from places import PROFILES, needs_profiles
from synthetic import Settings

from npu_advisor import Report, load_profile
from npu_advisor.base.frame import is_user_path, parse_frame
from npu_advisor.base.terms import Basis, Severity
from npu_advisor.report.json import render_json

RECORDED = [f"npu-alexnet-text-{level}/rank{rank}_ascend_pt" for level in ("l1", "l2") for rank in (0, 1)]
RECORDED = [name for name in RECORDED if (PROFILES / name).is_dir()] or ["none"]

MADE = {
    "host-bound": Settings(steps=2, layers=1, world=1, plant=["dispatch:us=200,n=12", "item:n=3"], truth_steps=1),
    "device-bound": Settings(steps=2, layers=1, world=1, device_scale=3.0, plant=["top_kernel:ms=3"], truth_steps=1),
    "two ranks of eight": Settings(
        steps=2, layers=1, world=8, ranks=2, plant=["slow_rank", "unoverlapped_comm:n=4,ms=0.6"], truth_steps=1
    ),
    "loader and memory": Settings(
        steps=3, layers=1, world=2, plant=["dataloader:ms=6", "mem_peak", "aicpu:ms=1", "transdata"], truth_steps=1
    ),
}


@lru_cache(maxsize=16)
def _raw(rank_dir: Path) -> Raw:
    return Raw(rank_dir)


@pytest.fixture(params=[*MADE, *(pytest.param(name, marks=needs_profiles) for name in RECORDED)])
def rank_dir(request: pytest.FixtureRequest, generated: Callable[[Settings], Path]) -> Path:
    """The lowest rank of each profile made, and every recorded one."""
    name = request.param
    if name not in MADE:
        return PROFILES / name
    return sorted(generated(MADE[name]).glob("*_ascend_pt"))[0]


@pytest.fixture
def report(rank_dir: Path, report_of: Callable[[Path], Report]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render_json(report_of(rank_dir)))
    return loaded


def _us(ns: float) -> Any:
    return pytest.approx(ns / 1000, abs=0.0011)


def test_the_ledger(rank_dir: Path, report: dict[str, Any]) -> None:
    raw = _raw(rank_dir)
    assert [step["step"] for step in report["steps"]] == [step.number for step in raw.steps]
    for found, step in zip(report["steps"], raw.steps, strict=True):
        check_step(found)
        assert found["duration_us"] == _us(step.window[1] - step.window[0])
        ledger = raw.ledger(step)
        names = ("compute", "communication", "exposed_communication", "free", "prepare", "after_last_kernel")
        assert {name: found[f"{name}_us"] for name in names} == {name: _us(ledger[name]) for name in names}


def test_busy_and_idle(rank_dir: Path, report: dict[str, Any]) -> None:
    raw, facts = _raw(rank_dir), report["facts"][0]
    kernels, _ = raw.tasks
    assert facts["kernels"] == len(kernels)
    assert facts["kernel_time_us"] == _us(sum(task.end - task.start for task in kernels))
    assert facts["device_busy_us"] == _us(raw.busy())
    assert facts["device_idle_us"] == _us(sum(raw.ledger(step)["free"] for step in raw.steps))


def test_idle_owners(rank_dir: Path, report: dict[str, Any]) -> None:
    raw = _raw(rank_dir)
    for found, step in zip(report["steps"], raw.steps, strict=True):
        assert found["idle_owners"] == {owner: _us(ns) for owner, ns in raw.idle_owners(step).items() if ns}


def test_who_is_waited_for(rank_dir: Path, report: dict[str, Any]) -> None:
    raw = _raw(rank_dir)
    for found, step in zip(report["steps"], raw.steps, strict=True):
        assert found["waiting_for_rank_us"] == {str(peer): _us(ns) for peer, ns in raw.waits(step).items()}


def test_kernels_and_their_ops(rank_dir: Path) -> None:
    raw, profile = _raw(rank_dir), load_profile(rank_dir)
    kernels, ops = profile.kernels, profile.ops
    told = {
        (str(name), start): op
        for name, start, op in zip(kernels["name"], kernels["start_ns"], kernels["op"], strict=True)
    }
    linked = 0
    for task in raw.tasks[0]:
        if task.launch is None:
            continue
        linked += 1
        row = told[task.name, task.start]
        found = None if row < 0 else (str(ops["name"][row]), int(ops["start_ns"][row]))
        assert found == (task.op and (task.op.name, task.op.start)), task
    assert linked >= 0.99 * len(raw.tasks[0])


def test_ops_and_their_lines(rank_dir: Path) -> None:
    raw, ops = _raw(rank_dir), load_profile(rank_dir).ops
    told = {
        (str(name), start, dur): (how, source)
        for name, start, dur, how, source in ops[["name", "start_ns", "dur_ns", "source_how", "source"]].itertuples(
            index=False
        )
    }
    launching = {id(task.op): task.op for task in raw.tasks[0] if task.op is not None}
    compared = 0
    for op in launching.values():
        how, source = told[op.name, op.start, op.end - op.start]
        expected = raw.line_of(op)
        if expected is not None:
            compared += 1
            frame = parse_frame(expected[1])
            assert (how, source) == (expected[0], str(frame)), op.name
        elif isinstance(source, str):
            frame = parse_frame(source)
            assert how in ("sibling", "python")
            assert frame is not None and is_user_path(frame.path)
    assert compared >= 0.35 * len(launching)


def test_the_peak_and_what_is_alive_at_it(rank_dir: Path, report: dict[str, Any]) -> None:
    raw, owners = _raw(rank_dir), load_profile(rank_dir).peak_owners
    size, at = raw.peak()
    assert report["facts"][0]["peak_allocated_bytes"] == int(size)
    recorded = owners[owners["recorded"]]
    assert recorded["size_bytes"].tolist() == raw.alive_at(at)
    rest = owners[~owners["recorded"]]["size_bytes"].sum()
    assert rest == pytest.approx(max(0.0, size - sum(raw.alive_at(at))))


def test_no_microsecond_is_promised_twice(rank_dir: Path, report: dict[str, Any]) -> None:
    check_savings(report)
    step_us = sum(step["duration_us"] for step in report["steps"]) / len(report["steps"])
    assert report["saving"]["joint_us_per_step"] <= step_us + 0.001
    for finding in report["findings"]:
        if finding["saving"]:
            assert finding["saving"]["share"] == pytest.approx(finding["saving"]["us_per_step"] / step_us, abs=1e-6)


@pytest.mark.parametrize("scale", [0.45, 3.0])
@pytest.mark.parametrize("plant", ["top_kernel:ms=3", "transdata", "aicpu:ms=2"])
def test_the_cure_of_a_kernel_saves_what_it_says(
    plant: str, scale: float, generated: Callable[[Settings], Path], report_of: Callable[[Path], Report]
) -> None:
    path = generated(Settings(steps=2, layers=1, world=1, device_scale=scale, plant=[plant], truth_steps=2))
    truth = json.loads((path / "truth.json").read_text(encoding="utf-8"))["plants"][plant.partition(":")[0]]
    lines = {int(place.partition(":")[2]) for place in truth["where"]}
    savings = [
        finding.saving
        for finding in report_of(path).findings
        if finding.saving and finding.location and finding.location.line in lines
    ]
    told = max(savings, key=lambda saving: saving.us_per_step)
    true_us = truth["saving_us_per_step"]
    assert told.basis is Basis.REPLAYED
    # What the replacement takes is not in the trace; one small layer gives a coarse guess of it.
    assert told.us_per_step == pytest.approx(true_us, rel=0.03)
    assert 0.99 * told.low_us_per_step <= true_us <= 1.01 * told.high_us_per_step


@pytest.mark.parametrize("scale", [0.45, 3.0])
def test_a_sound_run_raises_no_alarm(
    scale: float, generated: Callable[[Settings], Path], report_of: Callable[[Path], Report]
) -> None:
    report = report_of(generated(Settings(steps=3, layers=2, world=1, device_scale=scale, truth_steps=1)))
    alarms = [
        (finding.rule_id, finding.severity)
        for finding in report.findings
        if finding.severity.order <= Severity.MEDIUM.order
    ]
    assert alarms == []
