"""What a profile's tables say, in the shape of the truth file: so that a test can compare the two leaf by leaf.

Every figure is computed here from the public tables with plain pandas and numpy, in integer nanoseconds, without the
product's own interval arithmetic.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from npu_advisor.model.profile import Profile

Facts = dict[str, Any]
Spans = list[tuple[int, int]]
_FORMAT_TYPES = {"TransData": {"TransData"}, "Cast": {"Cast"}, "Transpose": {"Transpose", "TransposeD"}}
_COPY_TYPES = {"TensorMove", "Identity", "ViewCopy", "AsStrided", "Slice", "StridedSlice", "StridedSliceD"}
_MB = 2**20


def measured(profile: Profile) -> Facts:
    """All of it; a section that the profile does not hold is left out."""
    facts: Facts = {"form": profile.info.form, "kernels": _kernels(profile), "device": _device(profile)}
    if profile.has("ops"):
        facts["trace"] = _trace(profile)
    if profile.has("op_details"):
        facts["operator_details"] = _operator_details(profile)
    if profile.has("step_trace"):
        facts["step_trace_time"] = _step_trace(profile)
    if profile.has("memory"):
        facts["memory"] = _memory(profile)
    if profile.has("comms"):
        facts["comm"] = {"reported": _communication(profile)}
    facts["profiler_info"] = _info(profile)
    return facts


# ---- intervals ------------------------------------------------------------


def spans_of(table: pd.DataFrame) -> Spans:
    """Merged [start, end) intervals of the rows, in order."""
    merged: list[list[int]] = []
    starts, ends = table["start_ns"], table["start_ns"] + table["dur_ns"]
    for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([start, end])
    return [(start, end) for start, end in merged if end > start]


def length(spans: Spans) -> int:
    """Total length in ns."""
    return sum(end - start for start, end in spans)


def overlap(one: Spans, other: Spans) -> int:
    """Length of the intersection of two merged lists."""
    total = i = j = 0
    while i < len(one) and j < len(other):
        total += max(0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return total


def gaps_of(spans: Spans) -> Spans:
    """What lies between merged intervals."""
    return [(a[1], b[0]) for a, b in pairwise(spans)]


def _us(ns: float) -> float:
    return ns / 1000


def in_database_words(facts: Facts, profile: Profile) -> Facts:
    """The same facts under the names that the truth uses for a database."""
    trace, memory = facts["trace"], facts["memory"]
    return {
        **facts,
        **{name: trace[name] for name in ("host_ops", "queue", "links", "optimizer")},
        "host_steps": [{"name": step["name"], "dur_us": step["dur_us"]} for step in trace["steps"]],
        "steps": [
            {"id": int(number), "start_ns": int(start), "dur_us": host_us}
            for number, start, host_us in profile.steps[["number", "start_ns", "host_us"]].itertuples(index=False)
        ],
        "memory": {
            **memory,
            "peaks": {name: _in_ns(peak) for name, peak in memory["peaks"].items()},
            # The truth file calls these us and writes ns.
            "top_allocations": [
                {**row, "at_us": int(row["at_us"].replace(".", ""))} for row in memory["top_allocations"]
            ],
        },
        "step_trace_time": [_ledger_row(row) for row in profile.step_trace.to_dict("records")],
        "comm_analyzer_time": _split_rows(profile),
        "tables": _rows_by_database_table(profile),
    }


def _in_ns(peak: Facts) -> Facts:
    return {
        key.replace("_at_us", "_at_ns"): int(value.replace(".", "")) if key.endswith("_at_us") else value
        for key, value in peak.items()
    }


def _ledger_row(row: Facts) -> Facts:
    names = {
        "computing": "compute_us",
        "communication_not_overlapped": "exposed_comm_us",
        "overlapped": "overlapped_us",
        "communication": "comm_us",
        "free": "free_us",
        "stage": "stage_us",
        "bubble": "bubble_us",
        "preparing": "prepare_us",
    }
    return {"step": str(row["step_id"]), **{name: row[column] for name, column in names.items()}}


def _split_rows(profile: Profile) -> list[Facts]:
    names = {"transit": "transit_us", "wait": "wait_us", "synchronization": "sync_us", "idle": "idle_us"}
    return [
        {
            "hccl_op_name": str(row["name"]),
            "group_name": str(row["group"]),
            "elapse_time": row["dur_us"] / 1000,
            **{f"{name}_time": row[column] / 1000 for name, column in names.items() if column in row},
            "step": f"step{row['step_id']}",
            "type": "collective" if row["type"] == "allReduce" else row["type"],
        }
        for row in profile.comms.to_dict("records")
    ]


def _rows_by_database_table(profile: Profile) -> dict[str, int]:
    host = [len(profile.frame(name)) for name in ("ops", "frames", "enqueues", "dequeues")]
    return {
        "PYTORCH_API": sum(host),
        "CANN_API": len(profile.apis),
        "COMPUTE_TASK_INFO": len(profile.kernels),
        "COMMUNICATION_OP": len(profile.comms),
        "COMMUNICATION_TASK_INFO": len(profile.frame("comm_tasks")),
        "AICORE_FREQ": len(profile.counters),
        "MEMORY_RECORD": int((profile.memory["component"] != "APP").sum()),
        "OP_MEMORY": len(profile.allocs),
        "NPU_MODULE_MEM": len(profile.module_memory),
        "STEP_TIME": len(profile.steps),
    }


def _stamp(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


# ---- device ---------------------------------------------------------------


def _counted(rows: pd.DataFrame) -> Facts:
    return {"count": len(rows), "total_us": rows["dur_us"].sum()}


def _top(kernels: pd.DataFrame, column: str, count: int = 10) -> list[Facts]:
    total = kernels["dur_us"].sum()
    groups = kernels.groupby(kernels[column].astype(str))["dur_us"].agg(["size", "sum"]).reset_index()
    groups = groups.assign(order=groups["sum"].round(6)).sort_values(["order", column], ascending=[False, True])
    return [
        {"name": name, "count": size, "total_us": us, "share": us / total if total else 0.0}
        for name, size, us in groups[[column, "size", "sum"]].head(count).itertuples(index=False)
    ]


def _kernels(profile: Profile) -> Facts:
    kernels, comms = profile.kernels, profile.comms if profile.has("comms") else profile.kernels.iloc[:0]
    listed = comms[comms["dur_ns"] > 0] if len(comms) else comms
    total = kernels["dur_us"].sum()
    by_core = {core: _counted(rows) for core, rows in kernels.groupby("core", observed=True)}
    kinds = {name: kernels[kernels["type"].isin(types)] for name, types in _FORMAT_TYPES.items()}
    format_rows = pd.concat(kinds.values())
    copies = kernels[kernels["type"].isin(_COPY_TYPES)]
    on_cpu = kernels[kernels["core"] == "AI_CPU"]
    return {
        "rows": len(kernels) + len(listed),
        "compute": len(kernels),
        "communication": len(listed),
        "kernel_time_us": total,
        "by_core": by_core | ({"HCCL": _counted(listed)} if len(listed) else {}),
        "top_by_type": _top(kernels, "type"),
        "top_by_name": _top(kernels, "name"),
        "conversion": {
            **{name: _counted(rows) for name, rows in kinds.items()},
            "format_total": _counted(format_rows),
            "format_share_of_kernel_time": format_rows["dur_us"].sum() / total,
            "copy_like": {**_counted(copies), "types": copies["type"].astype(str).value_counts().to_dict()},
        },
        "ai_cpu": {**_counted(on_cpu), "top": _top(on_cpu, "type") if len(on_cpu) else []},
    }


def _device(profile: Profile) -> Facts:
    """Window, busy and idle per step number, and of ``all`` steps together."""
    kernels = profile.kernels
    comms = profile.comms if profile.has("comms") else kernels.iloc[:0]
    facts = {"all": _busy_and_idle(kernels, comms)}
    for row, number in enumerate(profile.steps["number"]):
        facts[str(number)] = _busy_and_idle(kernels[kernels["step"] == row], comms[comms["step"] == row])
    return facts


def _busy_and_idle(kernels: pd.DataFrame, comms: pd.DataFrame) -> Facts:
    both = pd.concat([kernels[["start_ns", "dur_ns"]], comms[["start_ns", "dur_ns"]]])
    if not len(both):
        return {}
    window = int((both["start_ns"] + both["dur_ns"]).max() - both["start_ns"].min())
    busy, communication = spans_of(kernels), spans_of(comms)
    return {
        "window_us": _us(window),
        "busy_compute_us": _us(length(busy)),
        "comm_us": _us(length(communication)),
        "comm_not_overlapped_us": _us(length(communication) - overlap(busy, communication)),
        "idle_us": _us(window - length(spans_of(both))),
        "idle_compute_us": _us(window - length(busy)),
        "kernels": len(kernels),
        "streams": kernels["stream"].nunique() if "stream" in kernels else 0,
    }


# ---- trace ----------------------------------------------------------------


def _trace(profile: Profile) -> Facts:
    ops, kernels = profile.ops, profile.kernels
    marks = ops[ops["name"].astype(str).str.match(r"ProfilerStep#\d+$")]
    size = {
        name: len(profile.frame(name)) for name in ("frames", "enqueues", "dequeues", "apis", "tasks", "comm_tasks")
    }
    return {
        "processes": {
            "Python": len(ops) + size["frames"] + size["enqueues"] + size["dequeues"],
            "CANN": size["apis"],
            "Ascend Hardware": len(kernels) + size["tasks"],
            "HCCL": len(profile.comms) + size["comm_tasks"] if profile.has("comms") else 0,
            "Overlap Analysis": len(profile.overlap),
        },
        "flow_starts": profile.flow_points.query("not finish")["category"].astype(str).value_counts().to_dict(),
        "host_ops": {
            "cpu_op_events": len(ops),
            "python_function_events": size["frames"],
            "cpu_op_with_call_stack": int(ops["stack"].notna().sum()) if "stack" in ops else 0,
            "cpu_op_with_input_dims": int(ops["shapes"].notna().sum()) if "shapes" in ops else 0,
        },
        "steps": [
            {"name": name, "start_us": _stamp(start), "dur_us": _us(dur)}
            for name, start, dur in marks[["name", "start_ns", "dur_ns"]].itertuples(index=False)
        ],
        "hardware_task_types": _task_types(profile),
        "overlap_analysis_us": profile.overlap.groupby("name", observed=True)["dur_us"].sum().to_dict()
        if profile.has("overlap")
        else {},
        "queue": _queue(profile),
        "links": _links(profile),
        "optimizer": optimizer_facts(profile),
    }


def _task_types(profile: Profile) -> dict[str, int]:
    """Slices of the hardware lane by Task Type; of kernels only where no kernel_details.csv refined it."""
    types = [profile.tasks["task_type"].astype(str)] if profile.has("tasks") else []
    if profile.info.form == "trace":
        types.append(profile.kernels["core"].astype(str))
    return pd.concat(types).value_counts().to_dict() if types else {}


def _queue(profile: Profile) -> Facts:
    enqueues, dequeues, kernels = profile.enqueues, profile.dequeues, profile.kernels
    lane = dequeues[dequeues["track"] == dequeues["track"].mode()[0]]
    busy = spans_of(lane)
    gaps = gaps_of(busy)
    sizes = np.array([end - start for start, end in gaps])
    tasks = pd.concat([kernels, profile.comms])[["start_ns", "dur_ns"]] if profile.has("comms") else kernels
    working = spans_of(tasks)
    idle = gaps_of(working)
    largest = int(sizes.argmax())
    limits = (0, 10, 50, 100, 500, 1000)
    span = busy[-1][1] - busy[0][0]
    return {
        "enqueue": len(enqueues),
        "dequeue": len(dequeues),
        "matched": int((dequeues["enqueue"] >= 0).sum()),
        "lanes": dequeues["track"].nunique(),
        "span_us": _us(span),
        "busy_us": _us(length(busy)),
        "gaps": {
            **{f"count_gt_{limit}": int((sizes > limit * 1000).sum()) for limit in limits},
            **{f"total_gt_{limit}": _us(int(sizes[sizes > limit * 1000].sum())) for limit in limits},
            "largest_us": _us(int(sizes[largest])),
            "largest_starts_at_us": _stamp(gaps[largest][0]),
            "share_of_span": sizes.sum() / span,
        },
        "gap_device_idle_us": _us(overlap(gaps, idle)),
        "device_idle_in_window_us": _us(length(idle)),
    }


def _links(profile: Profile) -> Facts:
    kernels, ops = profile.kernels, profile.ops
    count = len(kernels)
    linked = kernels[kernels["op"] >= 0]
    how = kernels["source_how"].astype(str) if "source_how" in kernels else pd.Series(["nan"] * count)
    direct, forward = int(how.isin(["own", "ancestor"]).sum()), int(how.isin(["forward", "sibling"]).sum())
    frames = (
        kernels["source"].astype(str)[kernels["source"].notna()] if "source" in kernels else pd.Series([], dtype=str)
    )
    names = ops["name"].astype(str).to_numpy()[linked["op"]]
    return {
        "compute_kernels": count,
        "host_op": len(linked),
        "host_op_pct": 100 * len(linked) / count,
        "stack_direct": direct,
        "stack_direct_pct": 100 * direct / count,
        "stack_via_fwdbwd": forward,
        "stack_any_pct": 100 * (direct + forward) / count,
        "top_host_ops": pd.Series(names).value_counts().to_dict(),
        "user_frames": frames.value_counts().to_dict(),
    }


def optimizer_facts(profile: Profile) -> list[Facts]:
    """Host and device time of every optimizer step."""
    rows = np.flatnonzero(profile.ops["name"].astype(str).str.startswith("Optimizer.step#"))
    return [_optimizer(profile, int(row)) for row in rows]


def _optimizer(profile: Profile, row: int) -> Facts:
    """The kernels whose op lies under this optimizer step, by following ``parent``."""
    ops = profile.ops
    parent = ops["parent"].to_numpy()
    under = np.arange(len(ops)) == row
    while True:
        wider = under | np.where(parent >= 0, under[np.maximum(parent, 0)], False)
        if (wider == under).all():
            break
        under = wider
    kernels = profile.kernels
    mine = kernels[(kernels["op"] >= 0) & under[np.maximum(kernels["op"], 0)]]
    return {
        "name": str(ops["name"][row]),
        "host_us": _us(int(ops["dur_ns"][row])),
        "kernels": len(mine),
        "device_us": mine["dur_us"].sum(),
        "device_union_us": _us(length(spans_of(mine))),
        "types": mine["type"].astype(str).value_counts().to_dict(),
    }


# ---- the other files ------------------------------------------------------


def _operator_details(profile: Profile) -> Facts:
    table = profile.op_details
    steps = table[table["name"].astype(str).str.startswith("Optimizer.step#")]
    return {
        "rows": len(table),
        "optimizer_rows": [
            {"name": row.name_, "host_total_us": row.host_total_us, "device_total_us": row.device_total_us}
            for row in steps.rename(columns={"name": "name_"}).itertuples()
        ],
        "device_self_sum_us": table["device_self_us"].sum() if "device_self_us" in table else 0,
    }


def _step_trace(profile: Profile) -> list[Facts]:
    names = {
        "step_id": "Step",
        "compute_us": "Computing",
        "exposed_comm_us": "Communication(Not Overlapped)",
        "overlapped_us": "Overlapped",
        "comm_us": "Communication",
        "free_us": "Free",
        "stage_us": "Stage",
        "bubble_us": "Bubble",
        "prepare_us": "Preparing",
    }
    return profile.step_trace.rename(columns=names).to_dict("records")


def _memory(profile: Profile) -> Facts:
    peaks = {}
    for component, rows in profile.memory.groupby("component", observed=True):
        peak: Facts = {"records": len(rows)}
        for kind in ("allocated", "reserved"):
            values = rows[f"{kind}_bytes"]
            if values.notna().any():
                at = values.idxmax()
                peak[f"peak_{kind}_mb"] = values[at] / _MB
                peak[f"peak_{kind}_at_us"] = _stamp(rows["start_ns"][at])
        peaks[component] = peak
    allocs = profile.allocs
    positive = allocs[allocs["size_bytes"] > 0]
    sums = positive.groupby(positive["name"].astype(str))["size_bytes"].agg(["size", "sum"]).reset_index()
    sums = sums.sort_values(["sum", "name"], ascending=[False, True]).head(5)
    largest = positive.sort_values(["size_bytes", "start_ns"], ascending=[False, True], kind="stable").head(5)
    return {
        "peaks": peaks,
        "operator_rows": len(allocs),
        "negative_or_empty_size_rows": len(allocs) - len(positive),
        "top_operators": [
            {"name": name, "count": count, "total_kb": size / 1024}
            for name, count, size in sums.itertuples(index=False)
        ],
        "top_allocations": [
            {"name": str(name), "kb": size / 1024, "at_us": _stamp(start)}
            for name, size, start in largest[["name", "size_bytes", "start_ns"]].itertuples(index=False)
        ],
    }


def _communication(profile: Profile) -> Facts:
    """Sums over the collectives that communication.json tells about, per step and kind."""
    comms = profile.comms
    if "transit_us" not in comms:
        return {}
    told = comms[comms["transit_us"].notna()]
    point = told["type"].astype(str).str.lower().isin(["send", "receive", "recv", "batchsendrecv"])
    facts: Facts = {}
    for number, rows in told.groupby("step_id"):
        facts[f"step{number}"] = {
            kind: _times(rows[mask[rows.index]]) for kind, mask in (("p2p", point), ("collective", ~point))
        }
    return facts


def _times(rows: pd.DataFrame) -> Facts:
    names = {
        "dur_us": "Elapse",
        "transit_us": "Transit",
        "wait_us": "Wait",
        "sync_us": "Synchronization",
        "idle_us": "Idle",
    }
    return {"ops": len(rows), **{f"{name} Time(ms)": rows[column].sum() / 1000 for column, name in names.items()}}


def _info(profile: Profile) -> Facts:
    info = profile.info
    return {
        "torch_npu": info.torch_npu,
        "cann": info.cann,
        "rank": info.rank,
        "level": info.level,
        "record_shapes": info.record_shapes,
        "profile_memory": info.profile_memory,
        "with_stack": info.with_stack,
        "schedule": dict(info.schedule),
    }
