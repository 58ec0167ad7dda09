"""Updates of captured graphs: what the host rebinds, task by task, before it can replay them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.derive.work import GRAPH_LAUNCHES, work_of
from npu_advisor.graph.named import starting
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

BEGIN, END = "aclmdlRICaptureTaskUpdateBegin", "aclmdlRICaptureTaskUpdateEnd"
TILING = "GetWorkspaceSize"
# Where the update calls themselves were not recorded, these ops stand for them when they launch nothing.
REBOUND_OPS = ("fused_infer_attention", "paged_attention", "incre_flash_attention")


class _Update(NamedTuple):
    start: Ints
    end: Ints
    op: Ints


def graph_updates(profile: Profile) -> Table:
    """The ``graph_updates`` table, in time order; empty where no graph is replayed."""
    apis, ops = profile.table("apis"), profile.table("ops")
    launches = _called(apis, GRAPH_LAUNCHES)
    if work_of(profile) != "inference":
        return Table.build("graph_updates", {}, profile.rank)
    none = np.zeros(0, dtype=np.int64)
    if not len(launches):
        return Table.build("graph_updates", {"start_ns": none, "dur_ns": none, "tiling_us": none}, profile.rank)
    found = _by_calls(apis, launches)
    if not len(found.start):
        found = _by_ops(profile, launches)
    tiling = np.flatnonzero(_holds(apis, TILING))
    owner = _inside(found, apis["start_ns"][tiling])
    columns = {
        "start_ns": found.start,
        "dur_ns": found.end - found.start,
        "tiling_us": np.bincount(owner[owner >= 0], apis["dur_us"][tiling][owner >= 0], len(found.start)),
        "iteration": _replayed_in(profile, apis, launches, found.end),
        "op": found.op,
        "step": apis["step"][launches[_next(apis["start_ns"][launches], found.end)]],
    }
    for name in ("source", "source_how"):
        columns[name] = np.array([*ops.strings(name), None], dtype=object)[found.op]
    return Table.build("graph_updates", columns, profile.rank)


def _called(apis: Table, names: tuple[str, ...]) -> Ints:
    """Rows of the calls whose name starts so, in time order."""
    rows = np.flatnonzero(starting(apis, names))
    return rows[np.argsort(apis["start_ns"][rows], kind="stable")]


def _holds(table: Table, *parts: str) -> Mask:
    match = np.array([*(any(p in str(name) for p in parts) for name in table["name"].categories), False], dtype=bool)
    return np.asarray(match[table["name"].codes])


def _by_calls(apis: Table, launches: Ints) -> _Update:
    """From each Begin to the next Begin or launch on its thread, or to its own End where that comes last."""
    begin, end = _called(apis, (BEGIN,)), _called(apis, (END,))
    borders = np.concatenate((begin, launches))
    parts = [_until_next(apis, begin, borders, end, track) for track in np.unique(apis["track"][begin])]
    rows = np.concatenate([part[0] for part in parts]) if parts else begin
    until = np.concatenate([part[1] for part in parts]) if parts else begin
    order = np.argsort(apis["start_ns"][rows], kind="stable")
    rows, until = rows[order], until[order]
    update = _Update(apis["start_ns"][rows], until, np.full(len(rows), -1, dtype=np.int64))
    return update._replace(op=_rebound(apis, update))


def _until_next(apis: Table, begin: Ints, borders: Ints, end: Ints, track: int) -> tuple[Ints, Ints]:
    """The Begin calls of one thread, and when each update is over."""
    mine, ends = begin[apis["track"][begin] == track], end[apis["track"][end] == track]
    start = apis["start_ns"][mine]
    at = np.sort(apis["start_ns"][borders[apis["track"][borders] == track]])
    following = np.searchsorted(at, start, side="right")
    closed = np.append(np.sort(apis["end_ns"][ends]), np.iinfo(np.int64).max)
    own = closed[np.searchsorted(closed[:-1], start)]
    last = apis["end_ns"][mine]
    until = np.append(at, -1)[following]
    return mine, np.where(until >= 0, until, np.where(own < np.iinfo(np.int64).max, own, last))


def _rebound(apis: Table, update: _Update) -> Ints:
    """The op whose call lies in each update: of its tiling call, else of any call."""
    found = np.full(len(update.start), -1, dtype=np.int64)
    for rows in (np.arange(len(apis)), np.flatnonzero(_holds(apis, TILING))):
        rows = rows[apis["op"][rows] >= 0]
        owner = _inside(update, apis["start_ns"][rows])
        found[owner[owner >= 0]] = apis["op"][rows][owner >= 0]
    return found


def _by_ops(profile: Profile, launches: Ints) -> _Update:
    """Attention ops that launch no kernel: only their arguments are wanted, the kernel is in the graph."""
    ops, kernels, apis = profile.table("ops"), profile.table("kernels"), profile.table("apis")
    rows = np.flatnonzero(_holds(ops, *REBOUND_OPS))
    launching = np.sort(np.append(ops["pre"], -1)[kernels["op"][kernels["op"] >= 0]])
    low = np.searchsorted(launching, ops["pre"][rows])
    rows = rows[low == np.searchsorted(launching, ops["last"][rows], side="right")]
    outer = np.append(ops["parent"], -1)[rows]
    rows = rows[~np.isin(outer, rows)]
    rows = rows[np.argsort(ops["start_ns"][rows], kind="stable")]
    before = ops["end_ns"][rows] <= int(apis["start_ns"][launches].max())
    rows = rows[before]
    return _Update(ops["start_ns"][rows], ops["end_ns"][rows], rows)


def _inside(update: _Update, at: Ints) -> Ints:
    """Which update holds each moment, -1 none. A graph has one thread that updates it."""
    row = np.searchsorted(update.start, at, side="right") - 1
    held = (row >= 0) & (at < np.append(update.end, 0)[row])
    return np.where(held, row, -1)


def _next(at: Ints, after: Ints) -> Ints:
    return np.minimum(np.searchsorted(at, after), len(at) - 1)


def _replayed_in(profile: Profile, apis: Table, launches: Ints, end: Ints) -> Ints:
    """The iteration of the first kernel of the replay that follows each update."""
    kernels, iterations = profile.table("kernels"), profile.table("iterations")
    if not len(iterations):
        return np.full(len(end), -1, dtype=np.int64)
    launch = launches[_next(apis["start_ns"][launches], end)]
    order = np.lexsort((kernels["start_ns"], kernels["api"]))
    at = np.minimum(np.searchsorted(kernels["api"][order], launch), len(order) - 1)
    start = kernels["start_ns"][order[at]]
    row = np.searchsorted(iterations["start_ns"], start, side="right") - 1
    return np.where((kernels["api"][order[at]] == launch) & (row >= 0), row, -1)
