"""From the fix of a finding to edits of the graph: low, expected and high, where the trace cannot know.

A fix names rows of a table, as a rule's ``fix:`` does. Rows of ``idle`` and ``exposed`` stand for what causes them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.graph.replay import fix_comm, fix_host, fix_optimizer
from npu_advisor.graph.replay.context import Context, Variants, same
from npu_advisor.graph.replay.edits import Editor, merge


class Fixer:
    """Turns fixes into edits of one rank."""

    def __init__(self, editor: Editor) -> None:
        self.context = Context(editor)
        self._makers: dict[tuple[str, str], Callable[[Context, Ints], Variants | None]] = {
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
        }

    def variants(self, kind: str, table: str, rows: Ints, values: Floats | None = None) -> Variants | None:
        """The edits of ``kind`` on ``rows`` (ascending) of ``table``; None where the graph has nothing to edit."""
        if not len(rows):
            return None
        if kind in ("cap", "scale") and values is not None:
            return resize(self.context, kind, table, rows, values)
        maker = self._makers.get((kind, table))
        return maker(self.context, rows) if maker else None


def remove_kernels(at: Context, rows: Ints) -> Variants:
    """Kernels that need not run. Where an op launched nothing else, it goes too."""
    tasks = at.tasks.of("kernels", rows)
    alone = at.edit.remove_tasks(tasks)
    ops = at.emptied(tasks)
    gone = merge([alone, at.edit.remove_ops(ops)]) if len(ops) else alone
    return Variants(alone, gone, gone)


def resize(at: Context, kind: str, table: str, rows: Ints, values: Floats) -> Variants | None:
    """Tasks that run a share (``scale``) or at most so many us (``cap``) of their time.

    A cap is never below the rank's shortest kernels. Low: the replacement is a usual kernel; high: it costs nothing.
    """
    tasks = at.tasks.of(table, rows)
    value = values[np.searchsorted(rows, at.tasks.row[tasks])] if len(tasks) else values[:0]
    tasks, value = tasks[np.isfinite(value)], value[np.isfinite(value)]
    if not len(tasks):
        return None
    if kind == "scale":
        return same(at.edit.run(tasks, (at.edit.transit(tasks) * value).astype(np.int64)))
    wanted = np.maximum(value * 1000.0, at.floor).astype(np.int64)
    slow = at.edit.run(tasks, np.maximum(wanted, at.typical))
    gone = merge([at.edit.remove_tasks(tasks), at.edit.remove_ops(at.emptied(tasks))])
    return Variants(slow, at.edit.run(tasks, wanted), gone)
