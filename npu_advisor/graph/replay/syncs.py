"""Host calls that wait for the device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.idle import BLOCKING_COPY, SYNC_CALLS, SYNC_OPS
from npu_advisor.graph.named import starting
from npu_advisor.graph.replay.stats import CLOCKS, US
from npu_advisor.graph.replay.tasks import Tasks
from npu_advisor.model.profile import Profile

# Without CANN calls, an op that is silent this long after its last launch and returns this soon after a device task
# ends has waited for it.
SILENT, RETURNS = 200 * US, 60 * US


class Syncs(NamedTuple):
    """Waits of host threads in order of thread and start: ``name`` groups calls of one kind, ``op`` is the innermost
    op around (-1 none). Times are ns since the epoch."""

    thread: Ints
    start: Ints
    end: Ints
    name: Ints
    op: Ints


def syncs_of(profile: Profile, tasks: Tasks, threads: Ints) -> Syncs:
    """The syncs of a profile: CANN calls, or the ops that stand for them where no calls were recorded.

    ``threads`` is the host track behind each track.
    """
    found = _calls(profile, threads) if len(profile.table("apis")) else _ops(profile, tasks)
    order = np.lexsort((-found.end, found.start, found.thread))
    found = Syncs(*(column[order] for column in found))
    # A call inside another (a runtime call below an acl call) is part of it.
    kept, reached, thread = [], 0, -1
    for row, (own, start, end) in enumerate(
        zip(found.thread.tolist(), found.start.tolist(), found.end.tolist(), strict=True)
    ):
        if own != thread or start >= reached:
            kept.append(row)
            thread, reached = own, end
    return Syncs(*(column[np.array(kept, dtype=np.int64)] for column in found))


def _calls(profile: Profile, threads: Ints) -> Syncs:
    apis = profile.table("apis")
    rows = np.flatnonzero(starting(apis, SYNC_CALLS, BLOCKING_COPY))
    # On the dequeue thread a wait is part of the entry.
    queue = np.unique(profile.table("dequeues")["track"])
    thread = threads[apis["track"][rows]]
    keep = ~np.isin(thread, queue) & np.isin(thread, np.unique(profile.table("ops")["track"]))
    rows, thread = rows[keep], thread[keep]
    return Syncs(
        thread,
        apis["start_ns"][rows],
        apis["end_ns"][rows],
        apis["name"].codes[rows].astype(np.int64),
        apis["op"][rows],
    )


def _ops(profile: Profile, tasks: Tasks) -> Syncs:
    """Ops that read a device scalar, and leaf ops that fall silent until a device task ends."""
    ops, enqueues = profile.table("ops"), profile.table("enqueues")
    start, end = ops["start_ns"].copy(), ops["end_ns"]
    pushed = enqueues["op"] >= 0
    np.maximum.at(start, enqueues["op"][pushed], enqueues["end_ns"][pushed])
    direct = (tasks.dequeue < 0) & (tasks.op >= 0) & (tasks.launch >= 0)
    np.maximum.at(start, tasks.op[direct], tasks.launch[direct])
    leaf = np.ones(len(ops), dtype=bool)
    leaf[ops["parent"][ops["parent"] >= 0]] = False
    launched = start > ops["start_ns"]
    # The device's clock may be ahead: then the task seems to end after the op that waited for it.
    ends = np.sort(tasks.end)
    near = np.searchsorted(ends, end + CLOCKS, side="right") > np.searchsorted(ends, end - RETURNS)
    waited = leaf & launched & (end - start > SILENT) & near
    waited[starting(ops, SYNC_OPS)] = True
    rows = np.flatnonzero(waited & (end > start))
    return Syncs(ops["track"][rows], start[rows], end[rows], ops["name"].codes[rows].astype(np.int64), rows)
