"""A rule file is data from anywhere: whatever it says, it is refused or comes back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rulekit import make_rule, profile_of, rule_text, write

from npu_advisor.engine.lint import lint_dirs
from npu_advisor.engine.regex import Searcher, regex_fault
from npu_advisor.engine.run import run_rule
from npu_advisor.rules import source

# Far more than any of these takes; without its bound, each of them takes longer than anybody waits.
SECONDS = 20


@pytest.fixture(autouse=True)
def comes_back() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError("the rule did not come back")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def problems(folder: Path, condition: str, **parts: str) -> list[str]:
    write(folder, rule_text(f"- from: kernels\n- where: {condition}", **parts))
    return [problem.message for problem in lint_dirs([folder], tests=False)]


@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ("2 ** 99999999 > dur_us", "'**' is not part of the language"),
        ("dur_us < 2**2**2**2**9", "'**' is not part of the language"),
        ("name.__class__.__mro__ == 1", "'name' of table 'kernels' is not a key, '.__class__' cannot follow it"),
        ('"".__class__ == 1', "only columns have dotted names"),
        ('open("/etc/passwd") == 1', "unknown function 'open'"),
        ('__import__("os").system("x")', "only the functions of the language can be called"),
        ("name[0] == 'a'", "an index is not part of the language"),
        ("[x for x in name]", "a loop is not part of the language"),
        ("(lambda: 1)() == 1", "only the functions of the language can be called"),
        ("dur_us == 'a' * 999999999", "this is text, '*' needs a number"),
        ("name in [" + "1," * 1_000 + "1]", "an expression has at most 2000 characters"),
        ("dur_us in [" + "1," * 400 + "1]", "an expression has at most 300 parts, nested 30 deep"),
        ("(" * 900 + "1" + ")" * 900 + " > 0", "not an expression: too many nested parentheses"),
        ("not " * 400 + "true", "an expression has at most 300 parts, nested 30 deep"),
        ("-" * 900 + "1 > 0", "an expression has at most 300 parts, nested 30 deep"),
        ("dur_us > 9" + "9" * 400, "is not a literal of the language"),
        (f"name == '{'a' * 900}'", "a text has at most 500 characters"),
    ],
)
def test_an_expression_is_refused(tmp_path: Path, condition: str, refused: str) -> None:
    assert any(refused in problem for problem in problems(tmp_path, f"|-\n    {condition}"))


EXPLODING = [
    "(a+)+$",
    "(a*)*b",
    "(a|aa)+$",
    "(a|a?)+$",
    "((a{1,9}){1,9}){1,9}$",
    "a*a*a*a*a*b",
    "a?" * 60 + "a" * 60,
    "(a|a)" * 36 + "b",
    "(a|b|c|d)(a|b|c|d)(a|b|c|d)(a|b|c|d)(a|b|c|d)x",
    "(x)?" * 40,
    r"(a)\1",
    "a{999}{999}",
    "(?P<x>a+)(?P=x)",
]


@pytest.mark.parametrize("pattern", EXPLODING)
def test_a_pattern_that_can_explode_is_refused(pattern: str) -> None:
    assert regex_fault(pattern) is not None


@pytest.mark.parametrize("pattern", ["a*a*b", "(a*)(a*)b", "^a*a*b", "a+b", "a{9,99}a{9,99}b", "(ab?c?d?e?|f)a*a*$"])
def test_a_pattern_that_is_allowed_comes_back_on_any_text(pattern: str) -> None:
    assert regex_fault(pattern) is None
    assert Searcher(pattern).search("a" * 1_000_000 + "!") is None


def test_what_a_pattern_sees_of_a_text() -> None:
    assert [Searcher(pattern).limit for pattern in ("x", "^x+", "x+", "x+y+")] == [10**8, 10**8, 10**4, 464]


def test_a_file_of_a_million_items_is_not_read(tmp_path: Path) -> None:
    items = "[" + "1, " * 1_000_000 + "1]"
    found = problems(tmp_path, "dur_us in $many", params=f"many: {{default: {items}, doc: x}}\n")
    assert found == ["larger than 1,000,000 bytes"]


def test_many_items_are_looked_up(tmp_path: Path) -> None:
    items = "[" + "1," * 5_000 + "1]"
    made = make_rule(
        tmp_path, "- from: kernels\n- where: dur_us in $many", params=f"many: {{default: {items}, doc: x}}\n"
    )
    assert len(run_rule(made, profile_of(kernels=[{"dur_us": 1}, {"dur_us": 2}])).raw_findings) == 1


def test_aliases_that_unfold_without_end(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    write(tmp_path, rule_text("- from: kernels") + "\n".join(lines) + "\n")
    assert "an alias (*name) is not allowed here; write the value out" in [p.message for p in lint_dirs([tmp_path])]


@pytest.mark.parametrize(
    "deep", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000 + "x", "? " * 100_000, "x: " + "[" * 900 + "]" * 900]
)
def test_nesting_without_end(tmp_path: Path, deep: str) -> None:
    write(tmp_path, deep)
    assert lint_dirs([tmp_path], tests=False) != []


@pytest.mark.parametrize("deep", ["[" * 3000, "{a: " * 3000, "- " * 3000 + "x", "? " * 3000])
def test_what_may_nest_deep_is_not_given_to_libyaml(deep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older releases of PyYAML overflow the stack on it."""
    asked: list[str] = []
    monkeypatch.setattr(source, "_fast_loader", lambda: asked.append(deep))
    write(tmp_path, deep)
    assert lint_dirs([tmp_path], tests=False) != []
    assert asked == []


def test_joins_do_not_nest(tmp_path: Path) -> None:
    inner = "- from: kernels\n- group: {by: [type], agg: {n: count()}}"
    for level in range(12):
        body = "\n".join("    " + line for line in inner.splitlines())
        group = f"- group: {{by: [type], agg: {{n{level}: count()}}}}"
        inner = f"- from: kernels\n- join:\n    on: [type]\n    from:\n{body}\n{group}"
    write(tmp_path, rule_text(inner))
    assert any(
        "holds no other 'join'" in str(p) or "nested more than" in str(p) for p in lint_dirs([tmp_path], tests=False)
    )


def test_more_findings_than_anybody_reads_fail_the_rule(tmp_path: Path) -> None:
    made = make_rule(tmp_path, "- from: kernels")
    result = run_rule(made, profile_of(kernels=[{"dur_us": 1}] * 2_001))
    assert result.outcome == "failed"
    assert result.raw_findings == []
