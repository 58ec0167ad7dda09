"""The optimizer that updates one parameter at a time becomes one that updates many with each kernel.

Three forms are told apart.  Flat tensors (``NpuFused...``) and ``foreach`` keep one op for each kind of op, which moves
as many bytes as before.  ``fused=True`` launches one kernel for each parameter, which reads every state once and writes
it once.  Flat and fused at once would be one such kernel in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.graph.replay.context import Context, Variants
from npu_advisor.graph.replay.edits import Edit, merge
from npu_advisor.graph.replay.index import Index
from npu_advisor.graph.replay.tasks import KERNEL

# Tensors beside parameter and gradient that each parameter has; two (as Adam) for those not named here.
_STATES = {"SGD": 1, "RMSprop": 1, "RMSpropTF": 1}
# Where shapes are unknown: one kernel for each operation of AdamW reads or writes a whole tensor this often.
_USUAL_PASSES = 15


class _Update(NamedTuple):
    """The units below an optimizer step that launch kernels, in time order; these; each kernel's unit (position)."""

    row: int
    units: Ints
    tasks: Ints
    owner: Ints


def fuse(at: Context, rows: Ints, *, per_parameter: bool = False) -> Variants:
    """The update below each row in its fused form. Low: one op for each kind of op, with the kernels' full time; high:
    one op that reads and writes every tensor once."""
    low, expected, high = [], [], []
    for update in _updates(at, rows):
        work, once = _work(at, update.tasks), _once(at, update)
        names = at.ops["name"].codes[update.units]
        kept = np.sort(np.unique(names, return_index=True)[1])
        full = float(at.edit.transit(update.tasks).sum())
        low.append((update, kept, full / len(kept)))
        if per_parameter:
            each = _parameters(names)
            expected.append((update, each, work * once / len(each) + at.floor))
        else:
            expected.append((update, kept, work / len(kept) + at.floor))
        high.append((update, kept[:1], work * once + at.floor))
    return Variants(*(_carried(at, carried) for carried in (low, expected, high)))


def _updates(at: Context, rows: Ints) -> Iterator[_Update]:
    """The update below each of ``rows`` that has one."""
    tasks, pre, last, start = at.tasks, at.ops["pre"], at.ops["last"], at.ops["start_ns"]
    kernels = np.flatnonzero((tasks.kind == KERNEL) & (tasks.op >= 0))
    below, units = Index(pre[tasks.op[kernels]]), at.units(tasks.op[kernels])
    for row in rows.tolist():
        own = below.between(pre[[row]] + 1, last[[row]] + 1)
        unit, owner = np.unique(units[own], return_inverse=True)
        order = np.argsort(start[unit], kind="stable")
        place = np.empty(len(unit), dtype=np.int64)
        place[order] = np.arange(len(unit))
        if len(unit):
            yield _Update(row, unit[order], kernels[own], place[owner.ravel()])


def _work(at: Context, tasks: Ints) -> float:
    """The ns of kernels without what each costs by itself: no less than their bytes take at the best rate seen."""
    took = at.edit.transit(tasks).astype(np.float64)
    moved = at.traffic.moved[at.tasks.row[tasks]]
    rate = at.traffic.rate
    least: Floats = np.nan_to_num(moved / rate) if rate else np.zeros(len(took))
    return float(np.minimum(np.maximum(took - at.floor, least), took).sum())


def _once(at: Context, update: _Update) -> float:
    """Which part of the traffic is left when every tensor of a parameter is read once and written once.

    Parameter and gradient are read, the parameter is written, and each state is both.
    """
    optimizer = str(at.ops["name"].categories[at.ops["name"].codes[update.row]]).partition("#")[2].partition(".")[0]
    passes = 3 + 2 * _STATES.get(optimizer, 2)
    names = at.ops["name"].codes[update.units]
    rows = at.tasks.row[update.tasks]
    moved, written = at.traffic.moved[rows], at.traffic.written[rows]
    known = np.isfinite(moved) & (moved > 0)
    if not known.any():
        return passes / max(_USUAL_PASSES, passes)
    parameters = float(written[known].sum()) * len(_parameters(names)) / len(names)
    return min(passes * parameters / float(moved[known].sum()), 1.0)


def _parameters(names: Ints) -> Ints:
    """Positions of one unit for each parameter: those of an op that runs as often as most kinds of op do."""
    kinds, which, counts = np.unique(names, return_inverse=True, return_counts=True)
    usual = int(np.median(counts))
    chosen = int(np.argmin(np.abs(counts - usual)))
    return np.flatnonzero(which.ravel() == chosen) if len(kinds) else np.zeros(0, dtype=np.int64)


def _carried(at: Context, updates: list[tuple[_Update, Ints, float]]) -> Edit:
    """Of each update only some units (positions) stay, with one kernel of so many ns each."""
    lead, ns, others, gone = ([np.zeros(0, dtype=np.int64)] for _ in range(4))
    for update, kept, each in updates:
        stays = np.zeros(len(update.units), dtype=bool)
        stays[kept] = True
        first = np.empty(len(update.units), dtype=np.int64)
        first[update.owner[::-1]] = np.arange(len(update.owner))[::-1]
        lead.append(update.tasks[first[kept]])
        ns.append(np.full(len(kept), int(each), dtype=np.int64))
        follow = stays[update.owner]
        follow[first[kept]] = False
        others.append(update.tasks[follow])
        gone.append(update.units[~stays])
    return merge(
        [
            at.edit.replace(np.concatenate(lead), np.concatenate(ns)),
            at.edit.remove_tasks(np.concatenate(others)),
            at.edit.remove_ops(np.concatenate(gone)),
        ]
    )
