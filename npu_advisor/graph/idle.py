"""Cut the device's idle time into pieces, each with exactly one owner.

Idle is what neither a compute kernel nor a collective covers, from the step's start to its last device task
(``part`` prepare before the first device task, free after).  Owners in order of precedence:

gc        a Python GC pause
alloc     a device malloc or free call
compile   an operator is compiled
sync      the host waits for the device or copies synchronously, and, when the device ran dry in such a call, what
          passes until the next task arrives
data      the main thread waits for the DataLoader
dispatch  the task that ends the idle time was launched after it had begun: the device waited for the host
other     the rest: the task was queued in time (dependency, copy engine, launch latency), or its launch is unknown

Whatever the host does while the task that ends the idle time is already queued is not its cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.intervals import Ints, Mask, Spans, cut, intersect, latest_open, subtract, union
from npu_advisor.base.terms import IDLE_OWNERS as OWNERS
from npu_advisor.graph.clock import device_late
from npu_advisor.graph.named import starting
from npu_advisor.graph.steps import idle_spans
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

ALLOC_CALLS = ("aclMallocMemInner", "aclrtMalloc", "aclrtFree", "cudaMalloc", "cudaFree")
COMPILE_CALLS = ("aclopCompileAndExecute", "opCompile")
SYNC_CALLS = (
    *("aclrtSynchronize", "StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "MemCopySync"),
    *("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"),
)
BLOCKING_COPY = "aclrtMemcpy"
# Where CANN calls were not recorded (Level0), the op that reads a device scalar stands for its sync.
SYNC_OPS = ("aten::_local_scalar_dense",)
DATA_OPS = ("enumerate(DataLoader)",)
# Launch to start on an idle device where the profile has no such case to measure.
DEFAULT_LATENCY_NS = 20_000
# A device that runs dry this soon after a sync returned ran dry because of it: the queue had been emptied.
REFILL_NS = 20_000


class _Causes(NamedTuple):
    """The host events that may own idle time: owner, span, and row in ``ops`` and ``apis``."""

    owner: Ints
    start: Ints
    end: Ints
    op: Ints
    api: Ints


class _Ends(NamedTuple):
    """Device tasks in start order: start, launch time (-1 unknown), row in ``dequeues`` and ``ops``."""

    start: Ints
    launch: Ints
    dequeue: Ints
    op: Ints


def idle(profile: Profile) -> Table:
    """The ``idle`` table of a linked profile, in time order."""
    steps = profile.table("steps")
    kernels, comms = profile.table("kernels"), profile.table("comms")
    compute = union(kernels["start_ns"], kernels["end_ns"])
    comm = union(comms["start_ns"], comms["end_ns"])
    causes, ends, copies = _causes(profile), _ends(kernels, comms), _copies(profile)
    # Pieces keep the times of the device, so what the host did is told in those.
    waits = causes.owner == OWNERS.index("sync")
    late = device_late(profile, causes.start[waits], causes.end[waits])
    causes = causes._replace(start=causes.start + late, end=causes.end + late)
    ends = ends._replace(launch=np.where(ends.launch >= 0, ends.launch + late, -1))
    windows = _windows(
        steps["start_ns"], np.maximum(steps["device_end_ns"], steps["start_ns"]), steps["device_start_ns"]
    )
    spans = cut(idle_spans(compute, comm, windows.spans), windows.spans.start)
    return _table(profile, list(_pieces(spans, windows, causes, ends, copies)))


class _Windows(NamedTuple):
    """Where idle time is looked for, in time order, not overlapping: for each its row in ``steps`` and the start of
    the first device task."""

    spans: Spans
    step: Ints
    first: Ints

    def at(self, start: Ints) -> Ints:
        """The window that each time lies in."""
        return np.searchsorted(self.spans.start, start, side="right") - 1


def _windows(start: Ints, end: Ints, first: Ints) -> _Windows:
    kept = np.flatnonzero((first >= 0) & (end > start))
    kept = kept[np.argsort(start[kept], kind="stable")]
    return _Windows(Spans(start[kept], end[kept]), kept, first[kept])


def _causes(profile: Profile) -> _Causes:
    apis, ops, gcs = profile.table("apis"), profile.table("ops"), profile.table("gcs")
    sources: list[tuple[str, Table, Ints, Ints]] = [("gc", gcs, np.arange(len(gcs)), np.full(len(gcs), -1))]
    for owner, names, exact in (
        ("alloc", ALLOC_CALLS, ""),
        ("compile", COMPILE_CALLS, ""),
        ("sync", SYNC_CALLS, BLOCKING_COPY),
    ):
        rows = np.flatnonzero(starting(apis, names, exact))
        sources.append((owner, apis, rows, apis["op"][rows]))
    if not len(apis):
        rows = np.flatnonzero(starting(ops, SYNC_OPS))
        sources.append(("sync", ops, rows, rows))
    rows = np.flatnonzero(starting(ops, DATA_OPS))
    sources.append(("data", ops, rows, rows))
    return _Causes(
        np.concatenate([np.full(len(rows), OWNERS.index(owner)) for owner, _, rows, _ in sources]),
        np.concatenate([table["start_ns"][rows] for _, table, rows, _ in sources]),
        np.concatenate([table["end_ns"][rows] for _, table, rows, _ in sources]),
        np.concatenate([op for _, _, _, op in sources]).astype(np.int64),
        np.concatenate([rows if table is apis else np.full(len(rows), -1) for _, table, rows, _ in sources]),
    )


def _ends(kernels: Table, comms: Table) -> _Ends:
    columns = [
        np.concatenate([table[name] for table in (kernels, comms)])
        for name in ("start_ns", "launch_ns", "dequeue", "op")
    ]
    order = np.argsort(columns[0], kind="stable")
    return _Ends(*(column[order] for column in columns))


def _copies(profile: Profile) -> Spans:
    tasks = profile.table("tasks")
    rows = np.flatnonzero(np.asarray(tasks["kind"] == "copy")) if len(tasks) else np.zeros(0, dtype=np.int64)
    return union(tasks["start_ns"][rows], tasks["end_ns"][rows])


class _Piece(NamedTuple):
    start: Ints
    end: Ints
    owner: Ints
    prepare: Ints
    dequeue: Ints
    api: Ints
    op: Ints
    step: Ints


def _pieces(idle_: Spans, windows: _Windows, causes: _Causes, ends: _Ends, copies: Spans) -> Iterator[_Piece]:
    """The idle spans, none of them in two steps, cut so that every piece has one owner."""
    # No idle span straddles the first device task, so each piece is wholly prepare or wholly free.
    ending = np.minimum(np.searchsorted(ends.start, idle_.end), max(len(ends.start) - 1, 0))
    launch = ends.launch[ending]
    late = launch + _latency(idle_, windows, ending, ends) >= idle_.start
    queued = (launch >= 0) & ~late
    left = Spans(idle_.start[~queued], idle_.end[~queued])
    for owner in range(OWNERS.index("dispatch")):
        rows = np.flatnonzero(causes.owner == owner)
        taken = cut(intersect(left, union(causes.start[rows], causes.end[rows])), windows.spans.start)
        if len(taken.start):
            left = cut(subtract(left, taken), windows.spans.start)
            cause = rows[latest_open(causes.start[rows], causes.end[rows], taken.start)]
            dequeue = np.full(len(cause), -1, dtype=np.int64)
            yield _piece(taken, owner, windows, (dequeue, causes.api[cause], causes.op[cause]))
    left = union(np.append(left.start, idle_.start[queued]), np.append(left.end, idle_.end[queued]))
    for copying, found in ((True, intersect(left, copies)), (False, subtract(left, copies))):
        spans = cut(found, windows.spans.start)
        whole = np.searchsorted(idle_.start, spans.start, side="right") - 1
        task = ending[whole] if len(whole) else whole
        owners = np.full(len(whole), OWNERS.index("other"))
        dequeue, op, api = ends.dequeue[task], ends.op[task], np.full(len(task), -1, dtype=np.int64)
        if not copying:
            waited = (launch[whole] >= 0) & late[whole]
            owners[waited] = OWNERS.index("dispatch")
            drained = _drained_by(idle_.start[whole], causes)
            refill = waited & (drained >= 0)
            owners[refill], dequeue[refill], op[refill] = OWNERS.index("sync"), -1, causes.op[drained[refill]]
            api[refill] = causes.api[drained[refill]]
        yield _piece(spans, owners, windows, (dequeue, api, op))


def _drained_by(at: Ints, causes: _Causes) -> Ints:
    """The sync that was open, or had just returned, when the device ran dry at each time; -1 none."""
    rows = np.flatnonzero(causes.owner == OWNERS.index("sync"))
    if not len(rows):
        return np.full(len(at), -1, dtype=np.int64)
    rows = rows[np.argsort(causes.start[rows], kind="stable")]
    latest = np.searchsorted(causes.start[rows], at, side="right") - 1
    found = rows[np.maximum(latest, 0)]
    return np.where((latest >= 0) & (causes.end[found] + REFILL_NS >= at), found, -1)


def _latency(idle_: Spans, windows: _Windows, ending: Ints, ends: _Ends) -> Ints:
    """Of each span, in ns, the usual time from launch to start on a device that is already idle.

    The median over such tasks of the span's step.
    """
    window = windows.at(idle_.start)
    if not len(ends.start):
        return np.full(len(window), DEFAULT_LATENCY_NS)
    waited = (ends.launch[ending] >= idle_.start) & (ends.launch[ending] >= 0)
    delay = (ends.start - ends.launch)[ending][waited]
    order = np.lexsort((delay, window[waited]))
    count = np.bincount(window[waited], minlength=len(windows.step))
    usual = np.full(len(windows.step), DEFAULT_LATENCY_NS)
    some = np.flatnonzero(count)
    at = (np.cumsum(count) - count)[some]
    low, high = (delay[order][at + (count[some] - more) // 2] for more in (1, 0))
    usual[some] = np.clip((low + high) // 2, 0, 50_000)
    return usual[window]


def _piece(spans: Spans, owner: Ints | int, windows: _Windows, keys: tuple[Ints, Ints, Ints]) -> _Piece:
    """``keys`` are rows in ``dequeues``, ``apis`` and ``ops``."""
    owners = np.broadcast_to(np.asarray(owner, dtype=np.int64), spans.start.shape)
    window = windows.at(spans.start)
    prepare = (spans.start < windows.first[window]).astype(np.int64)
    return _Piece(spans.start, spans.end, owners, prepare, *keys, windows.step[window])


# The calls that an ordering wait stands before, and the ops whose waits are for data.
REPLAY_CALLS = ("aclmdlRICaptureTaskUpdateBegin", "aclmdlRIExecute", "aclmdlExecute")
_DATA_SPACES = ("aten::", "npu::", "c10d::")


def _orders_replay(profile: Profile, api: Ints) -> Mask:
    """Which of these calls (rows of ``apis``, -1 none) only order a replay behind what came before.

    A replay must not overtake the update of its arguments, so such a wait is there on purpose.
    """
    apis, ops = profile.table("apis"), profile.table("ops")
    replays = np.append(starting(apis, REPLAY_CALLS), False)
    if not replays.any():
        return np.zeros(len(api), dtype=bool)
    order = np.lexsort((apis["start_ns"], apis["track"]))
    following = np.full(len(apis) + 1, -1, dtype=np.int64)
    same_thread = np.diff(apis["track"][order]) == 0
    following[order[:-1][same_thread]] = order[1:][same_thread]
    for_data = np.append(starting(ops, _DATA_SPACES), False)
    result: Mask = (api >= 0) & replays[following[api]] & ~for_data[np.append(apis["op"], -1)[api]]
    return result


def _table(profile: Profile, parts: list[_Piece]) -> Table:
    def column(name: str) -> Ints:
        found = [np.asarray(getattr(part, name), dtype=np.int64) for part in parts]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    start, end, op = column("start"), column("end"), column("op")
    order = np.argsort(start, kind="stable")
    columns: dict[str, Ints | Mask | Categorical] = {
        "start_ns": start[order],
        "dur_ns": (end - start)[order],
        "owner": Categorical(column("owner")[order], OWNERS),
        "part": Categorical(column("prepare")[order], ("free", "prepare")),
        "dequeue": column("dequeue")[order],
        "api": column("api")[order],
        "orders_replay": _orders_replay(profile, column("api"))[order],
        "op": op[order],
        "step": column("step")[order],
    }
    ops = profile.table("ops")
    for name in ("source", "source_how"):
        columns[name] = ops[name].with_codes(np.append(ops[name].codes, np.int8(-1))[op[order]])
    return Table.build("idle", columns, profile.rank)
