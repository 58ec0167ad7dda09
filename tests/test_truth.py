"""Recorded profiles against the truth file beside them: every figure that the model can express, leaf by leaf.

A leaf of the truth is compared or stands in ``NOT_EXPRESSED`` with the reason; there is no third way.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from measured import in_database_words, measured
from places import PROFILES, needs_profiles

from npu_advisor import Report, load_profile
from npu_advisor.base.frame import is_user_path
from npu_advisor.model.profile import Profile

pytestmark = needs_profiles

NAMES = (
    "npu-alexnet-text-l0",
    "npu-alexnet-text-l1",
    "npu-alexnet-text-l2",
    "npu-alexnet-db-l0",
    "npu-alexnet-db-l1",
    "npu-alexnet-db-l2",
    "npu-trace-only-2024",
    "npu-csv-only-2023",
    "npu-gpt-megatron-2023-trimmed",
)
FORMS = {"ascend trace only": "trace", "kernel_details only": "csv", "db": "db"}

# Leaves of the truth that no table holds: (profile/entry, leaf) -> why.
NOT_EXPRESSED = {
    ("*", "files.*"): "a list of file names; what is missing is told by diagnostics and absent tables",
    ("*", "columns"): "a count of CSV columns; columns are mapped by name, unknown ones are not kept",
    ("*", "kernel_details_columns"): "as columns",
    ("*", "derived_type_agrees_pct"): "judges the truth file's own way to derive a type",
    ("*", "trace.events"): "metadata and counter events are folded into tracks and counters, not counted",
    ("*", "trace.complete_events"): "as trace.events",
    ("*", "trace.processes.AI Core Freq"): "a counter lane; it has no slices",
    ("*", "trace.processes.Acc PMU"): "a counter lane; it has no slices",
    ("*", "trace.processes.HBM"): "a counter lane; it has no slices",
    ("*", "trace.processes.LLC"): "a counter lane; it has no slices",
    ("*", "trace.processes.NPU MEM"): "a counter lane; it has no slices",
    ("*", "trace.processes.QoS"): "a counter lane; it has no slices",
    ("*", "trace.processes.Stars Soc Info"): "a counter lane; it has no slices",
    ("npu-alexnet-*/*", "trace.hardware_task_types.AI_CORE"): "kernels carry the finer core of kernel_details.csv",
    ("npu-alexnet-*/*", "trace.hardware_task_types.MIX_AIV"): "as AI_CORE",
    ("npu-alexnet-*/*", "trace.hardware_task_types.DSA_SQE"): "as AI_CORE",
    ("*", "trace.links.found_in_trace"): "kernels and their slices are one row of the model",
    ("*", "operator_details.with_call_stack"): "stacks are kept once, on the ops of the trace",
    ("*", "step_trace_time.*.Communication(Not Overlapped and Exclude Receive)"): "equals exposed less Bubble",
    ("*", "profiler_info.aic_metrics"): "which metrics there are is told by the columns that are present",
    ("*", "profiler_info.with_modules"): "changes no table",
    ("*", "profiler_info.with_flops"): "changes no table",
    ("npu-alexnet-text-l0/*", "kernels.by_core.N/A.*"): "Level0 writes N/A; the core is repaired from the trace",
    ("npu-alexnet-text-l0/*", "device.50.streams"): "the Level0 CSV has no stream; the model takes it from the trace",
    ("npu-alexnet-db-*/*", "db"): "a file name",
    ("npu-alexnet-db-*/*", "tables.ENUM_*"): "names behind numbers; they show as names",
    ("npu-alexnet-db-*/*", "tables.STRING_IDS"): "as ENUM",
    ("npu-alexnet-db-*/*", "tables.CONNECTION_IDS"): "joins of other tables; they show as links",
    ("npu-alexnet-db-*/*", "tables.PYTORCH_CALLCHAINS"): "frames; they show as stacks",
    ("npu-alexnet-db-*/*", "tables.TASK_PMU_INFO"): "metrics; they show as columns of kernels",
    ("npu-alexnet-db-*/*", "tables.TASK"): "17 rows that only wrap mixed kernels and collectives are left out",
    ("npu-alexnet-db-*/*", "tables.ACC_PMU"): "a counter that is not kept from a trace either",
    ("npu-alexnet-db-*/*", "tables.HBM"): "as ACC_PMU",
    ("npu-alexnet-db-*/*", "tables.LLC"): "as ACC_PMU",
    ("npu-alexnet-db-*/*", "tables.SOC_BANDWIDTH_LEVEL"): "as ACC_PMU",
    ("npu-alexnet-db-*/*", "tables.NPU_MEM"): "its process total is component APP of memory, the rest is not kept",
    ("npu-alexnet-db-*/*", "tables.NPU_OP_MEM"): "OP_MEMORY has the same allocations",
    ("npu-alexnet-db-*/*", "tables.NPU_INFO"): "it names the chip",
    ("npu-alexnet-db-*/*", "tables.HOST_INFO"): "who recorded does not matter",
    ("npu-alexnet-db-*/*", "tables.SESSION_TIME_INFO"): "the window shows in the times of the events",
    ("npu-alexnet-db-*/*", "tables.META_DATA"): "environment and metadata; they show as facts of the profile",
    ("npu-alexnet-db-*/*", "tables.RANK_DEVICE_MAP"): "it says which rank and device this is",
    ("npu-alexnet-db-l0/*", "tables.COMMUNICATION_TASK_INFO"): "at Level0 it tells nothing of its rows",
    ("npu-alexnet-db-l0/*", "kernels.by_core.N/A.*"): "Level0 writes N/A; the core is repaired from TASK",
    ("npu-alexnet-db-*/*", "step_trace_time.*.communication_not_overlapped_and_exclude_receive"): "as in text",
    ("npu-alexnet-db-*/*", "comm_analyzer_time.*.start_timestamp"): "the collective keeps its exact start instead",
    ("npu-gpt-*/*", "comm.reported.*"): "communication.json adds figures to the few collectives left in the cut CSV",
    ("npu-gpt-*rank_1*", "memory.peaks.*_at_us"): "a spreadsheet rounded the times to 1.69512E+15; such a time is lost",
}


@lru_cache(maxsize=1)
def _truth() -> dict[str, Any]:
    profiles: dict[str, Any] = json.loads((PROFILES / "TRUTH.json").read_text(encoding="utf-8"))["profiles"]
    return profiles


def _entries() -> list[tuple[str, str]]:
    return [(name, entry) for name in NAMES for entry in _truth()[name]["entries"]] if PROFILES.is_dir() else []


@lru_cache(maxsize=32)
def _profile(name: str, entry: str) -> Profile:
    return load_profile(PROFILES / name / entry)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _leaves(inner, f"{path}\0{key}" if path else str(key))
    else:
        yield path, value


def _excuses(place: str, leaf: str) -> Iterator[tuple[str, str]]:
    """The keys of NOT_EXPRESSED that cover a leaf of ``profile/entry``."""
    shown = leaf.replace("\0", ".")
    for key in NOT_EXPRESSED:
        if fnmatch.fnmatchcase(place, key[0]) and fnmatch.fnmatchcase(shown, key[1]):
            yield key


def _at(value: Any, leaf: str) -> Any:
    for key in leaf.split("\0") if leaf else ():
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def _agrees(leaf: str, truth: Any, found: Any, events: int) -> bool:
    """Counts and texts exactly, times to 1 ns for each event summed, shares to their printed digits."""
    if leaf.endswith(("_at_us", "\0at_us", "start_us")):
        return Decimal(str(truth)) == Decimal(str(found))
    if isinstance(truth, float):
        times = leaf.endswith("_us") or "_gt_" in leaf or leaf.startswith("step_trace_time")
        return bool(found == pytest.approx(truth, rel=1e-9, abs=0.001 * events + 1e-9 if times else 0.0006))
    return bool(truth == found)


def _events(truth: dict[str, Any], leaf: str) -> int:
    """How many events a time was summed over, as the truth itself counts them."""
    parent = _at(truth, leaf.rpartition("\0")[0])
    if leaf.startswith(("device\0", "kernels\0kernel_time")):
        return int(truth["kernels"]["rows"])
    return max(1, int(parent.get("count", 1))) if isinstance(parent, dict) else 1


@pytest.mark.parametrize(("name", "entry"), _entries())
def test_every_figure_agrees(name: str, entry: str) -> None:
    truth = _truth()[name]["entries"][entry]
    profile = _profile(name, entry)
    facts = measured(profile)
    if profile.info.form == "db":
        facts = in_database_words(facts, profile)
    truth = {**truth, "form": FORMS.get(truth["form"], "text")}
    wrong, compared = [], 0
    for leaf, expected in _leaves(truth):
        if any(_excuses(f"{name}/{entry}", leaf)):
            continue
        compared += 1
        shown = leaf.replace("\0", ".")
        try:
            found = _at(facts, leaf.replace("schedule\0_", "schedule\0"))  # the 2023 spelling
        except (KeyError, IndexError, TypeError):
            wrong.append(f"{shown}: {expected} is not expressed")
            continue
        if not _agrees(leaf, expected, found, _events(truth, leaf)):
            wrong.append(f"{shown}: {found}, not {expected}")
    assert not wrong, "\n".join(wrong)
    assert compared >= 80


def test_no_reason_is_idle() -> None:
    """Every entry of NOT_EXPRESSED excuses at least one leaf."""
    used = set()
    for name, entry in _entries():
        for leaf, _ in _leaves(_truth()[name]["entries"][entry]):
            used.update(_excuses(f"{name}/{entry}", leaf))
    assert set(NOT_EXPRESSED) - used == set()


@pytest.mark.parametrize("name", [name for name in NAMES if "alexnet-text-l0" in name or "alexnet-text-l1" in name])
def test_ranks_compare_as_the_truth_says(name: str) -> None:
    columns = {
        "Computing": "compute_us",
        "Communication(Not Overlapped)": "exposed_comm_us",
        "Free": "free_us",
        "Stage": "stage_us",
    }
    for figure, expected in _truth()[name]["cross_rank"].items():
        values = {entry: _profile(n, entry).step_trace[columns[figure]][0] for n, entry in _entries() if n == name}
        assert max(values, key=lambda entry: values[entry]) == expected["max_at"]
        assert min(values, key=lambda entry: values[entry]) == expected["min_at"]
        assert max(values.values()) == pytest.approx(expected["max"], abs=0.001)


# ---- the report ---------------------------------------------------------------------------------------------

ReportOf = Callable[[Path], Report]
WITH_TRACE = [name for name in NAMES if "alexnet" in name or "trace-only" in name]


@pytest.mark.parametrize("name", NAMES)
def test_the_ledger_adds_up_to_the_step(name: str, report_of: ReportOf) -> None:
    report = report_of(PROFILES / name)
    assert report.steps or name not in WITH_TRACE
    for step in report.steps:
        parts = (
            step.compute_us,
            step.exposed_communication_us,
            step.free_us,
            step.prepare_us,
            step.after_last_kernel_us,
        )
        assert sum(parts) == pytest.approx(step.duration_us, abs=0.001), step
        assert min(parts) >= 0
        if step.idle_owners:
            idle = step.free_us + step.prepare_us
            assert sum(step.idle_owners.values()) == pytest.approx(idle, abs=0.001), step


@pytest.mark.parametrize("name", WITH_TRACE)
def test_idle_pieces_have_one_owner_each_and_do_not_overlap(name: str) -> None:
    for own, entry in _entries():
        if own != name:
            continue
        idle = _profile(name, entry).idle.sort_values("start_ns")
        assert len(idle)
        assert set(idle["owner"]) <= {"gc", "alloc", "compile", "sync", "data", "dispatch", "other"}
        ends = idle["start_ns"] + idle["dur_ns"]
        assert (idle["start_ns"].to_numpy()[1:] >= ends.to_numpy()[:-1]).all()


def test_alexnet_level1_rank_0_as_counted_by_hand(report_of: ReportOf) -> None:
    report = report_of(PROFILES / "npu-alexnet-text-l1")
    (facts,) = [item for item in report.facts if item.rank == 0]
    assert (facts.kernels, facts.kernels_linked_to_op) == (187, 187)
    assert facts.kernels_linked_to_line is not None
    assert facts.kernels_linked_to_line >= 164
    assert (facts.enqueues, facts.dequeues) == (159, 159)
    assert facts.device_busy_us == pytest.approx(8873.737, abs=0.0005)
    assert facts.device_idle_us == pytest.approx(25744.069, abs=0.0005)
    (step,) = [item for item in report.steps if item.rank == 0]
    assert step.host_us == pytest.approx(155985.8, abs=0.0005)
    profile = _profile("npu-alexnet-text-l1", "rank0_ascend_pt")
    conversions = profile.kernels[profile.kernels["type"] == "TransData"]
    assert len(conversions) == 57
    assert conversions["dur_us"].sum() == pytest.approx(1423.202, abs=0.0005)
    pta = profile.memory[profile.memory["component"] == "PTA"]
    assert pta["allocated_bytes"].max() == 1187.9814453125 * 2**20


@pytest.mark.parametrize("name", [name for name in NAMES if "alexnet-text-l1" in name or "alexnet-text-l2" in name])
def test_alexnet_findings_point_at_the_lines_that_cause_them(name: str, report_of: ReportOf) -> None:
    findings = report_of(PROFILES / name).findings
    lines = {"layout-transdata": ("main.py", 354), "optimizer-native": ("main.py", 366)}
    for finding in findings:
        if finding.rule_id in lines and finding.location:
            assert (Path(finding.location.path).name, finding.location.line) == lines[finding.rule_id]
        told = " ".join(item.text.en + (item.after or "") for item in finding.suggestions)
        if "NpuFusedSGD" in told and finding.saving is not None:
            assert finding.saving.share < 0.02, "this optimizer already runs foreach kernels at memory speed"
    assert "layout-transdata" in {finding.rule_id for finding in findings}


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_is_at_a_line_of_the_user_or_says_why_not(name: str, report_of: ReportOf) -> None:
    report = report_of(PROFILES / name)
    for finding in report.findings:
        if finding.location is None:
            assert finding.location_missing is not None, finding.rule_id
            assert finding.location_missing.en
            continue
        assert is_user_path(finding.location.path), finding.location
        assert finding.location.line > 0
        assert finding.location.how


@pytest.mark.parametrize(("name", "entry"), [item for item in _entries() if item[0] in WITH_TRACE])
def test_no_kernel_is_blamed_on_the_step_mark(name: str, entry: str) -> None:
    """ProfilerStep#N carries the stack of whoever called prof.step(); it must never become a kernel's line."""
    profile = _profile(name, entry)
    ops, kernels = profile.ops, profile.kernels
    marks = ops[ops["name"].astype(str).str.startswith("ProfilerStep#")]
    assert len(marks)
    assert not kernels["op"].isin(marks.index).any()
    if "source" not in kernels or "stack" not in marks or not marks["stack"].notna().any():
        return
    own = {line for stack in marks["stack"].dropna().astype(str) for line in stack.split(";") if "prof.step" in line}
    assert not set(kernels["source"].dropna().astype(str)) & own
