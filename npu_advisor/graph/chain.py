"""The way back from an event to the user's line, one recorded edge after the other.

============= =============================================================================================
from          to
============= =============================================================================================
idle          the task that ended it (dispatch, other), the call the host sat in (sync, compile, alloc), the
              DataLoader's op (data)
exposed       its collective; a sub-task of a collective likewise
peak_owners   its allocation
device task   launching CANN call, else Dequeue, else op
CANN call     the Dequeue around it, else the op that makes it
Dequeue       its Enqueue, else the op that enqueued
Enqueue       the op around it
op            where the line is its own: the line; else the op around it, or its forward op
============= =============================================================================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.idle import ALLOC_CALLS, BLOCKING_COPY, COMPILE_CALLS, SYNC_CALLS
from npu_advisor.graph.source import ENGINE_MARK
from npu_advisor.graph.steps import DEVICE_TABLES
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

KINDS = {
    "idle": "idle",
    "exposed": "exposed communication",
    "peak_owners": "alive at the peak",
    "allocs": "allocation",
    "ops": "op",
    "enqueues": "Enqueue",
    "dequeues": "Dequeue",
    "apis": "launch",
    "kernels": "kernel",
    "tasks": "task",
    "comms": "communication",
    "comm_tasks": "communication task",
}
_NAME = {"idle": "owner", "exposed": "type"}
# Which key leads on from a row, the nearest first.
_KEYS = {
    "exposed": (("comm", "comms"),),
    "comm_tasks": (("comm", "comms"),),
    "peak_owners": (("alloc", "allocs"), ("op", "ops")),
    "allocs": (("op", "ops"),),
    **dict.fromkeys(DEVICE_TABLES, (("api", "apis"), ("dequeue", "dequeues"), ("op", "ops"))),
    "apis": (("dequeue", "dequeues"), ("op", "ops")),
    "dequeues": (("enqueue", "enqueues"), ("op", "ops")),
    "enqueues": (("op", "ops"),),
}
_CALLS = {"sync": (*SYNC_CALLS, BLOCKING_COPY), "compile": COMPILE_CALLS, "alloc": ALLOC_CALLS}


class Hop(NamedTuple):
    """One event on a chain. ``start_ns`` is -1 and ``dur_us`` NaN for a source line, which is no event."""

    kind: str
    name: str
    start_ns: int
    dur_us: float
    table: str = ""
    row: int = -1


def chain(profile: Profile, table: str, row: int) -> list[Hop]:
    """The hops from a row back to the line it comes from, as far as this profile knows them; none for a table that
    holds no events."""
    if table not in KINDS:
        return []
    hops: list[Hop] = []
    at: tuple[str, int] | None = (table, row)
    while at is not None and at[0] != "ops":
        hops.append(_hop(profile, *at))
        at = _cause(profile, *at)
    if at is not None:
        hops += _ops(profile, at[1])
    line = _line(profile, hops)
    return hops if line is None else [*hops, Hop("line", line, -1, float("nan"))]


def _hop(profile: Profile, table: str, row: int, kind: str = "") -> Hop:
    rows = profile.table(table)
    name = _text(rows, _NAME.get(table, "name"), row) or ""
    if table == "apis" and not kind and name.startswith(tuple(one for calls in _CALLS.values() for one in calls)):
        kind = "call"
    return Hop(kind or KINDS[table], name, int(rows["start_ns"][row]), float(rows["dur_ns"][row]) / 1000.0, table, row)


def _text(rows: Table, column: str, row: int) -> str | None:
    codes, categories = rows[column].codes, rows[column].categories
    return str(categories[codes[row]]) if codes[row] >= 0 else None


def _cause(profile: Profile, table: str, row: int) -> tuple[str, int] | None:
    if table == "idle":
        return _cause_of_idle(profile, row)
    rows = profile.table(table)
    known = ((target, int(rows[key][row])) for key, target in _KEYS[table])
    return next(((target, found) for target, found in known if found >= 0), None)


def _cause_of_idle(profile: Profile, row: int) -> tuple[str, int] | None:
    """What an idle piece waited for."""
    idle, apis = profile.table("idle"), profile.table("apis")
    owner, op = str(idle["owner"][row]), int(idle["op"][row])
    start, end = int(idle["start_ns"][row]), int(idle["end_ns"][row])
    if owner in _CALLS and op >= 0 and len(apis):
        names = apis["name"]
        fits = np.array([*(str(name).startswith(_CALLS[owner]) for name in names.categories), False], dtype=bool)
        rows = np.flatnonzero((apis["op"] == op) & fits[names.codes] & (apis["start_ns"] < end))
        if len(rows):
            # The outermost of those under which most of the piece lies; a device that ran dry right after a call
            # lies under none, and then it is the nearest.
            under = np.minimum(apis["end_ns"][rows], end) - np.maximum(apis["start_ns"][rows], start)
            return "apis", int(rows[np.argmax(under)])
    if owner in ("dispatch", "other"):
        return _ended_by(profile, end)
    return ("ops", op) if op >= 0 else None


def _ended_by(profile: Profile, end: int) -> tuple[str, int] | None:
    """The first kernel or collective that starts at a time or later."""
    first = None
    for name in ("kernels", "comms"):
        start = profile.table(name)["start_ns"]
        rows = np.flatnonzero(start >= end)
        if len(rows):
            row = int(rows[np.argmin(start[rows])])
            if first is None or start[row] < first[0]:
                first = (int(start[row]), name, row)
    return None if first is None else first[1:]


def _ops(profile: Profile, op: int) -> list[Hop]:
    """An op, and the ops that lead from it to the one which has the line: around it, or its forward op."""
    ops = profile.table("ops")
    hops = [_hop(profile, "ops", op)]
    how = _text(ops, "source_how", op)
    if how not in ("ancestor", "forward", "sibling"):
        return hops
    sourced = ops["source"].codes >= 0
    forward = ops["forward"]
    while op >= 0:
        partner = int(forward[op])
        if how == "forward" and partner >= 0 and sourced[partner]:
            return [*hops, _hop(profile, "ops", partner, "forward op")]
        if how == "ancestor" and _text(ops, "source_how", op) == "own":
            return hops
        if how == "sibling" and (_text(ops, "name", op) or "").startswith(ENGINE_MARK):
            child = _with_forward(ops["parent"], forward, sourced, op)
            if child >= 0:
                told = _hop(profile, "ops", child), _hop(profile, "ops", int(forward[child]), "forward op")
                return [*hops, *told]
        op = int(ops["parent"][op])
        if op >= 0:
            hops.append(_hop(profile, "ops", op))
    return hops


def _with_forward(parent: Ints, forward: Ints, sourced: Mask, op: int) -> int:
    """The first child of an op whose forward op has a line, -1 for none."""
    children = np.flatnonzero((parent == op) & (forward >= 0))
    children = children[sourced[forward[children]]]
    return int(children[0]) if len(children) else -1


def _line(profile: Profile, hops: list[Hop]) -> str | None:
    """The line of the first event on the chain that has one."""
    for hop in hops:
        rows = profile.table(hop.table)
        if rows.spec.column("source"):
            line = _text(rows, "source", hop.row)
            if line is not None:
                return line
    return None
