"""Patterns over labelled events, as ``chain`` uses them: names of symbols with ``? * + | ( )``.

A pattern becomes a table-driven automaton (Glushkov's construction, then subsets of its positions), and all places
where a match might start walk through it side by side. Nothing backtracks: a match costs as many steps as it is long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from npu_advisor.engine.grammar import ExprError, Fault
from npu_advisor.engine.values import Array
from npu_advisor.rules.source import nearest

# The longest match in events, the largest number that a repeat can be named by (T9), and the size of a pattern.
MAX_MATCH, MAX_NUMBER, MAX_TEXT, MAX_STATES = 1000, 9, 200, 256
_TOKENS = re.compile(r"\s*([A-Za-z_]\w*|[?*+|()]|\S)")
_DEAD, _START = 0, 1


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern.

    ``moves[state, label]`` is the next state, 0 where nothing can match any more; label k is the k-th symbol, the last
    column stands for events without a symbol. ``most`` says how many events of each symbol one match can hold (at most
    :data:`MAX_NUMBER`), ``symbols`` their labels.
    """

    symbols: tuple[str, ...]
    moves: Array
    accepting: Array
    most: Mapping[str, int]

    def find(self, labels: Array, lane: Array) -> tuple[Array, Array]:
        """First event and number of events of each match: leftmost, the longest there, never overlapping.

        ``labels`` and ``lane`` describe events in order, those of one lane together; no match spans two lanes.
        """
        ends = np.searchsorted(lane, lane, side="right")
        longest = np.zeros(len(labels), dtype=np.int64)
        live = np.arange(len(labels))
        state = np.full(len(labels), _START, dtype=self.moves.dtype)
        for length in range(1, MAX_MATCH + 1):
            state = self.moves[state, labels[live + length - 1]]
            longest[live[self.accepting[state]]] = length
            going = (state != _DEAD) & (live + length < ends[live])
            live, state = live[going], state[going]
            if not len(live):
                break
        starts = np.flatnonzero(longest)
        chosen = starts[_apart(starts, starts + longest[starts])]
        return chosen, longest[chosen]


def _apart(starts: Array, ends: Array) -> Array:
    """The first interval, the next that begins at or after its end, and so on; ``starts`` ascend."""
    following = np.searchsorted(starts, ends).tolist()
    chosen, at = [], 0
    while at < len(following):
        chosen.append(at)
        at = following[at]
    return np.array(chosen, dtype=np.int64)


def compile_pattern(text: str, symbols: Sequence[str]) -> Pattern:
    """The automaton of ``text``; ExprError for what is no pattern, fits no event at all, or is too large."""
    if len(text) > MAX_TEXT:
        raise ExprError(Fault(f"a pattern has at most {MAX_TEXT} characters"))
    parser = _Parser(text, symbols)
    root = parser.whole()
    if root.empty:
        raise ExprError(Fault("this pattern also fits no event at all; make one symbol of it needed", 0, len(text)))
    moves, accepting = _subsets(root, parser, len(symbols), len(text))
    most = {symbol: min(count, MAX_NUMBER) for symbol, count in root.most.items()}
    return Pattern(tuple(symbols), moves, accepting, most)


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


def _subsets(root: _Part, parser: _Parser, symbols: int, width: int) -> tuple[Array, Array]:
    """Moves and accepting states; each state is a set of positions just read, as bits."""
    states: dict[int, int] = {}
    moves, accepting = [[_DEAD] * (symbols + 1)], [False]
    queue = [(0, root.first)]  # what was read, what may come next
    moves.append([])
    accepting.append(False)
    for read, coming in queue:
        row = [_DEAD] * (symbols + 1)
        for label in range(symbols):
            bits = sum(1 << at for at, one in enumerate(parser.labels) if one == label and coming >> at & 1)
            if bits and bits not in states:
                states[bits] = len(moves)
                moves.append([])
                accepting.append(bool(bits & root.last))
                queue.append((bits, _following(bits, parser.follow)))
            row[label] = states[bits] if bits else _DEAD
        moves[states[read] if read else _START] = row
        if len(states) > MAX_STATES:
            raise ExprError(Fault("this pattern has too many ways to go on; make it simpler", 0, width))
    return np.array(moves, dtype=np.int16), np.array(accepting)


def _following(bits: int, follow: Sequence[int]) -> int:
    out = 0
    for position, after in enumerate(follow):
        if bits >> position & 1:
            out |= after
    return out
