"""``npu-advisor compare`` and ``verify`` as people and programs see them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from places import DEMO
from synthetic import Settings

from npu_advisor.cli.app import main
from npu_advisor.report.json import load_comparison, render_comparison

Generated = Callable[[Settings], Path]
ALL = Settings(steps=3, layers=3, counters=False, truth_steps=2, plant=["all"])
FIXED = Settings(steps=3, layers=3, counters=False, truth_steps=2, plant=["all"], without=["native_optimizer"])
RULE = ("--select", "optimizer-native")


@pytest.fixture
def twins(generated: Generated) -> tuple[str, str]:
    return str(generated(ALL)), str(generated(FIXED))


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_page_says_what_changed_where_and_what_was_fixed(
    twins: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = _run(capsys, "compare", *twins, *RULE, "--lang", "en")
    assert code == 0
    assert "A step takes" in out and "less (" in out
    cause = out.split("What explains the change")[1].splitlines()[1]
    assert "train.py:108" in cause
    assert re.search(r"calls \d+ → \d, kernels \d+ → \d", out)
    assert "1 fixed" in out and "The optimizer updates one parameter at a time" in out
    assert max(map(len, out.splitlines())) <= 100


def test_it_speaks_chinese(twins: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "compare", *twins, *RULE, "--lang", "zh")
    assert code == 0
    assert "单步耗时由" in out and "变化的原因" in out and "已修复" in out


def test_markdown_is_for_a_pull_request(twins: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "compare", *twins, *RULE, "-f", "markdown", "--lang", "en")
    assert code == 0
    assert out.startswith("## npu-advisor: base against new\n")
    rows = [line for line in out.splitlines() if line.startswith("| `")]
    assert rows[0].startswith("| `train.py:108` | calls")
    assert "| fixed | The optimizer updates one parameter at a time |" in out


def test_the_json_fits_its_schema_and_comes_back(twins: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    code, out, _ = _run(capsys, "compare", *twins, *RULE, "-f", "json")
    assert code == 0
    found = json.loads(out)
    assert main(["schema", "comparison"]) == 0
    jsonschema.validate(found, json.loads(capsys.readouterr().out))
    assert found["schema_version"] == "1.0"
    told = found["pairs"][0]["attribution"]
    assert sum(cause["us"] for cause in told["causes"]) + told["remainder_us"] == pytest.approx(
        told["change_us"], abs=0.05
    )
    assert render_comparison(load_comparison(out)) == out


def test_files_are_written_beside_the_page(
    twins: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "change.md"
    code, out, _ = _run(capsys, "compare", *twins, *RULE, "-o", f"markdown={target}", "--lang", "en")
    assert code == 0 and "What explains the change" in out
    assert target.read_text(encoding="utf-8").startswith("## npu-advisor")


def test_a_profile_against_itself(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "compare", str(DEMO), str(DEMO), "--lang", "en")
    assert code == 0
    assert "on both sides. Every step is as before." in out
    assert "No line's own work differs by more than noise." in out


def test_what_cannot_be_compared_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, "compare", str(DEMO), str(tmp_path / "none"))
    assert (code, out) == (3, "") and "none" in err
    assert _run(capsys, "compare", str(DEMO))[0] == 2
    assert _run(capsys, "compare", str(DEMO), str(DEMO), "-f", "sarif")[0] == 2


def test_verify_prints_the_predictions_and_keeps_the_record(
    twins: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    options = (*RULE, "--ledger", str(ledger), "--lang", "en")
    code, out, _ = _run(capsys, "verify", *twins, *options)
    assert code == 0
    assert "optimizer-native" in out and "were predicted, and the step lost" in out
    assert "The ledger so far: 1 predictions" in out
    code, out, _ = _run(capsys, "verify", *twins, *options, "-f", "json")
    found = json.loads(out)
    assert code == 0 and found["record"]["predictions"] == 2 and found["summary"]["predictions"] == 1
    first, second = map(json.loads, ledger.read_text(encoding="utf-8").splitlines())
    assert first["fingerprint"] == second["fingerprint"] and first["rule_id"] == "optimizer-native"
    assert found["record"]["median_error"] == pytest.approx(abs(first["error"]), rel=1e-6)


def test_verify_without_a_fix(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "verify", str(DEMO), str(DEMO), *RULE, "--lang", "en")
    assert code == 0 and "No finding with a price was fixed" in out


def test_a_file_that_is_no_ledger_is_named(
    twins: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"a": 1}\n', encoding="utf-8")
    code, _, err = _run(capsys, "verify", *twins, *RULE, "--ledger", str(ledger), "--lang", "en")
    assert code == 2 and "ledger.jsonl, line 1: not an entry" in err
    assert ledger.read_text(encoding="utf-8") == '{"a": 1}\n'
