"""The host's side of a database: PYTORCH_API, CANN_API, GC_RECORD and STEP_TIME.

PYTORCH_API.connectionId is no connection id but the key of CONNECTION_IDS, one space of numbers for three purposes:
an Enqueue and its Dequeue share one, a forward and a backward op share one, an op and the CANN calls (and thereby
the device tasks) it caused share the others.  What a number means is told by the kinds of rows that have it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.numbering import Numbering
from npu_advisor.readers.join import take
from npu_advisor.readers.notes import Notes
from npu_advisor.readers.numbers import Bool, Int
from npu_advisor.readers.sqlite_file import Database, known
from npu_advisor.readers.sqlite_rows import Lanes, by_start, keep, rows_of, span
from npu_advisor.readers.trace_tables import Columns, in_notebook

_KINDS = {"op": 50001, "queue": 50002, "trace": 50003, "mstx": 50004}
_LEVELS = {20000: "acl", 15000: "model", 10000: "node", 5500: "hccl", 5000: "runtime"}
_DIMS = re.compile(r"[\d,;\s]*")


@dataclass
class Host:
    """Host tables by name, and what links them to the device.

    ``op_row`` and ``op_connection`` say which connection ids each row of ``ops`` has; ``marks`` are the steps (number,
    start_ns, dur_ns) and ``arrows`` the ``flow_points`` between forward and backward ops.
    """

    tables: dict[str, Columns] = field(default_factory=dict)
    op_row: Int = field(default_factory=lambda: np.zeros(0, np.int64))
    op_connection: Int = field(default_factory=lambda: np.zeros(0, np.int64))
    marks: Columns = field(default_factory=dict)
    arrows: Columns = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)


def read_host(db: Database, lanes: Lanes, notes: Notes) -> Host:
    """ops, frames, enqueues, dequeues, apis, gcs, the arrows from forward to backward ops, and the step marks."""
    host = Host()
    _torch(db, lanes, host, notes)
    _calls(db, lanes, host)
    _pauses(db, lanes, host)
    _steps(db, host)
    if host.bad:
        kinds = ", ".join(f"{kind}: {count}" for kind, count in host.bad.items())
        notes.say("bad_duration", "warning", db.file, "bad_duration_trace", kinds=kinds)
    return host


def _timed(raw: dict[str, Int], kind: str, host: Host) -> Columns:
    start, duration, bad = span(raw.pop("startNs"), raw.pop("endNs"))
    if bad.any():
        host.bad[kind] = int(bad.sum())
    return by_start({"start_ns": start, "dur_ns": duration, **raw})


def _torch(db: Database, lanes: Lanes, host: Host, notes: Notes) -> None:
    names = ("startNs", "endNs", "globalTid", "connectionId", "name", "sequenceNumber", "fwdThreadId")
    raw = db.ints("PYTORCH_API", *names, "inputDtypes", "inputShapes", "callchainId", "type")
    if not len(raw["startNs"]):
        return
    rows = _timed(raw, "PYTORCH_API", host)
    rows.update(lanes.of_threads("Python", rows.pop("globalTid")))
    rows["name"] = db.strings.category(rows["name"])
    kinds = _kinds(db, rows)
    ids = _Connections(db)
    timed = ("name", "start_ns", "dur_ns", "track", "pid", "tid")
    frames, pushes, pops, ops = (keep(rows, kinds == kind) for kind in ("frame", "push", "pop", "op"))
    if len(frames["start_ns"]):
        host.tables["frames"] = {name: frames[name] for name in timed}
    for name, queue, other in (("enqueues", pushes, pops), ("dequeues", pops, pushes)):
        if len(queue["start_ns"]):
            correlation = ids.shared(queue["connectionId"], other["connectionId"])
            host.tables[name] = {**{column: queue[column] for column in timed}, "correlation": correlation}
    if len(ops["start_ns"]):
        table = {name: ops[name] for name in timed}
        table.update(sequence=ops["sequenceNumber"], fwd_thread=ops["fwdThreadId"], **_texts(db, ops, notes))
        host.op_row, host.op_connection = ids.explode(ops["connectionId"])
        host.tables["ops"] = table
        _forward_arrows(host)
    for columns in host.tables.values():
        columns["name"] = columns["name"].remove_unused_categories()


def _kinds(db: Database, rows: Columns) -> Any:
    """Of each row: op, frame, push or pop; "" for a queue row whose name is lost."""
    labels = [str(label) for label in rows["name"].categories]
    push, pop = (
        np.array([*(label.startswith(start) for label in labels), False], bool)[rows["name"].codes]
        for start in ("Enqueue", "Dequeue@")
    )
    given = rows["type"]
    types = dict(_KINDS)
    types.update({name: number for number, name in db.enum("ENUM_API_TYPE").items() if name in _KINDS})
    queue = given == types["queue"] if db.has("PYTORCH_API", "type") else np.ones(len(given), bool)
    conditions = [given == types["trace"], queue & push, queue & pop, given == types["queue"]]
    return np.select(conditions, ["frame", "push", "pop", ""], "op")


class _Connections:
    """CONNECTION_IDS: the connection ids behind each key. Without that table a key stands for itself."""

    def __init__(self, db: Database) -> None:
        raw = db.ints("CONNECTION_IDS", "id", "connectionId")
        order = np.argsort(raw["id"], kind="stable")
        self._keys, self._ids = raw["id"][order], raw["connectionId"][order]
        self._there = "CONNECTION_IDS" in db

    def explode(self, keys: Int) -> tuple[Int, Int]:
        """(row, connection id) pairs, in order of rows."""
        rows = np.flatnonzero(keys >= 0)
        if not self._there:
            return rows, keys[rows]
        low, high = (np.searchsorted(self._keys, keys[rows], side) for side in ("left", "right"))
        count = high - low
        row = np.repeat(rows, count)
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
        return row, self._ids[place]

    def shared(self, keys: Int, others: Int) -> Int:
        """One id of each row, preferably one that some row of ``others`` has too; -1 for none."""
        row, number = self.explode(keys)
        theirs = np.isin(number, self.explode(others)[1])
        order = np.lexsort((~theirs, row))
        first, place = np.unique(row[order], return_index=True)
        found = np.full(len(keys), -1, np.int64)
        found[first] = number[order][place]
        return found


def _forward_arrows(host: Host) -> None:
    """``fwdbwd`` arrows between ops that share an id.

    A sequence number is that of a family of ops (aten::conv2d around aten::convolution).  The exporter gives the id to
    the first of them, the writer of traces lets the arrow start at the last; so do we, for both forms to agree.
    """
    ops = host.tables["ops"]
    pairs = pd.DataFrame({"id": host.op_connection, "row": host.op_row})
    thread = ops["fwd_thread"][host.op_row]
    forward = pairs[thread == 0].drop_duplicates("id", keep="last")
    backward = pairs[thread > 0].drop_duplicates("id", keep="last")
    arrows = forward.merge(backward, on="id", suffixes=("", "_to"))
    start, end = arrows["row"].to_numpy(np.int64), arrows["row_to"].to_numpy(np.int64)
    start = _last_of_family(ops, start)
    other = ops["track"][start] != ops["track"][end]
    if other.any():
        host.arrows = flow("fwdbwd", ops, start[other], ops, end[other])


def _last_of_family(ops: Columns, rows: Int) -> Int:
    """The latest forward op with the sequence number and on the thread of each; itself where it has none."""
    forward = np.flatnonzero((ops["fwd_thread"] == 0) & (ops["sequence"] >= 0))
    latest = forward[::-1][rows_of(ops["sequence"][forward[::-1]], ops["sequence"][rows])] if len(forward) else rows
    kin = (ops["sequence"][latest] == ops["sequence"][rows]) & (ops["track"][latest] == ops["track"][rows])
    return np.where(kin & (ops["sequence"][rows] >= 0), latest, rows)


def flow(category: str, starts: Columns, start: Int, ends: Columns, end: Int) -> Columns:
    """Columns of ``flow_points``: arrows from rows ``start`` of one table to rows ``end`` of another."""
    count = len(start)
    both = [(starts, start), (ends, end)]
    return {
        "category": np.full(2 * count, category, dtype=object),
        "finish": np.repeat([False, True], count),
        "id": np.tile(np.arange(count, dtype=np.int64), 2),
        "track": np.concatenate([table["track"][rows] for table, rows in both]),
        "start_ns": np.concatenate([table["start_ns"][rows] for table, rows in both]),
    }


def _texts(db: Database, ops: Columns, notes: Notes) -> Columns:
    """Columns stack, shapes and dtypes, those that hold anything."""
    shapes, dtypes = db.strings.category(ops["inputShapes"]), db.strings.category(ops["inputDtypes"])
    if _all_dims(dtypes) and len(shapes.categories) and not _all_dims(shapes):
        notes.say("db_columns_swapped", "info", db.file)
        shapes, dtypes = dtypes, shapes
    columns = {"shapes": shapes, "dtypes": dtypes}
    if (ops["callchainId"] >= 0).any():
        columns["stack"] = _stacks(db, ops["callchainId"])
        if any(in_notebook(str(stack)) for stack in columns["stack"].categories):
            notes.say("notebook_source", "info", db.file)
    return {name: values for name, values in columns.items() if len(values.categories)}


def _all_dims(texts: Categorical) -> bool:
    """Whether these are sizes, not names of types; blanks alone are neither."""
    labels = [str(label) for label in texts.categories]
    return all(_DIMS.fullmatch(label) for label in labels) and any(char.isdigit() for text in labels for char in text)


def _stacks(db: Database, chains: Int) -> Categorical:
    """The call stack of each chain as the trace writes it, innermost first; equal ones are one category."""
    raw = db.ints("PYTORCH_CALLCHAINS", "id", "stack", "stackDepth")
    order = np.lexsort((raw["stackDepth"], raw["id"]))
    owner, frame = raw["id"][order], np.ascontiguousarray(raw["stack"][order])
    borders = np.flatnonzero(np.diff(owner)) + 1
    starts = np.concatenate(([0], borders)) if len(owner) else borders
    stops = np.append(starts, len(owner))[1:]
    packed, distinct = memoryview(frame.tobytes()), Numbering()
    number = distinct.of([bytes(packed[8 * a : 8 * b]) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)])
    texts = [";\r\n".join(db.strings.of(np.frombuffer(key, np.int64))) for key in distinct]
    found = take(number.astype(np.int64), rows_of(owner[starts], chains))
    return Categorical.merged(found, texts).remove_unused_categories()


def _calls(db: Database, lanes: Lanes, host: Host) -> None:
    raw = db.ints("CANN_API", "startNs", "endNs", "type", "globalTid", "connectionId", "name")
    if not len(raw["startNs"]):
        return
    rows = _timed(raw, "CANN_API", host)
    levels = {**_LEVELS, **db.enum("ENUM_API_TYPE")}
    codes, uniques = pd.factorize(rows["type"])
    labels = [_NAMED.get(levels.get(int(number), ""), "") for number in uniques]
    host.tables["apis"] = {
        "name": db.strings.category(rows["name"]),
        "level": np.array(labels, dtype=object)[codes],
        "start_ns": rows["start_ns"],
        "dur_ns": rows["dur_ns"],
        "connection": np.maximum(known(rows["connectionId"]), 0),
        **lanes.of_threads("CANN", rows["globalTid"]),
    }


_NAMED = {**{name: name for name in _LEVELS.values()}, "communication": "hccl"}


def _pauses(db: Database, lanes: Lanes, host: Host) -> None:
    raw = db.ints("GC_RECORD", "startNs", "endNs", "globalTid")
    if len(raw["startNs"]):
        rows = _timed(raw, "GC_RECORD", host)
        rows.update(lanes.of_threads("Python", rows.pop("globalTid")))
        host.tables["gcs"] = rows


def _steps(db: Database, host: Host) -> None:
    """STEP_TIME; as table ``steps`` only where no op marks the steps."""
    raw = db.ints("STEP_TIME", "id", "startNs", "endNs")
    start, duration, bad = span(raw["startNs"], raw["endNs"])
    sound: Bool = ~bad & (raw["id"] >= 0)
    marks = by_start(keep({"number": raw["id"], "start_ns": start, "dur_ns": duration}, sound))
    host.marks = marks
    named = host.tables.get("ops", {}).get("name")
    marked = named is not None and any(re.fullmatch(r"ProfilerStep#\d+", str(label)) for label in named.categories)
    if len(marks["number"]) and not marked:
        host.tables["steps"] = {**marks, "host_us": marks["dur_ns"] / 1000.0}
