"""kernel_details.csv (and msprof's op_summary) and the device lanes of the trace: kernels, tasks, collectives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.model.schema import PIPE_METRICS
from npu_advisor.readers.columns import relabel
from npu_advisor.readers.csvfile import CsvFile, read_csv
from npu_advisor.readers.device_names import (
    COMM_CORES,
    computes,
    core_name,
    is_comm_name,
    kernel_type,
    pairs,
    task_kind,
)
from npu_advisor.readers.join import match, take
from npu_advisor.readers.notes import Notes, some
from npu_advisor.readers.numbers import Bool, Int, sound_durations
from npu_advisor.readers.trace_tables import Columns, Trace

SHAPE_COLUMNS = {
    "input_shapes": ("Input Shapes",),
    "input_dtypes": ("Input Data Types",),
    "input_formats": ("Input Formats",),
    "output_shapes": ("Output Shapes",),
    "output_dtypes": ("Output Data Types",),
    "output_formats": ("Output Formats",),
}
METRICS = tuple(column.name for column in PIPE_METRICS)
WANTED: dict[str, tuple[str, ...]] = {
    "name": ("Name", "Op Name", "kernel_name"),
    "start": ("Start Time(us)", "Task Start Time(us)", "task_start(us)", "task_start"),
    "duration": ("Duration(us)", "Task Duration(us)", "task_time(us)", "task_time"),
    "type": ("Type", "OP Type"),
    "core": ("Accelerator Core", "Task Type", "kernel_type"),
    "state": ("OP State",),
    "step_id": ("Step Id",),
    "model": ("Model ID",),
    "task": ("Task ID", "task_id"),
    "stream": ("Stream ID", "stream_id"),
    "wait": ("Wait Time(us)", "Task Wait Time(us)"),
    "block_dim": ("Block Dim", "Block Num"),
    **SHAPE_COLUMNS,
    **{name: (name, f"{name}(%)") for name in METRICS},
    "aic_time": ("aicore_time(us)",),
    "aiv_time": ("aiv_time(us)",),
    "any_metric": ("total_cycles", "aic_total_cycles"),
}
# A kernel cannot run on into later ones of its stream; beyond this it is damage, not rounding.
_OVERRUN_NS = 1_000_000
_OVERRUN_FACTOR = 10


def read_kernel_details(path: Path, notes: Notes) -> CsvFile:
    """The file; of msprof's task_time, which lists every device task, what is no wait, copy or event.

    Raises UnreadableFileError.
    """
    file = read_csv(path, WANTED, ("name", "start", "duration"), notes)
    named = file.filled("name")
    if path.name.startswith("task_time"):
        texts, number = pairs(file.texts("name"), file.texts("core"))
        named &= np.array([is_comm_name(name) or computes(name, core) for name, core in texts], bool)[number]
    return file if named.all() else file.keep(named)


def comm_rows(file: CsvFile) -> Bool:
    """Which rows are collectives: by core (HCCL or COMMUNICATION), else by name or type."""
    cores = file.texts("core")
    by_core = np.array([*(label in COMM_CORES for label in cores.categories), False], bool)[cores.codes]
    result = by_core
    for column in ("name", "type"):
        texts = file.texts(column)
        result = result | np.array([*map(is_comm_name, texts.categories), False], bool)[texts.codes]
    return np.asarray(result, bool)


def kernels_of_file(file: CsvFile, trace: Trace | None, notes: Notes) -> tuple[Columns, Int]:
    """Columns of ``kernels`` from the compute rows, and for each the row of ``trace.hardware`` it is (-1 none)."""
    start = file.times("start")
    order = np.argsort(start, kind="stable")
    file = replace(file.take(order), notes=notes)
    columns: Columns = {"name": file.texts("name"), "start_ns": start[order]}
    stream = file.ints("stream")
    columns["dur_ns"], bad = _durations(file, columns["name"], columns["start_ns"], stream, notes)
    if bad.any():
        columns["bad_duration"] = bad
    slices = np.full(len(file), -1, np.int64)
    if trace is not None and trace.hardware:
        hardware = trace.hardware
        slices = match(columns["name"], columns["start_ns"], hardware["name"], hardware["start_ns"])
        columns.update(_of_slices(trace, slices, stream))
    elif "stream" in file:
        columns["stream"] = stream
    _types(columns, file)
    _cores(columns, file, trace, slices)
    for name in ("step_id", "task", "model"):
        if name in file:
            columns[name] = file.ints(name)
    if "wait" in file:
        columns["wait_us"] = file.floats("wait")
    if "block_dim" in file and (blocks := file.ints("block_dim")).any():
        columns["block_dim"] = blocks
    for name in ("state", *SHAPE_COLUMNS):
        texts = file.texts(name)
        if name != "state":
            texts = relabel(texts, map(plain_shapes, texts.categories))
        if len(texts.categories):
            columns[name] = texts
    for name in METRICS:
        if np.isfinite(values := file.floats(name)).any():
            columns[name] = values
    busy = np.stack([file.floats("aic_time"), file.floats("aiv_time")])
    if np.isfinite(busy).any():
        columns["core_us"] = np.where(np.isfinite(busy).any(axis=0), np.nan_to_num(busy).max(axis=0), np.nan)
    known = any(name in columns for name in ("core_us", *METRICS))
    if not known and not np.isfinite(file.floats("any_metric")).any():
        notes.say("metrics_unavailable", "info", file.name)
    return columns, slices


def plain_shapes(shapes: str) -> str:
    """Shapes and formats without the quotes that are part of the cell, and without the older ``FORMAT_`` prefix."""
    return shapes.strip('"').replace("FORMAT_", "")


def _of_slices(trace: Trace, slices: Int, stream: Int) -> Columns:
    hardware, tracks = trace.hardware, trace.tracks
    track = take(hardware["track"], slices)
    return {
        "track": track,
        "pid": take(tracks["pid"], track),
        "tid": take(tracks["tid"], track),
        "stream": np.where(stream >= 0, stream, take(hardware["stream"], slices)),
        "connection": take(hardware["connection"], slices),
        "task": take(hardware["task"], slices),
        "model": take(hardware["model"], slices),
    }


def _types(columns: Columns, file: CsvFile) -> None:
    given = file.texts("type")
    names = columns["name"]
    inferred = relabel(names, map(kernel_type, names.categories))
    unknown = given.codes < 0
    if not unknown.any():
        columns["type"] = given
        return
    texts = np.array([*given.categories, ""], dtype=object)[given.codes]
    guessed = np.array([*inferred.categories, ""], dtype=object)[inferred.codes]
    columns["type"] = np.where(unknown, guessed, texts)
    columns["type_inferred"] = unknown


def _cores(columns: Columns, file: CsvFile, trace: Trace | None, slices: Int) -> None:
    given = file.texts("core")
    cores = relabel(given, map(core_name, given.categories))
    texts = np.array([*cores.categories, ""], dtype=object)[cores.codes]
    if trace is not None and trace.hardware and (cores.codes < 0).any():
        types = trace.hardware["task_type"]
        spoken = np.array([*map(core_name, types.categories), ""], dtype=object)
        codes = np.where(slices >= 0, types.codes[slices], -1)
        texts = np.where(cores.codes < 0, spoken[codes], texts)
    if (texts != "").any():
        columns["core"] = texts


def _durations(file: CsvFile, names: Categorical, start: Int, stream: Int, notes: Notes) -> tuple[Int, Bool]:
    """Durations in ns, 0 where the file's own is impossible, and where that is."""
    duration, bad = sound_durations(*file.durations("duration"))
    overrun = overruns(start, duration, stream)
    if bad.any() or overrun.any():
        rows = np.flatnonzero(bad | overrun)
        which = sorted({str(names[row] or "N/A") for row in rows})
        notes.say("bad_duration", "warning", file.name, count=len(rows), rows=len(file), names=some(which))
    return np.where(overrun, 0, duration), bad | overrun


def overruns(start: Int, duration: Int, stream: Int) -> Bool:
    """Which tasks run absurdly far into later ones of their stream (rows in start order; unknown times never do)."""
    result = np.zeros(len(start), bool)
    rows = np.flatnonzero((start >= 0) & (stream >= 0))
    rows = rows[np.argsort(stream[rows], kind="stable")]
    if len(rows) < 2:
        return result
    this, following = rows[:-1], rows[1:]
    room = start[following] - start[this]
    over = duration[this] - room
    absurd = (stream[this] == stream[following]) & (over > _OVERRUN_NS) & (duration[this] > _OVERRUN_FACTOR * room)
    result[this[absurd]] = True
    return result


def device_tables(
    trace: Trace, kernels: Columns | None, slices: Int, notes: Notes
) -> tuple[Columns | None, Columns | None]:
    """``kernels`` (from the trace where ``kernels`` is None) and ``tasks``: the device tasks that are no kernel."""
    hardware = trace.hardware
    if not hardware:
        return kernels, None
    texts, number = pairs(hardware["name"], hardware["task_type"])
    compute = np.array([computes(*text) for text in texts], bool)[number]
    if kernels is None:
        slices = np.flatnonzero(compute)
        if len(slices):
            kernels = _kernels_of_trace(trace, slices, notes)
    used = np.zeros(len(compute), bool)
    used[slices[slices >= 0]] = True
    rest = ~used
    if not rest.any():
        return kernels, None
    kinds = np.array([task_kind(*text) for text in texts], dtype=object)[number][rest]
    tasks = {name: hardware[name][rest] for name in ("name", "task_type", "start_ns", "dur_ns", "track", "stream")}
    tasks.update({name: hardware[name][rest] for name in ("connection", "model")})
    for name in ("name", "task_type"):
        tasks[name] = tasks[name].remove_unused_categories()
    tasks.update(kind=kinds, **{name: trace.tracks[name][tasks["track"]] for name in ("pid", "tid")})
    if hardware["bad"][rest].any():
        kinds_text = f"tasks: {int(hardware['bad'][rest].sum())}"
        notes.say("bad_duration", "warning", trace.file, "bad_duration_trace", kinds=kinds_text)
    return kernels, tasks


def _kernels_of_trace(trace: Trace, slices: Int, notes: Notes) -> Columns:
    hardware: dict[str, Any] = {name: values[slices] for name, values in trace.hardware.items()}
    names, types = hardware["name"], hardware["task_type"]
    bad = hardware["bad"] | overruns(hardware["start_ns"], hardware["dur_ns"], hardware["stream"])
    if bad.any():
        which = sorted({str(names[row] or "N/A") for row in np.flatnonzero(bad)})
        notes.say("bad_duration", "warning", trace.file, count=int(bad.sum()), rows=len(bad), names=some(which))
    columns: Columns = {
        "name": names,
        "type": relabel(names, map(kernel_type, names.categories)),
        "type_inferred": np.ones(len(bad), bool),
        "core": relabel(types, map(core_name, types.categories)),
        "dur_ns": np.where(bad, 0, hardware["dur_ns"]),
    }
    if bad.any():
        columns["bad_duration"] = bad
    columns.update({name: hardware[name] for name in ("start_ns", "track", "stream", "task", "model", "connection")})
    for name in ("name", "type", "core"):
        columns[name] = columns[name].remove_unused_categories()
    columns.update({name: trace.tracks[name][columns["track"]] for name in ("pid", "tid")})
    return columns
