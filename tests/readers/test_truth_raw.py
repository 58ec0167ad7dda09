"""Every text profile of the recorded ones against the facts taken from its files by other code.

Counts must agree exactly; a sum of n rounded values may be off by n * 0.5 ns and no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from places import PROFILES, needs_profiles

from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, read_rank

pytestmark = needs_profiles

RANKS = [
    *((f"npu-alexnet-text-l{level}", f"rank{rank}_ascend_pt") for level in (0, 1) for rank in (0, 1)),
    ("npu-alexnet-text-l2", "rank0_ascend_pt"),
    ("npu-trace-only-2024", "trace_view.json"),
    ("npu-csv-only-2023", "kernel_details.csv"),
    ("npu-gpt-megatron-2023-trimmed", "test_rank_0_ascend_pt"),
    ("npu-gpt-megatron-2023-trimmed", "test_rank_1_ascend_pt"),
]
MB, KB = 2**20, 2**10
Facts = dict[str, Any]


@cache
def truth() -> Facts:
    loaded: Facts = json.loads((PROFILES / "TRUTH.json").read_text())
    return loaded["profiles"]


@pytest.fixture(scope="module", params=RANKS, ids="/".join)
def pair(request: pytest.FixtureRequest) -> tuple[Profile, Facts]:
    name, entry = request.param
    (source,) = locate(PROFILES / name / entry)
    return read_rank(source), truth()[name]["entries"][entry]


def test_every_text_profile_is_here() -> None:
    forms = {"text", "ascend trace only", "kernel_details only"}
    listed = {
        (name, entry)
        for name, profile in truth().items()
        for entry, facts in profile.get("entries", {}).items()
        if facts.get("form") in forms
    }
    assert listed == set(RANKS)


def us(ns: float) -> float:
    return round(float(ns)) / 1000


def total(table: pd.DataFrame) -> Facts:
    return {"count": len(table), "total_us": us(table["dur_ns"].sum())}


def same_total(rows: pd.DataFrame, facts: Facts) -> None:
    assert len(rows) == facts["count"]
    assert us(rows["dur_ns"].sum()) == pytest.approx(facts["total_us"], abs=0.0005 * len(rows) + 1e-6)


def test_kernels(pair: tuple[Profile, Facts]) -> None:
    profile, facts = pair
    kernels, told = profile.kernels, facts["kernels"]
    same_total(kernels, {"count": told["compute"], "total_us": told["kernel_time_us"]})
    assert len(profile.table("comms")) == told["communication"]
    for column, key in (("type", "top_by_type"), ("name", "top_by_name")):
        for entry in told[key]:
            same_total(kernels[kernels[column] == entry["name"]], entry)
    for kind in ("TransData", "Cast"):
        same_total(kernels[kernels["type"] == kind], told["conversion"][kind])
    transposed = kernels[kernels["type"].isin(["Transpose", "TransposeD"])]
    same_total(transposed, told["conversion"]["Transpose"])
    same_total(kernels[kernels["core"] == "AI_CPU"], told["ai_cpu"])


def test_cores(pair: tuple[Profile, Facts]) -> None:
    profile, facts = pair
    for core, entry in facts["kernels"]["by_core"].items():
        if core == "HCCL":
            same_total(profile.comms, entry)
        elif core == "N/A":  # Level0: the reader takes the core from the trace
            assert profile.info.level == "Level0" and profile.kernels["core"].notna().all()
        else:
            same_total(profile.kernels[profile.kernels["core"] == core], entry)


def spans(*tables: pd.DataFrame) -> list[tuple[int, int]]:
    """The union of the rows as disjoint (start, end)."""
    merged: list[tuple[int, int]] = []
    rows = pd.concat([table[["start_ns", "dur_ns"]] for table in tables]).sort_values("start_ns")
    for start, dur in rows.itertuples(index=False):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], start + dur))
        else:
            merged.append((start, start + dur))
    return merged


def length(merged: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in merged)


def test_device_windows(pair: tuple[Profile, Facts]) -> None:
    profile, facts = pair
    for step, told in facts["device"].items():
        tables = [profile.kernels, profile.comms] if profile.has("comms") else [profile.kernels]
        if step != "all":
            tables = [table[table["step_id"] == int(step)] for table in tables]
        compute, both = spans(tables[0]), spans(*tables)
        comm = spans(*tables[1:]) if tables[1:] else []
        window = both[-1][1] - both[0][0] if len(tables) == 1 else max(e for _, e in both) - both[0][0]
        assert len(tables[0]) == told["kernels"]
        assert us(window) == pytest.approx(told["window_us"], abs=0.0011)
        assert us(length(compute)) == pytest.approx(told["busy_compute_us"], abs=0.0005 * len(compute))
        assert us(length(comm)) == pytest.approx(told["comm_us"], abs=0.0011)
        assert us(window - length(both)) == pytest.approx(told["idle_us"], abs=0.0005 * len(both))
        assert us(length(both) - length(compute)) == pytest.approx(told["comm_not_overlapped_us"], abs=0.005)
        if profile.info.level != "Level0":  # there the file has no streams, the reader takes them from the trace
            assert tables[0]["stream"].nunique() == told["streams"]


def trace_facts(pair: tuple[Profile, Facts]) -> tuple[Profile, Facts]:
    profile, facts = pair
    if "trace" not in facts:
        assert not profile.has("ops") and not profile.has("tracks")
        pytest.skip("this profile has no trace")
    return profile, facts["trace"]


def test_every_slice_is_in_exactly_one_table(pair: tuple[Profile, Facts]) -> None:
    profile, told = trace_facts(pair)
    count = {name: len(profile.table(name)) for name in ("ops", "frames", "enqueues", "dequeues", "gcs")}
    processes = told["processes"]
    assert sum(count.values()) == processes["Python"]
    assert count["ops"] == told["host_ops"]["cpu_op_events"]
    assert count["frames"] == told["host_ops"]["python_function_events"]
    assert len(profile.table("apis")) == processes.get("CANN", 0)
    assert (profile.kernels["track"] >= 0).all()
    assert len(profile.kernels) + len(profile.table("tasks")) == processes["Ascend Hardware"]
    assert len(profile.table("comms")) + len(profile.table("comm_tasks")) == processes.get("HCCL", 0)
    assert len(profile.table("overlap")) == processes["Overlap Analysis"]
    assert sum(processes.values()) == told["complete_events"]


def test_host_ops(pair: tuple[Profile, Facts]) -> None:
    profile, told = trace_facts(pair)
    ops = profile.table("ops")
    assert int((ops["stack"].codes >= 0).sum()) == told["host_ops"]["cpu_op_with_call_stack"]
    assert int((ops["shapes"].codes >= 0).sum()) == told["host_ops"]["cpu_op_with_input_dims"]
    frame = profile.ops
    steps = frame[frame["name"].astype(str).str.startswith("ProfilerStep#")]
    assert [
        {"name": row.name, "start_us": f"{row.start_ns // 1000}.{row.start_ns % 1000:03d}", "dur_us": us(row.dur_ns)}
        for row in steps[["name", "start_ns", "dur_ns"]].itertuples(index=False)
        if isinstance(row.name, str)
    ] == told["steps"]
    optimizers = frame[frame["name"].astype(str).str.startswith("Optimizer.step#")]
    listed = pair[1]["trace"]["optimizer"]
    assert [(row.name, us(row.dur_ns)) for row in optimizers[["name", "dur_ns"]].itertuples(index=False)] == [
        (entry["name"], entry["host_us"]) for entry in listed
    ]


def test_flows_and_task_types(pair: tuple[Profile, Facts]) -> None:
    profile, told = trace_facts(pair)
    points = profile.flow_points
    starts = points[~points["finish"]].groupby("category", observed=True)["id"].nunique()
    assert {category: int(count) for category, count in starts.items()} == told["flow_starts"]
    types = profile.tasks["task_type"].value_counts()
    kernels = {"AI_CORE", "MIX_AIV", "MIX_AIC", "AI_CPU", "DSA_SQE", "AI_VECTOR_CORE", "Other"}
    others = {kind: count for kind, count in told["hardware_task_types"].items() if kind not in kernels}
    assert {kind: int(count) for kind, count in types.items() if kind not in kernels} == others


def test_overlap_lanes(pair: tuple[Profile, Facts]) -> None:
    profile, told = trace_facts(pair)
    sums = profile.overlap.groupby("name", observed=True)["dur_ns"].agg(["sum", "count"])
    assert set(sums.index) == set(told["overlap_analysis_us"])
    for name, expected in told["overlap_analysis_us"].items():
        allowed = 0.0005 * int(sums.loc[name, "count"]) + 1e-6
        assert us(sums.loc[name, "sum"]) == pytest.approx(expected, abs=allowed)


def test_task_queue(pair: tuple[Profile, Facts]) -> None:
    profile, told = trace_facts(pair)
    enqueues, dequeues, told = profile.enqueues, profile.dequeues, told["queue"]
    assert (len(enqueues), len(dequeues)) == (told["enqueue"], told["dequeue"])
    assert int(enqueues["correlation"].isin(dequeues["correlation"]).sum()) == told["matched"]
    assert dequeues["track"].nunique() == told["lanes"]
    busy = spans(dequeues)
    assert us(busy[-1][1] - busy[0][0]) == told["span_us"] and us(length(busy)) == told["busy_us"]
    gaps = np.array([after[0] - before[1] for before, after in pairwise(busy)])
    gaps = gaps[gaps > 0]
    for limit in (0, 10, 50, 100, 500, 1000):
        assert int((gaps > limit * 1000).sum()) == told["gaps"][f"count_gt_{limit}"]
        assert us(gaps[gaps > limit * 1000].sum()) == told["gaps"][f"total_gt_{limit}"]
    assert us(gaps.max()) == told["gaps"]["largest_us"]


def test_operator_details(pair: tuple[Profile, Facts]) -> None:
    profile, facts = pair
    told = facts.get("operator_details")
    if told is None:
        assert not profile.has("op_details")
        pytest.skip("this profile has no operator_details.csv")
    rows = profile.op_details
    assert len(rows) == told["rows"]
    assert rows["device_self_us"].sum() == pytest.approx(told["device_self_sum_us"], abs=0.001)
    optimizers = rows[rows["name"].astype(str).str.startswith("Optimizer.step#")]
    assert [
        {"name": row.name, "host_total_us": row.host_total_us, "device_total_us": row.device_total_us}
        for row in optimizers[["name", "host_total_us", "device_total_us"]].itertuples(index=False)
    ] == told["optimizer_rows"]


LEDGER = {
    "Step": "step_id",
    "Computing": "compute_us",
    "Communication(Not Overlapped)": "exposed_comm_us",
    "Overlapped": "overlapped_us",
    "Communication": "comm_us",
    "Free": "free_us",
    "Stage": "stage_us",
    "Bubble": "bubble_us",
    "Preparing": "prepare_us",
}


def test_step_trace(pair: tuple[Profile, Facts]) -> None:
    profile, facts = pair
    if "step_trace_time" not in facts:
        assert not profile.has("step_trace")
        pytest.skip("this profile has no step_trace_time.csv")
    told = facts["step_trace_time"]
    assert len(profile.step_trace) == len(told)
    for row, expected in zip(profile.step_trace.to_dict("records"), told, strict=True):
        assert {title: row[LEDGER[title]] for title in expected if title in LEDGER} == {
            title: value for title, value in expected.items() if title in LEDGER
        }


def test_memory(pair: tuple[Profile, Facts]) -> None:
    profile, facts = pair
    if "memory" not in facts:
        assert not profile.has("memory") and not profile.has("allocs")
        pytest.skip("this profile has no memory files")
    told, memory = facts["memory"], profile.memory
    assert set(memory["component"].cat.categories) == set(told["peaks"])
    for component, peak in told["peaks"].items():
        rows = memory[memory["component"] == component]
        assert len(rows) == peak["records"]
        for kind in ("allocated", "reserved"):
            if f"peak_{kind}_mb" in peak:
                assert rows[f"{kind}_bytes"].max() == pytest.approx(peak[f"peak_{kind}_mb"] * MB, abs=1)
                at = int(rows["start_ns"][rows[f"{kind}_bytes"].idxmax()])
                given = peak[f"peak_{kind}_at_us"]
                assert at == (-1 if "E" in given else int(given.replace(".", "").ljust(19, "0")))
    assert len(profile.allocs) == told["operator_rows"] - told["negative_or_empty_size_rows"]
    for entry in told["top_operators"]:
        rows = profile.allocs[profile.allocs["name"] == entry["name"]]
        assert len(rows) == entry["count"] and rows["size_bytes"].sum() == entry["total_kb"] * KB
    largest = profile.allocs.sort_values(["size_bytes", "start_ns"], ascending=[False, True]).head(5)
    assert [(row.name, row.size_bytes / KB) for row in largest[["name", "size_bytes"]].itertuples(index=False)] == [
        (entry["name"], entry["kb"]) for entry in told["top_allocations"]
    ]


def reported(facts: Facts) -> Iterator[tuple[str, Facts]]:
    for kinds in facts.get("comm", {}).get("reported", {}).values():
        yield from kinds.items()


def test_communication(pair: tuple[Profile, Facts]) -> None:
    """Sums over communication.json, where the profile kept a kernel row for each of its operations."""
    profile, facts = pair
    told = [sums for _, sums in reported(facts) if sums["ops"]]
    if not told or sum(sums["ops"] for sums in told) != len(profile.table("comms")):
        pytest.skip("no communication.json, or one with more operations than kernel_details.csv")
    columns = {"Transit": "transit_us", "Wait": "wait_us", "Synchronization": "sync_us", "Idle": "idle_us"}
    for title, column in columns.items():
        expected = sum(sums[f"{title} Time(ms)"] for sums in told) * 1000
        assert profile.comms[column].sum() == pytest.approx(expected, abs=0.002)
    elapsed = sum(sums["Elapse Time(ms)"] for sums in told) * 1000
    assert profile.comms["dur_us"].sum() == pytest.approx(elapsed, abs=0.001 * len(profile.comms))


def test_communication_file_alone() -> None:
    from npu_advisor.readers.comm import read_communication

    name = "npu-gpt-megatron-2023-trimmed"
    for entry, facts in truth()[name]["entries"].items():
        rows = read_communication(Path(PROFILES, name, entry, "ASCEND_PROFILER_OUTPUT", "communication.json"))
        for kind, sums in reported(facts):
            chosen = rows["kind"] == kind
            assert chosen.sum() == sums["ops"]
            assert rows["wait_us"][chosen].sum() == pytest.approx(sums["Wait Time(ms)"] * 1000, abs=0.002)
            assert rows["dur_ns"][chosen].sum() == pytest.approx(sums["Elapse Time(ms)"] * 1e6, abs=float(chosen.sum()))


def test_info(pair: tuple[Profile, Facts]) -> None:
    profile, facts = pair
    told, info = facts.get("profiler_info"), profile.info
    if told is None:
        assert info.level is None and info.rank == -1
        return
    assert (info.rank, info.level, info.torch_npu, info.cann) == tuple(
        told[key] for key in ("rank", "level", "torch_npu", "cann")
    )
    assert (info.record_shapes, info.profile_memory, info.with_stack) == tuple(
        told[key] for key in ("record_shapes", "profile_memory", "with_stack")
    )
    assert info.schedule == {key.lstrip("_"): value for key, value in told["schedule"].items()}
