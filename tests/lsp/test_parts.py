"""What the server is made of, without a server."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from synthetic.script import SCRIPT

from npu_advisor.lsp import child
from npu_advisor.lsp.look import look
from npu_advisor.lsp.reading import NOT_YET, NoReport, Question, read
from npu_advisor.lsp.settings import Settings
from npu_advisor.lsp.shown import line_now
from npu_advisor.readers import locate
from npu_advisor.report.json import load_report

DEMO = SCRIPT.parent
(PROFILE,) = DEMO.glob("*_ascend_pt")
TEXT = ["import torch", "x = 1", "y = 2", "x = 1", ""]


def written(path: Path, seconds: float) -> None:
    """As if ``path`` (a file, or all files of a folder) had been written at this time."""
    for each in [path, *path.rglob("*")]:
        os.utime(each, (seconds, seconds))


def asked(folder: Path, **options: object) -> str:
    return Question(settings=Settings.model_validate(options), folders=[str(folder)]).model_dump_json()


@pytest.mark.parametrize(
    ("line", "text", "now"),
    [(2, "x = 1", 2), (3, "x = 1", 2), (5, "    x = 1", 4), (1, "gone", None), (3, None, 3), (9, None, None)],
)
def test_a_line_is_found_where_its_code_is_now(line: int, text: str | None, now: int | None) -> None:
    assert line_now(line, text, TEXT) == now


def test_settings_are_those_of_the_editor_over_those_of_the_command_line() -> None:
    settings = Settings(path="here", rules=["mine"]).with_options({"sourceRoot": ["/a=/b"], "path": "there"})
    assert settings == Settings(path="there", rules=["mine"], source_root=["/a=/b"])
    assert Settings().with_options(None) == Settings()
    with pytest.raises(ValueError, match="colour"):
        Settings().with_options({"colour": 1})


def test_the_first_open_folder_that_has_the_path_is_watched(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (two / "result").mkdir(parents=True)
    assert Settings().watched([one, two]) == two / "result"
    assert Settings().watched([one]) == one / "result"


def test_a_look_tells_changes_and_whether_a_report_is_newest(tmp_path: Path) -> None:
    assert look(tmp_path) is None
    trace = tmp_path / "run" / "trace_view.json"
    trace.parent.mkdir()
    trace.write_text("[]", "utf-8")
    written(trace, 1000)
    before = look(tmp_path)
    assert before is not None and before.report is None and before.is_settled(None)
    report = tmp_path / "run.advisor.json"
    report.write_text("{}", "utf-8")
    written(report, 1000)
    after = look(tmp_path)
    assert after is not None and after.report == report and after.stamp != before.stamp
    (tmp_path / "run.advisor.txt").write_text("text", "utf-8")
    again = look(tmp_path)
    assert again is not None and again.stamp == after.stamp
    trace.write_text("[1]", "utf-8")
    new = look(tmp_path)
    assert new is not None and new.report is None
    # Somebody may still be writing: only a second look tells.
    assert not new.is_settled(again) and new.is_settled(new)


def test_of_two_recordings_the_newer_one_counts(tmp_path: Path) -> None:
    for name, seconds in (("node0_1_20250101000000000_ascend_pt", 1000), ("node0_2_20250102000000000_ascend_pt", 9000)):
        shutil.copytree(PROFILE, tmp_path / name)
        written(tmp_path / name, seconds)
    chosen, written_ns = child.newest(locate(tmp_path))
    assert [source.path.name for source in chosen] == ["node0_2_20250102000000000_ascend_pt"]
    assert written_ns == 9_000_000_000_000


def test_the_child_reports_the_newest_recording(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PROFILE, tmp_path / "result" / PROFILE.name)
    written(tmp_path / "result", 1000)
    shutil.copy(SCRIPT, tmp_path / "train.py")
    assert child.main(asked(tmp_path, select=["kernel-*"])) == 0
    report = load_report(capfd.readouterr().out)
    assert [found.rule_id for found in report.findings] == ["kernel-top-cost"]
    assert report.lines[0].local_path == str(tmp_path / "train.py")
    assert report.findings[0].fixes == []


def test_the_child_keeps_to_the_settings_of_the_project(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PROFILE, tmp_path / "result" / PROFILE.name)
    written(tmp_path / "result", 1000)
    (tmp_path / "pyproject.toml").write_text("[tool.npu-advisor]\nselect = ['memory-*']\n", "utf-8")
    assert child.main(asked(tmp_path)) == 0
    assert {rule.id.partition("-")[0] for rule in load_report(capfd.readouterr().out).rules} == {"memory"}


def test_the_child_waits_for_a_trace_to_be_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PROFILE, tmp_path / "result" / PROFILE.name)
    (trace,) = (tmp_path / "result").rglob("trace_view.json")
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) // 2])
    assert child.main(asked(tmp_path)) == NOT_YET
    # After a while it is what it is.
    written(tmp_path / "result", 1000)
    assert child.main(asked(tmp_path)) == 0
    assert capfd.readouterr().out


def test_the_child_says_why_there_is_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert child.main(asked(tmp_path)) == 3
    assert "result" in capfd.readouterr().err


def test_a_report_from_elsewhere_finds_its_lines_here(tmp_path: Path) -> None:
    from npu_advisor import analyze
    from npu_advisor.report.json import render_json

    path = tmp_path / "x.advisor.json"
    path.write_text(render_json(analyze(PROFILE, source_root=["/home/user/proj=/nowhere"])), "utf-8")
    shutil.copy(SCRIPT, tmp_path / "train.py")
    report = read(path, Settings(), [tmp_path])
    found = next(found for found in report.findings if found.rule_id == "kernel-top-cost")
    assert found.location is not None and found.location.local_path == str(tmp_path / "train.py")
    assert report.lines[0].text is not None and "masked_select" in report.lines[0].text


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"schema_version": "1.0"})])
def test_what_is_no_report_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.advisor.json"
    path.write_text(text, "utf-8")
    with pytest.raises(NoReport, match=r"bad\.advisor\.json"):
        read(path, Settings(), [])
