"""The calls of a step: the outermost ops that do work, in the order in which the host issued them.

User ranges, step marks and the optimizer's own range only hold other ops. They come and go with the recording, so
they are looked through: the ops directly inside them are the calls, and everything under a call belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.compare.modules import Modules
from npu_advisor.compare.vocabulary import common_name
from npu_advisor.graph.idle import DATA_OPS
from npu_advisor.graph.named import STEP_MARK, starting
from npu_advisor.graph.nesting import nesting_of
from npu_advisor.graph.source import ENGINE_MARK
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

_TORCH = ("aten::", "npu::")
_BLANKS = re.compile(r"\s+")


class Kind(NamedTuple):
    """What a call is: its name (common to all devices), the shapes of its inputs and the path of the module that ran
    it; ``dtypes`` are those of the inputs that are tensors. Empty where unknown."""

    name: str
    shapes: str
    module: str = ""
    dtypes: str = ""


class Calls:
    """The calls of one profile.

    ``row`` is the op of each call, ``step`` its row in ``steps``, ``role`` the kind of thread it ran on (0 the main
    one, 1 those of autograd, 2 others), ``kind`` an index into ``kinds``, ``source`` an index into ``sources`` (-1
    without a line). ``of_op`` is the call that each op belongs to, -1 for what is in none; ``core`` the common name of
    the op inside each call that launches its first kernel, empty without one; ``module`` the run of a module (in
    ``modules``) that each call is in, -1 none.
    """

    def __init__(self, profile: Profile) -> None:
        ops = profile.table("ops")
        tree = nesting_of(profile, "ops")
        parent = tree.parent.astype(np.int64)
        outer = _outermost(ops, parent, int(tree.depth.max(initial=-1)) + 1)
        roles = _roles(ops)
        found = np.flatnonzero(outer)
        order = np.lexsort((ops["start_ns"][found], roles[found], ops["step"][found]))
        self.row: Ints = found[order]
        self.step: Ints = ops["step"][self.row]
        self.role: Ints = roles[self.row]
        self.modules = Modules(profile)
        self.module: Ints = self.modules.at(ops["track"][self.row], ops["start_ns"][self.row])
        self.sources = [str(text) for text in ops["source"].categories]
        self.source: Ints = ops["source"].codes[self.row].astype(np.int64)
        own = np.full(len(ops), -1, dtype=np.int64)
        own[self.row] = np.arange(len(self.row))
        self.of_op: Ints = tree.inherit(own)
        paths = [self.modules.path[run] if run >= 0 else "" for run in self._runs(ops).tolist()]
        self.kinds, self.kind = _kinds(ops, self.row, paths)
        self.shaped = any(kind.shapes for kind in self.kinds)
        self.core = _cores(profile, parent, self.of_op, len(self.row))

    def _runs(self, ops: Table) -> Ints:
        """The run of a module that each call belongs to: its own, else that of the forward op it is the backward of."""
        linked = np.flatnonzero((ops["forward"] >= 0) & (self.of_op >= 0))
        forward = np.full(len(self.row), -1, dtype=np.int64)
        # The first op of a call decides: written last.
        forward[self.of_op[linked[::-1]]] = self.of_op[ops["forward"][linked[::-1]]]
        runs: Ints = np.where(self.module >= 0, self.module, np.append(self.module, -1)[forward])
        return runs

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


def _kinds(ops: Table, rows: Ints, paths: Sequence[str]) -> tuple[list[Kind], Ints]:
    """The distinct kinds of the ops at ``rows``, run by the modules ``paths``, and the index of each one's."""
    names, shapes, types = ops["name"], ops["shapes"], ops["dtypes"]
    modules = {path: number for number, path in enumerate(dict.fromkeys(paths))}
    columns = (names.codes[rows], shapes.codes[rows], [modules[path] for path in paths], types.codes[rows])
    distinct, inverse = np.unique(np.array(columns, dtype=np.int64), axis=1, return_inverse=True)
    texts, kinds = list(modules), dict[Kind, int]()
    index = np.zeros(distinct.shape[1], dtype=np.int64)
    for at, (name, shape, module, type_) in enumerate(distinct.T.tolist()):
        shown = _tidy(str(shapes.categories[shape])) if shape >= 0 else ""
        dtypes = _of_tensors(shown, _tidy(str(types.categories[type_]))) if type_ >= 0 else ""
        kind = Kind(common_name(str(names.categories[name])), shown, texts[module], dtypes)
        index[at] = kinds.setdefault(kind, len(kinds))
    return list(kinds), index[inverse.reshape(-1)]


def _cores(profile: Profile, parent: Ints, of_op: Ints, calls: int) -> list[str]:
    """By call: the common name of the innermost qualified op around its first kernel."""
    ops, kernels = profile.table("ops"), profile.table("kernels")
    op = kernels["op"][np.argsort(kernels["start_ns"], kind="stable")]
    op = op[op >= 0]
    op = op[of_op[op] >= 0]
    call, first = np.unique(of_op[op], return_index=True)
    named = [common_name(str(name)) if str(name).startswith(_TORCH) else "" for name in ops["name"].categories]
    found = [""] * calls
    for one, row in zip(call.tolist(), op[first].tolist(), strict=True):
        while row >= 0 and of_op[row] == one and not found[one]:
            found[one] = named[ops["name"].codes[row]]
            row = parent[row]
    return found


def _of_tensors(shapes: str, dtypes: str) -> str:
    """The types of those inputs that have a shape."""
    pairs = zip(shapes.split(";"), dtypes.split(";"), strict=False)
    return ";".join(dtype for shape, dtype in pairs if shape)


def _tidy(shapes: str) -> str:
    """Shapes as all writers would give them: no blanks, and nothing for arguments that are no tensors at the end."""
    return _BLANKS.sub("", shapes).rstrip(";")
