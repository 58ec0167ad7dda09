"""The time of big tensors that need not be made: what fills them, what only reads them, and their part of backward."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.graph.replay.context import Context, Variants
from npu_advisor.graph.replay.edits import Edit
from npu_advisor.graph.replay.host import main_thread
from npu_advisor.graph.replay.tasks import COMM, COPY, KERNEL

# A tensor that backward keeps is part of the network, unless it alone is this much of the peak.
OUTLIER = 0.2
# Engines that compute no matrix product: what they write can often be broadcast or fused instead of written out.
_VECTOR = ("AI_VECTOR_CORE", "MIX_AIV", "AI_CPU")


def avoid(at: Context, rows: Ints) -> Variants | None:
    """The tensors made by ops at the lines of ``rows`` are not made.

    Expected: every unit at those lines goes, the unit behind it that only reads the tensor, and the backward units of
    both. Low: the units at the lines alone; nothing where backward keeps the tensor, which recomputing then costs
    time. High: the reader goes even if the network needs its result. None where the units compute matrix products,
    which nothing replaces, and where the tensor is part of what backward needs.
    """
    units = _at_lines(at, at.units_of(rows))
    if not len(units) or not _plain(at, units):
        return None
    kept = _kept_for_backward(at, units)
    if kept.any() and not _outlier(at, units):
        return None
    backward = _backward_of(at, units)
    readers = _readers(at, units)
    needed = at.below(at.ops["forward"][at.ops["forward"] >= 0])[readers] > 0
    only = readers[~needed] if (at.ops["forward"] >= 0).any() else readers[:0]
    low = Edit() if kept.any() else at.edit.remove_ops(units)
    expected = at.edit.remove_ops(np.unique(np.concatenate((units, only, backward))))
    everything = np.concatenate((units, readers, backward, _backward_of(at, readers)))
    return Variants(low, expected, at.edit.remove_ops(np.unique(everything)))


def _at_lines(at: Context, units: Ints) -> Ints:
    """Every unit of the main thread at the lines of ``units``."""
    lines = at.ops["source"].codes
    own = np.unique(lines[units])
    alike = np.flatnonzero(np.isin(lines, own[own >= 0]) & (at.ops["track"] == main_thread(at.profile)))
    return np.intersect1d(alike, at.units_of(alike))


def _plain(at: Context, units: Ints) -> bool:
    """Whether these units launch kernels, and none of the matrix engine."""
    kernels, tasks = at.profile.table("kernels"), at.tasks
    below = np.flatnonzero((tasks.kind == KERNEL) & _inside(at, units)[tasks.op])
    core = kernels["core"]
    vector = np.array([str(name) in _VECTOR for name in core.categories] + [False], dtype=bool)
    return len(below) > 0 and bool(vector[core.codes[tasks.row[below]]].all())


def _inside(at: Context, units: Ints) -> Mask:
    """Whether each op is at or below one of ``units``; one element more, False, for row -1."""
    pre, last = at.ops["pre"], at.ops["last"]
    depth = np.zeros(len(pre) + 2, dtype=np.int64)
    np.add.at(depth, pre[units], 1)
    np.add.at(depth, last[units] + 1, -1)
    return np.append(np.cumsum(depth)[pre] > 0, False)


def _backward_of(at: Context, units: Ints) -> Ints:
    """The units of autograd that belong to forward units."""
    forward = at.ops["forward"]
    return at.units_of(np.flatnonzero((forward >= 0) & _inside(at, units)[forward]))


def _kept_for_backward(at: Context, units: Ints) -> Mask:
    """Which allocations of ``units`` were still there when the backward of their op began."""
    allocs, ops = at.profile.table("allocs"), at.ops
    mine = np.flatnonzero(_inside(at, units)[allocs["op"]])
    nodes = np.flatnonzero(ops["forward"] >= 0)
    owner, by = at.units(allocs["op"][mine]), at.units(ops["forward"][nodes])
    begins = np.full(len(ops), np.iinfo(np.int64).max)
    np.minimum.at(begins, by, ops["start_ns"][nodes])
    release = allocs["release_ns"][mine]
    kept: Mask = (release < 0) | (release > begins[owner])
    return kept & (begins[owner] < np.iinfo(np.int64).max)


def _outlier(at: Context, units: Ints) -> bool:
    """Whether one tensor of ``units`` alone is a large part of all memory in use at its highest."""
    allocs, memory = at.profile.table("allocs"), at.profile.table("memory")
    size = allocs["size_bytes"][_inside(at, units)[allocs["op"]]]
    peak = float(np.nanmax(memory["allocated_bytes"])) if len(memory) else 0.0
    return len(size) > 0 and float(size.max()) >= OUTLIER * peak > 0


def _readers(at: Context, units: Ints) -> Ints:
    """The unit behind each run of ``units`` on their thread that works on the device while the tensor is there."""
    ops, tasks, allocs = at.ops, at.tasks, at.profile.table("allocs")
    busy = at.units_of(tasks.op[np.isin(tasks.kind, (KERNEL, COPY, COMM))])
    busy = busy[ops["track"][busy] == main_thread(at.profile)]
    order = np.union1d(busy, units)
    order = order[np.argsort(ops["start_ns"][order], kind="stable")]
    own = np.isin(order, units)
    follows = np.flatnonzero(own[:-1] & ~own[1:])
    held = np.zeros(len(ops), dtype=np.int64)
    mine = np.flatnonzero(_inside(at, units)[allocs["op"]])
    release = np.where(allocs["release_ns"][mine] < 0, np.iinfo(np.int64).max, allocs["release_ns"][mine])
    np.maximum.at(held, at.units(allocs["op"][mine]), release)
    reads = order[follows + 1]
    return np.unique(reads[ops["start_ns"][reads] < held[order[follows]]])
