"""The device's side of a database: TASK and what describes its rows, for one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npu_advisor.base.numbering import factorize, paired
from npu_advisor.readers.columns import relabel
from npu_advisor.readers.device_names import computes, task_kind
from npu_advisor.readers.join import take
from npu_advisor.readers.notes import Notes, some
from npu_advisor.readers.numbers import Bool, Int
from npu_advisor.readers.sqlite_comm import read_collectives, read_comm_tasks
from npu_advisor.readers.sqlite_file import Database, known
from npu_advisor.readers.sqlite_host import Host, flow
from npu_advisor.readers.sqlite_kernels import INFO, described, kernel_table
from npu_advisor.readers.sqlite_rows import Lanes, by_start, keep, of_device, rows_of, span
from npu_advisor.readers.trace_tables import Columns


@dataclass
class Device:
    """Device tables by name; ``group_name`` is the communicator of each row of ``comms``, by its full name."""

    tables: dict[str, Columns] = field(default_factory=dict)
    group_name: list[str] = field(default_factory=list)


def choose_device(db: Database, rank: int, notes: Notes) -> int:
    """The device to read: that of the rank, else the one with most tasks; -1 when no task names one."""
    tasks = db.counts("TASK", "deviceId")
    if not tasks:
        return -1
    mapped = db.ints("RANK_DEVICE_MAP", "rankId", "deviceId")
    own = [number for number in mapped["deviceId"][mapped["rankId"] == rank].tolist() if number in tasks]
    chosen = own[0] if own else max(sorted(tasks), key=lambda number: tasks[number])
    others = {number: count for number, count in sorted(tasks.items()) if number != chosen}
    if others:
        listed = some([str(number) for number in others], limit=16)
        notes.say("db_other_devices", "warning", db.file, device=chosen, others=listed, tasks=sum(others.values()))
    return chosen


def read_device(db: Database, lanes: Lanes, host: Host, device: int, notes: Notes) -> Device:
    """kernels, tasks, comms and comm_tasks, and the ``async_npu`` arrows to them."""
    found = Device()
    tasks = _tasks(db, lanes, device)
    info = db.ints("COMPUTE_TASK_INFO", *INFO)
    collectives = read_collectives(db, lanes, tasks["id"], device)
    parts = db.ints("COMMUNICATION_TASK_INFO", "globalTaskId")["globalTaskId"]
    computing = described(tasks, info, db)
    kernels = keep(tasks, computing)
    rest = ~computing
    rest &= ~_envelopes(tasks, kernels, rest & ~np.isin(tasks["id"], parts), collectives.connection)
    if len(kernels["start_ns"]):
        found.tables["kernels"] = kernel_table(db, kernels, info, notes)
    if rest.any():
        found.tables["tasks"] = _others(keep(tasks, rest))
    if collectives.table:
        found.tables["comms"], found.group_name = collectives.table, collectives.group_name
    if (comm_tasks := read_comm_tasks(db, lanes, tasks, collectives)) is not None:
        found.tables["comm_tasks"] = comm_tasks
    _remark(db, tasks, info, computing, collectives.bad, notes)
    _waits(found)
    _step_ids(found, host)
    _arrows(found, host)
    _name_launches(found, host)
    return found


def _tasks(db: Database, lanes: Lanes, device: int) -> Columns:
    names = ("startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "globalPid", "taskType")
    raw = of_device(db.ints("TASK", *names, "streamId", "taskId", "modelId"), device)
    start, duration, bad = span(raw["startNs"], raw["endNs"])
    columns: Columns = {
        "start_ns": start,
        "dur_ns": duration,
        "bad": bad,
        "id": raw["globalTaskId"],
        "task_type": db.strings.category(raw["taskType"]),
        "connection": known(raw["connectionId"]),
        "stream": known(raw["streamId"]),
        "task": known(raw["taskId"]),
        "model": known(raw["modelId"]),
        **lanes.of("Ascend Hardware", known(raw["globalPid"]), known(raw["streamId"]), "Stream {}"),
    }
    return by_start(columns)


def _envelopes(tasks: Columns, kernels: Columns, others: Bool, collectives: Int) -> Bool:
    """Of the ``others`` those that only wrap: a mixed kernel, or all of a collective, has one more row around it."""
    types = tasks["task_type"]
    compute = np.array([*(computes("", str(label)) for label in types.categories), False], bool)[types.codes]
    result = np.zeros(len(others), bool)
    rows = np.flatnonzero(others & compute)
    if not len(rows):
        return result
    keys = np.zeros(len(kernels["id"]) + len(rows), np.int64)
    for name in ("stream", "task", "connection"):
        keys = paired(keys, factorize(np.concatenate([kernels[name], tasks[name][rows]]))[0])
    inner, outer = np.split(keys, [len(kernels["id"])])
    connection = tasks["connection"][rows]
    of_collective = (connection >= 0) & np.isin(connection, collectives)
    result[rows] = np.isin(outer, inner) | of_collective
    return result


def _others(tasks: Columns) -> Columns:
    """``tasks``: the trace names such a task after its type, so its name is its type here too."""
    types = tasks["task_type"].remove_unused_categories()
    kinds = [task_kind(str(label), str(label)) for label in types.categories]
    names = ("start_ns", "dur_ns", "track", "pid", "tid", "stream", "connection", "model")
    columns = {name: tasks[name] for name in names}
    return {"name": types, "task_type": types, "kind": relabel(types, kinds), **columns}


def _waits(found: Device) -> None:
    """``wait_us`` as kernel_details.csv has it: from the end of the row before, over all streams and collectives."""
    kernels = found.tables.get("kernels")
    if kernels is None:
        return
    comms = found.tables.get("comms", {"start_ns": np.zeros(0, np.int64), "dur_ns": np.zeros(0, np.int64)})
    start, duration = (np.concatenate([kernels[name], comms[name]]) for name in ("start_ns", "dur_ns"))
    order = np.argsort(start, kind="stable")
    gap = start[order][1:] - (start + duration)[order][:-1]
    wait = np.zeros(len(start), np.int64)
    wait[order[1:]] = np.maximum(gap, 0)
    kernels["wait_us"] = wait[: len(kernels["start_ns"])] / 1000.0


def _owners(connection: Int, host: Host) -> Int:
    """Row of the op with each connection id, -1 for none."""
    pair = np.where(connection >= 0, rows_of(host.op_connection, connection), -1)
    return take(host.op_row, pair)


def _step_ids(found: Device, host: Host) -> None:
    """``step_id`` by the writer's rule: step n has the device from the first kernel that an op of it launched until
    the last such kernel ends, or the step on the host, if later; a kernel has the first step that fits."""
    tables = [found.tables[name] for name in ("kernels", "comms") if name in found.tables]
    marks, ops = host.marks, host.tables.get("ops")
    if not tables or not len(marks["number"]):
        return
    begin, end = marks["start_ns"], marks["start_ns"] + marks["dur_ns"]
    first, last = np.full(len(begin), np.iinfo(np.int64).max), end.copy()
    op_start = ops["start_ns"] if ops is not None else np.zeros(0, np.int64)
    for table in tables:
        at = take(op_start, _owners(table["connection"], host))
        step = np.searchsorted(begin, at, side="right") - 1
        step = np.where((step >= 0) & (at < end[np.maximum(step, 0)]), step, -1)
        np.minimum.at(first, step[step >= 0], table["start_ns"][step >= 0])
        np.maximum.at(last, step[step >= 0], (table["start_ns"] + table["dur_ns"])[step >= 0])
    first = np.maximum.accumulate(np.minimum(first, end))
    last = np.maximum.accumulate(last)
    for table in tables:
        fits = np.searchsorted(last, table["start_ns"], side="left")
        begun = np.searchsorted(first, table["start_ns"], side="right") - 1
        known_step = (fits <= begun) & (table["start_ns"] >= 0)
        table["step_id"] = np.where(known_step, marks["number"][np.minimum(fits, len(begin) - 1)], -1)


def _arrows(found: Device, host: Host) -> None:
    ops = host.tables.get("ops")
    parts = [host.arrows] if host.arrows else []
    for name in ("kernels", "tasks", "comms"):
        table = found.tables.get(name)
        if table is not None and ops is not None:
            owner = _owners(table["connection"], host)
            rows = np.flatnonzero(owner >= 0)
            parts.append(flow("async_npu", ops, owner[rows], table, rows))
    if parts:
        # Every part numbers its arrows from 0; an id is one arrow.
        shift = np.cumsum([0, *(len(part["id"]) for part in parts)])
        for part, base in zip(parts, shift, strict=False):
            part["id"] = part["id"] + base
        found.tables["flow_points"] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _remark(
    db: Database, tasks: Columns, info: Mapping[str, Int], computing: Bool, bad_comms: int, notes: Notes
) -> None:
    """Say which tasks and collectives have impossible durations, and how many kernels no task stands for."""
    bad = {"tasks": int(tasks["bad"][~computing].sum()), "comms": bad_comms}
    if any(bad.values()):
        kinds = ", ".join(f"{kind}: {count}" for kind, count in bad.items() if count)
        notes.say("bad_duration", "warning", db.file, "bad_duration_trace", kinds=kinds)
    lost = info["globalTaskId"][~np.isin(info["globalTaskId"], tasks["id"])]
    if len(lost):  # not those of other devices
        lost = lost[~np.isin(lost, db.ints("TASK", "globalTaskId")["globalTaskId"])]
    if len(lost):
        notes.say("db_rows_unmatched", "warning", db.file, count=len(lost), table="COMPUTE_TASK_INFO", other="TASK")


def _name_launches(found: Device, host: Host) -> None:
    """``apis.item``: the kernel that a launch launched."""
    apis, kernels = host.tables.get("apis"), found.tables.get("kernels")
    if apis is None or kernels is None:
        return
    row = rows_of(kernels["connection"], apis["connection"])
    launch = (apis["level"] == "node") & (apis["connection"] > 0) & (row >= 0)
    names = kernels["name"]
    codes = np.where(launch, names.codes[row], -1)
    if launch.any():
        apis["item"] = names.with_codes(codes).remove_unused_categories()
