"""analysis.db beside a database: the step ledger (us), and the split of communication (ms, MB, GB/s)."""

from __future__ import annotations

import math
import re

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.numbering import Numbering
from npu_advisor.readers.comm import bytes_moved
from npu_advisor.readers.join import match
from npu_advisor.readers.notes import Notes
from npu_advisor.readers.numbers import Float, Int, floats, integers
from npu_advisor.readers.sqlite_file import Database
from npu_advisor.readers.trace_tables import Columns

_MB = 1e6
# The starts here and in the database differ by a shift of some 20 us; one operation is never repeated so soon.
_NEAR_NS = 1_000_000
_SPLIT = {"transit_us": 1, "wait_us": 2, "sync_us": 3, "idle_us": 4}
LEDGER = {
    "compute_us": "computing",
    "exposed_comm_us": "communication_not_overlapped",
    "overlapped_us": "overlapped",
    "comm_us": "communication",
    "free_us": "free",
    "stage_us": "stage",
    "bubble_us": "bubble",
    "prepare_us": "preparing",
}


def step_numbers(values: list[str]) -> Int:
    """``step50``, ``50`` and ``50.0`` -> 50; -1 for anything else."""
    numbers = Numbering()
    rows = numbers.of(values)
    return integers([re.sub(r"^step", "", value) for value in numbers])[rows]


def read_step_ledger(db: Database, device: int, notes: Notes) -> Columns | None:
    """``step_trace`` from StepTraceTime, for one device where rows name devices; None without rows."""
    rows = db.texts("StepTraceTime", "deviceId", "step", *LEDGER.values())
    if device >= 0:
        rows = [row for row in rows if row[0].strip() in ("", str(device))]
    if not rows:
        return None
    _, steps, *given = zip(*rows, strict=True)
    columns: Columns = {"step_id": step_numbers(list(steps))}
    negative = []
    for (name, title), cells in zip(LEDGER.items(), given, strict=True):
        if not db.has("StepTraceTime", title):
            continue
        values = floats(cells)
        if (values < 0).any():
            negative.append(f"{title} {np.nanmin(values):g}")
        columns[name] = np.where(values < 0, 0.0, values)
    if negative:
        notes.say("negative_value", "warning", db.file, columns=", ".join(negative))
    return columns


def read_reported(db: Database) -> Columns | None:
    """CommAnalyzerTime and -Bandwidth in the shape of ``comm.read_communication``; None without rows."""
    times = ("start_timestamp", "elapse_time", "transit_time", "wait_time", "synchronization_time", "idle_time")
    rows = db.texts("CommAnalyzerTime", "hccl_op_name", "group_name", "type", "step", *times)
    rows = [row for row in rows if row[0] and row[0] != "Total Op Info"]
    if not rows:
        return None
    names, groups, kinds, steps, *given = (np.array([*cells], dtype=object) for cells in zip(*rows, strict=True))
    start, elapsed, *split = map(floats, given)
    moved = _bytes_by_op(db)
    keys = zip(names, groups, steps, strict=True)
    return {
        "name": names,
        "group": groups,
        "kind": kinds,
        "step_id": step_numbers(list(steps)),
        "start_ns": _whole(start * 1000.0, -1),
        "dur_ns": _whole(elapsed * 1e6, 0),
        "bytes": np.array([moved.get(key, math.nan) for key in keys], np.float64),
        **{name: split[place - 1] * 1000.0 for name, place in _SPLIT.items()},
    }


def _whole(values: Float, missing: int) -> Int:
    sound = (values >= 0) & (values < 2.0**62)
    return np.where(sound, np.rint(np.where(sound, values, 0)).astype(np.int64), missing)


def _bytes_by_op(db: Database) -> dict[tuple[str, str, str], float]:
    """Bytes per (op, group, step). A transport has one row per packet size, each with the whole size."""
    columns = ("hccl_op_name", "group_name", "step", "transport_type", "transit_size")
    rows = db.texts("CommAnalyzerBandwidth", *columns)
    sizes: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for (*key, transport, _), size in zip(rows, floats([row[-1] for row in rows]).tolist(), strict=True):
        sizes.setdefault((key[0], key[1], key[2]), {})[transport] = {"Transit Size(MB)": size}
    return {key: bytes_moved(transports) for key, transports in sizes.items()}


def add_split(comms: Columns, reported: Columns) -> None:
    """Give the collectives the bytes and times that were reported of them."""
    names = Categorical.of(reported["name"])
    rows = match(comms["name"], comms["start_ns"], names, reported["start_ns"], within_ns=_NEAR_NS)
    for name in ("bytes", *_SPLIT) if (rows >= 0).any() else ():
        comms[name] = np.where(rows >= 0, reported[name][rows], np.nan)


def read_link_traffic(db: Database) -> Columns | None:
    """``links`` from CommAnalyzerMatrix; None without rows."""
    names = ("hccl_op_name", "group_name", "type", "step", "src_rank", "dst_rank", "transport_type")
    rows = db.texts("CommAnalyzerMatrix", *names, "transit_size", "transit_time", "bandwidth")
    rows = [row for row in rows if row[4].isdigit() and row[5].isdigit() and len(row[4]) < 10 and len(row[5]) < 10]
    if not rows:
        return None
    ops, groups, kinds, steps, src, dst, transports, *given = map(list, zip(*rows, strict=True))
    size, time, bandwidth = map(floats, given)
    return {
        "op": np.array([f"{op}@{group}" if group else op for op, group in zip(ops, groups, strict=True)], object),
        "kind": np.array(kinds, object),
        "step_id": step_numbers(steps),
        "src": np.array([*map(int, src)], np.int64),
        "dst": np.array([*map(int, dst)], np.int64),
        "transport": np.array(transports, object),
        "bytes": size * _MB,
        "transit_us": time * 1000.0,
        "bandwidth_gbs": bandwidth,
    }


def group_hash(name: str) -> str:
    """The number by which the reports call a communicator, from its full name: two hashes of 32 bits, joined."""
    high = low = 0
    for char in name:
        high = (high * 29 + ord(char)) % 2**32
        low = (low * 131 + ord(char)) % 2**32
    return str((high << 32) + low)
