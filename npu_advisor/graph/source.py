"""Which line of the user's code an op comes from, and how that was found.

Order (first that gives a line): the op's own call stack; the nearest ancestor with one; the forward op of this
backward op, or of one of its ancestors; the forward op of a sibling node under the same ``evaluate_function``; the
Python function running on the op's thread. Collectives that autograd launches have none of these: theirs is the line
that called ``backward()``. ``ProfilerStep#n`` carries a stack too (the line of ``prof.step()``): it
says nothing about the work inside and never counts.
"""

from __future__ import annotations

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.frame import is_user_relative, parse_frame, split_stack, user_frame
from npu_advisor.base.intervals import Ints
from npu_advisor.graph.named import STEP_MARK, starting
from npu_advisor.graph.nesting import Nesting, nested
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

HOW = ("own", "ancestor", "forward", "sibling", "python", "backward")
ENGINE_MARK = "autograd::engine::evaluate_function"
BACKWARD_FRAMES = ("torch/_tensor.py", "torch/autograd/__init__.py")


class _Lines:
    """Lines as small numbers, so that columns of them are integer arrays."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def column(self, numbers: Ints) -> Categorical:
        return Categorical(numbers, self.texts)


def attribute(profile: Profile, tree: Nesting) -> None:
    """Fill ``source`` and ``source_how`` of ops and of everything that has an op."""
    ops = profile.table("ops")
    if "source" not in ops.present and profile.has("ops"):
        lines = _Lines()
        number, how = _of_ops(profile, ops, tree, lines)
        how_text = Categorical(how, HOW)
        profile.put(ops.with_columns(source=lines.column(number), source_how=how_text))
    _hand_down(profile)


def _hand_down(profile: Profile) -> None:
    """Give every table with an ``op`` key the op's line, and collectives without one that of ``backward()``."""
    ops = profile.table("ops")
    _backward_lines(profile)
    for name in ("enqueues", "dequeues", "apis", "kernels", "tasks", "comms", "allocs"):
        table = profile.table(name)
        if not profile.has(name):
            continue
        for column in ("source", "source_how"):
            if column not in table.present:
                codes = ops[column].codes if len(ops) else np.zeros(0, dtype=np.int64)
                rows = table["op"]
                number = np.where(rows >= 0, codes[np.maximum(rows, 0)], -1) if len(codes) else np.full(len(rows), -1)
                table = table.with_columns(**{column: ops[column].with_codes(number)})
        profile.put(table)


def _backward_lines(profile: Profile) -> None:
    """Give collectives that autograd launched (``op`` without a line) the line of the ``backward()`` that runs then."""
    ops, comms = profile.table("ops"), profile.table("comms")
    if not len(comms) or not len(ops) or "source" in comms.present:
        return
    own = np.append(ops["source"].codes, -1).astype(np.int64)[comms["op"]]
    calls = _backward_calls(ops)
    starts = ops["start_ns"][calls]
    latest = np.searchsorted(starts, np.append(ops["start_ns"], -1)[comms["op"]], side="right") - 1
    found = (own < 0) & (comms["op"] >= 0) & (latest >= 0)
    line = np.append(ops["source"].codes[calls], -1)[latest]
    number = np.where(found, line, own)
    how = np.append(ops["source_how"].codes, -1).astype(np.int64)[comms["op"]]
    how = np.where(found & (line >= 0), HOW.index("backward"), how)
    profile.put(
        comms.with_columns(
            source=ops["source"].with_codes(number),
            source_how=Categorical(how, HOW),
        )
    )


def _backward_calls(ops: Table) -> Ints:
    """Ops that Python's ``backward()`` itself calls on the main thread, in time order."""
    stacks = ops["stack"]
    inside = np.array([*(_in_backward(str(stack)) for stack in stacks.categories), False], dtype=bool)
    rows = np.flatnonzero(inside[stacks.codes] & (ops["source"].codes >= 0))
    return rows[np.argsort(ops["start_ns"][rows], kind="stable")]


def _in_backward(stack: str) -> bool:
    frames = filter(None, map(parse_frame, split_stack(stack)))
    return any(frame.function == "backward" and frame.path.endswith(BACKWARD_FRAMES) for frame in frames)


def _of_ops(profile: Profile, ops: Table, tree: Nesting, lines: _Lines) -> tuple[Ints, Ints]:
    """Line number (in ``lines``) and index into HOW of each op; -1 unknown."""
    own = _own_lines(ops, lines)
    number = tree.inherit(own)
    how = np.where(own >= 0, HOW.index("own"), np.where(number >= 0, HOW.index("ancestor"), -1))
    forward = ops["forward"]
    partner = np.where(forward >= 0, number[np.maximum(forward, 0)], -1)
    sibling = np.full(len(ops), -1, dtype=np.int64)
    engine = starting(ops, ENGINE_MARK)
    child = np.flatnonzero((partner >= 0) & (tree.parent >= 0) & engine[np.maximum(tree.parent, 0)])
    sibling[tree.parent[child][::-1]] = partner[child][::-1]
    for label, found in (
        ("forward", tree.inherit(partner)),
        ("sibling", tree.inherit(sibling)),
        ("python", _running(profile, ops, lines)),
    ):
        new = (number < 0) & (found >= 0)
        number, how = np.where(new, found, number), np.where(new, HOW.index(label), how)
    return number, how


def _own_lines(ops: Table, lines: _Lines) -> Ints:
    """The line of each op's own stack; looked up once per distinct stack."""
    stacks = ops["stack"]
    per_stack = np.full(len(stacks.categories) + 1, -1, dtype=np.int64)
    for index, stack in enumerate(stacks.categories):
        frame = user_frame(stack)
        if frame is not None:
            per_stack[index] = lines.number(str(frame))
    return np.where(starting(ops, STEP_MARK), -1, per_stack[stacks.codes])


def _running(profile: Profile, ops: Table, lines: _Lines) -> Ints:
    """The innermost user function that runs on each op's thread when it starts (its line is the definition's)."""
    frames = profile.table("frames")
    if not len(frames):
        return np.full(len(ops), -1, dtype=np.int64)
    names = frames["name"]
    per_name = np.full(len(names.categories) + 1, -1, dtype=np.int64)
    for index, name in enumerate(names.categories):
        frame = parse_frame(name)
        if frame is not None and is_user_relative(frame.path):
            per_name[index] = lines.number(str(frame))
    # Not kept: of all that is known of a profile, hardly anything asks for it again.
    tree = nested(frames)
    line = tree.inherit(per_name[names.codes])
    row = tree.innermost(ops["track"], ops["start_ns"])
    return np.where(row >= 0, line[np.maximum(row, 0)], -1)
