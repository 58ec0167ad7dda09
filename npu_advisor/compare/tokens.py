"""Calls as numbers: what may be the same call on both sides has the same number."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.compare.align import Branch
from npu_advisor.compare.calls import Calls


class Numbered(NamedTuple):
    """Calls (positions in ``calls``) by number: of name and shapes, of the name alone, and of the op that launches."""

    calls: Calls
    rows: Ints
    kinds: Ints
    names: Ints
    cores: Ints

    @property
    def launching(self) -> Ints:
        """Positions in ``rows`` of the calls that launch something."""
        return np.flatnonzero([bool(self.calls.core[row]) for row in self.rows.tolist()])

    @property
    def in_modules(self) -> bool:
        """Whether any of the calls ran in a module that was recorded."""
        return bool((self.calls.module[self.rows] >= 0).any())


class Tokens:
    """Gives out the numbers; one for all sides that are compared."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, calls: Calls, rows: Ints, by_shape: bool) -> Numbered:
        """The calls at ``rows``; without ``by_shape`` their kind is no more than their name."""
        by_name = np.array([self._number("name", kind.name) for kind in calls.kinds], dtype=np.int64)
        by_kind = np.array([self._number("kind", *kind[:2]) for kind in calls.kinds], dtype=np.int64)
        cores = [self._number("core", calls.core[row] or (id(calls), row)) for row in rows.tolist()]
        names = by_name[calls.kind[rows]]
        kinds = by_kind[calls.kind[rows]] if by_shape else names
        return Numbered(calls, rows, kinds, names, np.array(cores, dtype=np.int64))

    def tree(self, side: Numbered) -> list[Branch]:
        """The calls below the modules that ran them."""
        modules, roots = side.calls.modules, list[Branch]()
        open_: list[tuple[int, Branch]] = []
        for call, kind, name in zip(*(column.tolist() for column in side[1:4]), strict=True):
            run = side.calls.module[call]
            chain = modules.chain[run] if run >= 0 else ()
            kept = takewhile(lambda pair: pair[0] == pair[1][0], zip(chain, open_, strict=False))
            self._close(side.calls, open_, sum(1 for _ in kept))
            for inner in chain[len(open_) :]:
                branch = Branch(-1, self._number("module", modules.name[inner]))
                (open_[-1][1].inner if open_ else roots).append(branch)
                open_.append((inner, branch))
            (open_[-1][1].inner if open_ else roots).append(Branch(kind, name, call))
        self._close(side.calls, open_, 0)
        return roots

    def _close(self, calls: Calls, open_: list[tuple[int, Branch]], depth: int) -> None:
        """Number the runs deeper than ``depth`` by all that is in them, and take them off."""
        for run, branch in reversed(open_[depth:]):
            below = tuple(each.exact for each in branch.inner)
            branch.exact = self._number("run", calls.modules.name[run], below)
        del open_[depth:]

    def _number(self, *what: object) -> int:
        return self._numbers.setdefault(what, len(self._numbers))
