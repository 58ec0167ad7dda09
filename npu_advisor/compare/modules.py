"""Which ``nn.Module`` ran a call: its place in the module tree, where Python functions were recorded.

Instances are numbered by the profiler (``Linear_9``), and an inserted layer renumbers all that follow; what a module
is to a reader is its class and the classes around it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.compare.align import pairing
from npu_advisor.compare.noise import change
from npu_advisor.compare.vocabulary import wrapper_modules
from npu_advisor.comparison import Change, ModuleChange, OpChange
from npu_advisor.graph.named import starting
from npu_advisor.graph.nesting import Nesting
from npu_advisor.model.profile import Profile

_FIGURES = ("calls", "kernels", "kernel_us", "host_us")
_MARK = "nn.Module: "
_NUMBER = re.compile(r"_\d+$")


class Modules:
    """The runs of modules in one profile, in no order.

    ``name`` is the class of each, ``path`` the classes from the outermost one down to it with ``/`` between them,
    ``chain`` the runs from the outermost one down to it. Wrappers (DDP and the like) are looked through.
    """

    def __init__(self, profile: Profile) -> None:
        frames = profile.table("frames")
        self._rows = np.flatnonzero(starting(frames, _MARK))
        track, start, end = (frames[column][self._rows] for column in ("track", "start_ns", "end_ns"))
        self._tree = Nesting(track, start, end)
        named = frames.strings("name")[self._rows]
        self.name = [_NUMBER.sub("", str(text)[len(_MARK) :]) for text in named]
        self.path = [""] * len(self.name)
        self.chain: list[tuple[int, ...]] = [()] * len(self.name)
        for run in np.argsort(self._tree.depth, kind="stable").tolist():
            above = int(self._tree.parent[run])
            path, chain = (self.path[above], self.chain[above]) if above >= 0 else ("", ())
            hidden = self.name[run] in wrapper_modules()
            self.path[run] = path if hidden else f"{path}/{self.name[run]}".lstrip("/")
            self.chain[run] = chain if hidden else (*chain, run)

    def at(self, track: Ints, when: Ints) -> Ints:
        """The innermost run on each track at each time, -1 none."""
        return self._tree.innermost(track, when)


def module_changes(ops: Sequence[OpChange]) -> list[ModuleChange]:
    """Every place of the module tree that both sides recorded, in the order of its longest kernels."""
    if not all(any(getattr(op, side) for op in ops) for side in ("base_module", "new_module")):
        return []
    forth, back = _partners(ops)
    sums: dict[tuple[str | None, str | None], dict[str, list[float]]] = {}
    for op in ops:
        for number, (path, partners) in enumerate(((op.base_module, forth), (op.new_module, back))):
            for each in _around(path):
                pair = (each, partners.get(each)) if number == 0 else (partners.get(each), each)
                figures = sums.setdefault(pair, {key: [0.0, 0.0] for key in _FIGURES})
                for key in _FIGURES:
                    change_of: Change = getattr(op, key)
                    figures[key][number] += (change_of.new if number else change_of.base) or 0.0
    found = [
        ModuleChange(base=base, new=new, **{key: change(key, pair) for key, pair in figures.items()})
        for (base, new), figures in sums.items()
    ]
    return sorted(found, key=lambda each: -max(each.kernel_us.base or 0.0, each.kernel_us.new or 0.0))


def _partners(ops: Sequence[OpChange]) -> tuple[dict[str, str], dict[str, str]]:
    """Paths of the one side by path of the other, both ways: by matched calls they share, else by being the same."""
    votes: Counter[tuple[str, str]] = Counter()
    for op in ops:
        around = (_around(op.base_module)[::-1], _around(op.new_module)[::-1])
        for pair in zip(*around, strict=False):
            votes[pair] += max(round(min(op.calls.base or 0.0, op.calls.new or 0.0)), 1)
    seen = [{path for op in ops for path in _around(getattr(op, side))} for side in ("base_module", "new_module")]
    same = [(path, path) for path in sorted(seen[0] & seen[1])]
    return pairing([*same, *(pair for pair, _ in votes.most_common())])


def _around(path: str | None) -> list[str]:
    """``path`` and the paths of the modules around it, the outermost first."""
    parts = path.split("/") if path else []
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
