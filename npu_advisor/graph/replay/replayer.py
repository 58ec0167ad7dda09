"""The replay of one or more ranks: how well it gives back the recording, and what edits save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from npu_advisor.base.aside import Aside
from npu_advisor.base.heap import give_back
from npu_advisor.base.intervals import Ints, covered, subtract, union
from npu_advisor.graph.replay.arrays import CHAIN_RANK, DEPTH, DROPPED
from npu_advisor.graph.replay.build import Graph, build
from npu_advisor.graph.replay.changes import Change
from npu_advisor.graph.replay.edits import Edit, Editor, Pairs
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


class _Strict(NamedTuple):
    """The strict replay: of each step, and how far it moves each kernel's start, by rank."""

    steps: list[StepReplay]
    kernel_shift: dict[int, Ints]


class Replayer:
    """The calibrated graph of ``profiles`` (linked; one rank, or all ranks of a run that are there), put ``aside``."""

    def __init__(self, profiles: Profile | Sequence[Profile], aside: Aside | None = None) -> None:
        self.profiles = [profiles] if isinstance(profiles, Profile) else list(profiles)
        self.aside = aside
        self.graph: Graph = build(self.profiles)
        if aside is not None:
            self.graph = aside.put_parts(self.graph)
            give_back()
        self._fixers: dict[int, Fixer] = {}
        self._editors: dict[int, Editor] = {}
        self._limits = [limit for rank in self.graph.ranks for limit in rank.limits]
        net = self.graph.net
        self.solver = Solver(net.rec, net.src, net.dst, CHAIN_RANK[net.kind])
        self.calibrated = calibrate(self.graph)
        if aside is not None:
            self.calibrated = aside.put_parts(self.calibrated)
        self._held = anchors(self.graph, self.calibrated)
        # Calibrated, the graph gives back its recording.
        self.end = int(self.calibrated.rec.max(initial=0))
        self.reweighing = Reweighing(net, self.calibrated.w)
        # The pairs of nodes between which edits added edges last.
        self._pairs = _NONE
        self.count = max((len(profile.table("steps")) for profile in self.profiles), default=0) or 1
        self._strict: _Strict | None = None

    @property
    def recorded(self) -> list[StepReplay]:
        """How well each step replays."""
        return self._strictly.steps

    @property
    def kernel_shift(self) -> dict[int, Ints]:
        """How far strict replay moves each kernel's start, in ns, by rank."""
        return self._strictly.kernel_shift

    @property
    def _strictly(self) -> _Strict:
        """The strict replay, worked out when it is asked for first."""
        if self._strict is None:
            self._strict = self._replayed()
        return self._strict

    @property
    def error(self) -> float:
        """The largest error of strict self-replay of any step, as a share of the step."""
        return max((abs(step.error) for step in self.recorded), default=0.0)

    @property
    def anchored_share(self) -> float:
        """Share of the recorded time that the binding chain holds only by anchors."""
        steps = [step for profile in self.profiles for step in self._anchored(profile)]
        total, held = sum(length for length, _ in steps), sum(length * share for length, share in steps)
        return held / total if total else 0.0

    def _anchored(self, profile: Profile) -> list[tuple[int, float]]:
        """The recorded length of each step, and its share that only anchors hold."""
        start, end = ((profile.table("steps")[name] - self.graph.origin).tolist() for name in ("start_ns", "end_ns"))
        windows = list(zip(start, end, strict=True))
        return [(high - low, share) for (low, high), share in zip(windows, anchored(self._held, windows), strict=True)]

    def anchored_beside(self, start: Ints, end: Ints) -> float:
        """The anchored share without what lies in these stretches (ns since the epoch), whose cause is known."""
        known, origin = union(start, end), self.graph.origin
        total = sum(length for profile in self.profiles for length, _ in self._anchored(profile))
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
            self._fixers[number] = Fixer(self.editor(number))
        return self._fixers[number]

    def editor(self, number: int) -> Editor:
        """Cuts, removes and adds what is told of the rank at ``number`` in ``profiles``."""
        if number not in self._editors:
            self._editors[number] = Editor(self.graph, number, self.calibrated)
        return self._editors[number]

    def forget_fixers(self) -> None:
        """Have those that were asked for made anew when they are asked for again."""
        self._fixers.clear()
        self._editors.clear()

    def expect(self, edits: Sequence[Edit]) -> None:
        """Get ready for these edits: what is worked out from now on holds the edges that they add. A first replay
        before would have to be laid out once more."""
        with suppress(CycleError):
            self._extend(self._added(self._complete(edits))[0])

    def _added(self, edits: Sequence[Edit]) -> tuple[Ints, Ints]:
        """The edges that edits add: the pairs of nodes (numbered src * nodes + dst) and weights."""
        src, dst, w = (np.concatenate([_NONE, *(edit.add[column] for edit in edits)]) for column in range(3))
        return src * len(self.graph.net.rec) + dst, w

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
        added = [self._added(edits) for edits in sets]
        try:
            self._extend(np.concatenate([_NONE, *(pairs for pairs, _ in added)]))
        except CycleError:
            if len(sets) == 1:
                raise
            return [end for edits in sets for end in self._ends([edits])]
        first = len(self.graph.net.src)
        more = [_largest(first + np.searchsorted(self._pairs, pairs), w) for pairs, w in added]
        changes = self._changes(sets, more)
        give_back()
        return self.solver.ends(self.calibrated.w, changes, self.calibrated.rec)

    def _extend(self, pairs: Ints) -> None:
        """See to it that there is an edge between each of ``pairs`` of nodes (numbered src * nodes + dst)."""
        pairs = np.unique(pairs)
        if not np.isin(pairs, self._pairs, assume_unique=True).all():
            src, dst = np.divmod(pairs, len(self.graph.net.rec))
            self.solver.extend(src, dst, CHAIN_RANK[DEPTH])
            self._pairs = pairs

    def _changes(self, sets: Sequence[list[Edit]], added: list[Pairs]) -> list[Change]:
        """The weights that each set of edits, with its ``added`` edges, changes: on top of those of another set where
        that is less. The largest sets come first, so that others can be on top of them."""
        mixes = Mixes(self.reweighing, [edit for edits in sets for edit in edits], self.solver.home)
        names = [Mix(map(id, edits)) for edits in sets]
        plain: list[int] = []
        found: dict[int, Change] = {}
        for number in sorted(range(len(sets)), key=lambda number: -mixes.size(names[number], Mix())):
            below = {-1: Mix()} | {one: names[one] for one in plain[:MOST_COMPARED]}
            on = min(below, key=lambda one: mixes.size(names[number], below[one]))
            parts = [*mixes.change(names[number], below[on]), added[number]]
            if on < 0:
                plain.append(number)
            else:
                lost = np.setdiff1d(added[on][0], added[number][0], assume_unique=True)
                parts.append((lost, np.full(len(lost), DROPPED)))
            found[number] = Change(parts, on)
        return [found[number] for number in range(len(sets))]

    def _replayed(self) -> _Strict:
        net, found = self.graph.net, []
        strict = self.solver.solve(net.w)
        for profile, errors in zip(self.profiles, step_errors(self.graph, strict), strict=True):
            numbers, steps = profile.table("steps")["number"].tolist(), self._anchored(profile)
            found += [
                StepReplay(profile.rank, number, *values, share)
                for number, values, (_, share) in zip(numbers, errors, steps, strict=True)
            ]
        moved = np.abs(strict - net.rec)
        return _Strict(
            found,
            {rank.profile.rank: moved[rank.device.task_start[rank.tasks.kind == KERNEL]] for rank in self.graph.ranks},
        )

    @property
    def kernel_gap(self) -> int:
        """What usually lies between two queued kernels, in ns."""
        return max(rank.device.kernel_gap for rank in self.graph.ranks)


def _largest(edges: Ints, w: Ints) -> Pairs:
    """Each of ``edges`` once, in order, with the largest of its weights."""
    order = np.lexsort((w, edges))
    last = np.append(edges[order][1:] != edges[order][:-1], True)[: len(order)]
    return edges[order][last].astype(np.int32), w[order][last]
