from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from npu_advisor.cli.app import main
from npu_advisor.rules.loader import load_rules, shipped_dir
from npu_advisor.rules.source import read_document


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.delenv("NPU_ADVISOR_RULES", raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


RULES = load_rules()
OWN = """\
id: kernel-own
title: {en: My own rule, zh: 自定义规则}
docs: {en: Kernels of one type., zh: 某一类 kernel。}
params:
  floor_us: {default: 5, unit: us, doc: shorter kernels do not count}
find:
  - from: kernels
  - where: dur_us >= $floor_us
  - group: {by: [type], agg: {total_us: sum(dur_us)}}
emit:
  recorded: total_us
  fix: {remove: kernels}
  message: {en: "{type} takes {total_us:us}", zh: "{type} 耗时 {total_us:us}"}
suggest:
  - {effort: local, en: Use another one., zh: 换一个。, before: a(), after: b()}
"""
CASES = """\
rule: kernel-own
cases:
  - name: a long kernel
    given: {steps: [{dur_us: 100}], kernels: [{type: Sort, dur_us: 50}]}
    expect: [{recorded_us: 50}]
  - name: a short kernel
    given: {steps: [{dur_us: 100}], kernels: [{type: Sort, dur_us: 4}]}
    expect: []
"""


@pytest.fixture
def own_rules(tmp_path) -> Path:
    folder = tmp_path / "mine" / "kernel"
    folder.mkdir(parents=True)
    (folder / "kernel-own.yaml").write_text(OWN, encoding="utf-8")
    (folder / "kernel-own.test.yaml").write_text(CASES, encoding="utf-8")
    return tmp_path / "mine"


def test_list_names_every_rule(capsys):
    assert main(["rules", "list"]) == 0
    out = capsys.readouterr().out
    assert all(rule.id in out and rule.title.en in out for rule in RULES)
    assert out.endswith(f"\n{len(RULES)} rules\n")
    assert main(["rules", "list", "--lang", "zh"]) == 0
    assert all(rule.title.zh in capsys.readouterr().out for rule in RULES[:1])


def test_own_rules_join_by_option_and_by_environment(own_rules, capsys, monkeypatch):
    assert main(["rules", "list", "--rules", str(own_rules)]) == 0
    assert "My own rule" in capsys.readouterr().out
    monkeypatch.setenv("NPU_ADVISOR_RULES", str(own_rules))
    assert main(["rules", "list"]) == 0
    assert "My own rule" in capsys.readouterr().out


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_explain_every_shipped_rule(rule, lang, capsys):
    assert main(["rules", "explain", rule, "--lang", lang]) == 0
    out = capsys.readouterr().out
    assert out.startswith(rule) and f"{rule}.yaml" in out
    assert ("What to do" if lang == "en" else "建议") in out and ("Needs" if lang == "en" else "所需数据") in out


def test_explain_shows_parameters_needs_and_advice(own_rules, capsys):
    assert main(["rules", "explain", "kernel-own", "--rules", str(own_rules)]) == 0
    out = capsys.readouterr().out
    assert "floor_us = 5 us: shorter kernels do not count" in out
    assert "kernels: kernel_details.csv" in out
    assert "local change Use another one." in out and "- a()" in out and "+ b()" in out


def test_explain_an_unknown_rule(capsys):
    assert main(["rules", "explain", RULES[0].id + "x"]) == 2
    assert f"did you mean '{RULES[0].id}'?" in capsys.readouterr().err


def test_lint_shipped_and_own_rules(own_rules, capsys):
    assert main(["rules", "lint"]) == 0
    assert capsys.readouterr().out == f"{len(RULES)} rules, no problems\n"
    rule = own_rules / "kernel" / "kernel-own.yaml"
    rule.write_text(OWN.replace("dur_us >=", "durr_us >=").replace("suggest:", "sugest:"), encoding="utf-8")
    assert main(["rules", "lint", "--rules", str(own_rules)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "sugest" in err and "kernel-own.yaml:14:1" in err and err.endswith("  exit 2\n")


def test_cases_pass_fail_and_are_counted(own_rules, capsys):
    arguments = ["rules", "test", "--rules", str(own_rules), "--select", "kernel-own"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "2 cases passed\n"
    cases = own_rules / "kernel" / "kernel-own.test.yaml"
    cases.write_text(CASES.replace("recorded_us: 50", "recorded_us: 51"), encoding="utf-8")
    assert main(arguments) == 2
    out = capsys.readouterr().out
    assert "kernel-own: a long kernel: recorded_us is 50" in out and out.endswith("1 of 2 cases failed\n")


def test_a_profile_that_is_not_there_is_skipped_aloud(own_rules, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("NPU_ADVISOR_REAL_PROFILES", str(tmp_path / "none"))
    cases = own_rules / "kernel" / "kernel-own.test.yaml"
    recorded = "  - name: recorded\n    profile: real/some/rank0\n    expect: [{recorded_us: 1}]\n"
    cases.write_text(CASES + recorded, encoding="utf-8")
    assert main(["rules", "test", "--rules", str(own_rules), "--select", "kernel-own"]) == 0
    out = capsys.readouterr().out
    assert "no recorded profile real/some/rank0" in out and out.endswith("2 cases passed, 1 skipped\n")


def test_a_folder_called_like_a_command_is_still_a_path(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    assert main(["./rules"]) == 3
    assert "rules" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "rules")


def test_schemas(capsys):
    assert main(["schema", "report"]) == 0
    assert {"findings", "steps"} <= set(json.loads(capsys.readouterr().out)["properties"])
    assert main(["schema", "rule"]) == 0
    assert {"id", "find", "emit"} <= set(json.loads(capsys.readouterr().out)["properties"])
    assert main(["schema", "tables"]) == 0
    out = capsys.readouterr().out
    assert "\nkernels: " in out and "    block_dim " in out and "profiler_level=Level1" in out


def test_shipped_rules_are_found():
    assert shipped_dir().is_dir() and len(RULES) >= 5


def test_a_new_rule_lints_and_its_cases_pass_and_notice_everything(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "new", "kernel-slow-sort"]) == 0
    out = capsys.readouterr().out
    assert "rules/kernel/kernel-slow-sort.test.yaml" in out
    assert "--select kernel-slow-sort --mutate" in out
    assert main(["rules", "lint", "--rules", "rules"]) == 0
    assert main(["rules", "test", "--rules", "rules", "--select", "kernel-slow-sort", "--mutate"]) == 0
    out = capsys.readouterr().out
    assert "3 cases passed, 4 of 4 small changes to the rules noticed" in out


def test_a_new_rule_goes_where_ones_own_are(own_rules, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.npu-advisor]\nrules = ["mine"]\n', encoding="utf-8")
    assert main(["rules", "new", "kernel-other"]) == 0
    assert (own_rules / "kernel/kernel-other.yaml").is_file()


@pytest.mark.parametrize(
    ("rule_id", "message"),
    [
        ("Slow", "'Slow' is no rule id"),
        ("../x-y", "is no rule id"),
        ("memory-peak", "there is a rule called 'memory-peak' already"),
        ("kernel-there", "kernel-there.yaml is there already"),
    ],
)
def test_what_cannot_be_a_new_rule(rule_id, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules/kernel").mkdir(parents=True)
    (tmp_path / "rules/kernel/kernel-there.yaml").write_text("", encoding="utf-8")
    assert main(["rules", "new", rule_id]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*.yaml")] == ["kernel-there.yaml"]


def test_mutate_tells_what_no_case_notices(own_rules, capsys):
    assert main(["rules", "test", "--mutate", "--rules", str(own_rules), "--select", "kernel-own"]) == 1
    out = capsys.readouterr().out
    assert "no case notices when floor_us is doubled" in out
    assert "no case notices when 'dur_us >= $floor_us' is dropped" not in out
    assert "2 cases passed" in out


def test_explain_all_as_text_and_as_markdown(capsys):
    assert main(["rules", "explain", "--all"]) == 0
    text = capsys.readouterr().out
    assert main(["rules", "explain", "--all", "--format", "markdown", "--lang", "zh"]) == 0
    page = capsys.readouterr().out
    for rule in RULES:
        assert f"{rule.id}   {rule.title.en}" in text
        assert f"\n### {rule.id}\n" in page
    assert main(["rules", "explain", "--all", "--format", "markdwon"]) == 2
    assert "markdown" in capsys.readouterr().err


def test_explain_without_a_rule_says_what_to_name(capsys):
    assert main(["rules", "explain"]) == 2
    assert "name a rule (ID), or use --all or --how" in capsys.readouterr().err


def test_every_shipped_rule_fits_the_json_schema_of_rules(capsys):
    assert main(["schema", "rule"]) == 0
    checker = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    for rule in RULES:
        data = read_document(rule.path, rule.id).data
        assert [error.message for error in checker.iter_errors(data)] == [], rule.id
        assert not checker.is_valid({**data, "sugest": []})
        assert not checker.is_valid({**data, "find": [{"form": "kernels"}]})
