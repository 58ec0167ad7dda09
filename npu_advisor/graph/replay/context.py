"""What the fixes of one rank share: its ops as a tree, its units of work, its usual kernel."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, distinct
from npu_advisor.graph.named import WRAPPERS, starting
from npu_advisor.graph.replay.arrays import Numbers
from npu_advisor.graph.replay.edits import Edit, Editor
from npu_advisor.graph.replay.index import Index
from npu_advisor.graph.replay.tasks import COMM, COPY, KERNEL
from npu_advisor.graph.replay.traffic import traffic
from npu_advisor.model.table import Table


class Variants(NamedTuple):
    """The edits of one fix: the smallest change that deserves its name, the expected, the largest it could be."""

    low: Edit
    expected: Edit
    high: Edit


def same(edit: Edit) -> Variants:
    """A fix without a range."""
    return Variants(edit, edit, edit)


def _usual(kernels: Table) -> Ints:
    """For each kernel the median duration of its name: what one of them took is not what such a kernel takes."""
    name, dur = kernels["name"].codes, kernels["dur_ns"]
    order = np.lexsort((dur, name))
    first = np.flatnonzero(np.diff(name[order], prepend=-2) != 0)
    count = np.diff(np.append(first, len(order)))
    usual = np.empty(len(dur), dtype=np.int64)
    usual[order] = np.repeat(dur[order][first + (count - 1) // 2], count)
    return usual


class Context:
    """One rank of a graph, seen by its ops."""

    def __init__(self, editor: Editor) -> None:
        self.edit, self.rank = editor, editor.rank
        self.profile = self.rank.profile
        self.ops, self.tasks = self.profile.table("ops"), self.rank.tasks
        kernels = self.profile.table("kernels")
        compute = np.asarray(kernels["core"] != "AI_CPU") if len(kernels) else np.zeros(0, dtype=bool)
        usual = _usual(kernels)
        chosen = usual[compute] if compute.any() else usual
        # A replacement takes no less than the shortest kernels of this rank, launch overhead of the device included.
        self.floor, self.typical = (int(np.percentile(chosen, q)) for q in (5, 50)) if len(chosen) else (0, 0)
        self.traffic = traffic(self.profile)
        self._by_step: Index | None = None
        self.wrapper = starting(self.ops, WRAPPERS)
        self.device_ops = self.tasks.op[np.isin(self.tasks.kind, (KERNEL, COPY, COMM))]

    def kernels_of(self, step: int) -> Ints:
        """The kernels of a step (of none: -1), in row order."""
        if self._by_step is None:
            kernels = np.flatnonzero(self.tasks.kind == KERNEL)
            step_of = np.full(len(self.tasks.kind), -2, dtype=np.int64)
            step_of[kernels] = self.profile.table("kernels")["step"][self.tasks.row[kernels]]
            self._by_step = Index(step_of + 1)
        return self._by_step.of(np.array([step + 1]))

    @cached_property
    def _unit(self) -> Numbers:
        """The unit of every op."""
        up = self.ops["parent"]
        climb = (up >= 0) & ~self.wrapper[np.maximum(up, 0)]
        unit = np.where(climb, up, np.arange(len(up))).astype(np.int32)
        while not np.array_equal(further := unit[unit], unit):
            unit = further
        return unit

    def units(self, ops: Ints) -> Ints:
        """The outermost op around each op, wrappers aside; -1 stays."""
        known = ops >= 0
        units = ops.copy()
        units[known] = self._unit[ops[known]]
        return units

    def units_of(self, ops: Ints) -> Ints:
        """The distinct units around ``ops``, in row order."""
        units = self.units(ops[ops >= 0])
        return distinct(units[~self.wrapper[units]]) if len(units) else units

    def below(self, ops: Ints) -> Ints:
        """How many of ``ops`` (one entry per task) are at or below each op."""
        pre, last = self.ops["pre"], self.ops["last"]
        at = np.bincount(pre[ops[ops >= 0]], minlength=len(pre) + 1)
        before = np.concatenate(([0], np.cumsum(at)))
        found: Ints = before[last + 1] - before[pre]
        return found

    def emptied(self, tasks: Ints) -> Ints:
        """The outermost ops, wrappers aside, below which no device task is left when ``tasks`` go."""
        if not len(self.ops) or not len(tasks):
            return np.zeros(0, dtype=np.int64)
        left = self.below(self.device_ops) - self.below(self.tasks.op[tasks])
        parent = self.ops["parent"]
        op = np.unique(self.tasks.op[tasks])
        op = op[op >= 0]
        op = op[(left[op] == 0) & ~self.wrapper[op]]
        while len(op):
            up = parent[op]
            climb = (up >= 0) & (left[np.maximum(up, 0)] == 0) & ~self.wrapper[np.maximum(up, 0)]
            if not climb.any():
                break
            op = np.where(climb, up, op)
        return np.unique(op)

    def by_thread(self, ops: Ints) -> list[tuple[int, Ints]]:
        """``ops`` split by the thread they ran on."""
        track = self.ops["track"][ops]
        return [(int(one), ops[track == one]) for one in np.unique(track)]
