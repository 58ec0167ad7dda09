"""Fill the key columns: op tree, task queue, device task -> launch -> Dequeue -> op, allocation -> op.

A device task is linked to its op by the first of these that works (FORMATS of the trace, all measured to agree):

1. its ``HostToDevice`` arrow starts inside a Dequeue, whose Enqueue lies inside the op (with no task queue: the arrow
   starts inside the op itself),
2. its ``connection`` id names the launching CANN call, from which the same path leads on,
3. its ``async_npu`` arrow starts at the op. Last, because the writer nests the ops of all threads by time and so
   credits a wrong op, or none, where threads overlap.

Columns that a reader already filled are kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.base.messages import say
from npu_advisor.base.whole import few
from npu_advisor.graph.flows import Flows, pair
from npu_advisor.graph.nesting import Nesting, nesting_of
from npu_advisor.graph.source import attribute
from npu_advisor.graph.steps import DEVICE_TABLES, assign_steps, close_steps
from npu_advisor.model.profile import Diagnostic, Profile
from npu_advisor.model.table import Table


def link(profile: Profile) -> Profile:
    """Fill every key, ``step`` and ``source`` column of ``profile`` in place, and close the steps' ledger."""
    host = _host(profile)
    _link_queue(profile, host)
    _link_apis(profile, host)
    flows = {name: pair(profile.table("flow_points"), name) for name in ("async_npu", "HostToDevice", "fwdbwd")}
    _link_forward(profile, host, flows["fwdbwd"])
    for name in DEVICE_TABLES:
        _link_device(profile, name, host, flows)
    _link_allocs(profile, host)
    _link_comm_tasks(profile)
    assign_steps(profile)
    attribute(profile, host.ops)
    close_steps(profile)
    _doubt(profile)
    _remark(profile, flows)
    return profile


class _Host(NamedTuple):
    """The nested host events, and which host track stands behind each track of the trace."""

    ops: Nesting
    dequeues: Nesting
    thread: Ints

    def track(self, tracks: Ints) -> Ints:
        return np.where(tracks >= 0, self.thread[tracks], -1) if len(self.thread) else tracks


def fill(profile: Profile, name: str, **columns: Any) -> Table:
    """Add ``columns`` to a recorded table, except those it already has."""
    table = profile.table(name)
    if profile.has(name):
        table = table.with_columns(**{key: value for key, value in columns.items() if key not in table.present})
        profile.put(table)
    return table


def take(values: Ints, keys: Ints) -> Ints:
    """``values[keys]``, -1 where the key is missing."""
    if not len(values):
        return np.full(len(keys), -1, dtype=np.int64)
    return np.where(keys >= 0, values[np.maximum(keys, 0)], -1)


def first_known(*candidates: Ints) -> Ints:
    """Element by element the first candidate that is not -1."""
    out = candidates[0].copy()
    for other in candidates[1:]:
        out = np.where(out < 0, other, out)
    return out


def _host(profile: Profile) -> _Host:
    ops = profile.table("ops")
    tree = nesting_of(profile, "ops")
    children = np.bincount(tree.parent[tree.parent >= 0], weights=_inside_parent(ops, tree), minlength=len(ops))
    fill(
        profile,
        "ops",
        parent=tree.parent,
        depth=tree.depth,
        pre=tree.pre,
        last=tree.last,
        self_us=(ops["dur_ns"] - children) / 1000.0,
    )
    return _Host(tree, nesting_of(profile, "dequeues"), host_threads(profile))


def _inside_parent(ops: Table, tree: Nesting) -> Ints:
    """Time of each child that lies inside its parent (children may end later)."""
    rows = np.flatnonzero(tree.parent >= 0)
    end = np.minimum(ops["end_ns"][rows], ops["end_ns"][tree.parent[rows]])
    inside: Ints = np.maximum(end - ops["start_ns"][rows], 0)
    return inside


def host_threads(profile: Profile) -> Ints:
    """For every track the track of torch events of the same OS thread; itself where there is none.

    CANN calls are written under a process id of their own but keep the thread id.
    """
    tracks = profile.table("tracks")
    here = np.arange(len(tracks), dtype=np.int64)
    torch = few(
        np.concatenate([few(profile.table(name)["track"]) for name in ("ops", "enqueues", "dequeues", "frames")])
    )
    torch = torch[torch >= 0]
    thread_of = {int(tracks["tid"][row]): int(row) for row in torch if tracks["tid"][row] >= 0}
    host = set(torch.tolist())
    for row in here:
        if int(row) not in host and (tracks.text("process", int(row)) or "") not in DEVICE_PROCESSES:
            here[row] = thread_of.get(int(tracks["tid"][row]), int(row))
    return here


# Their thread ids are streams and planes, which may equal a thread's number.
DEVICE_PROCESSES = frozenset({"Ascend Hardware", "HCCL", "Communication", "Overlap Analysis"})


def _link_queue(profile: Profile, host: _Host) -> None:
    enqueues = profile.table("enqueues")
    op = host.ops.innermost(enqueues["track"], enqueues["start_ns"])
    enqueues = fill(profile, "enqueues", op=op)
    dequeues = fill(profile, "dequeues", enqueue=_pair_in_time(enqueues, profile.table("dequeues")))
    fill(profile, "dequeues", op=take(enqueues["op"], dequeues["enqueue"]))


def _pair_in_time(left: Table, right: Table) -> Ints:
    """For each row of ``right`` the row of ``left`` with its correlation; ids used again pair in time order."""
    found = np.full(len(right), -1, dtype=np.int64)
    if not len(left) or not len(right):
        return found
    a = np.lexsort((left["start_ns"], left["correlation"]))
    b = np.lexsort((right["start_ns"], right["correlation"]))
    key_a, key_b = left["correlation"][a], right["correlation"][b]
    index = np.searchsorted(key_a, key_b) + np.arange(len(b)) - np.searchsorted(key_b, key_b)
    index = np.minimum(index, len(a) - 1)
    known = (key_a[index] == key_b) & (key_b >= 0)
    found[b[known]] = a[index[known]]
    return found


def _link_apis(profile: Profile, host: _Host) -> None:
    apis = profile.table("apis")
    thread = host.track(apis["track"])
    dequeue = host.dequeues.innermost(thread, apis["start_ns"])
    by_queue = take(profile.table("dequeues")["op"], dequeue)
    fill(profile, "apis", dequeue=dequeue, op=first_known(by_queue, host.ops.innermost(thread, apis["start_ns"])))


def _link_forward(profile: Profile, host: _Host, flows: Flows) -> None:
    """The forward op of each backward op: by the fwdbwd arrow, else by its sequence number."""
    ops = profile.table("ops")
    arrow = flows.into(ops["track"], ops["start_ns"])
    start = take(flows.from_ns, arrow)
    forward = np.where(arrow >= 0, host.ops.innermost(take(flows.from_track, arrow), start), -1)
    fill(profile, "ops", forward=first_known(forward, _by_sequence(ops)))


def _by_sequence(ops: Table) -> Ints:
    """The latest earlier op with fwd_thread 0 and the same sequence number, for ops with fwd_thread above 0."""
    found = np.full(len(ops), -1, dtype=np.int64)
    sequence, thread = ops["sequence"], ops["fwd_thread"]
    forward = np.flatnonzero((sequence >= 0) & (thread == 0))
    backward = np.flatnonzero((sequence >= 0) & (thread > 0))
    if not len(forward) or not len(backward):
        return found
    forward = forward[np.lexsort((ops["start_ns"][forward], sequence[forward]))]
    low = np.searchsorted(sequence[forward], sequence[backward], side="left")
    high = np.searchsorted(sequence[forward], sequence[backward], side="right")
    last = forward[np.maximum(high - 1, 0)]
    known = (high > low) & (ops["start_ns"][last] <= ops["start_ns"][backward])
    found[backward[known]] = last[known]
    return found


def _link_device(profile: Profile, name: str, host: _Host, flows: dict[str, Flows]) -> None:
    table, apis, dequeues = profile.table(name), profile.table("apis"), profile.table("dequeues")
    launch = flows["HostToDevice"]
    arrow = launch.into(table["track"], table["start_ns"])
    at = take(launch.from_ns, arrow)
    thread = host.track(take(launch.from_track, arrow))
    api = _launching_call(apis, table["connection"])
    dequeue = np.where(arrow >= 0, host.dequeues.innermost(thread, at), -1)
    dequeue = first_known(dequeue, take(apis["dequeue"], api))
    direct = np.where((arrow >= 0) & (dequeue < 0), host.ops.innermost(thread, at), -1)
    torch = flows["async_npu"]
    to_op = torch.into(table["track"], table["start_ns"])
    by_torch = np.where(to_op >= 0, host.ops.innermost(take(torch.from_track, to_op), take(torch.from_ns, to_op)), -1)
    op = first_known(take(dequeues["op"], dequeue), direct, take(apis["op"], api), by_torch)
    launch_ns = first_known(at, take(apis["start_ns"], api), take(dequeues["start_ns"], dequeue))
    fill(profile, name, api=api, dequeue=dequeue, op=op, launch_ns=launch_ns)
    if name == "kernels":
        delay = np.where(launch_ns >= 0, np.maximum(table["start_ns"] - launch_ns, 0) / 1000.0, np.nan)
        fill(profile, name, launch_delay_us=delay)


def _launching_call(apis: Table, connection: Ints) -> Ints:
    """The CANN call with each connection id, the node level first; -1 for none. Ids 0 and below mean none."""
    if not len(apis):
        return np.full(len(connection), -1, dtype=np.int64)
    node = np.asarray(apis["level"] == "node")
    order = np.lexsort((apis["start_ns"], ~node, apis["connection"]))
    ids = apis["connection"][order]
    index = np.minimum(np.searchsorted(ids, connection), len(ids) - 1)
    return np.where((connection > 0) & (ids[index] == connection), order[index], -1)


def _link_allocs(profile: Profile, host: _Host) -> None:
    """The op behind each allocation: the innermost of its name around it, on any thread or behind the Dequeue."""
    allocs, ops = profile.table("allocs"), profile.table("ops")
    if not len(allocs):
        return
    at, wanted = allocs["start_ns"], allocs.strings("name")
    names = ops.strings("name")
    found = np.full(len(allocs), -1, dtype=np.int64)
    behind = np.full(len(allocs), -1, dtype=np.int64)
    dequeues = profile.table("dequeues")
    for track in few(dequeues["track"]):
        inside = host.dequeues.innermost(np.full(len(at), track), at)
        behind = first_known(behind, take(dequeues["op"], inside))
    for track in few(ops["track"]):
        found = first_known(
            found, _named_ancestor(host.ops, names, host.ops.innermost(np.full(len(at), track), at), wanted)
        )
    queued = _named_ancestor(host.ops, names, behind, wanted)
    workspace = np.asarray(allocs["component"] == "GE")
    fill(profile, "allocs", op=first_known(found, queued, np.where(workspace, behind, -1)))


def _named_ancestor(tree: Nesting, names: Any, rows: Ints, wanted: Any) -> Ints:
    """The nearest of each row and its ancestors that is called as wanted, -1 for none."""
    rows = rows.copy()
    while True:
        other = np.flatnonzero(rows >= 0)
        other = other[names[rows[other]] != wanted[other]]
        if not len(other):
            return rows
        rows[other] = tree.parent[rows[other]]


def _link_comm_tasks(profile: Profile) -> None:
    """The collective that runs while a sub-task starts (same device process)."""
    tasks, comms = profile.table("comm_tasks"), profile.table("comms")
    if not len(tasks) or not len(comms):
        return
    order = np.argsort(comms["start_ns"], kind="stable")
    index = np.searchsorted(comms["start_ns"][order], tasks["start_ns"], side="right") - 1
    row = order[np.maximum(index, 0)]
    inside = (index >= 0) & (tasks["start_ns"] < comms["end_ns"][row])
    fill(profile, "comm_tasks", comm=np.where(inside, row, -1))


# With fewer kernels linked than this share, "no launch found" says more about the recording than about the job.
MIN_LINKED = 0.5


def _doubt(profile: Profile) -> None:
    """Where most kernels lack their launch (a cut trace), what rests on it is absent, not empty."""
    kernels = profile.table("kernels")
    # A replayed kernel has no op of its own: the launch of its graph is all there is.
    linked = (kernels["op"] >= 0) | ((kernels["model"] >= 0) & (kernels["api"] >= 0))
    if not profile.has("ops") or not len(kernels) or linked.mean() >= MIN_LINKED:
        return
    reason = say("absent.links", linked=int((kernels["op"] >= 0).sum()), kernels=len(kernels))
    profile.absent.update({"idle": reason, **{f"{name}.op": reason for name in DEVICE_TABLES}})


def _remark(profile: Profile, flows: dict[str, Flows]) -> None:
    """Say what did not fit: arrows without a partner, and device clocks that run ahead of the host's."""
    file = "" if profile.info.form == "db" else "trace_view.json"
    half = sum(flow.unmatched for flow in flows.values())
    kernels, apis = profile.table("kernels"), profile.table("apis")
    unlinked = int((kernels["op"] < 0).sum()) if profile.has("ops") else 0
    if half and profile.has("ops"):
        message = say("diag.flow_unmatched", ends=half, kernels=unlinked)
        profile.diagnostics.append(Diagnostic("flow_unmatched", "info", file, message))
    linked = np.flatnonzero(kernels["api"] >= 0)
    early = apis["start_ns"][kernels["api"][linked]] - kernels["start_ns"][linked]
    if len(early) and early.max() > 0:
        message = say("diag.clock_skew", kernels=int((early > 0).sum()), skew_us=float(early.max()) / 1000.0)
        profile.diagnostics.append(Diagnostic("clock_skew", "info", file, message))
