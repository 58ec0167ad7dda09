"""Edge weights with edits applied: of one set of edits, or of many sets that are made of the same edits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints, Spans, covered, union
from npu_advisor.graph.replay.arrays import DROPPED, Net, Numbers
from npu_advisor.graph.replay.edits import Edit, Pairs, merge
from npu_advisor.graph.replay.index import ranges
from npu_advisor.graph.replay.lanes import stable

# Some of the edits of a set, by ``id``.
Mix = frozenset[int]


class Reweighing:
    """Edge weights ``w`` of a net with edits applied, for as few edges as are asked for."""

    def __init__(self, net: Net, w: Ints) -> None:
        self._net, self.w = net, w
        self._spot = np.full(len(w), -1, dtype=np.int32)
        self._lanes: dict[int, tuple[Ints, Ints, Ints]] = {}

    def touched(self, edits: Iterable[Edit]) -> Numbers:
        """The edges that edits may change, in order; not those that they add."""
        found = np.zeros(len(self.w), dtype=bool)
        for edit in edits:
            for edges in (edit.assign[0], edit.limit[0], edit.drop):
                found[edges] = True
            lane, low, high = edit.cut
            for one in np.unique(lane).tolist():
                mine = lane == one
                found[self._between(one, union(low[mine], high[mine]))] = True
        return np.flatnonzero(found).astype(np.int32)

    def _between(self, lane: int, spans: Spans) -> Ints:
        """The edges of a lane that reach into one of ``spans``."""
        if lane not in self._lanes:
            rows = np.flatnonzero(self._net.lane == lane)
            low, high = self._net.spans(rows)
            order = np.argsort(low, kind="stable")
            self._lanes[lane] = rows[order], low[order], np.maximum.accumulate(high[order])
        rows, low, high = self._lanes[lane]
        return rows[ranges(np.searchsorted(high, spans.start, side="right"), np.searchsorted(low, spans.end))]

    def of(self, edits: Sequence[Edit], edges: Numbers) -> Ints:
        """The weights of some edges (each once) with edits applied."""
        self._spot[edges] = np.arange(len(edges))
        out = self.w[edges]
        for edge, _ in (edit.assign for edit in edits):
            at = self._spot[edge]
            out[at[at >= 0]] = np.iinfo(np.int64).max
        for edge, value in (edit.assign for edit in edits):
            self._at_most(out, edge, value)
        self._cut(out, edges, merge(edits).cut)
        for edge, value in (edit.limit for edit in edits):
            self._at_most(out, edge, value)
        for edit in edits:
            at = self._spot[edit.drop]
            out[at[at >= 0]] = DROPPED
        self._spot[edges] = -1
        return out

    def _at_most(self, out: Ints, edge: Ints, value: Ints) -> None:
        at = self._spot[edge]
        known = at >= 0
        np.minimum.at(out, at[known], value[known])

    def _cut(self, out: Ints, edges: Ints, cut: tuple[Ints, Ints, Ints]) -> None:
        lane, low, high = cut
        own = self._net.lane[edges]
        for one in np.unique(lane):
            mine, rows = lane == one, np.flatnonzero(own == one)
            gone = covered(*self._net.spans(edges[rows]), union(low[mine], high[mine]))
            out[rows] = np.where(gone > 0, np.maximum(out[rows] - gone, 0), out[rows])


class Mixes:
    """What sets of edits make of the edges that they touch.

    Edges that the same edits touch form a *class*. What a set makes of one depends only on which of these edits are
    in the set, its *mix*, so that each mix is weighed once for however many sets. Edits are told apart by ``id``.
    """

    def __init__(self, reweighing: Reweighing, edits: Iterable[Edit], home: npt.NDArray[np.uint16]) -> None:
        """``home`` orders the edges: those of all that is told here come in its order."""
        self._reweighing = reweighing
        self._edits = {id(edit): edit for edit in edits}
        self._members, self._edges = self._classes(home)
        self._known: dict[tuple[int, Mix], Pairs] = {}
        self._differences: dict[tuple[int, Mix, Mix], Pairs] = {}

    def _classes(self, home: npt.NDArray[np.uint16]) -> tuple[list[Mix], list[Numbers]]:
        """The edits that touch each class, and its edges."""
        found, members = np.zeros(len(self._reweighing.w), dtype=np.int32), [Mix()]
        for name, edit in self._edits.items():
            edges = self._reweighing.touched([edit])
            before, split = found[edges], np.arange(len(members), dtype=np.int32)
            for one in np.flatnonzero(np.bincount(before)).tolist():
                split[one] = len(members)
                members.append(members[one] | {name})
            found[edges] = split[before]
        touched = np.flatnonzero(found).astype(np.int32)
        touched = touched[stable(home[touched])]
        touched = touched[stable(found[touched])]
        return members, np.split(touched, np.searchsorted(found[touched], np.arange(1, len(members))))

    def size(self, mine: Mix, on: Mix) -> int:
        """How many weights a set changes, on top of another one."""
        return sum(self._count(*apart) for apart in self._apart(mine, on))

    def change(self, mine: Mix, on: Mix) -> list[Pairs]:
        """The edges of which a set makes something else than the set ``on`` does, and what; class by class."""
        return [self._difference(*apart) for apart in self._apart(mine, on) if self._count(*apart)]

    def _apart(self, one: Mix, other: Mix) -> list[tuple[int, Mix, Mix]]:
        """The classes of which two sets may make something else, with the mix of each."""
        mixes = ((number, members & one, members & other) for number, members in enumerate(self._members))
        return [(number, mine, theirs) for number, mine, theirs in mixes if mine != theirs]

    def _count(self, number: int, mine: Mix, theirs: Mix) -> int:
        counts = [len(self._mixed(number, mix)[0]) for mix in (mine, theirs)]
        return len(self._difference(number, mine, theirs)[0]) if all(counts) else max(counts)

    def _difference(self, number: int, mine: Mix, theirs: Mix) -> Pairs:
        if (number, mine, theirs) not in self._differences:
            edges, w = self._edges[number], self._reweighing.w
            (at, after), (was_at, before) = self._mixed(number, mine), self._mixed(number, theirs)
            if not len(was_at):
                found = edges[at], after
            elif not len(at):
                found = edges[was_at], w[edges[was_at]]
            else:
                both = np.stack((w[edges], w[edges]))
                both[0, at], both[1, was_at] = after, before
                new = np.flatnonzero(both[0] != both[1])
                found = edges[new], both[0, new]
            self._differences[number, mine, theirs] = found
        return self._differences[number, mine, theirs]

    def _mixed(self, number: int, mix: Mix) -> Pairs:
        """The edges of a class that a mix changes, as positions in it, and their weights."""
        if (number, mix) not in self._known:
            edges = self._edges[number]
            w = self._reweighing.of([self._edits[name] for name in mix], edges) if mix else self._reweighing.w[edges]
            new = np.flatnonzero(w != self._reweighing.w[edges])
            self._known[number, mix] = new.astype(np.int32), w[new]
        return self._known[number, mix]
