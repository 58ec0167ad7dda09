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

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.numbering import factorize
from npu_advisor.readers.join import outer_first, take
from npu_advisor.readers.notes import Notes
from npu_advisor.readers.numbers import Bool, Int
from npu_advisor.readers.sqlite_file import Database, known
from npu_advisor.readers.sqlite_rows import Lanes, alike, by_start, keep, rows_of, span
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


def _span(raw: dict[str, Int], kind: str, host: Host) -> tuple[Int, Int]:
    start, duration, bad = span(raw.pop("startNs"), raw.pop("endNs"))
    if bad.any():
        host.bad[kind] = int(bad.sum())
    return start, duration


def _timed(raw: dict[str, Int], kind: str, host: Host) -> Columns:
    start, duration = _span(raw, kind, host)
    return by_start({"start_ns": start, "dur_ns": duration, **raw})


def _torch(db: Database, lanes: Lanes, host: Host, notes: Notes) -> None:
    names = ("startNs", "endNs", "globalTid", "connectionId", "name", "sequenceNumber", "fwdThreadId")
    # Before the rows of ops take room.
    stacks = _Stacks(db)
    raw = db.ints("PYTORCH_API", *names, "inputDtypes", "inputShapes", "callchainId", "type")
    if not len(raw["startNs"]):
        return
    start, duration = _span(raw, "PYTORCH_API", host)
    order = outer_first(start, duration)
    timed: Columns = {"name": db.strings.category(raw.pop("name")[order])}
    timed.update(start_ns=start[order], dur_ns=duration[order])
    timed.update(lanes.of_threads("Python", raw.pop("globalTid")[order]))
    kinds = _kinds(db, timed["name"], raw.pop("type")[order])
    del start, duration
    frames, pushes, pops, ops = (np.flatnonzero(kinds == kind) for kind in (_FRAME, _PUSH, _POP, _OP))
    tables = {"frames": frames, "enqueues": pushes, "dequeues": pops, "ops": ops}
    for name, rows in tables.items():
        if len(rows):
            host.tables[name] = keep(timed, rows)
            host.tables[name]["name"] = host.tables[name]["name"].remove_unused_categories()
    timed.clear()
    ids, keys = _Connections(db), raw.pop("connectionId")[order]
    for name, queue, other in (("enqueues", pushes, pops), ("dequeues", pops, pushes)):
        if len(queue):
            host.tables[name]["correlation"] = ids.shared(keys[queue], keys[other])
    if len(ops):
        told = {name: raw.pop(name)[order[ops]] for name in list(raw)}
        table = host.tables["ops"]
        table.update(sequence=told["sequenceNumber"], fwd_thread=told["fwdThreadId"])
        host.op_row, host.op_connection = ids.explode(keys[ops])
        table.update(_texts(db, told, stacks, notes))
        _forward_arrows(host)


_OP, _FRAME, _PUSH, _POP, _LOST = (np.int8(number) for number in range(5))


def _kinds(db: Database, names: Categorical, given: Int) -> Any:
    """Of each row: op, frame, push or pop; lost for a queue row whose name is."""
    labels = [str(label) for label in names.categories]
    push, pop = (
        np.array([*(label.startswith(start) for label in labels), False], bool)[names.codes]
        for start in ("Enqueue", "Dequeue@")
    )
    types = dict(_KINDS)
    types.update({name: number for number, name in db.enum("ENUM_API_TYPE").items() if name in _KINDS})
    queue = given == types["queue"] if db.has("PYTORCH_API", "type") else np.ones(len(given), bool)
    conditions = [given == types["trace"], queue & push, queue & pop, given == types["queue"]]
    return np.select(conditions, [_FRAME, _PUSH, _POP, _LOST], _OP)


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
    thread = ops["fwd_thread"][host.op_row]
    forward, backward = (_last(host.op_connection, np.flatnonzero(chosen)) for chosen in (thread == 0, thread > 0))
    other = rows_of(host.op_connection[backward], host.op_connection[forward])
    start, end = host.op_row[forward[other >= 0]], host.op_row[backward[other[other >= 0]]]
    start = _last_of_family(ops, start)
    other = ops["track"][start] != ops["track"][end]
    if other.any():
        host.arrows = flow("fwdbwd", ops, start[other], ops, end[other])


def _last(ids: Int, rows: Int) -> Int:
    """Of the rows the last one with each id, in order."""
    _, first = np.unique(ids[rows[::-1]], return_index=True)
    return np.sort(rows[::-1][first])


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


def _texts(db: Database, ops: Columns, stacks: _Stacks, notes: Notes) -> Columns:
    """Columns stack, shapes and dtypes, those that hold anything."""
    shapes, dtypes = db.strings.category(ops["inputShapes"]), db.strings.category(ops["inputDtypes"])
    if _all_dims(dtypes) and len(shapes.categories) and not _all_dims(shapes):
        notes.say("db_columns_swapped", "info", db.file)
        shapes, dtypes = dtypes, shapes
    columns = {"shapes": shapes, "dtypes": dtypes}
    if (ops["callchainId"] >= 0).any():
        columns["stack"] = stacks.of(ops["callchainId"])
        if any(in_notebook(str(stack)) for stack in columns["stack"].categories):
            notes.say("notebook_source", "info", db.file)
    return {name: values for name, values in columns.items() if len(values.categories)}


def _all_dims(texts: Categorical) -> bool:
    """Whether these are sizes, not names of types; blanks alone are neither."""
    labels = [str(label) for label in texts.categories]
    return all(_DIMS.fullmatch(label) for label in labels) and any(char.isdigit() for text in labels for char in text)


class _Stacks:
    """PYTORCH_CALLCHAINS: the call stack of each chain as the trace writes it, innermost first."""

    def __init__(self, db: Database) -> None:
        raw = db.ints("PYTORCH_CALLCHAINS", "id", "stack", "stackDepth")
        owner, depth, frame = raw.pop("id"), raw.pop("stackDepth"), raw.pop("stack")
        after = owner[1:] > owner[:-1]
        if not (after | (owner[1:] == owner[:-1]) & (depth[1:] >= depth[:-1])).all():
            order = np.lexsort((depth, owner))
            owner, frame = owner[order], frame[order]
        starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])[: len(owner)])
        self._chains = owner[starts]
        self._numbers, firsts = alike(frame, starts)
        stops = np.append(starts, len(owner))[1:]
        parts = [frame[start:stop] for start, stop in zip(starts[firsts], stops[firsts], strict=True)]
        self._texts = [";\r\n".join(db.strings.of(part)) for part in parts]

    def of(self, chains: Int) -> Categorical:
        """A column of the stacks of these chains; equal ones are one category."""
        found = take(self._numbers, rows_of(self._chains, chains))
        return Categorical.merged(found, self._texts).remove_unused_categories()


def _calls(db: Database, lanes: Lanes, host: Host) -> None:
    raw = db.ints("CANN_API", "startNs", "endNs", "type", "globalTid", "connectionId", "name")
    if not len(raw["startNs"]):
        return
    rows = _timed(raw, "CANN_API", host)
    levels = {**_LEVELS, **db.enum("ENUM_API_TYPE")}
    codes, uniques = factorize(rows["type"])
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
