"""The optimizer that updates one parameter at a time becomes one that updates many with each kernel.

Three forms are told apart.  Flat tensors (``NpuFused...``) and ``foreach`` keep one op for each kind of op, which moves
as many bytes as before.  ``fused=True`` launches one kernel for each parameter, which reads every state once and writes
it once.  Flat and fused at once would be one such kernel in all.
"""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.graph.replay.context import Context, Variants
from npu_advisor.graph.replay.edits import Edit, merge
from npu_advisor.graph.replay.tasks import KERNEL

# Tensors beside parameter and gradient that each parameter has; two (as Adam) for those not named here.
_STATES = {"SGD": 1, "RMSprop": 1, "RMSpropTF": 1}
# Where shapes are unknown: one kernel for each operation of AdamW reads or writes a whole tensor this often.
_USUAL_PASSES = 15


def fuse(at: Context, rows: Ints, *, per_parameter: bool = False) -> Variants:
    """The update below each row in its fused form. Low: one op for each kind of op, with the kernels' full time; high:
    one op that reads and writes every tensor once."""
    low, expected, high = [], [], []
    for row in rows.tolist():
        units, tasks, owner = _parts(at, row)
        if not len(units):
            continue
        work, once = _work(at, tasks), _once(at, row, units, tasks)
        names = at.ops["name"].codes[units]
        kept = np.sort(np.unique(names, return_index=True)[1])
        full = float(at.edit.transit(tasks).sum())
        low.append(_carried(at, units, tasks, owner, kept, full / len(kept)))
        if per_parameter:
            kept = _parameters(names)
            expected.append(_carried(at, units, tasks, owner, kept, work * once / len(kept) + at.floor))
        else:
            expected.append(_carried(at, units, tasks, owner, kept, work / len(kept) + at.floor))
        high.append(_carried(at, units, tasks, owner, kept[:1], work * once + at.floor))
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


def _work(at: Context, tasks: Ints) -> float:
    """The ns of kernels without what each costs by itself: no less than their bytes take at the best rate seen."""
    took = at.edit.transit(tasks).astype(np.float64)
    moved = at.traffic.moved[at.tasks.row[tasks]]
    rate = at.traffic.rate
    least: Floats = np.nan_to_num(moved / rate) if rate else np.zeros(len(took))
    return float(np.minimum(np.maximum(took - at.floor, least), took).sum())


def _once(at: Context, row: int, units: Ints, tasks: Ints) -> float:
    """Which part of the traffic is left when every tensor of a parameter is read once and written once.

    Parameter and gradient are read, the parameter is written, and each state is both.
    """
    optimizer = str(at.ops["name"].categories[at.ops["name"].codes[row]]).partition("#")[2].partition(".")[0]
    passes = 3 + 2 * _STATES.get(optimizer, 2)
    names = at.ops["name"].codes[units]
    rows = at.tasks.row[tasks]
    moved, written = at.traffic.moved[rows], at.traffic.written[rows]
    known = np.isfinite(moved) & (moved > 0)
    if not known.any():
        return passes / max(_USUAL_PASSES, passes)
    parameters = float(written[known].sum()) * len(_parameters(names)) / len(units)
    return min(passes * parameters / float(moved[known].sum()), 1.0)


def _parameters(names: Ints) -> Ints:
    """Positions of one unit for each parameter: those of an op that runs as often as most kinds of op do."""
    kinds, which, counts = np.unique(names, return_inverse=True, return_counts=True)
    usual = int(np.median(counts))
    chosen = int(np.argmin(np.abs(counts - usual)))
    return np.flatnonzero(which.ravel() == chosen) if len(kinds) else np.zeros(0, dtype=np.int64)


def _carried(at: Context, units: Ints, tasks: Ints, owner: Ints, kept: Ints, ns: float) -> Edit:
    """Only the ``kept`` units stay, with one kernel of ``ns`` each."""
    lead = np.array([tasks[np.argmax(owner == unit)] for unit in kept.tolist()], dtype=np.int64)
    others = np.setdiff1d(tasks[np.isin(owner, kept)], lead)
    gone = np.delete(units, kept)
    return merge(
        [
            at.edit.replace(lead, np.full(len(lead), int(ns), dtype=np.int64)),
            at.edit.remove_tasks(others),
            at.edit.remove_ops(gone) if len(gone) else Edit(),
        ]
    )
