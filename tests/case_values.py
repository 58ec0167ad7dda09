"""The figures that trouble cases name, read from a report or from the tables behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from measured import optimizer_facts

from npu_advisor import load_profile
from npu_advisor.base.frame import parse_frame, split_stack
from npu_advisor.model.profile import Profile


@dataclass(frozen=True)
class Run:
    """One run of the command line: what it wrote, and how it ended."""

    path: Path
    exit_code: int
    report: dict[str, Any]
    stderr: str

    @cached_property
    def profile(self) -> Profile:
        """The tables behind the report, of the lowest rank."""
        return load_profile(self.path)

    def facts(self, name: str) -> Any:
        """A fact summed over the ranks."""
        return sum(rank[name] or 0 for rank in self.report["facts"])

    def steps(self, name: str) -> float:
        """A column of the ledger summed over steps and ranks."""
        return float(sum(step[name] for step in self.report["steps"]))

    @property
    def codes(self) -> set[str]:
        """Codes of the diagnostics."""
        return {remark["code"] for remark in self.report["diagnostics"]}


Value = Callable[[Run], Any]


def _of_kernel(run: Run, read: Callable[[pd.Series], Any]) -> dict[str, Any]:
    kernels = run.profile.kernels
    return {str(row["name"]): read(row) for _, row in kernels.iterrows()}


def _ops_around(run: Run, row: pd.Series) -> list[str]:
    """The op a kernel is linked to and every op around it."""
    ops, at, names = run.profile.ops, int(row["op"]), []
    while at >= 0:
        names.append(str(ops["name"][at]))
        at = int(ops["parent"][at])
    return names


def _line(row: pd.Series) -> int | None:
    frame = parse_frame(str(row["source"])) if isinstance(row["source"], str) else None
    return frame.line if frame else None


def _type_time(run: Run, kind: str) -> float:
    kernels = run.profile.kernels
    return float(kernels["dur_us"][kernels["type"].astype(str).str.startswith(kind)].sum())


def _type_calls(run: Run, kind: str) -> int:
    return int((run.profile.kernels["type"] == kind).sum())


def _on_cpu(run: Run) -> pd.DataFrame:
    return run.profile.kernels[run.profile.kernels["core"] == "AI_CPU"]


def _span(run: Run) -> float:
    steps = run.profile.steps
    return float((steps["device_end_ns"] - steps["device_start_ns"]).sum() / 1000)


def _per_step(run: Run) -> dict[str, int]:
    numbers = run.profile.steps["number"].to_numpy()[run.profile.kernels["step"]]
    return {str(number): int(count) for number, count in pd.Series(numbers).value_counts().items()}


def _mean_kernel_time(run: Run) -> float:
    """Kernel time of a complete step, on average."""
    steps, kernels = run.profile.steps, run.profile.kernels
    whole = steps.index[steps["complete"]]
    return float(kernels["dur_us"][kernels["step"].isin(whole)].sum() / len(whole))


def _per_rank(run: Run, column: str) -> dict[str, float]:
    ranks = sorted({step["rank"] for step in run.report["steps"]})
    return {str(r): sum(s[column] for s in run.report["steps"] if s["rank"] == r) for r in ranks}


def _host_total(run: Run, start: str) -> float:
    ops = run.profile.ops
    return float(ops["dur_us"][ops["name"].astype(str).str.startswith(start)].sum())


def _allocs(run: Run) -> pd.DataFrame:
    allocs = run.profile.allocs
    return allocs[allocs["size_bytes"] > 0]


def _largest(run: Run) -> dict[str, Any]:
    row = _allocs(run).sort_values("size_bytes").iloc[-1]
    return {"op": str(row["name"]), "size_kb": row["size_bytes"] / 1024}


def _names(rows: pd.DataFrame) -> list[str]:
    return sorted(rows["name"].dropna().astype(str))


def _shown_numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for inner in value.values() for number in _shown_numbers(inner)]
    if isinstance(value, list):
        return [number for inner in value for number in _shown_numbers(inner)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def _optimizer(run: Run, key: str) -> Any:
    (facts,) = optimizer_facts(run.profile)
    return facts[key]


def _shares(run: Run) -> list[float]:
    """Every part of every step's ledger as a share of the step."""
    parts = ("compute_us", "exposed_communication_us", "free_us", "prepare_us", "after_last_kernel_us")
    return [step[part] / step["duration_us"] for step in run.report["steps"] for part in parts]


def _skew(run: Run) -> float:
    kernels, apis = run.profile.kernels, run.profile.apis
    linked = kernels[kernels["api"] >= 0]
    return float((apis["start_ns"].to_numpy()[linked["api"]] - linked["start_ns"]).max() / 1000)


def _shapes(run: Run) -> dict[str, list[list[int] | None]]:
    """Input shapes of each kernel that has them, None for an input that is not given."""
    kernels = run.profile.kernels
    return {
        str(name): [[int(n) for n in part.split(",")] if part else None for part in text.split(";")]
        for name, text in zip(kernels["name"], kernels["input_shapes"], strict=True)
        if isinstance(text, str)
    }


def _frames(run: Run) -> list[int]:
    """How many frames each op's call stack has, ops with a kernel only, in time order."""
    ops = run.profile.ops
    return [
        len(split_stack(ops["stack"][row])) if isinstance(ops["stack"][row], str) else 0
        for row in sorted(set(run.profile.kernels["op"]))
    ]


def _iterations(run: Run, kind: str = "") -> pd.DataFrame:
    table = run.profile.iterations
    return table[table["kind"] == kind] if kind else table


def _same(values: pd.Series) -> float:
    """The one value that all share."""
    (value,) = set(values.dropna())
    return float(value)


def _host(run: Run, call: str) -> float:
    apis = run.profile.apis
    return float(apis["dur_us"][apis["name"] == call].sum())


def _finding(run: Run, rule: str) -> dict[str, Any]:
    (found,) = (finding for finding in run.report["findings"] if finding["rule_id"] == rule)
    return dict(found)


def _top_k_top_p(run: Run) -> float:
    evidence = _finding(run, "kernel-sampler")["evidence"]
    op, us = (evidence["columns"].index(name) for name in ("op.name", "total_us"))
    return float(sum(row[us] for row in evidence["rows"] if row[op] == "npu::npu_top_k_top_p"))


def _updating(run: Run) -> float:
    """From the end of the call before the first update of each iteration until the replay is launched."""
    apis, updates = run.profile.apis, run.profile.graph_updates
    ends = apis["start_ns"] + apis["dur_ns"]
    first = updates.groupby("iteration")["start_ns"].min()
    last = (updates["start_ns"] + updates["dur_ns"]).groupby(updates["iteration"]).max()
    return _same(pd.Series([(last[row] - ends[ends <= start].max()) / 1000.0 for row, start in first.items()]))


def _overlap(run: Run) -> float:
    return 1 - run.steps("exposed_communication_us") / run.steps("communication_us")


VALUES: dict[str, Value] = {
    "kernel_count": lambda run: run.facts("kernels"),
    "kernel_time_sum_us": lambda run: run.facts("kernel_time_us"),
    "kernels_linked_to_host_op": lambda run: run.facts("kernels_linked_to_op"),
    "device_busy_us": lambda run: run.facts("device_busy_us"),
    "device_busy_us_max": lambda run: run.facts("device_busy_us"),
    "computing_us": lambda run: run.facts("device_busy_us"),
    "device_idle_us": lambda run: run.facts("device_idle_us"),
    "free_us": lambda run: run.facts("device_idle_us"),
    "device_span_us": _span,
    "communication_us": lambda run: run.steps("communication_us"),
    "communication_time_us": lambda run: run.steps("communication_us"),
    "communication_not_overlapped_us": lambda run: run.steps("exposed_communication_us"),
    "overlapped_us": lambda run: run.steps("communication_us") - run.steps("exposed_communication_us"),
    "computing_us_per_rank": lambda run: _per_rank(run, "compute_us"),
    "communication_us_per_rank": lambda run: _per_rank(run, "communication_us"),
    "utilization": lambda run: run.facts("device_busy_us") / _span(run),
    "transdata_time_us": lambda run: _type_time(run, "TransData"),
    "transdata_share": lambda run: _type_time(run, "TransData") / run.facts("kernel_time_us"),
    "transdata_calls": lambda run: _type_calls(run, "TransData"),
    "matmul_time_us": lambda run: _type_time(run, "MatMul"),
    "top_kernel_time_us": lambda run: run.report["top_kernels"][0]["total_us"],
    "aicpu_calls": lambda run: len(_on_cpu(run)),
    "aicpu_time_us": lambda run: float(_on_cpu(run)["dur_us"].sum()),
    "aicpu_share": lambda run: float(_on_cpu(run)["dur_us"].sum()) / run.facts("kernel_time_us"),
    "op_of_kernel": lambda run: _of_kernel(run, lambda row: _ops_around(run, row)),
    "line_of_kernel": lambda run: _of_kernel(run, _line),
    "kernels_without_host_op_include": lambda run: _names(run.profile.kernels.query("op < 0")),
    "rank": lambda run: {-1: None}.get(run.report["profile"]["ranks"][0]["rank"], "known"),
    "ranks": lambda run: [rank["rank"] for rank in run.report["profile"]["ranks"]],
    "profiles_found": lambda run: len(run.report["profile"]["ranks"]),
    "kernel_count_per_step": _per_step,
    "mean_kernel_time_per_complete_step_us": _mean_kernel_time,
    "incomplete_steps": lambda run: run.profile.steps.query("not complete")["number"].tolist(),
    "windows": lambda run: len(run.report["steps"]),
    "no_step_named_minus_1": lambda run: all(step["step"] != -1 for step in run.report["steps"]),
    "step_us": lambda run: run.report["steps"][0]["host_us"],
    "dataloader_host_us": lambda run: _host_total(run, "enumerate(DataLoader)"),
    "optimizer_host_us": lambda run: _optimizer(run, "host_us"),
    "optimizer_kernel_count": lambda run: _optimizer(run, "kernels"),
    "optimizer_device_us": lambda run: _optimizer(run, "device_us"),
    "peak_allocated_mb": lambda run: run.facts("peak_allocated_bytes") / 2**20,
    "peak_reserved_mb": lambda run: run.facts("peak_reserved_bytes") / 2**20,
    "largest_allocation": _largest,
    "sum_of_positive_allocations_kb": lambda run: _allocs(run)["size_bytes"].sum() / 1024,
    "still_live_at_end": lambda run: _names(_allocs(run).query("release_ns < 0")),
    "operator_details_rows": lambda run: len(run.profile.op_details),
    "all_self_times_non_negative": lambda run: bool((run.profile.ops["self_us"] >= 0).all()),
    "host_self_us": lambda run: run.profile.ops.groupby("name", observed=True)["self_us"].sum().to_dict(),
    "parent_of_op": lambda run: {
        str(row["name"]): str(run.profile.ops["name"][row["parent"]])
        for _, row in run.profile.ops.query("parent >= 0").iterrows()
    },
    "graph_kernels": lambda run: int((run.profile.kernels["model"] >= 0).sum()),
    "eager_kernels": lambda run: int((run.profile.kernels["model"] < 0).sum()),
    "graph_replays": lambda run: int(run.profile.iterations["replays"].sum()),
    "graph_step_device_span_us": lambda run: _same(_iterations(run, "graph")["span_us"]),
    "eager_step_device_span_us": lambda run: _same(_iterations(run, "eager")["span_us"]),
    "slowdown": lambda run: _same(_iterations(run, "eager")["span_us"]) / _same(_iterations(run, "graph")["span_us"]),
    "saving_us_per_missed_step": lambda run: (
        _finding(run, "dispatch-graph-capture-miss")["recorded_us"]
        / _finding(run, "dispatch-graph-capture-miss")["values"]["missed"]
    ),
    "inter_step_gap_us": lambda run: _same(run.profile.iterations["gap_us"]),
    "inter_step_gaps": lambda run: int(run.profile.iterations["gap_us"].count()),
    "replay_device_us_per_step": lambda run: _same(_iterations(run, "graph")["span_us"]),
    "update_host_us_per_step": _updating,
    "tiling_host_us_per_step": lambda run: _same(run.profile.graph_updates.groupby("iteration")["tiling_us"].sum()),
    "sampling_time_us": lambda run: _finding(run, "kernel-sampler")["recorded_us"],
    "sampling_share": lambda run: _finding(run, "kernel-sampler")["values"]["share"],
    "top_k_top_p_time_us": _top_k_top_p,
    "top_k_top_p_share": lambda run: _top_k_top_p(run) / run.facts("device_busy_us"),
    "sync_host_us": lambda run: _host(run, "aclrtSynchronizeStreamWithTimeout"),
    "hidden_wait_host_us": lambda run: _host(run, "aclrtSynchronizeEvent"),
    "free_owned_by_sync_us": lambda run: run.profile.idle.query("owner == 'sync'")["dur_us"].sum(),
    "collective_count": lambda run: len(run.profile.comms),
    "overlap_ratio": _overlap,
    "max_observed_skew_us": _skew,
    "shown_negative_times": lambda run: sum(
        number < 0 for number in _shown_numbers([run.report["steps"], run.report["findings"]]) if number != -1
    ),
    "step_share_min": lambda run: min(_shares(run)),
    "step_share_max": lambda run: max(_shares(run)),
    "bad_duration_kernels": lambda run: [str(n) for n in run.profile.kernels.query("bad_duration")["name"]],
    "launch_delay_min_us_is_not_negative": lambda run: bool((run.profile.kernels["launch_delay_us"] >= 0).all()),
    "freed_before_window_ops": lambda run: _names(run.profile.frees),
    "shapes_of": _shapes,
    "frames": _frames,
    "tracks": lambda run: len(run.profile.tracks),
    "message_mentions": lambda run: run.stderr,
    "traceback_shown": lambda run: "Traceback" in run.stderr,
}
# Every report of every case is parsed without NaN and Infinity, so this needs no figure of its own.
STRICT = "report_json_is_strict"
# A rule for multiplying the case, see test_scale.py.
SCALE = "scale"
