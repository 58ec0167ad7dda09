from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npu_advisor.rules.source import parse_document, scalar


def parse(text: str) -> tuple[Any, list[str]]:
    document = parse_document(text, "r.yaml", Path("r.yaml"))
    return document.data, [str(problem) for problem in document.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("off", "off"),
        ("0777", "0777"),
        ("12:30", "12:30"),
        ("1e6", 1e6),
        ("-3", -3),
        (".5", 0.5),
        ("true", True),
        ("~", None),
        ("", None),
        ("2024-01-02", "2024-01-02"),
        ("<<", "<<"),
        ("1_000", "1_000"),
        ("0x1F", "0x1F"),
        (".inf", ".inf"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    found = scalar(text)
    assert (found, type(found)) == (value, type(value))


def test_quoted_scalars_are_text() -> None:
    assert parse("a: '1'\nb: \"true\"")[0] == {"a": "1", "b": "true"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", "r.yaml:3:1: error: duplicate key 'a'\n    a: 3\n    ^"),
        (
            "a: &x [1]\nb: *x\n",
            "r.yaml:1:4: error: an alias (*name) is not allowed here; write the value out\n    a: &x [1]\n    "
            "   ^^^^^^",
        ),
        ("a: [1\nb: 2\n", "r.yaml:2:2: error: not YAML: expected ',' or ']', but got ':'\n    b: 2\n     ^"),
        (
            "a: \t- b\n",
            "r.yaml:1:4: error: not YAML: found character '\\t' that cannot start any token\n    a:  - b\n       ^",
        ),
        (
            "agg: {s: heaviest(a, b), n: count()}\n",
            "r.yaml:1:18: error: unbalanced '(': inside { } the comma ends the value; quote the expression or use block"
            " style\n    agg: {s: heaviest(a, b), n: count()}\n                     ^",
        ),
        (
            "agg: [max(a, b)]\n",
            "r.yaml:1:10: error: unbalanced '(': inside [ ] the comma ends the value; quote the expression or use block"
            " style\n    agg: [max(a, b)]\n             ^",
        ),
        ("? [a]\n: 1\n", "r.yaml:1:3: error: a key must be text\n    ? [a]\n      ^^^"),
    ],
)
def test_faults(text: str, problem: str) -> None:
    assert parse(text)[1] == [problem]


def test_deep_nesting_is_refused() -> None:
    assert "nested more than 40 deep" in parse("[" * 60 + "]" * 60)[1][0]
    assert "nested more than 40 deep" in parse("[" * 5000 + "]" * 5000)[1][0]


@pytest.mark.parametrize(
    "yaml",
    [
        "w: abc + bad > 3",
        "w: 'abc + bad > 3'",
        'w: "abc + bad > 3"',
        'w: "\\"q\\" == abc + bad > 3"',
        "w: >\n    abc + bad > 3\n",
        "w: |\n    abc +\n      bad > 3\n",
        "w: abc +\n    bad > 3",
        "w: 'it''s + bad'",
    ],
)
def test_offsets_into_scalars_point_into_the_file(yaml: str) -> None:
    document = parse_document(yaml, "r.yaml", Path("r.yaml"))
    value = document.data["w"]
    problem = document.origin.span(("w",)).problem("here", value.index("bad"), 3, value)
    line = yaml.splitlines()[problem.line - 1]
    assert line[problem.column - 1 :].startswith("bad")
    assert problem.width == 3
