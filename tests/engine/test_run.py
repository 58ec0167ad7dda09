from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rulekit import EMIT, ints, make_rule, profile_of, write

from npu_advisor.base.terms import Text
from npu_advisor.engine import run as engine_run
from npu_advisor.engine.applies import version_fits
from npu_advisor.engine.reach import carry, route
from npu_advisor.engine.run import RawFinding, RuleResult, run_rules
from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.table import Table
from npu_advisor.rules.spec import Rule

FIND = """
    - from: kernels
    - where: type in $types
    - cover:
        lost_us: {from: idle}
    - group:
        by: [type, step]
        agg: {us: sum(dur_us), calls: count(), source: "heaviest(source, dur_us)"}
    - sort: [-us]
"""
EMIT_ALL = """
    emit:
      at: source
      recorded: us
      fix: {scale: dequeues, by: dur_us / 10}
      message:
        en: "Step {step}: {calls} {type} kernels, {us:us}; over {min_us:us}"
        zh: "第 {step} 步：{calls} 个 {type}，{us:us}；{min_us:us}"
      evidence: {by: [source, op.name], agg: {us: sum(dur_us), n: count()}, top: 2}
    references: [page]
"""
SUGGEST = """
    suggest:
      - {effort: local, en: "For {type}.", zh: "对于 {type}。", when: type == "Cast", before: "x({type})", after: y}
      - {effort: rework, en: Always., zh: 总是。}
      - {effort: rework, en: Never., zh: 从不。, when: calls > 99}
"""
PARAMS = """
    types: {default: [Cast, Mul], doc: d}
    min_us: {default: 20, unit: us, doc: d}
"""


@pytest.fixture
def rule(tmp_path: Path) -> Rule:
    write(tmp_path, "page: {title: A page, url: 'https://example.org'}\n", "references.yaml")
    return make_rule(tmp_path, FIND, emit=EMIT_ALL, params=PARAMS, suggest=SUGGEST)


def sample() -> Profile:
    return profile_of(
        steps=[{"number": 50, "dur_us": 1000}],
        ops=[{"name": "aten::to", "dur_us": 5}, {"name": "aten::mul", "dur_us": 5}],
        dequeues=[{"dur_us": 4, "op": 0}, {"dur_us": 6, "op": 1}],
        idle=[{"start_us": 15, "dur_us": 10, "owner": "sync"}],
        kernels=[
            {"type": "Cast", "dur_us": 10, "op": 0, "dequeue": 0, "source": "a.py(1): f", "source_how": "own"},
            {"type": "Cast", "dur_us": 20, "op": 1, "dequeue": 1, "source": "b.py(2): g", "source_how": "forward"},
            {"type": "Cast", "dur_us": 1, "op": 1, "source": "b.py(2): g", "source_how": "forward"},
            {"type": "Mul", "dur_us": 5, "op": 1},
            {"type": "MatMul", "dur_us": 500, "op": 1},
        ],
    )


def findings(rule: Rule, profile: Profile) -> list[RawFinding]:
    result = run_rules([rule], profile)[0]
    assert result.outcome in ("fired", "clean"), result.reason
    return result.raw_findings


def test_a_finding_carries_everything(rule: Rule) -> None:
    cast, mul = findings(rule, sample())
    assert cast.values == {"type": "Cast", "step": 50, "us": 31.0, "calls": 3, "source": "b.py(2): g"}
    assert cast.message.en == "Step 50: 3 Cast kernels, 31.0 us; over 20.0 us"
    assert cast.message.zh == "第 50 步：3 个 Cast，31.0 us；20.0 us"
    assert (cast.title.en, cast.recorded_us, cast.rank, cast.step) == ("A title", 31.0, 0, 50)
    assert (cast.source, cast.how) == ("b.py(2): g", "forward")
    assert (cast.members[0], ints(cast.members[1])) == ("kernels", [0, 1, 2])
    assert (ints(cast.covered.start), ints(cast.covered.end)) == ([15_000], [25_000])
    assert list(cast.covered_by) == ["lost_us"]
    assert cast.evidence.columns == ["source", "op.name", "us", "n"]
    assert cast.evidence.rows == [["b.py(2): g", "aten::mul", 21.0, 2], ["a.py(1): f", "aten::to", 10.0, 1]]
    assert [(item.effort.value, item.text.en, item.before) for item in cast.suggestions] == [
        ("local", "For Cast.", "x(Cast)"),
        ("rework", "Always.", None),
    ]
    assert [reference.url for reference in cast.references] == ["https://example.org"]
    assert cast.group_key == "type=Cast"
    assert (mul.source, mul.how, mul.message.en) == (None, None, "Step 50: 1 Mul kernels, 5.00 us; over 20.0 us")
    assert [item.text.en for item in mul.suggestions] == ["Always."]
    assert mul.covered.total == 0


def test_the_fix_is_carried_to_its_table_and_evaluated_there(rule: Rule) -> None:
    fix = findings(rule, sample())[0].fix
    assert fix is not None and fix.values is not None
    assert (fix.kind, fix.table, ints(fix.rows), fix.values.tolist()) == ("scale", "dequeues", [0, 1], [0.4, 0.6])


def test_a_memory_fix_has_bytes(tmp_path: Path) -> None:
    emit = EMIT.replace("emit:\n", "emit:\n  fix: {memory: size}\n")
    find = "- from: peak_owners\n- group: {by: [], agg: {size: sum(size_bytes)}}\n"
    profile = profile_of(peak_owners=[{"size_bytes": 5}, {"size_bytes": 7}])
    finding = findings(make_rule(tmp_path, find, emit=emit), profile)[0]
    assert finding.fix is not None
    assert (finding.fix.freed_bytes, len(finding.fix.rows)) == (12.0, 0)


def test_without_recorded_the_members_durations_count(tmp_path: Path) -> None:
    grouped = make_rule(tmp_path, "- from: kernels\n- group: {by: [type]}\n")
    assert [finding.recorded_us for finding in findings(grouped, sample())] == [31.0, 5.0, 500.0]
    single = make_rule(tmp_path, "- from: kernels\n- where: dur_us > 100\n")
    finding = findings(single, sample())[0]
    assert (finding.recorded_us, finding.step, finding.values["type"]) == (500.0, 50, "MatMul")


def test_sums_carry_no_noise(tmp_path: Path) -> None:
    profile = _kernels(dur_ns=np.full(10, 100, dtype=np.int64), type=["Cast"] * 10)
    find = "- from: kernels\n- group: {by: [type], agg: {us: sum(dur_us)}}\n"
    finding = findings(make_rule(tmp_path, find), profile)[0]
    assert finding.values["us"] == finding.recorded_us == 1.0  # ten times 0.1 is 0.9999999999999999 in floats


def test_claim_chooses_the_covered_time(tmp_path: Path) -> None:
    find = "- from: kernels\n- cover: {a: {from: idle}, b: {from: gcs}}\n- group: {by: []}\n"
    profile = profile_of(
        kernels=[{"dur_us": 50}], idle=[{"start_us": 1, "dur_us": 2}], gcs=[{"start_us": 9, "dur_us": 4}]
    )
    everything = findings(make_rule(tmp_path, find), profile)[0]
    assert everything.covered.total == 6000
    only = findings(make_rule(tmp_path, find, emit=EMIT.replace("emit:\n", "emit:\n  claim: b\n")), profile)[0]
    assert only.covered.total == 4000


def test_a_missing_table_skips_with_the_way_to_record_it(rule: Rule) -> None:
    profile = profile_of(kernels=[{"type": "Cast", "dur_us": 1}])
    result, missing = run_rules([rule], profile)[0], profile.missing("idle")
    assert missing is not None
    assert (result.outcome, result.reason, result.enable) == ("skipped", missing.reason, missing.enable)


def _kernels(**columns: Any) -> Profile:
    return Profile(ProfileInfo(path="x"), {"kernels": Table.build("kernels", columns)})


def test_a_missing_column_skips_only_where_it_decides(tmp_path: Path) -> None:
    find = "- from: kernels\n- where: aic_mac_ratio > 0.5\n"
    result = run_rules([make_rule(tmp_path, find)], _kernels(dur_ns=[1], type=["Cast"]))[0]
    assert (result.outcome, result.enable) == ("skipped", "profiler_level=Level1, aic_metrics=PipeUtilization")
    shown = "- from: kernels\n- group: {by: [type], agg: {shape: mode(input_shapes), name: mode(op.name)}}\n"
    assert run_rules([make_rule(tmp_path, shown)], _kernels(dur_ns=[1], type=["Cast"]))[0].outcome == "fired"
    used = shown + "- where: not isnull(shape)\n"
    assert run_rules([make_rule(tmp_path, used)], _kernels(dur_ns=[1], type=["Cast"]))[0].outcome == "skipped"


def test_has_makes_a_column_optional(tmp_path: Path) -> None:
    find = '- from: kernels\n- where: not has(input_formats) or input_formats == "ND"\n'
    made = make_rule(tmp_path, find)
    assert len(findings(made, _kernels(dur_ns=[1, 2]))) == 2
    assert len(findings(made, _kernels(dur_ns=[1, 2], input_formats=["ND", "NCHW"]))) == 1


def test_optional_columns_never_skip(tmp_path: Path) -> None:
    find = "- from: kernels\n- where: isnull(source) and isnull(step)\n"
    assert len(findings(make_rule(tmp_path, find), _kernels(dur_ns=[1]))) == 1


def test_an_empty_table_is_not_a_missing_one(tmp_path: Path) -> None:
    assert findings(make_rule(tmp_path, "- from: kernels\n- where: dur_us > 1\n"), _kernels(dur_ns=[])) == []


def test_stacked_tables_need_one_of_them(tmp_path: Path) -> None:
    made = make_rule(tmp_path, "- from: [kernels, comms]\n- group: {by: []}\n")
    assert run_rules([made], _kernels(dur_ns=[1]))[0].outcome == "fired"
    assert run_rules([made], Profile(ProfileInfo(path="x"), {}))[0].outcome == "skipped"


def test_one_failing_rule_does_not_hide_the_others(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = engine_run._run
    calls: list[int] = []

    def once(*arguments: Any) -> RuleResult:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError("boom")
        return whole(*arguments)

    monkeypatch.setattr(engine_run, "_run", once)
    first, second = run_rules([rule, rule], sample())
    assert (first.outcome, first.reason) == (
        "failed",
        Text(en="the rule failed: ZeroDivisionError: boom", zh="规则执行失败：ZeroDivisionError: boom"),
    )
    assert second.outcome == "fired"


def test_a_wrong_rule_fails_with_its_problems(tmp_path: Path) -> None:
    result = run_rules([make_rule(tmp_path, "- from: kernels\n- where: durr_us > 1\n")], sample())[0]
    assert result.outcome == "failed"
    assert result.reason is not None and "did you mean 'dur_us'?" in result.reason.en


def test_a_flood_of_findings_is_refused(tmp_path: Path) -> None:
    profile = _kernels(dur_ns=np.ones(engine_run.MAX_FINDINGS + 1, dtype=np.int64))
    result = run_rules([make_rule(tmp_path, "- from: kernels\n")], profile)[0]
    assert result.outcome == "failed"
    assert result.reason is not None and result.reason.en.startswith("the rule makes 2001 findings")


@pytest.mark.parametrize(
    ("applies", "info", "outcome"),
    [
        ('cann: ">=8.0"', {"cann": "8.0.RC1"}, "clean"),
        ('cann: ">=8.0"', {"cann": "7.0.1"}, "skipped"),
        ('cann: ">=8.0"', {}, "clean"),
        ('torch: "<2.7"', {"torch_npu": "2.7.1.post2"}, "skipped"),
        ('device: "Ascend910B*"', {"device": "Ascend310P"}, "skipped"),
        ('device: "Ascend910B*"', {"device": "Ascend910B3"}, "clean"),
    ],
)
def test_rules_for_other_versions_are_skipped(tmp_path: Path, applies: str, info: dict[str, str], outcome: str) -> None:
    made = make_rule(tmp_path, "- from: kernels\n", emit=f"applies: {{{applies}}}\n{EMIT}")
    profile = Profile(ProfileInfo(path="x", **info), {"kernels": Table.build("kernels", {"dur_ns": []})})  # type: ignore[arg-type]
    assert run_rules([made], profile)[0].outcome == outcome


def test_version_ranges() -> None:
    assert version_fits("8.0.1", ">=8.0,<9")
    assert not version_fits("9.0", ">=8.0,<9")
    assert version_fits("8", "==8.0.0") and version_fits("unknown", ">=8")


def test_members_reach_other_tables() -> None:
    profile = profile_of(
        ops=[{"name": "a", "dur_us": 10}, {"name": "b", "parent": 0, "dur_us": 1}, {"name": "c", "dur_us": 1}],
        enqueues=[{"op": 1}, {"op": 2}],
        dequeues=[{"enqueue": 0, "op": 1}, {"enqueue": 1, "op": 2}],
        kernels=[{"dequeue": 0, "op": 1}, {"dequeue": 1, "op": 2}, {"dequeue": -1, "op": 1}],
    )
    assert ints(carry(profile, {"kernels": np.array([0, 2])}, "kernels")) == [0, 2]
    assert ints(carry(profile, {"kernels": np.array([0, 2])}, "dequeues")) == [0]
    assert ints(carry(profile, {"kernels": np.array([1])}, "enqueues")) == [1]
    assert ints(carry(profile, {"ops": np.array([0])}, "kernels")) == [0, 2]  # an op stands for all below it
    assert ints(carry(profile, {"enqueues": np.array([1])}, "kernels")) == [1]
    assert ints(carry(profile, {}, "kernels")) == []
    assert route("counters", "kernels") is None
