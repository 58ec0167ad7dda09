"""The replay of one or more ranks: how well it gives back the recording, and what edits save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.base.heap import give_back
from npu_advisor.base.intervals import Ints, covered, subtract, union
from npu_advisor.graph.replay.arrays import CHAIN_RANK, DEPTH, DROPPED
from npu_advisor.graph.replay.build import Graph, build
from npu_advisor.graph.replay.changes import Change
from npu_advisor.graph.replay.edits import Edit, Editor, Pairs, merge
from npu_advisor.graph.replay.fixes import Fixer
from npu_advisor.graph.replay.gates import anchored, anchors, calibrate, step_errors
from npu_advisor.graph.replay.order import CycleError
from npu_advisor.graph.replay.reweigh import Mix, Mixes, Reweighing
from npu_advisor.graph.replay.solve import Solver
from npu_advisor.graph.replay.tasks import KERNEL
from npu_advisor.model.profile import Profile

_NONE = np.zeros(0, dtype=np.int64)
# Sets of edits are looked for something alike among so many.
MOST_COMPARED = 8


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
        strict = self.solver.solve(net.w)
        self.calibrated = calibrate(self.graph)
        # Calibrated, the graph gives back its recording.
        self.end = int(self.calibrated.rec.max(initial=0))
        self.reweighing = Reweighing(net, self.calibrated.w)
        # The pairs of nodes between which edits added edges last.
        self._pairs = _NONE
        self.count = max((len(profile.table("steps")) for profile in self.profiles), default=0) or 1
        self._held = anchors(self.graph, self.calibrated)
        self.recorded = self._recorded(strict)
        # How far strict replay moves each kernel's start, in ns, by rank.
        self.kernel_shift = {
            rank.profile.rank: np.abs(strict - net.rec)[rank.device.task_start[rank.tasks.kind == KERNEL]]
            for rank in self.graph.ranks
        }

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
        """What each set of edits saves together, in ns per step; in one go, as sets share most of the work.

        Sets that are much like the first one cost least.
        """
        return [(self.end - end) / self.count for end in self._ends([self._complete(edits) for edits in sets])]

    def _complete(self, edits: Sequence[Edit]) -> list[Edit]:
        """With what becomes of full queues when some of their entries go."""
        if not self._limits:
            return list(edits)
        gone = np.zeros(len(self.graph.net.rec), dtype=bool)
        for edit in edits:
            gone[edit.gone] = True
        changed = [limit for limit in self._limits if gone[limit.done].any()]
        return [*edits, *(Edit(drop=limit.edges, add=limit.without(gone)) for limit in changed)]

    def _ends(self, sets: Sequence[list[Edit]]) -> list[int]:
        """When everything is over with each set. Edges that one of them adds are there for all, dropped."""
        size = len(self.graph.net.rec)
        added = [merge(edits).add for edits in sets]
        pairs = [src.astype(np.int64) * size + dst for src, dst, _ in added]
        try:
            self._extend(np.unique(np.concatenate([_NONE, *pairs])))
        except CycleError:
            if len(sets) == 1:
                raise
            return [end for edits in sets for end in self._ends([edits])]
        first = len(self.graph.net.src)
        more = [
            _largest(first + np.searchsorted(self._pairs, own), w) for own, (_, _, w) in zip(pairs, added, strict=True)
        ]
        changes = self._changes(sets, more)
        give_back()
        return self.solver.ends(self.calibrated.w, changes, self.calibrated.rec)

    def _extend(self, pairs: Ints) -> None:
        """See to it that there is an edge between each of ``pairs`` of nodes (numbered src * nodes + dst)."""
        if not np.isin(pairs, self._pairs, assume_unique=True).all():
            src, dst = np.divmod(pairs, len(self.graph.net.rec))
            self.solver.extend(src, dst, CHAIN_RANK[DEPTH])
            self._pairs = pairs

    def _changes(self, sets: Sequence[list[Edit]], added: list[Pairs]) -> list[Change]:
        """The weights that each set of edits, with its ``added`` edges, changes: on top of those of another set where
        that is less. The largest sets come first, so that others can be on top of them."""
        mixes = Mixes(self.reweighing, [edit for edits in sets for edit in edits])
        names = [Mix(map(id, edits)) for edits in sets]
        plain: list[int] = []
        found: dict[int, Change] = {}
        for number in sorted(range(len(sets)), key=lambda number: -mixes.size(names[number], Mix())):
            below = {-1: Mix()} | {one: names[one] for one in plain[:MOST_COMPARED]}
            on = min(below, key=lambda one: mixes.size(names[number], below[one]))
            if on < 0:
                plain.append(number)
            edge, w = mixes.change(names[number], below[on])
            parts = [(edge, w), added[number]]
            if on >= 0:
                lost = np.setdiff1d(added[on][0], added[number][0], assume_unique=True)
                parts.append((lost, np.full(len(lost), DROPPED)))
            edge, w = (np.concatenate(column) for column in zip(*parts, strict=True))
            by_block = np.argsort(self.solver.home[edge], kind="stable")
            found[number] = Change(edge[by_block], w[by_block], on)
        return [found[number] for number in range(len(sets))]

    def _recorded(self, strict: Ints) -> list[StepReplay]:
        found = []
        held = self._held
        for profile, errors in zip(self.profiles, step_errors(self.graph, strict), strict=True):
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


def _largest(edges: Ints, w: Ints) -> Pairs:
    """Each of ``edges`` once, in order, with the largest of its weights."""
    order = np.lexsort((w, edges))
    last = np.append(edges[order][1:] != edges[order][:-1], True)[: len(order)]
    return edges[order][last].astype(np.int32), w[order][last]
