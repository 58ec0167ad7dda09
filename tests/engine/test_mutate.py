from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from rulekit import make_rule, same, write

from npu_advisor.engine.mutate import mutants, unnoticed, without_one
from npu_advisor.rules.cases import Case, read_cases
from npu_advisor.rules.spec import Rule

PARAMS = """
    min_us: {default: 10, unit: us, doc: x}
    types: {default: [Cast], doc: x}
    unused: {default: 3, doc: x}
"""
FIND = """
    - from: kernels
    - where: type in $types and (dur_us >= $min_us or stream == 7)
"""


def rule(folder: Path, cases: str, find: str = FIND) -> tuple[Rule, list[Case]]:
    made = make_rule(folder, find, params=PARAMS)
    write(folder, "rule: layout-sample\ncases:\n" + dedent(cases), "layout-sample.test.yaml")
    file, problems = read_cases(made)
    assert file is not None, problems
    return made, file.cases


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("a > 1", [("a > 1", None)]),
        ("a > $x and b", [("a > $x", "b"), ("b", "a > $x")]),
        ("a and (b or c)", [("a", "b or c"), ("b", "a and c"), ("c", "a and b")]),
        ("not (a and b)", [("a", "not b"), ("b", "not a")]),
        ("not a", [("not a", None)]),
    ],
)
def test_each_condition_is_left_out_once(text: str, changed: list[tuple[str, str | None]]) -> None:
    assert [(part.text, rest) for part, rest in without_one(text)] == changed


def test_what_is_changed(tmp_path: Path) -> None:
    made, _ = rule(tmp_path, "- {name: x, given: {kernels: []}, expect: []}\n")
    assert [one.what for one in mutants(made)] == [
        "min_us is halved",
        "min_us is doubled",
        "'type in $types' is dropped",
        "'dur_us >= $min_us' is dropped",
        "'stream == 7' is dropped",
    ]


def test_conditions_of_cover_and_join_are_changed_too(tmp_path: Path) -> None:
    find = """
    - from: kernels
    - cover: {c: {from: idle, where: owner == "gc"}}
    - join:
        from: [{from: kernels}, {where: dur_us > 1}, {group: {by: [type], agg: {n: count()}}}]
        on: [type]
    """
    made, _ = rule(tmp_path, "- {name: x, given: {kernels: []}, expect: []}\n", find)
    assert [one.what for one in mutants(made)] == ["'owner == \"gc\"' is dropped", "'dur_us > 1' is dropped"]
    assert [len(one.rule.find[2].join.from_) for one in mutants(made) if one.rule.find[2].join] == [3, 2]


def test_what_no_case_notices_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made, cases = rule(
        tmp_path,
        """
        - {name: fires, given: {kernels: [{type: Cast, dur_us: 11, stream: 1}]}, expect: [{}]}
        - {name: silent, given: {kernels: [{type: Add, dur_us: 11, stream: 1}]}, expect: []}
        - {name: another stream, given: {kernels: [{type: Cast, dur_us: 1, stream: 7}]}, expect: [{}]}
        """,
    )
    left, tried = unnoticed(made, cases, same)
    assert (tried, [str(one.problem()) for one in left]) == (
        5,
        [
            "layout-sample.yaml:6:21: error: no case notices when min_us is halved\n"
            "      min_us: {default: 10, unit: us, doc: x}\n"
            "                        ^^"
        ],
    )


def test_a_near_miss_is_noticed(tmp_path: Path) -> None:
    made, cases = rule(
        tmp_path,
        """
        - {name: fires, given: {kernels: [{type: Cast, dur_us: 11, stream: 1}]}, expect: [{}]}
        - {name: near miss, given: {kernels: [{type: Cast, dur_us: 9, stream: 1}]}, expect: []}
        """,
    )
    left, _ = unnoticed(made, cases, same)
    assert [one.what for one in left] == ["'type in $types' is dropped", "'stream == 7' is dropped"]
    assert [(one.problem().column, one.problem().width) for one in left] == [(12, 14), (53, 11)]
