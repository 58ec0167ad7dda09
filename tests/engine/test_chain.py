from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rulekit import ints, make_rule, profile_of

from npu_advisor.engine.compile import compile_rule
from npu_advisor.engine.expr import ExprError
from npu_advisor.engine.pattern import compile_pattern
from npu_advisor.engine.pipeline import run_stages
from npu_advisor.engine.rows import Rows
from npu_advisor.engine.run import run_rule
from npu_advisor.model.profile import Profile

SYMBOLS = ("A", "B", "C")
# Each pattern beside a plain description of the texts it fits, to be checked by trying every stretch.
PATTERNS = ["A B A", "A+ B?", "(A B)+", "A (B | C)* A", "(A | A B) (C | B C)", "A* B", "((A B?)+ C)+", "A | B A"]


def _fits(pattern: str, word: str) -> set[int]:
    """The ends of all prefixes of ``word`` that the pattern fits: by trying everything, one operator at a time."""
    tokens = pattern.replace(" ", "")

    def choice(at: int, starts: set[int]) -> tuple[int, set[int]]:
        at, ends = sequence(at, starts)
        while at < len(tokens) and tokens[at] == "|":
            at, more = sequence(at + 1, starts)
            ends = ends | more
        return at, ends

    def sequence(at: int, starts: set[int]) -> tuple[int, set[int]]:
        while at < len(tokens) and tokens[at] not in "|)":
            at, starts = repeated(at, starts)
        return at, starts

    def repeated(at: int, starts: set[int]) -> tuple[int, set[int]]:
        after, once = one(at, starts)
        sign = tokens[after] if after < len(tokens) and tokens[after] in "?*+" else ""
        if sign == "?":
            return after + 1, starts | once
        if sign:
            reached = set(once)
            while True:
                further = reached | one(at, reached)[1]
                if further == reached:
                    break
                reached = further
            return after + 1, reached if sign == "+" else reached | starts
        return after, once

    def one(at: int, starts: set[int]) -> tuple[int, set[int]]:
        if tokens[at] == "(":
            at, ends = choice(at + 1, starts)
            return at + 1, ends
        return at + 1, {end + 1 for end in starts if end < len(word) and word[end] == tokens[at]}

    return choice(0, {0})[1]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(word=st.text("ABCx", max_size=14))
@settings(max_examples=150)
def test_matches_are_the_leftmost_the_longest_and_apart(pattern: str, word: str) -> None:
    labels = np.array(["ABCx".index(letter) for letter in word], dtype=np.int64)
    first, count = compile_pattern(pattern, SYMBOLS).find(labels, np.zeros(len(word), dtype=np.int64))
    wanted, at = [], 0
    while at < len(word):
        length = max(_fits(pattern, word[at:]), default=0)
        if length:
            wanted.append((at, length))
        at += length or 1
    assert list(zip(ints(first), ints(count), strict=True)) == wanted


def test_no_match_spans_two_lanes() -> None:
    labels, lane = np.array([0, 0, 1, 0, 1]), np.array([0, 1, 1, 2, 2])
    first, count = compile_pattern("A+ B", SYMBOLS).find(labels, lane)
    assert (ints(first), ints(count)) == ([1, 3], [2, 2])


class _Counted(list[int]):
    """Labels that count how often one is looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [("(A* A*)* (A | A A)+ B?", 1), ("A* A* A* A* B", 0), ("A (A* B)?", 5_000), ("(A (A A)*)* C", 0)],
)
def test_no_pattern_looks_at_an_event_more_than_twice(pattern: str, matches: int) -> None:
    """Patterns on which a backtracking engine, or one that looks ahead from every start, would not come back."""
    found = compile_pattern(pattern, SYMBOLS)
    names = _Counted([0] * 5_000)
    can = found._completable(names, [True] + [False] * 4_999)
    assert len(found._walk(names, can, [0, 5_000])[0]) == matches
    assert names.looks <= 10_000


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("A D", "unknown symbol 'D'"),
        ("A)", "unbalanced ')'"),
        ("(A", "unbalanced '('"),
        ("A |", "a symbol is needed here"),
        ("", "a symbol is needed here"),
        ("* A", "'*' cannot stand here; a symbol is needed"),
        ("A*+", "one of ? * + at a time"),
        ("A{3}", "'{' cannot stand here; a symbol is needed"),
        ("A? B*", "this pattern also fits no event at all; make one symbol of it needed"),
        ("A " * 101, "a pattern has at most 200 characters"),
        ("(A|B)* A" + " (A|B)" * 12, "this pattern has too many ways to go on; make it simpler"),
        ("(" * 199, "a symbol is needed here"),
    ],
)
def test_what_is_no_pattern(pattern: str, problem: str) -> None:
    with pytest.raises(ExprError) as raised:
        compile_pattern(pattern, SYMBOLS)
    assert raised.value.fault.message == problem


def run(folder: Path, find: str, profile: Profile) -> Rows:
    return run_stages(profile, compile_rule(make_rule(folder, find)).stages)


def column(rows: Rows, name: str) -> list[object]:
    return list(rows.column(name).spread(len(rows)).scalars(rows.profile))


KERNELS = [
    {"type": "TransData", "name": "in", "stream": 1, "start_us": 0, "dur_us": 5, "source": "a.py:1", "step": 0},
    {"type": "MatMul", "name": "elsewhere", "stream": 2, "start_us": 6, "dur_us": 1, "step": 0},
    {"type": "Conv2D", "name": "conv", "stream": 1, "start_us": 10, "dur_us": 10, "source": "a.py:2", "step": 0},
    {"type": "TransData", "name": "out", "stream": 1, "start_us": 25, "dur_us": 5, "source": "a.py:3", "step": 0},
    {"type": "Conv2D", "name": "next", "stream": 1, "start_us": 30, "dur_us": 9, "source": "a.py:4", "step": 1},
    {"type": "TransData", "name": "again", "stream": 1, "start_us": 40, "dur_us": 2, "step": 1},
]
STEPS = [{"number": 7, "start_us": 0, "dur_us": 30}, {"number": 8, "start_us": 30, "dur_us": 30}]
PAIRS = """
    - from: kernels
    - let: {twice: dur_us * 2}
    - chain:
        lane: stream
        symbols:
          T: type == "TransData"
          M: type in ["Conv2D", "MatMul"]
        pattern: T M T
"""


def test_a_match_is_a_row_that_knows_its_events(folder: Path) -> None:
    rows = run(folder, PAIRS, profile_of(kernels=KERNELS, steps=STEPS))
    assert [column(rows, name) for name in ("T1.name", "M1.name", "T2.name")] == [["in"], ["conv"], ["out"]]
    assert (column(rows, "start_ns"), column(rows, "dur_us"), column(rows, "end_ns")) == ([0], [30.0], [30_000])
    assert (column(rows, "T2.twice"), column(rows, "M1.step.number"), column(rows, "name")) == ([10.0], [7], ["in"])
    assert ints(rows.base_members(0)["kernels"]) == [0, 2, 3]


def test_a_number_that_is_not_reached_is_missing(folder: Path) -> None:
    find = """
    - from: kernels
    - chain: {lane: stream, symbols: {T: type == "TransData", O: true}, pattern: "T+ O?"}
    - sort: [T1.dur_us]
    """
    rows = run(folder, find, profile_of(kernels=KERNELS))
    assert column(rows, "T1.name") == ["again", "in", "out"]
    assert column(rows, "O1.name") == [None, "conv", "next"]
    assert column(rows, "T2.name") == [None] * 3


def test_within_keeps_matches_apart(folder: Path) -> None:
    find = """
    - from: kernels
    - chain: {lane: stream, within: step, symbols: {T: type == "TransData", M: true}, pattern: (T | M)+}
    """
    rows = run(folder, find, profile_of(kernels=KERNELS, steps=STEPS))
    assert [ints(rows.base_members(row)["kernels"]) for row in range(3)] == [[0, 2, 3], [1], [4, 5]]


def test_chained_rows_group_with_all_their_members_and_time(folder: Path) -> None:
    find = """
    - from: kernels
    - cover: {free_us: {from: idle}}
    - chain: {lane: stream, within: step, symbols: {K: true}, pattern: K+}
    - group: {by: [K1.stream], agg: {n: count(), us: sum(K1.dur_us)}}
    """
    idle = [{"start_us": 2, "dur_us": 10}, {"start_us": 28, "dur_us": 8}]
    rows = run(folder, find, profile_of(kernels=KERNELS, steps=STEPS, idle=idle))
    assert (column(rows, "K1.stream"), column(rows, "n"), column(rows, "us")) == ([1, 2], [2, 1], [14.0, 1.0])
    assert [ints(rows.base_members(row)["kernels"]) for row in range(2)] == [[0, 2, 3, 4, 5], [1]]
    begin, end = rows.covered["free_us"].of(0)
    assert (ints(begin), ints(end)) == ([2_000, 10_000, 28_000], [5_000, 12_000, 36_000])


def test_chains_of_stacked_tables_and_of_chains(folder: Path) -> None:
    find = """
    - from: [kernels, tasks]
    - chain: {lane: stream, symbols: {C: kind == "copy", K: true}, pattern: K C | C K}
    - chain: {lane: stream, symbols: {P: true}, pattern: P P}
    """
    tasks = [{"kind": "copy", "name": "h2d", "stream": 1, "start_us": start, "dur_us": 1} for start in (8, 21)]
    rows = run(folder, find, profile_of(kernels=KERNELS, tasks=tasks))
    assert (column(rows, "P1.K1.name"), column(rows, "P2.C1.name"), column(rows, "dur_us")) == (
        ["in"],
        ["h2d"],
        [22.0],
    )
    assert {name: ints(at) for name, at in rows.base_members(0).items()} == {"kernels": [0, 2], "tasks": [0, 1]}


def test_a_finding_of_a_chain_removes_only_what_it_should(folder: Path) -> None:
    emit = """
    emit:
      at: M1.source
      fix: {remove: kernels, where: type == "TransData"}
      message: {en: "{T1.name} and {T2.name}", zh: "{T1.name}、{T2.name}"}
      evidence: {by: [name], agg: {us: sum(dur_us)}}
    """
    made = make_rule(folder, PAIRS, emit=emit)
    found = run_rule(made, profile_of(kernels=KERNELS, steps=STEPS)).raw_findings[0]
    assert (found.message.en, found.source, found.step, found.recorded_us) == ("in and out", "a.py:2", 7, 20.0)
    assert found.fix is not None
    assert ints(found.fix.rows) == [0, 3]
    assert found.evidence.rows == [["conv", 10.0], ["in", 5.0], ["out", 5.0]]


def test_nothing_to_chain(folder: Path) -> None:
    assert len(run(folder, PAIRS, profile_of(kernels=KERNELS[1:2]))) == 0
    assert len(run(folder, PAIRS, profile_of(kernels=[]))) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rules")
