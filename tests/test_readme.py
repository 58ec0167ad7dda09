"""The README keeps its promises: its commands, its code and its rule table work as they stand."""

from __future__ import annotations

import contextlib
import html
import io
import re
import shlex
from pathlib import Path

import pytest
from picture import picture
from places import DEMO, REPOSITORY
from readme import README, pages

from npu_advisor import analyze, load_rules
from npu_advisor.cli.app import main

TEXT = README.read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_what_is_written_from_the_rules_is_current() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old: run python tests/readme.py"


def test_there_are_two_commands_and_they_do_all_set_up() -> None:
    run, test = (block.strip() for block in _blocks("bash"))
    assert run == "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/npu-advisor fixtures/demo"
    assert test == "python3 -m venv .venv && .venv/bin/pip install '.[dev]' && .venv/bin/pytest"


def test_ci_runs_the_test_command() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    assert _blocks("bash")[1].strip() in script


def test_the_first_command_reports_on_the_demo(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    *_, command = _blocks("bash")[0].split("&&")
    program, path = shlex.split(command)
    assert program.endswith("/npu-advisor")
    assert main([str(REPOSITORY / path), "--lang", "en"]) == 0
    assert b"train.py" in capsysbinary.readouterr().out


def test_the_python_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = _blocks("python")
    monkeypatch.chdir(REPOSITORY)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(example, "README.md", "exec"), {})
    printed = out.getvalue()
    assert "MaskedSelect" in printed
    for finding in analyze(DEMO).findings:
        assert finding.rule_id in printed


def test_the_rule_example_is_ten_lines_and_runs(tmp_path: Path) -> None:
    (example,) = _blocks("yaml")
    assert len(example.strip().splitlines()) <= 12
    saved = re.search(r"`my-rules/(\S+\.yaml)`", TEXT)
    assert saved
    path = tmp_path / saved[1]
    path.parent.mkdir(parents=True)
    path.write_text(example, encoding="utf-8")
    assert len(load_rules([tmp_path])) == len(load_rules()) + 1
    outcomes = {rule.id: rule.outcome for rule in analyze(DEMO, rules=[tmp_path]).rules}
    assert outcomes[path.stem] == "clean"


@pytest.mark.parametrize("line", re.findall(r"^\| [^|]+ \| `(npu-advisor [^`]*PATH[^`]*)` \|$", TEXT, re.MULTILINE))
def test_a_usage_line_works(line: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    arguments = [str(DEMO) if word == "PATH" else word for word in shlex.split(line)[1:]]
    arguments = ["layout-transdata" if word == "ID" else word for word in arguments]
    assert main(arguments) == (1 if "--fail-on" in arguments else 0)
    # Where there is nothing to change or to list, that is said on stderr.
    assert any(capsysbinary.readouterr())


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_a_link_leads_somewhere(target: str) -> None:
    assert (REPOSITORY / target).is_file()


def _words(svg: str) -> list[str]:
    """What the picture says; how it is drawn is rich's business."""
    return html.unescape(re.sub(r"<style.*?</style>|<[^>]+>", " ", svg, flags=re.DOTALL)).split()


def test_the_picture_shows_what_the_demo_prints() -> None:
    stored = (REPOSITORY / "docs" / "report.svg").read_text(encoding="utf-8")
    assert _words(stored) == _words(picture()), "run python docs/picture.py"
