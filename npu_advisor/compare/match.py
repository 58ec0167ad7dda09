"""Which call of the one side is which call of the other, and which line of the one is which line of the other.

One step of each side stands for the side. Their calls are aligned thread by thread, down the module tree where both
sides recorded it: first by name and shapes (longest common subsequence, so that calls put in, taken out or repeated in
between do no harm; those that launch kernels before the others), then, in the gaps that leaves, by name alone (the
batch size has changed), by the op inside them that launches (another op around it), and at last what only changed
places at its line. All other steps are aligned to the one that stands for their side.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.compare.align import aligned, aligned_trees, filled, pairing
from npu_advisor.compare.calls import ROLES, Calls, Kind
from npu_advisor.compare.lcs import Pairs
from npu_advisor.compare.tokens import Numbered, Tokens
from npu_advisor.model.profile import Profile

# Alignment down the module tree must match this share of what it would without.
_CORRESPONDING = 0.9


class Site(NamedTuple):
    """A line of the user's code as each side gives it (``path(line): function``); None where that side has none."""

    base: str | None
    new: str | None


NOWHERE = Site(None, None)


class Group(NamedTuple):
    """Calls that are one to the reader: of one kind, issued at one line. ``base`` or ``new`` is None where that side
    has no such call."""

    site: Site
    base: Kind | None
    new: Kind | None


@dataclass
class Recording:
    """One profile of a side: the rows of its ``steps`` that count, its calls, and the group of each (-1 not yet)."""

    profile: Profile
    steps: list[int]
    calls: Calls = field(init=False)
    group: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.calls = Calls(self.profile)
        self.group = np.full(len(self.calls.row), -1, dtype=np.int64)

    @property
    def usual_step(self) -> int:
        """The step whose duration is the median of those that count."""
        durations = self.profile.table("steps")["dur_ns"][self.steps]
        return self.steps[int(np.argsort(durations, kind="stable")[(len(self.steps) - 1) // 2])]


class Matching:
    """The groups of two sides; fills ``group`` of every recording.

    ``site_of`` is the site of a line of one side (0 base, 1 new).
    """

    def __init__(self, base: Sequence[Recording], new: Sequence[Recording]) -> None:
        self.sides = (base, new)
        self.groups: list[Group] = []
        self._number: dict[Group, int] = {}
        self._known: dict[tuple[int, str | None, Kind], int] = {}
        self._tokens = Tokens()
        first, second = base[0], new[0]
        pairs = self._pairs(first, first.usual_step, second, second.usual_step)
        self._lines = _lines(first.calls, second.calls, pairs)
        pairs += self._moved(first, second, pairs)
        for one, other in pairs:
            self._put(first, second, one, other)
        for side, recordings in enumerate(self.sides):
            self._spread(side, recordings)
        self._occasional()

    def site_of(self, source: str | None, side: int) -> Site:
        """Where a line of one side is on both."""
        if source is None:
            return NOWHERE
        partner = self._lines[side].get(source)
        return Site(source, partner) if side == 0 else Site(partner, source)

    def add(self, group: Group) -> int:
        """The number of a group; a new one where it is not known yet."""
        if group not in self._number:
            self._number[group] = len(self.groups)
            self.groups.append(group)
        return self._number[group]

    def beside_edits(self) -> list[Group]:
        """Groups that both sides have, with calls that follow one which only one side has."""
        found: set[int] = set()
        for recordings in self.sides:
            first = recordings[0]
            for role in ROLES:
                group = first.group[first.calls.in_step(first.usual_step, role)]
                both = np.array([None not in self.groups[each][1:] for each in group], dtype=bool)
                found.update(group[1:][both[1:] & ~both[:-1]].tolist())
        return [self.groups[each] for each in sorted(found)]

    def _pairs(self, first: Recording, step: int, second: Recording, other_step: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        by_shape = first.calls.shaped and second.calls.shaped
        for role in ROLES:
            one = self._tokens.of(first.calls, first.calls.in_step(step, role), by_shape)
            other = self._tokens.of(second.calls, second.calls.in_step(other_step, role), by_shape)
            kinds, names, cores = zip(one[2:], other[2:], strict=True)
            pairs = _in_order(one, other)
            if one.in_modules and other.in_modules:
                placed = aligned_trees(self._tokens.tree(one), self._tokens.tree(other))
                in_place = filled(_positions(placed, one.rows, other.rows), kinds, names)
                # Models of other classes have trees that say nothing about each other.
                pairs = in_place if len(in_place.a) >= _CORRESPONDING * len(pairs.a) else pairs
            pairs = filled(pairs, cores)
            found += zip(one.rows[pairs.a].tolist(), other.rows[pairs.b].tolist(), strict=True)
        return found

    def _moved(self, first: Recording, second: Recording, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Calls without a partner that have one of their own kind, at their own line, elsewhere in the step."""
        waiting: dict[tuple[Site, Kind], list[int]] = defaultdict(list)
        for call in _rest(first, (one for one, _ in pairs)):
            if first.calls.source_of(call) is not None:
                waiting[self._identity(0, first, call)].append(call)
        rest = _rest(second, (other for _, other in pairs))
        asked = [(waiting.get(self._identity(1, second, call)), call) for call in rest]
        return [(partners.pop(0), call) for partners, call in asked if partners]

    def _put(self, first: Recording, second: Recording, one: int, other: int) -> None:
        kinds = first.calls.kinds[first.calls.kind[one]], second.calls.kinds[second.calls.kind[other]]
        sources = first.calls.source_of(one), second.calls.source_of(other)
        site = self.site_of(sources[0], 0) if sources[0] is not None else self.site_of(sources[1], 1)
        number = self.add(Group(site, *kinds))
        first.group[one] = second.group[other] = number
        for side in (0, 1):
            self._known.setdefault((side, sources[side], kinds[side]), number)

    def _spread(self, side: int, recordings: Sequence[Recording]) -> None:
        """Give the calls of every step of a side the groups of the calls of its usual step that they are."""
        first = recordings[0]
        usual = first.usual_step
        for call in np.flatnonzero((first.calls.step == usual) & (first.group < 0)).tolist():
            kind = first.calls.kinds[first.calls.kind[call]]
            first.group[call] = self._alone(side, first.calls.source_of(call), kind)
        for recording in recordings:
            for step in recording.steps:
                if recording is not first or step != usual:
                    for one, other in self._pairs(first, usual, recording, step):
                        recording.group[other] = first.group[one]

    def _occasional(self) -> None:
        """Groups for the calls that the usual steps have not: such as what is logged every tenth step."""
        both: list[set[tuple[Site, Kind]]] = [set(), set()]
        for side, recording, call in self._left():
            both[side].add(self._identity(side, recording, call))
        for side, recording, call in self._left():
            source, kind = recording.calls.source_of(call), recording.calls.kinds[recording.calls.kind[call]]
            known = self._known.get((side, source, kind))
            if known is None and (found := self._identity(side, recording, call)) in both[0] & both[1]:
                known = self.add(Group(*found, found[1]))
            recording.group[call] = self._alone(side, source, kind) if known is None else known

    def _left(self) -> Iterator[tuple[int, Recording, int]]:
        for side, recordings in enumerate(self.sides):
            for recording in recordings:
                left = np.isin(recording.calls.step, recording.steps) & (recording.group < 0)
                for call in np.flatnonzero(left).tolist():
                    yield side, recording, call

    def _identity(self, side: int, recording: Recording, call: int) -> tuple[Site, Kind]:
        kind = recording.calls.kinds[recording.calls.kind[call]]
        # Modules of the two sides may be called differently, or be unknown on one of them.
        return self.site_of(recording.calls.source_of(call), side), kind._replace(module="")

    def _alone(self, side: int, source: str | None, kind: Kind) -> int:
        site = self.site_of(source, side)
        number = self.add(Group(site, kind, None) if side == 0 else Group(site, None, kind))
        self._known.setdefault((side, source, kind), number)
        return number


def _in_order(one: Numbered, other: Numbered) -> Pairs:
    """Pairs by their order alone: first the calls that launch, as views and checks occur anywhere."""
    at, at_other = one.launching, other.launching
    anchors = aligned((one.kinds[at], other.kinds[at_other]), (one.names[at], other.names[at_other]))
    pairs = Pairs(at[anchors.a], at_other[anchors.b])
    return filled(pairs, (one.kinds, other.kinds), (one.names, other.names))


def _positions(pairs: Sequence[tuple[int, int]], one: Ints, other: Ints) -> Pairs:
    """Pairs of calls as positions in the rising sequences of calls ``one`` and ``other``."""
    both = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return Pairs(np.searchsorted(one, both[:, 0]), np.searchsorted(other, both[:, 1]))


def _rest(recording: Recording, taken: Iterable[int]) -> list[int]:
    """The calls of the usual step that have no partner."""
    calls = np.flatnonzero(recording.calls.step == recording.usual_step)
    rest: list[int] = calls[~np.isin(calls, list(taken))].tolist()
    return rest


def _lines(base: Calls, new: Calls, pairs: list[tuple[int, int]]) -> tuple[dict[str, str], dict[str, str]]:
    """Lines that are each other's, both ways: by how many matched calls they share, else by being the same text."""
    votes: Counter[tuple[str, str]] = Counter()
    for one, other in pairs:
        sources = base.source_of(one), new.source_of(other)
        if sources[0] is not None and sources[1] is not None:
            votes[sources[0], sources[1]] += 1
    same = [(text, text) for text in base.sources if text in set(new.sources)]
    return pairing([*(pair for pair, _ in votes.most_common()), *same])
