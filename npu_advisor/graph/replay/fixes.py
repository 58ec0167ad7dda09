"""From the fix of a finding to edits of the graph: low, expected and high, where the trace cannot know.

Each fix names rows of a table, as a rule's ``fix:`` does. ``low`` is the smallest change that deserves the name of the
fix, ``high`` the largest that it could be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.idle import DATA_OPS
from npu_advisor.graph.replay.edits import Edit, Editor, merge
from npu_advisor.graph.replay.host import main_thread
from npu_advisor.graph.replay.tasks import COMM, COPY, KERNEL

Floats = npt.NDArray[np.float64]
# Ops that hold others but are no call of the user's code by themselves.
WRAPPERS = ("ProfilerStep#", "Optimizer.", "DistributedDataParallel.", "nn.Module:")
# From this many repeats in a step of one op at one line on, the line is a loop.
LOOP = 4
# ... and no loop worth folding runs more ops than this per turn.
BODY = 4
# One pass over all parameters reads p, g, m, v and writes p, m, v; a kernel per operation makes about 15 passes.
FUSED_PASSES = 7 / 15
BUCKET = 25 * 2**20
# Part of its wait that a healthy loader may still need.
LOADER_REST = 0.1


class Variants(NamedTuple):
    """The edits of one fix."""

    low: Edit
    expected: Edit
    high: Edit


def same(edit: Edit) -> Variants:
    """A fix without a range."""
    return Variants(edit, edit, edit)


class Fixer:
    """Turns fixes into edits of one rank."""

    def __init__(self, editor: Editor) -> None:
        self.edit, self.rank = editor, editor.rank
        profile = self.rank.profile
        self.ops = profile.table("ops")
        kernels = profile.table("kernels")
        compute = np.asarray(kernels["core"] != "AI_CPU") if len(kernels) else np.zeros(0, dtype=bool)
        chosen = kernels["dur_ns"][compute] if compute.any() else kernels["dur_ns"]
        self.floor, self.typical = (int(np.percentile(chosen, q)) for q in (5, 50)) if len(chosen) else (0, 0)
        self._wrapper = _starting(self.ops, WRAPPERS)
        self._device_ops = self.rank.tasks.op[np.isin(self.rank.tasks.kind, (KERNEL, COPY, COMM))]

    def variants(self, kind: str, table: str, rows: Ints, values: Floats | None) -> Variants | None:
        """The edits of ``kind`` on ``rows`` of ``table``; None where the graph has nothing to edit for it."""
        made: dict[tuple[str, str], Callable[[Ints], Variants]] = {
            ("remove", "kernels"): self.remove_kernels,
            ("remove", "tasks"): lambda rows: same(self.edit.remove_tasks(self.rank.tasks.of("tasks", rows))),
            ("remove", "comms"): self.remove_comms,
            ("remove", "dequeues"): lambda rows: same(self.edit.remove_dequeues(rows)),
            ("remove", "ops"): self.remove_ops,
            ("remove", "apis"): self.remove_apis,
            ("close", "dequeues"): self.close,
            ("fuse", "ops"): self.fuse,
            ("overlap", "comms"): self.overlap,
        }
        if kind in ("cap", "scale") and values is not None:
            return self._resized(kind, table, rows, values)
        maker = made.get((kind, table))
        return maker(rows) if maker and len(rows) else None

    # --- kernels -------------------------------------------------------------------------------------------------

    def remove_kernels(self, rows: Ints) -> Variants:
        """Kernels that need not run. Where one op launched nothing else, the op goes too."""
        tasks = self.rank.tasks.of("kernels", rows)
        alone = self.edit.remove_tasks(tasks)
        ops = self._emptied(tasks)
        gone = merge([alone, self.edit.remove_ops(ops)]) if len(ops) else alone
        return Variants(alone, gone, gone)

    def _resized(self, kind: str, table: str, rows: Ints, values: Floats) -> Variants | None:
        tasks = self.rank.tasks.of(table, rows)
        if not len(tasks):
            return None
        factor = np.full(len(self.rank.tasks.row), np.nan)
        place = np.searchsorted(rows, self.rank.tasks.row[tasks])
        factor[tasks] = values[place]
        now, value = self.edit.transit(tasks), factor[tasks]
        known = np.isfinite(value)
        tasks, now, value = tasks[known], now[known], value[known]
        if kind == "scale":
            return same(self.edit.run(tasks, (now * value).astype(np.int64)))
        wanted = np.maximum(value * 1000.0, self.floor).astype(np.int64)
        expected = self.edit.run(tasks, wanted)
        slow = self.edit.run(tasks, np.maximum(wanted, self.typical))
        ops = self._emptied(tasks)
        gone = merge([self.edit.remove_tasks(tasks), self.edit.remove_ops(ops)])
        return Variants(slow, expected, gone)

    def _emptied(self, tasks: Ints) -> Ints:
        """The outermost ops, wrappers aside, below which no device task is left when ``tasks`` go."""
        count = len(self.ops)
        if not count or not len(tasks):
            return np.zeros(0, dtype=np.int64)
        left = self._below(self._device_ops) - self._below(self.rank.tasks.op[tasks])
        parent = self.ops["parent"]
        op = np.unique(self.rank.tasks.op[tasks])
        op = op[(op >= 0)]
        op = op[(left[op] == 0) & ~self._wrapper[op]]
        while True:
            up = parent[op]
            climb = (up >= 0) & (left[np.maximum(up, 0)] == 0) & ~self._wrapper[np.maximum(up, 0)]
            if not climb.any():
                return np.unique(op)
            op = np.where(climb, up, op)

    def _below(self, ops: Ints) -> Ints:
        """How many of ``ops`` (one per task) are at or below each op."""
        pre, last = self.ops["pre"], self.ops["last"]
        at = np.bincount(pre[ops[ops >= 0]], minlength=len(pre) + 1)
        before = np.concatenate(([0], np.cumsum(at)))
        found: Ints = before[last + 1] - before[pre]
        return found

    # --- host ----------------------------------------------------------------------------------------------------

    def units(self, ops: Ints) -> Ints:
        """The outermost op around each op, wrappers aside; -1 stays."""
        parent, op = self.ops["parent"], ops.copy()
        while len(op):
            up = np.where(op >= 0, parent[np.maximum(op, 0)], -1)
            climb = (up >= 0) & ~self._wrapper[np.maximum(up, 0)]
            if not climb.any():
                break
            op = np.where(climb, up, op)
        return op

    def remove_ops(self, rows: Ints) -> Variants:
        """Ops that need not run: low, their syncs return at once; else what only feeds them goes too."""
        loading = _starting(self.ops, DATA_OPS)[rows]
        whole = self.edit.remove_ops(rows)
        if loading.all():
            start, end = self.ops["start_ns"][rows], self.ops["end_ns"][rows]
            rest = (start + (end - start) * LOADER_REST).astype(np.int64)
            parts = [
                self.edit.cut(int(track), rest[mine], end[mine])
                for track in np.unique(self.ops["track"][rows])
                for mine in [self.ops["track"][rows] == track]
            ]
            return Variants(merge(parts), whole, whole)
        low = merge(
            self.edit.no_wait(int(track), self.ops["start_ns"][mine], self.ops["end_ns"][mine])
            for track in np.unique(self.ops["track"][rows])
            for mine in [rows[self.ops["track"][rows] == track]]
        )
        line = self.edit.remove_ops(np.union1d(rows, self._for_nothing_else(rows)))
        return Variants(low, line, line)

    def _for_nothing_else(self, rows: Ints) -> Ints:
        """Outermost ops at the source lines of ``rows`` that no backward pass needs: they only feed those rows."""
        codes, tasks = self.ops["source"].codes, self.rank.tasks
        lines = np.unique(codes[rows])
        units = np.unique(self.units(np.flatnonzero(np.isin(codes, lines[lines >= 0]) & ~self._wrapper)))
        forward = self.ops["forward"]
        needed = self._below(forward[forward >= 0])[units] > 0
        moves = self._below(tasks.op[tasks.kind == COMM])[units] > 0
        return units[~needed & ~moves]

    def remove_apis(self, rows: Ints) -> Variants:
        """Calls that need not be made: their time on the host thread, and their wait."""
        apis, syncs = self.rank.profile.table("apis"), self.rank.syncs
        parts = []
        for lane_of in np.unique(syncs.thread).tolist():
            start, end = apis["start_ns"][rows], apis["end_ns"][rows]
            mine = np.isin(start, syncs.start[syncs.thread == lane_of])
            parts += [self.edit.cut(lane_of, start[mine], end[mine]), self.edit.no_wait(lane_of, start[mine], end[mine])]
        return same(merge(parts))

    def close(self, rows: Ints) -> Variants:
        """Gaps before Dequeues. Low: the Python before each op falls to the usual; high: loops run once a step."""
        dequeues = self.rank.profile.table("dequeues")
        op = dequeues["op"][rows]
        units = np.unique(self.units(op[op >= 0]))
        units = units[~self._below_optimizer(units)]
        if not len(units):
            return same(Edit())
        low = merge(self._usual_python(units, int(track)) for track in np.unique(self.ops["track"][units]))
        repeats, first = self._loops(units[~self._with_sync(units)])
        if not len(repeats):
            return same(low)
        folded = merge([low, self._usual_python_of(first), self.edit.remove_ops(repeats)])
        return Variants(low, folded, folded)

    def _with_sync(self, units: Ints) -> npt.NDArray[np.bool_]:
        """Whether a sync stands at the line of each unit: that loop waits for more than the host."""
        codes, syncs = self.ops["source"].codes, self.rank.syncs
        lines = codes[syncs.op[syncs.op >= 0]]
        return np.isin(codes[units], lines[lines >= 0])

    def _below_optimizer(self, ops: Ints) -> Ints:
        """Whether each op lies in an optimizer step, which has a fix of its own."""
        step = _starting(self.ops, ("Optimizer.step#",))
        found, parent = np.zeros(len(ops), dtype=bool), self.ops["parent"]
        op = ops.copy()
        while (op >= 0).any():
            found |= (op >= 0) & step[np.maximum(op, 0)]
            op = np.where(op >= 0, parent[np.maximum(op, 0)], -1)
        return found

    def _usual_python_of(self, units: Ints) -> Edit:
        return merge(self._usual_python(units[self.ops["track"][units] == t], int(t)) for t in np.unique(self.ops["track"][units]))

    def _usual_python(self, units: Ints, track: int) -> Edit:
        """The Python before each unit shrinks to the usual one of its thread."""
        mine = units[self.ops["track"][units] == track]
        everything = np.unique(self.units(np.flatnonzero((self.ops["track"] == track) & ~self._wrapper)))
        start = self.ops["start_ns"][everything]
        usual = int(np.median(start - self.edit.before(track, start)))
        start = self.ops["start_ns"][mine]
        begin = self.edit.before(track, start)
        long = start - begin > usual
        return self.edit.cut(track, (begin + usual)[long], start[long])

    def _loops(self, units: Ints) -> tuple[Ints, Ints]:
        """Ops that repeat one of ``units`` at its line within a step, and the first of each loop."""
        names, lines, steps = self.ops["name"].codes, self.ops["source"].codes, self.ops["step"]
        mine = (self.ops["track"] == main_thread(self.rank.profile)) & ~self._wrapper
        top = np.unique(self.units(np.flatnonzero(mine)))
        turn = np.empty(len(names), dtype=np.int64)
        turn[top[np.argsort(self.ops["start_ns"][top], kind="stable")]] = np.arange(len(top))
        key = names.astype(np.int64) * (len(self.ops["source"].categories) + 1) + lines
        wanted, key = key[units], key[top]
        # Without a line, ops of the same name elsewhere are another matter.
        chosen = np.isin(key, wanted) & ((lines[top] >= 0) | np.isin(top, units))
        top, key = top[chosen], key[chosen]
        order = np.lexsort((self.ops["start_ns"][top], key, steps[top]))
        top, key = top[order], key[order]
        new = np.ones(len(top), dtype=bool)
        new[1:] = (key[1:] != key[:-1]) | (steps[top][1:] != steps[top][:-1])
        if not len(top):
            return top, top
        group, count = np.cumsum(new) - 1, np.bincount(np.cumsum(new) - 1)
        # A body of many ops is a loop over layers: real work, which no single op replaces.
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(top)) - 1
        body = (turn[top[last]] - turn[top[first]]) / np.maximum(count - 1, 1)
        looped = ((count >= LOOP) & (body <= BODY))[group]
        return top[looped & ~new], top[looped & new]

    # --- optimizer -----------------------------------------------------------------------------------------------

    def fuse(self, rows: Ints) -> Variants:
        """One op per kind of op below each row carries the work of all. Low: the kernels' full time; high: one op
        that makes a single pass."""
        low, expected, high = [], [], []
        for row in rows.tolist():
            units, kernels, names = self._parts(row)
            if not len(units):
                continue
            _, first = np.unique(names, return_index=True)
            low.append(self._fused(units, kernels, np.sort(first), 1.0, 0))
            expected.append(self._fused(units, kernels, np.sort(first), 1.0, self.floor))
            high.append(self._fused(units, kernels, first.min(keepdims=True), FUSED_PASSES, self.floor))
        return Variants(merge(low), merge(expected), merge(high))

    def _parts(self, row: int) -> tuple[Ints, Ints, Ints]:
        """The units below an op that launch kernels, each kernel's unit (position), and the units' names."""
        tasks, pre = self.rank.tasks, self.ops["pre"]
        mine = np.flatnonzero((tasks.kind == KERNEL) & (tasks.op >= 0))
        at = pre[tasks.op[mine]]
        mine = mine[(at > pre[row]) & (at <= self.ops["last"][row])]
        units = self.units(tasks.op[mine])
        distinct = np.unique(units)
        distinct = distinct[np.argsort(self.ops["start_ns"][distinct], kind="stable")]
        place = {int(unit): index for index, unit in enumerate(distinct.tolist())}
        owner = np.array([place[int(unit)] for unit in units.tolist()], dtype=np.int64)
        return distinct, np.stack((mine, owner)), self.ops["name"].codes[distinct].astype(np.int64)

    def _fused(self, units: Ints, kernels: Ints, kept: Ints, passes: float, floor: int) -> Edit:
        tasks, owner = kernels
        total = float(np.maximum(self.edit.transit(tasks) - floor, 0).sum()) * passes
        each = int(total / len(kept)) + floor
        lead = np.array([tasks[np.argmax(owner == unit)] for unit in kept.tolist()], dtype=np.int64)
        others = np.setdiff1d(tasks[np.isin(owner, kept)], lead)
        gone = np.delete(units, kept)
        return merge(
            [
                self.edit.replace(lead, np.full(len(lead), each, dtype=np.int64)),
                self.edit.remove_tasks(others),
                self.edit.remove_ops(gone) if len(gone) else Edit(),
            ]
        )

    # --- communication -------------------------------------------------------------------------------------------

    def remove_comms(self, rows: Ints) -> Variants:
        """Collectives that need not run, with the ops that asked for them."""
        tasks = self.rank.tasks.of("comms", rows)
        ops = self.units(self.rank.tasks.op[tasks])
        ops = np.unique(ops[ops >= 0])
        return same(merge([self.edit.remove_tasks(tasks, moved=True), self.edit.remove_ops(ops, moved=True)]))

    def overlap(self, rows: Ints) -> Variants:
        """Collectives run behind the backward pass, merged into buckets. Low: none is merged; high: they cost
        nothing."""
        tasks = self.rank.tasks.of("comms", rows)
        step = self.rank.profile.table("comms")["step"][self.rank.tasks.row[tasks]]
        low, expected, high = [], [], []
        for number in np.unique(step).tolist():
            mine = tasks[step == number]
            mine = mine[np.argsort(self.rank.tasks.issue[mine], kind="stable")]
            low.append(self._moved(mine, len(mine), 1.0))
            expected.append(self._moved(mine, self._buckets(mine), 1.0))
            high.append(self._moved(mine, self._buckets(mine), 0.0))
        return Variants(merge(low), merge(expected), merge(high))

    def _buckets(self, tasks: Ints) -> int:
        size = self.rank.profile.table("comms")["bytes"][self.rank.tasks.row[tasks]]
        if not np.isfinite(size).all():
            return len(tasks)
        return min(len(tasks), max(1, math.ceil(float(size.sum()) / BUCKET)))

    def _moved(self, tasks: Ints, kept: int, share: float) -> Edit:
        """Keep the last ``kept`` collectives with the time of all, each released by its share of the backward."""
        own, device = self.rank.tasks, self.rank.device
        moving = self._moving(tasks)
        last, gone = tasks[len(tasks) - kept :], tasks[: len(tasks) - kept]
        each = np.full(kept, int(moving.sum() * share / kept), dtype=np.int64)
        behind = self._backward(tasks)
        parts = [self.edit.replace(last, each), self.edit.free_start(last)]
        if len(behind):
            release = behind[(np.arange(1, kept + 1) * len(behind) + kept - 1) // kept - 1]
            parts.append(
                Edit(add=(device.task_end[release], device.task_start[last], np.zeros(kept, dtype=np.int64)))
            )
        if len(gone):
            ops = self.units(own.op[gone])
            ops = np.setdiff1d(ops[ops >= 0], self.units(own.op[last]))
            parts += [self.edit.remove_tasks(gone, moved=True), self.edit.remove_ops(ops, moved=True)]
        return merge(parts)

    def _moving(self, tasks: Ints) -> Ints:
        """Data movement without waiting, where the profile says so."""
        known = self.rank.profile.table("comms")["transit_us"][self.rank.tasks.row[tasks]]
        full = self.edit.transit(tasks)
        moving = np.where(np.isfinite(known) & (known > 0), np.nan_to_num(known) * 1000.0, full)
        return np.minimum(moving, full).astype(np.int64)

    def _backward(self, tasks: Ints) -> Ints:
        """Kernels of the backward pass before these collectives, in issue order; else all kernels of their step."""
        own = self.rank.tasks
        kernels = self.rank.profile.table("kernels")
        step = self.rank.profile.table("comms")["step"][own.row[tasks[0]]]
        mine = np.flatnonzero((own.kind == KERNEL) & (own.issue < own.issue[tasks[-1]]))
        mine = mine[kernels["step"][own.row[mine]] == step]
        mine = mine[np.argsort(own.issue[mine], kind="stable")]
        thread = np.where(own.op[mine] >= 0, self.ops["track"][np.maximum(own.op[mine], 0)], -1)
        other = mine[(thread >= 0) & (thread != main_thread(self.rank.profile))]
        return other if len(other) else mine


def _starting(ops: object, starts: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Which ops' names start with one of ``starts``."""
    names = ops["name"]  # type: ignore[index]
    match = np.array([str(name).startswith(starts) for name in names.categories] + [False], dtype=bool)
    return match[names.codes]
