"""COMPUTE_TASK_INFO and TASK_PMU_INFO: what is told of the device tasks that are kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.readers.columns import relabel
from npu_advisor.readers.device_names import core_name, is_comm_name, kernel_type
from npu_advisor.readers.kernels import METRICS, overruns, plain_shapes
from npu_advisor.readers.notes import Notes, some
from npu_advisor.readers.numbers import Bool, Int
from npu_advisor.readers.sqlite_file import Database
from npu_advisor.readers.sqlite_rows import rows_of
from npu_advisor.readers.trace_tables import Columns

_SHAPES = {
    "input_shapes": "inputShapes",
    "input_dtypes": "inputDataTypes",
    "input_formats": "inputFormats",
    "output_shapes": "outputShapes",
    "output_dtypes": "outputDataTypes",
    "output_formats": "outputFormats",
}
# How long the cores of each kind worked, in ns.
_BUSY = ("aic_total_time", "aiv_total_time")
# Columns of COMPUTE_TASK_INFO; of several spellings the first names the result.
INFO = (
    *("globalTaskId", "name", "taskType", "opType", "blockDim|blockNum|block_dim", "opState"),
    *_SHAPES.values(),
)


def described(tasks: Columns, info: Mapping[str, Int], db: Database) -> Bool:
    """Which tasks are compute kernels: those COMPUTE_TASK_INFO describes, unless it calls them a collective."""
    ids = [np.asarray(uniques) for uniques in (np.unique(info["name"]), np.unique(info["opType"]))]
    comm = [unique[[is_comm_name(text) for text in db.strings.of(unique)]] if len(unique) else unique for unique in ids]
    collective = np.isin(info["name"], comm[0]) | np.isin(info["opType"], comm[1])
    result: Bool = np.isin(tasks["id"], info["globalTaskId"][~collective])
    return result


def kernel_table(db: Database, kernels: Columns, info: Mapping[str, Int], notes: Notes) -> Columns:
    """Columns of ``kernels`` from the tasks that are kernels and the columns ``INFO`` of COMPUTE_TASK_INFO."""
    row = rows_of(info["globalTaskId"], kernels["id"])
    text = {name: db.strings.category(info[name][row]) for name in ("name", "taskType", "opType", "opState")}
    bad = kernels["bad"] | overruns(kernels["start_ns"], kernels["dur_ns"], kernels["stream"])
    if bad.any():
        which = sorted({str(name) for name in text["name"][bad]})
        notes.say("bad_duration", "warning", db.file, count=int(bad.sum()), rows=len(bad), names=some(which))
    columns: Columns = {"name": text["name"], "start_ns": kernels["start_ns"]}
    columns["dur_ns"] = np.where(bad, 0, kernels["dur_ns"])
    if bad.any():
        columns["bad_duration"] = bad
    columns.update({name: kernels[name] for name in ("track", "pid", "tid", "stream", "task", "model", "connection")})
    _kind(columns, text, kernels["task_type"])
    if (blocks := info["blockDim"][row]).max(initial=0) > 0:
        columns["block_dim"] = blocks
    columns["state"] = text["opState"]
    for name, given in _SHAPES.items():
        values = db.strings.category(info[given][row])
        columns[name] = relabel(values, map(plain_shapes, values.categories))
    columns.update(_metrics(db, kernels["id"], notes))
    optional = ("state", *_SHAPES)
    return {name: values for name, values in columns.items() if name not in optional or len(values.categories)}


def _kind(columns: Columns, text: Mapping[str, Categorical], task_type: Categorical) -> None:
    """Type and core, from the name and from TASK where Level0 writes ``N/A``."""
    names, types, cores = text["name"], text["opType"], text["taskType"]
    unknown = types.codes < 0
    inferred = relabel(names, map(kernel_type, names.categories))
    columns["type"] = np.where(unknown, _spread(inferred), _spread(types)) if unknown.any() else types
    if unknown.any():
        columns["type_inferred"] = unknown
    given, by_task = (relabel(values, map(core_name, values.categories)) for values in (cores, task_type))
    columns["core"] = np.where(given.codes < 0, _spread(by_task), _spread(given))


def _spread(values: Categorical) -> Any:
    return np.array([*values.categories, ""], dtype=object)[values.codes]


def _metrics(db: Database, ids: Int, notes: Notes) -> Columns:
    numbers = db.strings.named((*METRICS, *_BUSY))
    only = ("name", list(numbers))
    cells = db.floats("TASK_PMU_INFO", "globalTaskId", "name", "value", only=only) if numbers else {}
    columns: Columns = {}
    if cells:
        given = cells["globalTaskId"]
        row = rows_of(ids, np.where(np.abs(given) < 2.0**63, given, -1).astype(np.int64))
        ours = np.isfinite(cells["value"]) & (row >= 0)
        for number, name in numbers.items():
            chosen_rows = ours & (cells["name"] == number)
            if chosen_rows.any():
                columns[name] = np.full(len(ids), np.nan)
                columns[name][row[chosen_rows]] = cells["value"][chosen_rows]
    busy = [columns.pop(name) for name in _BUSY if name in columns]
    if busy:
        columns["core_us"] = np.fmax.reduce(busy) / 1000.0
    if not columns:
        notes.say("metrics_unavailable", "info", db.file)
    return columns
