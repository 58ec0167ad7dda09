"""The replay of one or more ranks: how well it gives back the recording, and what edits save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask, covered, subtract, union
from npu_advisor.graph.replay.arrays import CHAIN_RANK, DEPTH, DROPPED
from npu_advisor.graph.replay.build import Graph, build
from npu_advisor.graph.replay.edits import Edit, Editor, merge, weights
from npu_advisor.graph.replay.fixes import Fixer
from npu_advisor.graph.replay.gates import anchored, anchors, calibrate, step_errors
from npu_advisor.graph.replay.order import CycleError
from npu_advisor.graph.replay.solve import Solver
from npu_advisor.graph.replay.tasks import KERNEL
from npu_advisor.model.profile import Profile

_NONE = np.zeros(0, dtype=np.int64)
Added = tuple[Ints, Ints, Ints]


class StepReplay(NamedTuple):
    """One step (by number) of one rank: recorded and strictly replayed length in ns, signed error, anchored share."""

    rank: int
    step: int
    recorded: int
    replayed: int
    error: float
    anchored_share: float


class Replayer:
    """The calibrated graph of ``profiles`` (linked; one rank, or all ranks of a run that are there)."""

    def __init__(self, profiles: Profile | Sequence[Profile]) -> None:
        self.profiles = [profiles] if isinstance(profiles, Profile) else list(profiles)
        self.graph: Graph = build(self.profiles)
        self._fixers: dict[int, Fixer] = {}
        self._limits = [limit for rank in self.graph.ranks for limit in rank.limits]
        net = self.graph.net
        self.solver = Solver(net.rec, net.src, net.dst, CHAIN_RANK[net.kind])
        self.strict: Ints = self.solver.solve(net.w)
        self.calibrated = calibrate(self.graph)
        self.times: Ints = self.solver.solve(self.calibrated.w, self.calibrated.rec)
        self.end = int(self.times.max(initial=0))
        self.count = max((len(profile.table("steps")) for profile in self.profiles), default=0) or 1
        self._held = anchors(self.graph, self.calibrated)
        self.recorded = self._recorded()

    @property
    def error(self) -> float:
        """The largest error of strict self-replay of any step, as a share of the step."""
        return max((abs(step.error) for step in self.recorded), default=0.0)

    @property
    def anchored_share(self) -> float:
        """Share of the recorded time that the binding chain holds only by anchors."""
        total = sum(step.recorded for step in self.recorded)
        held = sum(step.recorded * step.anchored_share for step in self.recorded)
        return held / total if total else 0.0

    def anchored_beside(self, start: Ints, end: Ints) -> float:
        """The anchored share without what lies in these stretches (ns since the epoch), whose cause is known."""
        known, origin = union(start, end), self.graph.origin
        total = sum(step.recorded for step in self.recorded)
        held = 0
        for profile in self.profiles:
            steps = profile.table("steps")
            low, high = (np.array(column, dtype=np.int64) + origin for column in zip(*self._held, (0, 0), strict=True))
            left = subtract(union(low, high), known)
            held += int(covered(steps["start_ns"], steps["end_ns"], left).sum())
        return held / total if total else 0.0

    def fixer(self, number: int) -> Fixer:
        """Makes edits of the rank at ``number`` in ``profiles``."""
        if number not in self._fixers:
            self._fixers[number] = Fixer(Editor(self.graph, number, self.calibrated))
        return self._fixers[number]

    def price(self, edits: Edit | Iterable[Edit]) -> float:
        """What edits save together, in ns per step; negative where they cost."""
        (saved,) = self.prices([[edits] if isinstance(edits, Edit) else list(edits)])
        return saved

    def prices(self, sets: Sequence[Sequence[Edit]]) -> list[float]:
        """What each set of edits saves together, in ns per step; in one go, as sets share most of the work."""
        ends = self._ends([(edits, self._added(edits)) for edits in sets])
        return [(self.end - end) / self.count for end in ends]

    def _ends(self, sets: Sequence[tuple[Sequence[Edit], Added]]) -> list[int]:
        """When everything is over with each set. Edges that one of them adds are there for all, dropped."""
        net = self.graph.net
        src, dst, w = (np.concatenate([_NONE, *(new[column] for _, new in sets)]) for column in range(3))
        pairs, which = np.unique(src * len(net.rec) + dst, return_inverse=True)
        try:
            solver = self._extended(*np.divmod(pairs, max(len(net.rec), 1))) if len(pairs) else self.solver
        except CycleError:
            if len(sets) == 1:
                raise
            return [end for edits in sets for end in self._ends([edits])]
        bounds = np.cumsum([0, *(len(new[0]) for _, new in sets)]).tolist()
        for edits, _ in sets:
            for edit in edits:
                solver.may_drop(edit.drop)
        solver.may_drop(np.arange(len(net.src), len(net.src) + len(pairs)))

        def columns() -> Iterator[Ints]:
            for number, (edits, _) in enumerate(sets):
                mine = slice(bounds[number], bounds[number + 1])
                more = np.full(len(pairs), DROPPED)
                np.maximum.at(more, which[mine], w[mine])
                yield np.concatenate((self._weights(edits), more))

        return solver.ends(columns(), self.calibrated.rec)

    def _extended(self, src: Ints, dst: Ints) -> Solver:
        net = self.graph.net
        kind = np.concatenate((net.kind, np.full(len(src), DEPTH)))
        return Solver(net.rec, np.concatenate((net.src, src)), np.concatenate((net.dst, dst)), CHAIN_RANK[kind])

    def _added(self, edits: Sequence[Edit]) -> Added:
        """The edges that edits add: their own, and a queue's when its entries change."""
        gone = self._gone(edits)
        added = [
            (_NONE, _NONE, _NONE),
            *(edit.add for edit in edits),
            *(limit.without(gone) for limit in self._limits if gone[limit.done].any()),
        ]
        src, dst, w = (np.concatenate(column) for column in zip(*added, strict=True))
        return src, dst, w

    def _weights(self, edits: Sequence[Edit]) -> Ints:
        w, gone = weights(self.graph.net, self.calibrated.w, merge(edits)), self._gone(edits)
        for limit in self._limits:
            if gone[limit.done].any():
                w[limit.edges] = DROPPED
        return w

    def _gone(self, edits: Sequence[Edit]) -> Mask:
        gone = np.zeros(len(self.graph.net.rec), dtype=bool)
        for edit in edits:
            gone[edit.gone] = True
        return gone

    def _recorded(self) -> list[StepReplay]:
        found = []
        held = self._held
        for profile, errors in zip(self.profiles, step_errors(self.graph, self.strict), strict=True):
            steps = profile.table("steps")
            low, high = (steps[name] - self.graph.origin for name in ("start_ns", "end_ns"))
            shares = anchored(held, list(zip(low.tolist(), high.tolist(), strict=True)))
            found += [
                StepReplay(profile.rank, int(number), *values, share)
                for number, values, share in zip(steps["number"], errors, shares, strict=True)
            ]
        return found

    @property
    def kernel_gap(self) -> int:
        """What usually lies between two queued kernels, in ns."""
        return max(rank.device.kernel_gap for rank in self.graph.ranks)

    def kernel_shift(self) -> dict[int, Ints]:
        """How far strict replay moves each kernel's start, in ns, by rank."""
        moved = np.abs(self.strict - self.graph.net.rec)
        return {
            rank.profile.rank: moved[rank.device.task_start[rank.tasks.kind == KERNEL]] for rank in self.graph.ranks
        }
