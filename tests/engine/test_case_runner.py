from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rulekit import ints, make_rule, profile_of, same

from npu_advisor.base.terms import Severity
from npu_advisor.engine.testing import CaseError, given_profile, real_path, run_case
from npu_advisor.model.profile import Profile
from npu_advisor.rules.cases import Case
from npu_advisor.rules.spec import Rule

FIND = """
    - from: kernels
    - where: dur_us > $min_us
    - group: {by: [type], agg: {us: sum(dur_us), calls: count(), source: "heaviest(source, dur_us)"}}
    - sort: [-us]
"""
EMIT = """
    emit:
      at: source
      recorded: us
      message: {en: "{calls} {type}", zh: "{calls} {type}"}
"""
GIVEN = {
    "kernels": [
        {"type": "Cast", "dur_us": 10, "source": "/home/u/train.py:42"},
        {"type": "Cast", "dur_us": 5, "source": "lib.py(7): f"},
        {"type": "Mul", "dur_us": 6},
    ]
}
GOOD = [{"type": "Cast", "recorded_us": 15, "at": "train.py:42", "calls": 2}, {"recorded_us": 6.0005, "at": None}]


@pytest.fixture
def rule(tmp_path: Path) -> Rule:
    return make_rule(tmp_path, FIND, emit=EMIT, params="min_us: {default: 1, unit: us, doc: d}\n")


def never(path: Path) -> Profile:
    raise AssertionError(path)


def outcome(rule: Rule, price: Any = None, **case: Any) -> tuple[str, str]:
    result = run_case(rule, Case(**{"name": "n", "given": GIVEN, "expect": GOOD, **case}), never, same, price)
    return result.status, result.message


def test_a_case_that_holds(rule: Rule) -> None:
    assert outcome(rule) == ("passed", "")
    assert outcome(rule, expect=GOOD[::-1]) == ("passed", "")
    assert outcome(rule, expect=[], params={"min_us": 100}) == ("passed", "")


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ([], "2 findings, 0 expected: 2 Cast; 1 Mul"),
        ([GOOD[0], {"recorded_us": 6.1}], "recorded_us is 6.0, not 6.1"),
        ([{**GOOD[0], "at": "train.py:43"}, GOOD[1]], "at is train.py:42, not train.py:43"),
        ([{**GOOD[0], "at": None}, GOOD[1]], "at is train.py:42, not None"),
        ([GOOD[0], {"at": "train.py:42", "type": "Mul"}], "at is None, not train.py:42"),
        ([GOOD[0], {"type": "Mul", "cals": 1}], "the finding has no 'cals'; did you mean 'calls'?"),
    ],
)
def test_what_differs_is_said(rule: Rule, expect: list[dict[str, Any]], message: str) -> None:
    assert outcome(rule, expect=expect) == ("failed", message)


def test_a_silent_case_needs_a_rule_that_looked(rule: Rule) -> None:
    status, message = outcome(rule, given={"ops": []}, expect=[])
    assert status == "failed" and message.startswith("the rule was skipped: ") and "kernels" in message
    assert outcome(rule, given={"ops": []}, expect=[], outcome="skipped") == ("passed", "")
    assert outcome(rule, expect=[], outcome="skipped")[0] == "failed"


def test_severity_comes_from_the_price(rule: Rule) -> None:
    def price(profile: Profile, result: Any) -> list[Any]:
        return [SimpleNamespace(message=raw.message, severity=Severity.LOW) for raw in result.raw_findings]

    expect = [{"type": "Cast", "severity": "low"}, {"type": "Mul", "severity": "high"}]
    assert outcome(rule, price, expect=expect) == ("failed", "severity is low, not high")
    assert outcome(rule, price, expect=[{"severity": "low"}, {"severity": "low"}]) == ("passed", "")


def test_a_recorded_profile_is_loaded_or_skipped_aloud(
    rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(name="n", profile="real/some/rank0", expect=GOOD)
    monkeypatch.delenv("NPU_ADVISOR_REAL_PROFILES", raising=False)
    result = run_case(rule, case, never, same)
    assert (result.status, result.message) == (
        "skipped",
        "no recorded profile real/some/rank0; set NPU_ADVISOR_REAL_PROFILES",
    )
    (tmp_path / "some/rank0").mkdir(parents=True)
    asked: list[Path] = []

    def load(path: Path) -> Profile:
        asked.append(path)
        return profile_of(**GIVEN)

    assert run_case(rule, case, load, same, real=tmp_path).status == "passed"
    monkeypatch.setenv("NPU_ADVISOR_REAL_PROFILES", str(tmp_path))
    assert run_case(rule, case, load, same).status == "passed"
    assert asked == [tmp_path / "some/rank0"] * 2
    with pytest.raises(CaseError, match="is not 'real/<folder>'"):
        real_path("../elsewhere")
    assert run_case(rule, Case(name="n", profile="other/x", expect=[]), load, same).status == "failed"


def test_given_rows_follow_each_other_per_lane() -> None:
    profile = given_profile(
        {
            "steps": [{"dur_us": 100}],
            "kernels": [
                {"stream": 1, "dur_us": 10},
                {"stream": 2, "dur_us": 3},
                {"stream": 1, "dur_us": 5},
                {"stream": 1, "start_us": 40.5, "dur_us": 1},
                {"stream": 1, "dur_us": 1},
            ],
            "ops": [
                {"op": 0, "name": "a", "start_us": 7, "dur_us": 9},
                {"parent": 0, "dur_us": 2},
                {"parent": 0, "dur_us": 2},
            ],
            "allocs": [{"start_us": 1, "release_us": 2, "size_bytes": 5}],
            "profile": [{"steps_us": 100, "env.X": "1"}],
        },
        same,
    )
    kernels, ops = profile.table("kernels"), profile.table("ops")
    assert ints(kernels["start_ns"]) == [0, 0, 10_000, 40_500, 41_500]
    assert ints(kernels["step"]) == [0] * 5  # one step given: everything is in it
    assert ints(ops["start_ns"]) == [7_000, 7_000, 9_000]
    assert [ints(ops[name]) for name in ("pre", "last", "depth")] == [[0, 1, 2], [2, 1, 2], [0, 1, 1]]
    assert ints(profile.table("allocs")["release_ns"]) == [2_000]
    assert profile.table("profile").strings("env.X").tolist() == ["1"]


def test_with_two_steps_rows_name_their_own() -> None:
    assert ints(profile_of(steps=[{}, {}], kernels=[{"dur_us": 1}]).table("kernels")["step"]) == [-1]


def test_columns_the_rule_needs_take_their_missing_value(tmp_path: Path) -> None:
    made = make_rule(tmp_path, "- from: kernels\n- where: block_dim > 1 or core == 'X' or aic_mac_ratio > 1\n")
    assert run_case(made, Case(name="n", given=GIVEN, expect=[]), never, same).status == "passed"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": []}, "unknown table 'kernel'; did you mean 'kernels'?"),
        ({"kernels": [{"typ": "x"}]}, "table 'kernels' has no column 'typ'; did you mean 'type'?"),
        ({"ops": [{"op": 1}]}, "'op' labels a row of 'ops' and must be its position, 0"),
        ({"kernels": [{"op": "first"}]}, "table 'kernels': column 'op' cannot be 'first'"),
        ({"kernels": [{"name": 3}]}, "table 'kernels': column 'name' cannot be 3"),
        ({"kernels": [{"dur_us": "long"}]}, "table 'kernels': column 'dur_us' cannot be 'long'"),
        ({"ops": [{"parent": 1}, {"parent": 0}]}, "the parents of 'ops' form a circle or name a row that is not there"),
    ],
)
def test_wrongly_written_tables(rule: Rule, given: dict[str, Any], message: str) -> None:
    assert outcome(rule, given=given) == ("failed", message)
