"""communication.json, communication_matrix.json and the collectives of other files: tables ``comms`` and ``links``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.messages import say
from npu_advisor.readers.columns import relabel
from npu_advisor.readers.csvfile import CsvFile
from npu_advisor.readers.device_names import comm_type
from npu_advisor.readers.halves import without_halves
from npu_advisor.readers.join import match, take
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.numbers import DAY_NS, Float, Int, ns_from_any, sound_durations
from npu_advisor.readers.trace_tables import Columns, Trace

_STEP = re.compile(r"^step(\d{1,9})$")
_PAIR = re.compile(r"^(\d{1,9})-(\d{1,9})$")
TOTAL = "Total Op Info"
_MB = 1e6
# Beyond this a number is damage, and turning it into another unit would overflow.
_LARGEST = 1e300
# communication.json prints starts as float: some 0.25 us of the digits are gone, more after a spreadsheet.
_NEAR_NS = 2_000
_TIMES = {"transit_us": "Transit", "wait_us": "Wait", "sync_us": "Synchronization", "idle_us": "Idle"}
# SDMA is the sum of these three transports, not one more.
_SDMA_PARTS = ("HCCS", "PCIE", "SIO")


def read_json(path: Path) -> Any:
    """The JSON of a small file; NaN and Infinity become None. Raises UnreadableFileError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(say("reason.unreadable", error=error.strerror or error)) from error
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _lenient(raw)


def _lenient(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8-sig", "replace")
        return without_halves(text, json.loads(text, parse_constant=lambda _: None, strict=False))
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(say("reason.bad_json", error=error)) from error


def _entries(loaded: Any) -> Iterator[tuple[int, str, str, dict[str, Any]]]:
    """(step, kind, op, info) of every operation; totals left out. msprof's files have no step level."""
    if not isinstance(loaded, dict):
        return
    for step, kinds in loaded.items():
        found = _STEP.match(step)
        number = int(found[1]) if found else -1
        for kind, ops in kinds.items() if isinstance(kinds, dict) else ():
            for op, info in ops.items() if isinstance(ops, dict) else ():
                if op != TOTAL and isinstance(info, dict):
                    yield number, kind, op, info


def _finite(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) <= _LARGEST else math.nan


def read_communication(path: Path) -> Columns:
    """One row per operation of communication.json: name, group, kind, step_id, start_ns, dur_ns, bytes, *_us.

    Raises UnreadableFileError.
    """
    reported = reported_columns(
        communication_row(op, kind, step, info) for step, kind, op, info in _entries(read_json(path))
    )
    if reported is None:
        raise UnreadableFileError(say("reason.no_rows"))
    return reported


def reported_columns(made: Iterable[Mapping[str, Any] | None]) -> Columns | None:
    """The columns of what ``communication_row`` made; None without rows."""
    rows = [row for row in made if row is not None]
    if not rows:
        return None
    types = {str: object, int: np.int64, float: np.float64}
    return {name: np.array([row[name] for row in rows], types[type(value)]) for name, value in rows[0].items()}


def communication_row(op: str, kind: str, step: int, info: Mapping[str, Any]) -> dict[str, Any] | None:
    """One operation as ``read_communication`` gives it; None for an entry without times."""
    times = info.get("Communication Time Info")
    if not isinstance(times, dict) or op == TOTAL:
        return None
    name, _, group = op.partition("@")
    start = ns_from_any(times.get("Start Timestamp(us)"))
    elapsed = _finite(times.get("Elapse Time(ms)"))
    row = {"name": name, "group": group, "kind": kind, "step_id": step, "start_ns": -1 if start is None else start}
    row["dur_ns"] = round(elapsed * 1e6) if 0 <= elapsed <= DAY_NS / 1e6 else 0
    row["bytes"] = bytes_moved(info.get("Communication Bandwidth Info"))
    row.update({column: _finite(times.get(f"{title} Time(ms)")) * 1000 for column, title in _TIMES.items()})
    return row


def bytes_moved(transports: Any) -> float:
    """Bytes over all transports."""
    if not isinstance(transports, dict):
        return math.nan
    sizes = {
        name: _finite(entry.get("Transit Size(MB)")) for name, entry in transports.items() if isinstance(entry, dict)
    }
    sizes = {name: size for name, size in sizes.items() if size >= 0}
    if not sizes:
        return math.nan
    skipped = _SDMA_PARTS if sizes.get("SDMA") else ("SDMA",)
    return _MB * sum(size for name, size in sizes.items() if name not in skipped)


def read_links(path: Path) -> Columns:
    """Columns of ``links`` from communication_matrix.json. Raises UnreadableFileError."""
    rows = [
        (op, kind, step, *ends, str(entry.get("Transport Type") or ""), *map(entry.get, _LINK))
        for step, kind, op, pairs in _entries(read_json(path))
        for pair, entry in pairs.items()
        if (ends := _ends(pair)) and isinstance(entry, dict)
    ]
    if not rows:
        raise UnreadableFileError(say("reason.no_rows"))
    op, kind, step, src, dst, transport, size, time, bandwidth = zip(*rows, strict=True)
    texts = {"op": op, "kind": kind, "transport": transport}
    numbers = {"step_id": step, "src": src, "dst": dst}
    return {
        **{name: np.array(values, dtype=object) for name, values in texts.items()},
        **{name: np.array(values, np.int64) for name, values in numbers.items()},
        "bytes": _all_finite(size) * _MB,
        "transit_us": _all_finite(time) * 1000,
        "bandwidth_gbs": _all_finite(bandwidth),
    }


_LINK = ("Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")


def _all_finite(values: Sequence[Any]) -> Float:
    """As ``_finite`` of each."""
    if {*map(type, values)} == {float}:
        numbers = np.array(values, np.float64)
        return np.where(np.abs(numbers) <= _LARGEST, numbers, np.nan)
    return np.array([*map(_finite, values)], np.float64)


@cache
def _ends(pair: str) -> tuple[int, int] | None:
    """The two ranks of a link."""
    found = _PAIR.match(pair)
    return (int(found[1]), int(found[2])) if found else None


def comm_table(
    rows: CsvFile | None, trace: Trace | None, reported: Columns | None, notes: Notes
) -> tuple[Columns | None, Int]:
    """Columns of ``comms``, and for each row that of ``trace.comm_ops`` it is (-1 none).

    Which there are says kernel_details, else the trace, else communication.json.  Lanes and connection come from the
    trace, bytes and the split of the time from communication.json.
    """
    operations = trace.comm_ops if trace is not None else {}
    slices = np.zeros(0, np.int64)
    if rows is not None and len(rows):
        columns = _of_rows(rows, notes)
        if operations:
            slices = match(columns["name"], columns["start_ns"], operations["name"], operations["start_ns"])
    elif operations:
        columns = {name: operations[name] for name in ("name", "start_ns", "dur_ns")}
        slices = np.arange(len(columns["start_ns"]))
        if trace is not None and operations["bad"].any():
            kinds = f"comms: {int(operations['bad'].sum())}"
            notes.say("bad_duration", "warning", trace.file, "bad_duration_trace", kinds=kinds)
    elif reported is not None:
        order = np.argsort(reported["start_ns"], kind="stable")
        columns = {name: reported[name][order] for name in ("name", "start_ns", "dur_ns", "step_id")}
        columns["name"] = Categorical.of(columns["name"])
    else:
        return None, slices
    if not len(slices):
        slices = np.full(len(columns["start_ns"]), -1, np.int64)
    names = columns["name"]
    columns["type"] = relabel(names, map(comm_type, names.categories))
    if trace is not None and operations:
        _add_lanes(columns, trace, slices)
    if reported is not None:
        _add_reported(columns, reported)
    return columns, slices


def _of_rows(rows: CsvFile, notes: Notes) -> Columns:
    start = rows.times("start")
    duration, bad = sound_durations(*rows.durations("duration"))
    order = np.argsort(start, kind="stable")
    if bad.any():
        notes.say("bad_duration", "warning", rows.name, "bad_duration_trace", kinds=f"comms: {int(bad.sum())}")
    columns: Columns = {"name": rows.texts("name")[order], "start_ns": start[order], "dur_ns": duration[order]}
    if "step_id" in rows:
        columns["step_id"] = rows.ints("step_id")[order]
    return columns


def _add_lanes(columns: Columns, trace: Trace, slices: Int) -> None:
    operations, tracks = trace.comm_ops, trace.tracks
    track = take(operations["track"], slices)
    columns["track"] = track
    columns["pid"] = take(tracks["pid"], track)
    columns["tid"] = take(tracks["tid"], track)
    columns["connection"] = take(operations["connection"], slices)
    columns["payload_bytes"] = np.where(slices >= 0, operations["payload"][np.maximum(slices, 0)], np.nan)
    threads = [_group(text or "") for text in tracks["thread"]]
    columns["group"] = np.array([*threads, ""], dtype=object)[track]


def _group(thread: str) -> str:
    found = re.match(r"^Group (.+) Communication$", thread)
    return found[1] if found else ""


def _add_reported(columns: Columns, reported: Columns) -> None:
    names = Categorical.of(reported["name"])
    rows = match(columns["name"], columns["start_ns"], names, reported["start_ns"], within_ns=_NEAR_NS)
    known = rows >= 0
    if not known.any():
        return
    for name in ("bytes", *_TIMES):
        columns[name] = np.where(known, reported[name][rows], np.nan)
    before = columns.get("group", np.full(len(rows), "", dtype=object))
    columns["group"] = np.where(known, reported["group"][rows], before)
