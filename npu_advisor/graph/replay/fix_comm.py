"""Fixes of communication: collectives that need not run, run behind the backward pass, or wait less."""

from __future__ import annotations

import math

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.replay.context import Context, Variants, same
from npu_advisor.graph.replay.edits import Edit, merge
from npu_advisor.graph.replay.host import main_thread
from npu_advisor.graph.replay.tasks import KERNEL

# What DistributedDataParallel merges gradients into.
BUCKET = 25 * 2**20


def remove(at: Context, rows: Ints) -> Variants:
    """Collectives that need not run, with the ops that asked for them."""
    tasks = at.tasks.of("comms", rows)
    ops = at.units_of(at.tasks.op[tasks])
    return same(merge([at.edit.remove_tasks(tasks, moved=True), at.edit.remove_ops(ops, moved=True)]))


def hide(at: Context, rows: Ints) -> Variants | None:
    """Exposed communication. Where this rank waits for a late one, the wait goes; the rest moves behind backward."""
    exposed = at.profile.table("exposed")
    late, comm = exposed["late"][rows], exposed["comm"][rows]
    found = []
    if late.any():
        waits = rows[late]
        tasks = at.tasks.of("comms", np.unique(comm[late]))
        lost = np.bincount(exposed["comm"][waits], weights=exposed["dur_ns"][waits], minlength=int(comm.max()) + 1)
        full = at.tasks.end[tasks] - at.tasks.start[tasks]
        left = np.maximum(full - lost[at.tasks.row[tasks]], 0).astype(np.int64)
        found.append(same(at.edit.run(tasks, left)))
    if (~late).any():
        found.append(overlap(at, np.unique(comm[~late])))
    return Variants(*(merge(edits) for edits in zip(*found, strict=True))) if found else None


def overlap(at: Context, rows: Ints) -> Variants:
    """Collectives run behind the backward pass, merged into buckets. Low: none is merged; high: they cost nothing."""
    tasks = at.tasks.of("comms", rows)
    step = at.profile.table("comms")["step"][at.tasks.row[tasks]]
    low, expected, high = [], [], []
    for number in np.unique(step).tolist():
        mine = tasks[step == number]
        mine = mine[np.argsort(at.tasks.issue[mine], kind="stable")]
        low.append(_moved(at, mine, len(mine), 1.0))
        expected.append(_moved(at, mine, _buckets(at, mine), 1.0))
        high.append(_moved(at, mine, _buckets(at, mine), 0.0))
    return Variants(merge(low), merge(expected), merge(high))


def _buckets(at: Context, tasks: Ints) -> int:
    size = at.profile.table("comms")["bytes"][at.tasks.row[tasks]]
    if not np.isfinite(size).all():
        return len(tasks)
    return min(len(tasks), max(1, math.ceil(float(size.sum()) / BUCKET)))


def _moved(at: Context, tasks: Ints, kept: int, share: float) -> Edit:
    """Keep the last ``kept`` collectives with the time of all, each released by its share of the backward."""
    device = at.rank.device
    last, gone = tasks[len(tasks) - kept :], tasks[: len(tasks) - kept]
    each = np.full(kept, int(_moving(at, tasks).sum() * share / kept), dtype=np.int64)
    parts = [at.edit.replace(last, each), at.edit.free_start(last)]
    behind = _backward(at, tasks)
    if len(behind):
        release = behind[(np.arange(1, kept + 1) * len(behind) + kept - 1) // kept - 1]
        parts.append(Edit(add=(device.task_end[release], device.task_start[last], np.zeros(kept, dtype=np.int64))))
    if len(gone):
        ops = np.setdiff1d(at.units_of(at.tasks.op[gone]), at.units_of(at.tasks.op[last]))
        parts += [at.edit.remove_tasks(gone, moved=True), at.edit.remove_ops(ops, moved=True)]
    return merge(parts)


def _moving(at: Context, tasks: Ints) -> Ints:
    """Data movement without waiting, where the profile says so."""
    known = at.profile.table("comms")["transit_us"][at.tasks.row[tasks]]
    full = at.edit.transit(tasks)
    moving = np.where(np.isfinite(known) & (known > 0), np.nan_to_num(known) * 1000.0, full)
    found: Ints = np.minimum(moving, full).astype(np.int64)
    return found


def _backward(at: Context, tasks: Ints) -> Ints:
    """Kernels of the backward pass before these collectives, in issue order; else all kernels of their step."""
    own, kernels = at.tasks, at.profile.table("kernels")
    step = at.profile.table("comms")["step"][own.row[tasks[0]]]
    mine = np.flatnonzero((own.kind == KERNEL) & (own.issue < own.issue[tasks[-1]]))
    mine = mine[kernels["step"][own.row[mine]] == step]
    mine = mine[np.argsort(own.issue[mine], kind="stable")]
    thread = np.where(own.op[mine] >= 0, at.ops["track"][np.maximum(own.op[mine], 0)], -1)
    other = mine[(thread >= 0) & (thread != main_thread(at.profile))]
    found: Ints = other if len(other) else mine
    return found
