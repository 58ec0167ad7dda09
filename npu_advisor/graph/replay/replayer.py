"""The replay of one or more ranks: how well it gives back the recording, and what edits save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.replay.arrays import DROPPED
from npu_advisor.graph.replay.build import Graph, build
from npu_advisor.graph.replay.edits import Edit, Editor, merge, weights
from npu_advisor.graph.replay.fixes import Fixer
from npu_advisor.graph.replay.gates import anchored, anchors, calibrate, step_errors
from npu_advisor.graph.replay.solve import Solver
from npu_advisor.graph.replay.tasks import KERNEL
from npu_advisor.model.profile import Profile


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

    def __init__(self, profiles: Profile | Sequence[Profile], *, compiled: bool = True) -> None:
        self.profiles = [profiles] if isinstance(profiles, Profile) else list(profiles)
        self.graph: Graph = build(self.profiles)
        self._use_compiled = compiled
        self._fixers: dict[int, Fixer] = {}
        self._limits = [limit for rank in self.graph.ranks for limit in rank.limits]
        net = self.graph.net
        self.solver = Solver(net.rec, net.src, net.dst, compiled=compiled)
        self.strict: Ints = self.solver.solve(net.w)
        self.calibrated = calibrate(self.graph)
        self.times: Ints = self.solver.solve(self.calibrated.w, self.calibrated.rec)
        self.end = int(self.times.max(initial=0))
        self.count = max((len(profile.table("steps")) for profile in self.profiles), default=0) or 1
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

    def fixer(self, number: int) -> Fixer:
        """Makes edits of the rank at ``number`` in ``profiles``."""
        if number not in self._fixers:
            self._fixers[number] = Fixer(Editor(self.graph, number, self.calibrated))
        return self._fixers[number]

    def replay(self, edit: Edit) -> Ints:
        """Times of all nodes with an edit applied."""
        net = self.graph.net
        w = weights(net, self.calibrated.w, edit)
        added = [edit.add]
        if len(edit.gone):
            gone = np.zeros(len(net.rec), dtype=bool)
            gone[edit.gone] = True
            for limit in self._limits:
                if gone[limit.done].any():
                    w[limit.edges] = DROPPED
                    added.append(limit.without(gone))
        src, dst, more = (np.concatenate(column) for column in zip(*added, strict=True))
        if not len(src):
            return self.solver.solve(w, self.calibrated.rec)
        solver = Solver(
            net.rec, np.concatenate((net.src, src)), np.concatenate((net.dst, dst)), compiled=self._use_compiled
        )
        return solver.solve(np.concatenate((w, more)), self.calibrated.rec)

    def price(self, edits: Edit | Iterable[Edit]) -> float:
        """What edits save together, in ns per step; negative where they cost."""
        edit = edits if isinstance(edits, Edit) else merge(edits)
        return (self.end - int(self.replay(edit).max(initial=0))) / self.count

    def _recorded(self) -> list[StepReplay]:
        found = []
        held = anchors(self.graph, self.calibrated)
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
