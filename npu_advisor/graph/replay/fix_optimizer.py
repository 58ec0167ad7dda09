"""The optimizer that updates one parameter at a time becomes one op per kind of op."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.replay.context import Context, Variants
from npu_advisor.graph.replay.edits import Edit, merge
from npu_advisor.graph.replay.tasks import KERNEL

# One pass over all parameters reads p, g, m, v and writes p, m, v; a kernel per operation makes about 15 passes.
FUSED_PASSES = 7 / 15


def fuse(at: Context, rows: Ints) -> Variants:
    """One op per kind of op below each row carries the work of all, without what each kernel costs by itself.

    Low: the kernels' full time stays; high: one op that makes a single pass.
    """
    low, expected, high = [], [], []
    for row in rows.tolist():
        units, tasks, owner = _parts(at, row)
        if not len(units):
            continue
        _, first = np.unique(at.ops["name"].codes[units], return_index=True)
        kept = np.sort(first)
        low.append(_carried(at, units, tasks, owner, kept, 1.0, 0))
        expected.append(_carried(at, units, tasks, owner, kept, 1.0, at.floor))
        high.append(_carried(at, units, tasks, owner, kept[:1], FUSED_PASSES, at.floor))
    return Variants(merge(low), merge(expected), merge(high))


def _parts(at: Context, row: int) -> tuple[Ints, Ints, Ints]:
    """The units below an op that launch kernels, in time order; the kernels; each kernel's unit (position)."""
    tasks, pre = at.tasks, at.ops["pre"]
    mine = np.flatnonzero((tasks.kind == KERNEL) & (tasks.op >= 0))
    number = pre[tasks.op[mine]]
    mine = mine[(number > pre[row]) & (number <= at.ops["last"][row])]
    unit, owner = np.unique(at.units(tasks.op[mine]), return_inverse=True)
    order = np.argsort(at.ops["start_ns"][unit], kind="stable")
    place = np.empty(len(unit), dtype=np.int64)
    place[order] = np.arange(len(unit))
    return unit[order], mine, place[owner.ravel()]


def _carried(at: Context, units: Ints, tasks: Ints, owner: Ints, kept: Ints, passes: float, floor: int) -> Edit:
    """Only the ``kept`` units stay, with one kernel each; together they do ``passes`` of the work."""
    total = float(np.maximum(at.edit.transit(tasks) - floor, 0).sum()) * passes
    each = int(total / len(kept)) + floor
    lead = np.array([tasks[np.argmax(owner == unit)] for unit in kept.tolist()], dtype=np.int64)
    others = np.setdiff1d(tasks[np.isin(owner, kept)], lead)
    gone = np.delete(units, kept)
    return merge(
        [
            at.edit.replace(lead, np.full(len(lead), each, dtype=np.int64)),
            at.edit.remove_tasks(others),
            at.edit.remove_ops(gone) if len(gone) else Edit(),
        ]
    )
