"""Patterns over labelled events, as ``chain`` uses them: names of symbols with ``? * + | ( )``.

A pattern becomes two table-driven automata over its *positions* (mentions of a symbol; Glushkov's construction, then
subsets of positions). One walks the events backwards and notes from which positions a match can still be completed; the
other walks forwards and never goes where none can. Each event with a symbol is visited at most twice, whatever the
pattern: nothing backtracks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from npu_advisor.engine.grammar import ExprError, Fault
from npu_advisor.engine.values import Array
from npu_advisor.rules.source import nearest

# The largest number that a repeat can be named by (T9), and the size of a pattern and of its automata.
MAX_NUMBER, MAX_TEXT, MAX_STATES = 9, 200, 256
_TOKENS = re.compile(r"\s*([A-Za-z_]\w*|[?*+|()]|\S)")


@dataclass(frozen=True)
class Automaton:
    """Subsets of positions and the moves between them: ``moves[state][label]``; state 0 is where it begins."""

    sets: list[int]
    moves: list[list[int]]


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern.

    ``forward`` reads a match from its first event; its sets are the positions just read. ``backward`` reads events from
    the last one; its sets are the positions that this event can have in a match that is completed from here.
    ``follow`` are, for each state of ``forward``, the positions that may come next (as bits). ``most`` says how many
    events of each symbol one match can hold (at most :data:`MAX_NUMBER`), ``symbols`` their labels 0, 1, ...
    """

    symbols: tuple[str, ...]
    forward: Automaton
    backward: Automaton
    follow: list[int]
    most: Mapping[str, int]

    def find(self, labels: Array, lane: Array) -> tuple[Array, Array]:
        """First event and number of events of each match: leftmost, the longest there, never overlapping.

        ``labels`` (``len(symbols)``: none) and ``lane`` describe events in order, those of one lane together; no match
        spans two lanes.
        """
        labelled = np.flatnonzero(labels < len(self.symbols))
        apart = np.ones(len(labelled), dtype=bool)
        apart[1:] = (np.diff(labelled) > 1) | (np.diff(lane[labelled]) != 0)
        names = labels[labelled].tolist()
        can = self._completable(names, apart.tolist())
        first, count = self._walk(names, can, [*np.flatnonzero(apart).tolist(), len(names)])
        return labelled[np.array(first, dtype=np.int64)], np.array(count, dtype=np.int64)

    def _completable(self, names: list[int], apart: list[bool]) -> list[int]:
        """For each event the state of ``backward`` there."""
        moves, state, out = self.backward.moves, 0, [0] * len(names)
        for at in range(len(names) - 1, -1, -1):
            out[at] = state = moves[state][names[at]]
            if apart[at]:
                state = 0
        return out

    def _walk(self, names: list[int], can: list[int], bounds: list[int]) -> tuple[list[int], list[int]]:
        """Starts and lengths of the matches; ``bounds`` are where stretches of neighbours begin, and the end."""
        moves, first, count = self.forward.moves, list[int](), list[int]()
        goes_on = [[bool(after & positions) for positions in self.backward.sets] for after in self.follow]
        for begin, end in pairwise(bounds):
            at = begin
            while at < end:
                start, state = at, 0
                while at < end and goes_on[state][can[at]]:
                    state = moves[state][names[at]]
                    at += 1
                if at > start:
                    first.append(start)
                    count.append(at - start)
                else:
                    at += 1
        return first, count


def compile_pattern(text: str, symbols: Sequence[str]) -> Pattern:
    """The automata of ``text``; ExprError for what is no pattern, fits no event at all, or is too large."""
    if len(text) > MAX_TEXT:
        raise ExprError(Fault(f"a pattern has at most {MAX_TEXT} characters"))
    parser = _Parser(text, symbols)
    root = parser.whole()
    if root.empty:
        raise ExprError(Fault("this pattern also fits no event at all; make one symbol of it needed", 0, len(text)))
    before = [sum(1 << at for at, after in enumerate(parser.follow) if after >> one & 1) for one in range(parser.size)]

    def next_after(read: int) -> int:
        return _united(read, parser.follow) if read else root.first

    def next_before(read: int) -> int:
        return _united(read, before) | root.last

    try:
        forward = _subsets(next_after, parser.labels, len(symbols))
        backward = _subsets(next_before, parser.labels, len(symbols))
    except OverflowError:
        raise ExprError(Fault("this pattern has too many ways to go on; make it simpler", 0, len(text))) from None
    most = {symbol: min(count, MAX_NUMBER) for symbol, count in root.most.items()}
    return Pattern(tuple(symbols), forward, backward, [next_after(read) for read in forward.sets], most)


@dataclass(frozen=True)
class _Part:
    """Part of a pattern: whether it fits nothing, the positions (as bits) it can begin and end with, symbol counts."""

    empty: bool
    first: int
    last: int
    most: Mapping[str, int] = field(default_factory=dict)


class _Parser:
    """Recursive descent; notes for each position (one mention of a symbol) its label and what may follow."""

    def __init__(self, text: str, symbols: Sequence[str]) -> None:
        self.symbols = symbols
        self.tokens = [(found[1], found.start(1)) for found in _TOKENS.finditer(text)]
        self.at, self.end = 0, len(text)
        self.labels: list[int] = []
        self.follow: list[int] = []

    @property
    def size(self) -> int:
        """How many positions there are."""
        return len(self.labels)

    def whole(self) -> _Part:
        part = self._choice()
        if self._peek():
            raise self._fault("unbalanced ')'")
        return part

    def _peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def _fault(self, message: str) -> ExprError:
        token, offset = self.tokens[self.at] if self.at < len(self.tokens) else ("", max(0, self.end - 1))
        return ExprError(Fault(message, offset, max(1, len(token))))

    def _choice(self) -> _Part:
        part = self._sequence()
        while self._peek() == "|":
            self.at += 1
            other = self._sequence()
            most = {name: max(part.most.get(name, 0), other.most.get(name, 0)) for name in {**part.most, **other.most}}
            part = _Part(part.empty or other.empty, part.first | other.first, part.last | other.last, most)
        return part

    def _sequence(self) -> _Part:
        part = self._repeated()
        while self._peek() not in ("", "|", ")"):
            other = self._repeated()
            self._join(part.last, other.first)
            first = part.first | (other.first if part.empty else 0)
            last = other.last | (part.last if other.empty else 0)
            most = {name: part.most.get(name, 0) + other.most.get(name, 0) for name in {**part.most, **other.most}}
            part = _Part(part.empty and other.empty, first, last, most)
        return part

    def _repeated(self) -> _Part:
        part = self._one()
        sign = self._peek()
        if sign not in ("?", "*", "+"):
            return part
        self.at += 1
        if self._peek() in ("?", "*", "+"):
            raise self._fault("one of ? * + at a time")
        most = part.most
        if sign != "?":
            self._join(part.last, part.first)
            most = dict.fromkeys(most, MAX_NUMBER)
        return _Part(part.empty or sign != "+", part.first, part.last, most)

    def _one(self) -> _Part:
        token = self._peek()
        if token == "(":
            self.at += 1
            part = self._choice()
            if self._peek() != ")":
                raise self._fault("unbalanced '('")
            self.at += 1
            return part
        if not re.match(r"[A-Za-z_]", token):
            raise self._fault(
                f"'{token}' cannot stand here; a symbol is needed" if token else "a symbol is needed here"
            )
        if token not in self.symbols:
            raise self._fault(f"unknown symbol '{token}'{nearest(token, self.symbols)}")
        self.at += 1
        bit = 1 << len(self.labels)
        self.labels.append(self.symbols.index(token))
        self.follow.append(0)
        return _Part(False, bit, bit, {token: 1})

    def _join(self, before: int, after: int) -> None:
        for position in range(len(self.follow)):
            if before >> position & 1:
                self.follow[position] |= after


def _subsets(coming: Callable[[int], int], labels: Sequence[int], symbols: int) -> Automaton:
    """The automaton whose state is the set of positions just read; ``coming`` says which may be read then.

    OverflowError when it is too large. The empty set is state 0, and where everything that cannot go on ends.
    """
    with_label = [sum(1 << at for at, one in enumerate(labels) if one == label) for label in range(symbols)]
    states, sets, moves = {0: 0}, [0], list[list[int]]()
    for read in sets:
        reachable = [coming(read) & bits for bits in with_label]
        for found in reachable:
            if found not in states:
                states[found] = len(sets)
                sets.append(found)
        if len(sets) > MAX_STATES:
            raise OverflowError
        moves.append([states[found] for found in reachable])
    return Automaton(sets, moves)


def _united(positions: int, neighbours: Sequence[int]) -> int:
    """All neighbours of some positions, as bits."""
    out = 0
    for position, bits in enumerate(neighbours):
        if positions >> position & 1:
            out |= bits
    return out
