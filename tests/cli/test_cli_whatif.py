"""``npu-advisor whatif`` as people and programs see it."""

from __future__ import annotations

import json

import pytest
from places import DEMO, PROFILES, needs_profiles

from npu_advisor.cli.app import main

SLOW = 'scale kernels where type == "MaskedSelect" by 0.5'
NOTHING = 'remove kernels where type == "Nope"'


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["whatif", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_page_has_the_step_the_edits_and_what_is_next(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, str(DEMO), "-e", SLOW, "--edit", NOTHING, "--lang", "en")
    assert code == 0
    assert "A step takes 9.97 ms instead of 10.2 ms: 260 us less (2.5 %)." in out
    assert "The replay misses a recorded step by 0.0 %" in out
    assert "matches no row of kernels" in out
    assert "The optimizer updates one parameter at a time" in out
    assert max(map(len, out.splitlines())) <= 100


def test_it_speaks_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, str(DEMO), "-e", SLOW, "--lang", "zh")
    assert code == 0
    assert "单步耗时由 10.2 ms 变为 9.97 ms" in out


def test_the_json_fits_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    code, out, _ = _run(capsys, str(DEMO), "-e", SLOW, "-f", "json")
    assert code == 0
    answer = json.loads(out)
    assert main(["schema", "whatif"]) == 0
    jsonschema.validate(answer, json.loads(capsys.readouterr().out))
    (run,) = answer["runs"]
    assert run["new_step_us"] == pytest.approx(run["step_us"] - run["saving"]["us_per_step"], abs=0.01)


def test_a_wrong_edit_is_pointed_at(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, str(DEMO), "-e", 'remove kernels where tpye == "x"')
    assert (code, out) == (2, "")
    line, caret = err.splitlines()[2:4]
    assert caret.index("^^^^") == line.index("tpye")
    assert "did you mean 'type'?" in err


def test_without_an_edit_or_a_path_it_says_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, str(DEMO))
    assert code == 2
    assert "--edit 'scale kernels" in err
    code, _, _ = _run(capsys, "-e", SLOW)
    assert code == 2


@needs_profiles
def test_without_links_there_is_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, str(PROFILES / "npu-csv-only-2023"), "-e", "scale kernels by 0.5", "--lang", "en")
    assert code == 3
    assert "cannot be told: host and device are not linked" in out
    assert "What costs time then" not in out


@pytest.mark.parametrize(("lang", "words"), [("en", "# How a saving is computed"), ("zh", "# 节省时间如何计算")])
def test_how_savings_come_about_is_explained(lang: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "explain", "--how", "savings", "--lang", lang]) == 0
    assert capsys.readouterr().out.startswith(words)
    assert main(["rules", "explain", "--how", "saving"]) == 2
    assert "did you mean 'savings'?" in capsys.readouterr().err
    assert main(["rules", "explain"]) == 2
