"""The figures of the views are the profiler's own, read here once more from its files."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DEMO, PROFILES, needs_profiles

from npu_advisor import analyze
from npu_advisor.api import Analysis
from npu_advisor.base.intervals import Spans
from npu_advisor.engine.views.thin import shares, thin
from npu_advisor.views import TableView

OUTPUT = "ASCEND_PROFILER_OUTPUT"
# Every table of this one but the steps and communication.json was cut to some twenty rows at its origin.
CUT = "npu-gpt-megatron-2023-trimmed"


def _ranks(file: str) -> list[Path]:
    """Every file of this name in the real profiles."""
    return sorted(PROFILES.glob(f"*/*/{OUTPUT}/{file}"))


def _id(path: Path) -> str:
    return f"{path.parent.parent.parent.name}-{path.parent.parent.name}"


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


_read: dict[Path, Analysis] = {}


def _report(path: Path) -> Analysis:
    rank = path.parent.parent
    if rank not in _read:
        _read[rank] = analyze(rank, keep=True)
    return _read[rank]


def _by(table: TableView, *keys: str) -> dict[tuple[object, ...], dict[str, object]]:
    """The rows of a table by key; every row must be there."""
    assert len(table.rows) == table.total
    names = [column.key for column in table.columns]
    made = [dict(zip(names, row, strict=True)) for row in table.rows]
    return {tuple(row.get(key) for key in keys): row for row in made}


@needs_profiles
@pytest.mark.parametrize("path", _ranks("op_statistic.csv"), ids=_id)
def test_kernel_view_is_op_statistic(path: Path) -> None:
    shown = _by(_report(path).views.tables["kernel_type"], "type", "core")
    own = {(row["OP Type"], row["Core Type"]): row for row in _rows(path)}
    assert set(shown) == set(own)
    for key, row in own.items():
        count = int(row["Count"])
        assert shown[key]["calls"] == count
        assert shown[key]["total_us"] == pytest.approx(float(row["Total Time(us)"]), abs=0.002 * count)
        assert shown[key]["max_us"] == pytest.approx(float(row["Max Time(us)"]), abs=0.002)
        assert 100 * shown[key]["share"] == pytest.approx(float(row["Ratio(%)"]), abs=0.01)


@needs_profiles
@pytest.mark.parametrize("path", _ranks("operator_details.csv"), ids=_id)
def test_operator_view_is_operator_details(path: Path) -> None:
    columns = {
        "host_self_us": "Host Self Duration(us)",
        "host_total_us": "Host Total Duration(us)",
        "device_self_us": "Device Self Duration(us)",
        "device_total_us": "Device Total Duration(us)",
    }
    own: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys([*columns, "calls"], 0.0))
    shaped: dict[tuple[str, str], int] = defaultdict(int)
    for row in _rows(path):
        own[row["Name"]]["calls"] += 1
        shaped[row["Name"], row["Input Shapes"]] += 1
        for key, title in columns.items():
            own[row["Name"]][key] += float(row[title])
    tables = _report(path).views.tables
    shown = _by(tables["operator"], "name")
    assert {name for (name,) in shown} == set(own)
    for name, sums in own.items():
        for key, value in sums.items():
            assert shown[name,][key] == pytest.approx(value, abs=0.01), (name, key)
    if "operator_shape" in tables:
        assert tables["operator_shape"].total == len(shaped)


@needs_profiles
@pytest.mark.parametrize("path", _ranks("memory_record.csv"), ids=_id)
def test_memory_view_peaks_as_memory_record(path: Path) -> None:
    memory = _report(path).views.memory
    peaks: dict[str, float] = defaultdict(float)
    for row in _rows(path):
        if row["Total Allocated(MB)"]:
            peaks[row["Component"]] = max(peaks[row["Component"]], float(row["Total Allocated(MB)"]) * 2**20)
    assert memory is not None
    allocated = {curve.component: curve for curve in memory.curves if curve.what == "allocated"}
    assert {name: max(curve.size_bytes) for name, curve in allocated.items()} == pytest.approx(peaks, abs=1)
    assert memory.peak_bytes == pytest.approx(peaks["PTA+GE" if "PTA+GE" in peaks else "PTA"], abs=1)


@needs_profiles
@pytest.mark.parametrize("path", _ranks("communication.json"), ids=_id)
def test_distributed_view_is_communication_json(path: Path) -> None:
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    names = {"elapse_us": "Elapse", "transit_us": "Transit", "wait_us": "Wait", "sync_us": "Synchronization"}
    recorded = {row["Name"].strip() for row in _rows(path.with_name("kernel_details.csv"))}
    for step in json.loads(path.read_text()).values():
        for op, info in step.get("collective", {}).items():
            kind = op.partition("_")[2].partition("_")[0]
            if not op.startswith("hcom_") or op.partition("@")[0] not in recorded:
                continue
            for key, name in names.items():
                sums[kind][key] += 1000 * info["Communication Time Info"][f"{name} Time(ms)"]
    shown = _by(_report(path).views.tables["comm_type"], "type")
    assert {kind for (kind,) in shown} == set(sums)
    for kind, values in sums.items():
        for key, value in values.items():
            # How long it lasts is told by kernel_details, which the origin of that one edited.
            if key != "elapse_us" or path.parents[2].name != CUT:
                assert shown[kind,][key] == pytest.approx(value, abs=1.0), (kind, key)


@needs_profiles
@pytest.mark.parametrize("path", _ranks("step_trace_time.csv"), ids=_id)
def test_steps_are_those_of_step_trace_time(path: Path) -> None:
    own = {row["Step"]: row for row in _rows(path)}
    steps = _report(path).steps
    assert len(steps) == len(own)
    for step in steps:
        row = own[str(step.step) if step.step is not None else ""]
        for value, title in (
            (step.compute_us, "Computing"),
            (step.communication_us, "Communication"),
            (step.exposed_communication_us, "Communication(Not Overlapped)"),
            (step.free_us, "Free"),
            (step.prepare_us, "Preparing"),
        ):
            assert value == pytest.approx(float(row.get(title, 0)), rel=1e-4, abs=1.0), title


@needs_profiles
def test_steps_of_a_cluster_are_those_of_its_summary() -> None:
    (path,) = PROFILES.glob("*/cluster_analysis_output/cluster_step_trace_time.csv")
    steps = {step.rank: step for step in analyze(path.parent).steps}
    own = {int(row["Index"]): row for row in _rows(path) if row["Type"] == "rank"}
    assert set(steps) == set(own)
    for rank, row in own.items():
        step = steps[rank]
        figures = [step.compute_us, step.communication_us, step.exposed_communication_us, step.free_us]
        titles = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
        assert figures == pytest.approx([float(row[title]) for title in titles], abs=0.01)


def test_views_are_no_part_of_the_report(report_of, demo_views) -> None:
    assert "views" not in demo_views.model_dump()
    assert demo_views.model_dump() == report_of(DEMO).model_dump()


@pytest.fixture(scope="module")
def demo_views() -> Analysis:
    return analyze(DEMO, keep=True)


def test_asking_later_gives_the_same_views(demo_views) -> None:
    assert analyze(DEMO).views == demo_views.views


def test_windows_lie_on_the_timeline_and_name_findings(demo_views) -> None:
    known = {finding.fingerprint for finding in demo_views.findings}
    windows = [(one.span_ns, window) for one in demo_views.views.timelines for window in one.windows]
    assert windows
    for span, window in windows:
        assert window.fingerprint in known
        assert all(-span <= start < end <= 2 * span for start, end in window.pieces)


def test_timeline_holds_every_kernel_of_a_small_profile(demo_views) -> None:
    (one,) = demo_views.views.timelines
    kernels = [lane for lane in one.lanes if lane.kind == "kernel"]
    assert sum(sum(lane.count) for lane in kernels) == sum(fact.kernels or 0 for fact in demo_views.facts)
    assert one.lanes[0].kind == "line"


EVENTS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 300), st.integers(0, 2)), min_size=1, max_size=300)


@given(EVENTS, st.integers(8, 60), st.integers(0, 9_000))
def test_thinning_loses_no_event_and_moves_none(events, most, at) -> None:
    start, length, row = (np.array(column, dtype=np.int64) for column in zip(*events, strict=True))
    end = start + length
    marks = thin(start, end, row, most, Spans(np.array([at]), np.array([at + 1000])))
    assert marks.holds.sum() == len(events)
    single = marks.holds == 1
    assert (marks.start[single] == start[marks.event[single]]).all()
    assert (marks.end[single] == end[marks.event[single]]).all()
    for low, high, lane in zip(start, end, row, strict=True):
        inside = (row[marks.event] == lane) & (marks.start <= low) & (high <= marks.end)
        assert inside.any()


@given(st.integers(1_000, 4_000), st.integers(50, 400))
def test_thinning_keeps_to_its_budget(events, most) -> None:
    start = np.arange(events, dtype=np.int64) * 100
    marks = thin(start, start + 90, np.zeros(events, dtype=np.int64), most, Spans(start[:1], start[100:101]))
    assert len(marks.event) <= most + most // 4


def test_small_lanes_get_all_they_need() -> None:
    assert shares([5, 1000, 10, 1000], 415) == [5, 200, 10, 200]
    assert shares([], 10) == []
