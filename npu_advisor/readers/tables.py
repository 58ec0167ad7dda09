"""The small files that are one table each: memory, step ledger, statistics, caches, AI CPU, per-op sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from npu_advisor.base.messages import say
from npu_advisor.readers.csvfile import CsvFile, read_csv
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.trace_tables import Columns

KB, MB = 1024.0, 1024.0 * 1024.0
_UNITS = {"KB": KB, "MB": MB}


def _by_start(columns: Columns) -> Columns:
    order = np.argsort(columns["start_ns"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def read_allocs(path: Path, notes: Notes) -> Columns:
    """``allocs`` from operator_memory.csv.

    A row without an allocation time, or of negative size, frees what was allocated before the window: no allocation.
    """
    wanted = {
        "name": ("Name", "Operator"),
        "size": ("Size(KB)",),
        "start": ("Allocation Time(us)", "Timestamp(us)"),
        "release": ("Release Time(us)",),
    }
    file = read_csv(path, wanted, ("name", "size", "start"), notes)
    size = file.floats("size", KB)
    file = file.keep(file.filled("start") & (size > 0))
    start = file.times("start")
    release = file.times("release")
    duration = np.where((release >= start) & (start >= 0), release - start, 0)
    names = file.texts("name")
    workspace = np.array([*(label.startswith("cann::") for label in names.categories), False], bool)[names.codes]
    return _by_start(
        {
            "name": names,
            "size_bytes": file.floats("size", KB),
            "start_ns": start,
            "dur_ns": duration,
            "release_ns": release,
            "component": np.where(workspace, "GE", "PTA").astype(object),
        }
    )


def read_frees(path: Path, notes: Notes) -> Columns:
    """``frees`` from operator_memory.csv: the rows that :func:`read_allocs` leaves out for want of an allocation."""
    wanted = {"name": ("Name", "Operator"), "size": ("Size(KB)",), "release": ("Release Time(us)",)}
    file = read_csv(path, wanted, ("name", "size"), notes)
    file = file.keep(file.floats("size", KB) < 0)
    return {"name": file.texts("name"), "size_bytes": -file.floats("size", KB), "start_ns": file.times("release")}


def read_memory(path: Path, notes: Notes) -> Columns:
    """``memory`` from memory_record.csv, in time order; torch_npu counts in MB, msprof in KB."""
    totals = {"allocated": "Total Allocated", "reserved": "Total Reserved", "active": "Total Active"}
    wanted = {"component": ("Component",), "start": ("Timestamp(us)",)}
    for unit in _UNITS:
        wanted.update({f"{name}_{unit}": (f"{title}({unit})",) for name, title in totals.items()})
    file = read_csv(path, wanted, ("component", "start"), notes)
    file = file.keep(file.filled("component"))
    columns: Columns = {"component": file.texts("component"), "start_ns": file.times("start")}
    for unit, size in _UNITS.items():
        columns.update(
            {f"{name}_bytes": file.floats(f"{name}_{unit}", size) for name in totals if f"{name}_{unit}" in file}
        )
    return _by_start(columns)


def read_module_memory(path: Path, notes: Notes) -> Columns:
    """``module_memory`` from npu_module_mem.csv."""
    wanted = {"component": ("Component",), "start": ("Timestamp(us)",), "reserved": ("Total Reserved(MB)",)}
    file = read_csv(path, wanted, ("component", "start", "reserved"), notes)
    file = file.keep(file.filled("component"))
    reserved = file.floats("reserved", MB)
    return _by_start(
        {"component": file.texts("component"), "start_ns": file.times("start"), "reserved_bytes": reserved}
    )


_LEDGER = {
    "compute_us": "Computing",
    "exposed_comm_us": "Communication(Not Overlapped)",
    "overlapped_us": "Overlapped",
    "comm_us": "Communication",
    "free_us": "Free",
    "stage_us": "Stage",
    "bubble_us": "Bubble",
    "prepare_us": "Preparing",
}


LEDGER_TITLES: dict[str, tuple[str, ...]] = {
    "step_id": ("Step", "Step Id"),
    **{name: (title,) for name, title in _LEDGER.items()},
    "exclude_receive": ("Communication(Not Overlapped and Exclude Receive)",),
}


def read_step_trace(path: Path, notes: Notes) -> Columns:
    """``step_trace`` from step_trace_time.csv; a time below zero is the writer's slip and becomes 0, with a remark."""
    file = read_csv(path, LEDGER_TITLES, ("compute_us",), notes)
    file = file.keep(file.filled("compute_us"))
    if not len(file):
        raise UnreadableFileError(say("reason.no_rows"))
    return ledger_columns(file, notes)


def ledger_columns(file: CsvFile, notes: Notes) -> Columns:
    """``step_trace`` of a file read with ``LEDGER_TITLES``."""
    columns: Columns = {"step_id": file.ints("step_id")}
    negative = []
    for name in (*_LEDGER, "exclude_receive"):
        if name not in file:
            continue
        values = file.floats(name)
        if (values < 0).any():
            negative.append(f"{LEDGER_TITLES[name][0]} {np.nanmin(values):g}")
        if name in _LEDGER:
            columns[name] = np.where(values < 0, 0.0, values)
    if negative:
        notes.say("negative_value", "warning", file.name, columns=", ".join(negative))
    return columns


def read_op_statistic(path: Path, notes: Notes) -> Columns:
    """``op_statistic`` from op_statistic.csv."""
    wanted = {"type": ("OP Type",), "core": ("Core Type",), "count": ("Count",), "total": ("Total Time(us)",)}
    file = read_csv(path, wanted, ("type", "count", "total"), notes)
    file = file.keep(file.filled("type"))
    columns = {"type": file.texts("type"), "core": file.texts("core")}
    return {**columns, "count": file.ints("count", 0), "total_us": file.floats("total")}


def read_api_statistic(path: Path, notes: Notes) -> Columns:
    """``api_statistic`` from api_statistic.csv."""
    wanted = {"level": ("Level",), "name": ("API Name", "Name"), "count": ("Count",), "total": ("Time(us)",)}
    file = read_csv(path, wanted, ("name", "count", "total"), notes)
    file = file.keep(file.filled("name"))
    columns = {"level": file.texts("level"), "name": file.texts("name")}
    return {**columns, "count": file.ints("count", 0), "total_us": file.floats("total")}


def read_l2_cache(path: Path, notes: Notes) -> Columns:
    """``l2_cache`` from l2_cache.csv."""
    wanted = {
        "name": ("Op Name",),
        "stream": ("Stream Id",),
        "task": ("Task Id",),
        "hit_rate": ("Hit Rate",),
        "victim_rate": ("Victim Rate",),
    }
    file = read_csv(path, wanted, ("name", "stream", "task"), notes)
    file = file.keep(file.filled("name"))
    columns: Columns = {"name": file.texts("name"), "stream": file.ints("stream"), "task": file.ints("task")}
    for name in ("hit_rate", "victim_rate"):
        if np.isfinite(values := file.floats(name)).any():
            columns[name] = values
    return columns


def read_aicpu(path: Path, notes: Notes) -> Columns:
    """``aicpu`` from data_preprocess.csv; older files count in ms."""
    parts = {"compute": "Compute_time", "memcpy": "Memcpy_time", "dispatch": "Dispatch_time", "total": "Total_time"}
    wanted = {"name": ("Node",), "start": ("Timestamp(us)", "Timestamp")}
    wanted.update({f"{name}_us": (f"{title}(us)",) for name, title in parts.items()})
    wanted.update({f"{name}_ms": (f"{title}(ms)",) for name, title in parts.items()})
    file = read_csv(path, wanted, ("name",), notes)
    file = file.keep(file.filled("name"))
    columns: Columns = {"name": file.texts("name"), "start_ns": file.times("start")}
    for name in parts:
        column, scale = (f"{name}_us", 1.0) if f"{name}_us" in file else (f"{name}_ms", 1000.0)
        if column in file:
            columns[f"{name}_us"] = file.floats(column, scale)
    return columns


_OP_SUMS = {
    "host_self_us": "Host Self Duration(us)",
    "host_total_us": "Host Total Duration(us)",
    "device_self_us": "Device Self Duration(us)",
    "device_total_us": "Device Total Duration(us)",
}


def read_op_details(path: Path, notes: Notes) -> Columns:
    """``op_details`` from operator_details.csv; rows stay in the file's order, that of the ops' starts."""
    sums = _OP_SUMS
    wanted = {"name": ("Name",), **{name: (title,) for name, title in sums.items()}}
    file = read_csv(path, wanted, ("name", "host_total_us"), notes)
    file = file.keep(file.filled("name"))
    return {"name": file.texts("name"), **{name: file.floats(name) for name in sums if name in file}}


READERS: dict[str, tuple[str, Callable[[Path, Notes], Columns]]] = {
    "operator_memory": ("allocs", read_allocs),
    "memory_record": ("memory", read_memory),
    "module_memory": ("module_memory", read_module_memory),
    "step_trace": ("step_trace", read_step_trace),
    "op_statistic": ("op_statistic", read_op_statistic),
    "api_statistic": ("api_statistic", read_api_statistic),
    "l2_cache": ("l2_cache", read_l2_cache),
    "data_preprocess": ("aicpu", read_aicpu),
    "operator_details": ("op_details", read_op_details),
}

# Files that few rules ask for, and the columns by which one looks sound: read when something asks for their table.
SELDOM = {"operator_details": ("Name", *_OP_SUMS.values())}
