"""The calls of a step: the outermost ops that do work, in the order in which the host issued them.

User ranges, step marks and the optimizer's own range only hold other ops. They come and go with the recording, so
they are looked through: the ops directly inside them are the calls, and everything under a call belongs to it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.compare.vocabulary import common_name
from npu_advisor.graph.idle import DATA_OPS
from npu_advisor.graph.named import STEP_MARK, starting
from npu_advisor.graph.nesting import nesting_of
from npu_advisor.graph.source import ENGINE_MARK
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

_BLANKS = re.compile(r"\s+")


class Kind(NamedTuple):
    """What a call is: its name (common to all devices) and the shapes of its inputs, empty where unknown."""

    name: str
    shapes: str


class Calls:
    """The calls of one profile.

    ``row`` is the op of each call, ``step`` its row in ``steps``, ``role`` the kind of thread it ran on (0 the main
    one, 1 those of autograd, 2 others), ``kind`` an index into ``kinds``, ``source`` an index into ``sources`` (-1
    without a line). ``of_op`` is the call that each op belongs to, -1 for what is in none.
    """

    def __init__(self, profile: Profile) -> None:
        ops = profile.table("ops")
        tree = nesting_of(profile, "ops")
        outer = _outermost(ops, tree.parent.astype(np.int64), int(tree.depth.max(initial=-1)) + 1)
        roles = _roles(ops)
        found = np.flatnonzero(outer)
        order = np.lexsort((ops["start_ns"][found], roles[found], ops["step"][found]))
        self.row: Ints = found[order]
        self.step: Ints = ops["step"][self.row]
        self.role: Ints = roles[self.row]
        self.kinds, self.kind = _kinds(ops, self.row)
        self.sources = [str(text) for text in ops["source"].categories]
        self.source: Ints = ops["source"].codes[self.row].astype(np.int64)
        own = np.full(len(ops), -1, dtype=np.int64)
        own[self.row] = np.arange(len(self.row))
        self.of_op: Ints = tree.inherit(own)
        self.shaped = any(kind.shapes for kind in self.kinds)

    def in_step(self, step: int, role: int) -> Ints:
        """The calls (positions) of one step on one kind of thread, in order."""
        return np.flatnonzero((self.step == step) & (self.role == role))

    def source_of(self, call: int) -> str | None:
        """The line that issued a call, None where it is unknown."""
        return self.sources[self.source[call]] if self.source[call] >= 0 else None


ROLES = (0, 1, 2)


def _outermost(ops: Table, parent: Ints, depths: int) -> Mask:
    """Which ops are calls: those that are no range themselves and lie in nothing but ranges."""
    qualified = np.array([*("::" in str(name) for name in ops["name"].categories), False], dtype=bool)[
        ops["name"].codes
    ]
    inside = np.concatenate(([0], np.cumsum(qualified[np.argsort(ops["pre"])]))) if len(ops) else np.zeros(1)
    below = inside[ops["last"] + 1] - inside[ops["pre"] + 1]
    is_range = ~qualified & (below > 0) & ~starting(ops, DATA_OPS) | starting(ops, STEP_MARK)
    open_ = is_range.copy()
    for _ in range(depths):
        held = is_range & ((parent < 0) | open_[np.maximum(parent, 0)])
        if (held == open_).all():
            break
        open_ = held
    outer: Mask = ~open_ & ((parent < 0) | open_[np.maximum(parent, 0)])
    return outer


def _roles(ops: Table) -> Ints:
    """The kind of thread of each op."""
    tracks = ops["track"]
    marks = tracks[starting(ops, STEP_MARK)]
    values, counts = np.unique(marks if len(marks) else tracks, return_counts=True)
    main = values[np.argmax(counts)] if len(values) else -1
    engine = np.isin(tracks, engine_tracks(ops))
    roles: Ints = np.where(tracks == main, 0, np.where(engine, 1, 2)).astype(np.int64)
    return roles


def engine_tracks(ops: Table) -> Ints:
    """The tracks of the threads on which autograd runs."""
    tracks: Ints = np.unique(ops["track"][starting(ops, ENGINE_MARK)])
    return tracks


def _kinds(ops: Table, rows: Ints) -> tuple[list[Kind], Ints]:
    """The distinct kinds of the ops at ``rows`` and the index of each one's."""
    names, shapes = ops["name"], ops["shapes"]
    width = len(shapes.categories) + 1
    codes = names.codes[rows].astype(np.int64) * width + shapes.codes[rows] + 1
    distinct, inverse = np.unique(codes, return_inverse=True)
    kinds: dict[Kind, int] = {}
    index = np.zeros(len(distinct), dtype=np.int64)
    for at, code in enumerate(distinct.tolist()):
        name, shape = divmod(code, width)
        text = str(shapes.categories[shape - 1]) if shape else ""
        kind = Kind(common_name(str(names.categories[name])), _tidy(text))
        index[at] = kinds.setdefault(kind, len(kinds))
    return list(kinds), index[inverse.reshape(-1)] if len(rows) else np.zeros(0, dtype=np.int64)


def _tidy(shapes: str) -> str:
    """Shapes as all writers would give them: no blanks, and nothing for arguments that are no tensors at the end."""
    return _BLANKS.sub("", shapes).rstrip(";")
