"""Allocations, memory samples and the clock of a database, for one device. Times are ns, sizes bytes."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.whole import widened
from npu_advisor.readers.columns import relabel
from npu_advisor.readers.numbers import Float, Int
from npu_advisor.readers.sqlite_file import Database
from npu_advisor.readers.sqlite_rows import by_start, instant, of_device
from npu_advisor.readers.trace_tables import Columns


def read_memory_tables(db: Database, device: int) -> dict[str, Columns]:
    """allocs, memory, module_memory and counters; those that have rows."""
    tables = {
        "allocs": _allocs(db, device),
        "memory": _samples(db, device),
        "module_memory": _modules(db, device),
        "counters": _frequency(db, device),
    }
    return {name: columns for name, columns in tables.items() if len(columns["start_ns"])}


def _bytes(values: Int) -> Float:
    return np.where(values >= 0, values.astype(np.float64), np.nan)


def _allocs(db: Database, device: int) -> Columns:
    """OP_MEMORY. Rows of negative size, or without an allocation, free what was there before the window."""
    names = ("name", "size", "allocationTime", "releaseTime", "allocationTotalActive", "streamPtr", "deviceId")
    raw = of_device(db.ints("OP_MEMORY", *names), device)
    start, release = instant(raw["allocationTime"]), instant(raw["releaseTime"])
    rows = np.flatnonzero((raw["size"] > 0) & (start >= 0))
    start, release = start[rows], release[rows]
    # Workspace of operators: the framework's allocator, which knows streams and active memory, has no part in it.
    workspace = (raw["streamPtr"][rows] < 0) & (raw["allocationTotalActive"][rows] < 0)
    workspace &= db.has("OP_MEMORY", "streamPtr")
    names_of = db.strings.category(raw["name"][rows])
    marked = relabel(names_of, (_workspace_name(str(label)) for label in names_of.categories))
    plain, cann = (np.array([*part.categories, ""], dtype=object)[part.codes] for part in (names_of, marked))
    workspace &= np.array(["::" not in label.removeprefix("cann::") for label in plain], bool)
    return by_start(
        {
            "name": np.where(workspace, cann, plain),
            "size_bytes": raw["size"][rows].astype(np.float64),
            "start_ns": start,
            "dur_ns": np.where(release >= start, release - start, 0),
            "release_ns": np.where(release >= start, release, -1),
            "component": np.where(workspace, "GE", "PTA").astype(object),
        }
    )


def _workspace_name(name: str) -> str:
    """As operator_memory.csv writes it."""
    return name if name.startswith("cann::") or not name else f"cann::{name}"


def _samples(db: Database, device: int) -> Columns:
    """MEMORY_RECORD, and the process total of NPU_MEM as component ``APP``, as memory_record.csv has it."""
    names = ("component", "timestamp", "totalAllocated", "totalReserved", "totalActive", "deviceId")
    raw = of_device(db.ints("MEMORY_RECORD", *names), device)
    total = of_device(db.ints("NPU_MEM", "type", "timestampNs", "hbm", "ddr", "deviceId"), device)
    of_process = np.flatnonzero(np.isin(total["type"], list(db.strings.named({"app"}))))
    own, app = db.strings.category(raw["component"]), len(of_process)
    if not len(raw["timestamp"]):
        app, of_process = 0, of_process[:0]
    unknown = np.full(app, np.nan)
    held = sum(np.maximum(widened(total[name][of_process]), 0) for name in ("hbm", "ddr"))
    component = [np.array([*own.categories, ""], dtype=object)[own.codes], np.full(app, "APP", dtype=object)]
    return by_start(
        {
            "component": np.concatenate(component),
            "start_ns": instant(np.concatenate([raw["timestamp"], total["timestampNs"][of_process]])),
            "allocated_bytes": np.concatenate([_bytes(raw["totalAllocated"]), unknown]),
            "reserved_bytes": np.concatenate([_bytes(raw["totalReserved"]), held]),
            "active_bytes": np.concatenate([_bytes(raw["totalActive"]), unknown]),
        }
    )


def _modules(db: Database, device: int) -> Columns:
    raw = of_device(db.ints("NPU_MODULE_MEM", "moduleId", "timestampNs", "totalReserved", "deviceId"), device)
    names = db.enum("ENUM_MODULE")
    numbers, place = np.unique(raw["moduleId"], return_inverse=True)
    labels = np.array([names.get(int(number), str(number)) for number in numbers], dtype=object)
    columns = {"component": labels[place], "start_ns": instant(raw["timestampNs"])}
    return by_start({**columns, "reserved_bytes": _bytes(raw["totalReserved"])})


def _frequency(db: Database, device: int) -> Columns:
    raw = of_device(db.ints("AICORE_FREQ", "timestampNs", "freq", "deviceId"), device)
    value = _bytes(raw["freq"])
    name = np.full(len(value), "AI Core Freq", dtype=object)
    return by_start({"name": name, "start_ns": instant(raw["timestampNs"]), "value": value})
