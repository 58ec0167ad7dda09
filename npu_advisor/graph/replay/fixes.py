"""From the fix of a finding to edits of the graph: low, expected and high, where the trace cannot know.

A fix names rows of a table, as a rule's ``fix:`` does. Rows of ``idle`` and ``exposed`` stand for what causes them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.graph.replay import fix_comm, fix_host, fix_memory, fix_optimizer
from npu_advisor.graph.replay.context import Context, Variants, same
from npu_advisor.graph.replay.edits import Editor, merge
from npu_advisor.graph.replay.ranks import same_ops, same_rows
from npu_advisor.graph.replay.tasks import SOURCES


class Fixer:
    """Turns fixes into edits of one rank."""

    def __init__(self, editor: Editor) -> None:
        self.context = Context(editor)

    def variants(self, kind: str, table: str, rows: Ints, values: Floats | None = None) -> Variants | None:
        """The edits of ``kind`` on ``rows`` (ascending) of ``table``; None where the graph has nothing to edit."""
        if not len(rows):
            return None
        if kind in ("cap", "scale") and values is not None:
            return resize(self.context, kind, table, rows, values)
        if (kind, table) == ("fuse", "ops"):
            return fix_optimizer.fuse(self.context, rows, per_parameter=values is not None and bool(values.any()))
        maker = _MAKERS.get((kind, table))
        return maker(self.context, rows) if maker else None

    def elsewhere(
        self, home: Fixer, kind: str, table: str, rows: Ints, values: Floats | None = None
    ) -> Variants | None:
        """What a fix of ``rows`` of the rank of ``home`` is on this rank: the same events at the same lines.

        Every rank runs the same code. Idle time stands for ops: they are the same even where this rank's device was
        not idle because of them.
        """
        one, other = home.context.profile, self.context.profile
        mine, values = same_rows(one, other, table, rows, values)
        if (kind, table) != ("remove", "idle"):
            return self.variants(kind, table, mine, values)
        named = {owner: same_ops(one, other, ops) for owner, ops in fix_host.causes(home.context, rows).items()}
        return fix_host.remove_idle(self.context, mine, {owner: ops for owner, ops in named.items() if len(ops)})

    def at_most(self, table: str, rows: Ints, us: Floats) -> Variants | None:
        """Tasks behind ``rows`` (ascending) of ``table`` run at most so many us each, whatever a replacement needs."""
        tasks, value = _valued(self.context, table, rows, us)
        return same(self.context.edit.run(tasks, (value * 1000.0).astype(np.int64))) if len(tasks) else None


def remove_kernels(at: Context, rows: Ints) -> Variants:
    """Kernels that need not run. Where an op launched nothing else, it goes too."""
    return _gone(at, at.tasks.of("kernels", rows))


def _gone(at: Context, tasks: Ints) -> Variants:
    """Tasks go. Low: the ops that launched them stay; else those that launched nothing else go too."""
    alone, ops = at.edit.remove_tasks(tasks), at.emptied(tasks)
    whole = merge([alone, at.edit.remove_ops(ops)]) if len(ops) else alone
    return Variants(alone, whole, whole)


def resize(at: Context, kind: str, table: str, rows: Ints, values: Floats) -> Variants | None:
    """Tasks that run a share (``scale``) or at most so many us (``cap``) of their time.

    What is scaled to nothing goes. A cap is never below the rank's shortest kernels. Low: the replacement is a usual
    kernel; high: it costs nothing.
    """
    tasks, value = _valued(at, table, rows, values)
    if not len(tasks):
        return None
    if kind == "scale":
        return _scaled(at, tasks, value)
    wanted = np.maximum(value * 1000.0, at.floor).astype(np.int64)
    slow = at.edit.run(tasks, np.maximum(wanted, at.typical))
    return Variants(slow, at.edit.run(tasks, wanted), _gone(at, tasks).high)


def _scaled(at: Context, tasks: Ints, value: Floats) -> Variants:
    ns, longer, none = (at.edit.transit(tasks) * value).astype(np.int64), value > 1.0, value <= 0.0
    shorter = at.edit.run(tasks[~longer & ~none], ns[~longer & ~none])
    kept = merge([shorter, at.edit.replace(tasks[longer], ns[longer])])
    if not none.any():
        return same(kept)
    return Variants(*(merge([kept, gone]) for gone in _gone(at, tasks[none])))


def _valued(at: Context, table: str, rows: Ints, values: Floats) -> tuple[Ints, Floats]:
    """The tasks behind ``rows`` whose value is known, with it."""
    tasks = at.tasks.of(table, rows)
    value = values[np.searchsorted(rows, at.tasks.row[tasks])] if len(tasks) else values[:0]
    known = np.isfinite(value)
    return tasks[known], value[known]


_MAKERS: dict[tuple[str, str], Callable[[Context, Ints], Variants | None]] = {
    ("remove", "kernels"): remove_kernels,
    ("remove", "tasks"): lambda at, rows: same(at.edit.remove_tasks(at.tasks.of("tasks", rows))),
    ("remove", "dequeues"): lambda at, rows: same(at.edit.remove_dequeues(rows)),
    ("remove", "ops"): fix_host.remove_ops,
    ("remove", "apis"): fix_host.remove_calls,
    ("remove", "idle"): fix_host.remove_idle,
    ("close", "dequeues"): fix_host.close,
    ("remove", "comms"): fix_comm.remove,
    ("remove", "exposed"): fix_comm.hide,
    ("overlap", "comms"): fix_comm.overlap,
    ("fuse", "ops"): fix_optimizer.fuse,
    ("avoid", "ops"): fix_memory.avoid,
}
# The tables whose rows each kind of fix can edit.
EDITABLE: dict[str, tuple[str, ...]] = {
    **{kind: tuple(table for one, table in _MAKERS if one == kind) for kind in dict.fromkeys(k for k, _ in _MAKERS)},
    "scale": SOURCES,
    "cap": SOURCES,
}
