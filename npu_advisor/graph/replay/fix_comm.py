"""Fixes of communication: collectives that need not run, run behind the backward pass, or wait less.

How long merged collectives take: a latency each and their bytes over the bandwidth.  Where collectives of one kind come
in different sizes the two are fitted; where they do not, the latency is what makes a collective of HALF bytes run at
half the bandwidth.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Floats, Ints, Mask
from npu_advisor.graph.replay.context import Context, Variants, same
from npu_advisor.graph.replay.edits import Edit, merge
from npu_advisor.graph.replay.host import main_thread
from npu_advisor.graph.replay.tasks import EVENT_WAIT, RECORD, SOURCES

# What DistributedDataParallel merges gradients into.
BUCKET = 25 * 2**20
# Size at which a ring of eight cards reaches about half its bandwidth, by published tables of NCCL and HCCL tests.
HALF = 8 * 2**20
# Sizes that differ less than this say nothing about latency.
SPREAD = 2.0
# Messages between the stages of a pipeline, and tokens on their way to experts and back.
HANDED_OVER = re.compile(r"send|recv|receive|all_?to_?all", re.IGNORECASE)


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
    movable = np.unique(comm[~late])
    movable = movable[~_between_ranks(at, movable)]
    if len(movable):
        found.append(overlap(at, movable))
    return Variants(*(merge(edits) for edits in zip(*found, strict=True))) if found else None


def _between_ranks(at: Context, rows: Ints) -> Mask:
    """Which collectives hand over what other ranks compute with next: no bucket behind the backward can hold them."""
    types = at.profile.table("comms")["type"]
    handing = [bool(HANDED_OVER.search(str(name))) for name in types.categories]
    found: Mask = np.array([*handing, False], dtype=bool)[types.codes[rows]]
    return found


class _Bundle(NamedTuple):
    """Collectives of one step (in issue order), the kernels of the backward pass before them, and how many buckets they
    merge into, which take ``merged`` ns of the ``moving`` ns that all of them move data."""

    tasks: Ints
    before: Ints
    kept: int
    merged: int
    moving: int


def overlap(at: Context, rows: Ints) -> Variants:
    """Collectives run behind the backward pass, merged into buckets. Low: merging saves none of their time; high: one
    bucket is enough and costs nothing."""
    tasks = at.tasks.of("comms", rows)
    tasks = tasks[np.argsort(at.tasks.issue[tasks], kind="stable")]
    step = at.profile.table("comms")["step"][at.tasks.row[tasks]]
    costs, op = _Costs(at), at.tasks.op
    backward = (op >= 0) & (at.ops["track"][np.maximum(op, 0)] != main_thread(at.profile))
    bundles = [_bundle(at, tasks[step == number], costs, backward) for number in np.unique(step).tolist()]
    low = [one._replace(merged=one.moving) for one in bundles]
    high = [one._replace(kept=1, merged=0) for one in bundles]
    return Variants(*(_moved(at, some) for some in (low, bundles, high)))


def _bundle(at: Context, tasks: Ints, costs: _Costs, backward: Mask) -> _Bundle:
    """The bundle of these collectives; ``backward`` tells which tasks another thread than the main one asked for."""
    moving, size = _moving(at, tasks), _payload(at, tasks)
    total, before = int(moving.sum()), _before(at, tasks, backward)
    if not np.isfinite(size).all() or not size.sum():
        return _Bundle(tasks, before, len(tasks), total, total)
    kept = min(len(tasks), max(1, math.ceil(float(size.sum()) / BUCKET)))
    merged = max(total - (len(tasks) - kept) * costs.latency(tasks, moving, size), 0)
    return _Bundle(tasks, before, kept, int(merged), total)


def _payload(at: Context, tasks: Ints) -> Floats:
    """Tensor sizes in bytes; where they are not recorded, the data moved stands in."""
    comms, row = at.profile.table("comms"), at.tasks.row[tasks]
    told = comms["payload_bytes"][row]
    found: Floats = np.where(np.isfinite(told), told, comms["bytes"][row])
    return found


class _Costs:
    """What collectives cost whatever their size."""

    def __init__(self, at: Context) -> None:
        self._at = at
        self._all = np.flatnonzero(at.tasks.table == SOURCES.index("comms"))
        self._fits: dict[tuple[int, ...], float | None] = {}

    def latency(self, tasks: Ints, moving: Ints, size: Floats) -> float:
        """The latency of these collectives in ns, by the sizes of all of their kind, else by their own."""
        kinds = tuple(np.unique(self._kind(tasks)).tolist())
        if kinds not in self._fits:
            self._fits[kinds] = self._fit(kinds)
        fitted = self._fits[kinds]
        return float(np.median(moving * HALF / (HALF + size))) if fitted is None else fitted

    def _kind(self, tasks: Ints) -> Ints:
        found: Ints = self._at.profile.table("comms")["type"].codes[self._at.tasks.row[tasks]]
        return found

    def _fit(self, kinds: tuple[int, ...]) -> float | None:
        """The latency of collectives of some kinds in ns, None where their sizes do not tell."""
        alike = self._all[np.isin(self._kind(self._all), kinds)]
        sizes, times = _payload(self._at, alike), _moving(self._at, alike)
        known = np.isfinite(sizes) & (sizes > 0)
        sizes, times = sizes[known], times[known]
        if not len(sizes) or sizes.max() < SPREAD * sizes.min():
            return None
        each, which = np.unique(sizes, return_inverse=True)
        usual = np.array([np.median(times[which.ravel() == number]) for number in range(len(each))])
        slope, latency = np.polyfit(each, usual, 1)
        return float(np.clip(latency, 0.0, usual.min())) if slope >= 0 else None


def _moved(at: Context, bundles: list[_Bundle]) -> Edit:
    """Of each bundle the last ``kept`` collectives stay with ``merged`` ns between them, each released by its share of
    the backward.

    What orders their stream against the compute stream moves with them: they wait for their share of the backward
    instead, and only what waits for those that are kept still waits.
    """
    device = at.rank.device
    last = _joined([one.tasks[len(one.tasks) - one.kept :] for one in bundles])
    gone = _joined([one.tasks[: len(one.tasks) - one.kept] for one in bundles])
    each = _joined([np.full(one.kept, one.merged // one.kept, dtype=np.int64) for one in bundles])
    ahead, behind = _events(at, last)
    parts = [at.edit.replace(last, each), at.edit.free_start(last), at.edit.release(np.concatenate((ahead, behind)))]
    for one in bundles:
        if len(one.before):
            share = (np.arange(1, one.kept + 1) * len(one.before) + one.kept - 1) // one.kept - 1
            held = device.task_start[one.tasks[len(one.tasks) - one.kept :]]
            parts.append(Edit(add=(device.task_end[one.before[share]], held, np.zeros(one.kept, dtype=np.int64))))
    if len(gone):
        ops = np.setdiff1d(at.units_of(at.tasks.op[gone]), at.units_of(at.tasks.op[last]))
        ahead, behind = (np.setdiff1d(own, np.concatenate((ahead, behind))) for own in _events(at, gone))
        own = np.concatenate((gone, ahead, behind))
        parts += [at.edit.release(ahead), at.edit.unheard(behind)]
        parts += [at.edit.remove_tasks(own, moved=True), at.edit.remove_ops(ops, moved=True)]
    return merge(parts)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _events(at: Context, tasks: Ints) -> tuple[Ints, Ints]:
    """The event waits before and the records behind each of these collectives on their stream."""
    kind, lane = at.tasks.kind, at.tasks.lane
    ahead: list[int] = []
    behind: list[int] = []
    for task in tasks.tolist():
        for found, wanted, step in ((ahead, EVENT_WAIT, -1), (behind, RECORD, 1)):
            place = task + step
            while 0 <= place < len(kind) and lane[place] == lane[task] and kind[place] in (EVENT_WAIT, RECORD):
                if kind[place] == wanted:
                    found.append(place)
                place += step
    return np.unique(np.array(ahead, dtype=np.int64)), np.unique(np.array(behind, dtype=np.int64))


def _moving(at: Context, tasks: Ints) -> Ints:
    """Data movement without waiting, where the profile says so."""
    known = at.profile.table("comms")["transit_us"][at.tasks.row[tasks]]
    full = at.edit.transit(tasks)
    moving = np.where(np.isfinite(known) & (known > 0), np.nan_to_num(known) * 1000.0, full)
    found: Ints = np.minimum(moving, full).astype(np.int64)
    return found


def _before(at: Context, tasks: Ints, backward: Mask) -> Ints:
    """Kernels of the backward pass before these collectives, in issue order; else all kernels of their step."""
    own = at.tasks
    mine = at.kernels_of(int(at.profile.table("comms")["step"][own.row[tasks[0]]]))
    mine = mine[own.issue[mine] < own.issue[tasks[-1]]]
    mine = mine[np.argsort(own.issue[mine], kind="stable")]
    other = mine[backward[mine]]
    found: Ints = other if len(other) else mine
    return found
