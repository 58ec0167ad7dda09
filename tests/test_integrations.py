"""docs/integrations.md keeps its promises: its workflow, settings and code work as they stand."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import DEMO, REPOSITORY

from npu_advisor.cli.app import main
from npu_advisor.codemods import CODEMODS
from npu_advisor.lsp.settings import Settings
from npu_advisor.report.json import load_report

TEXT = (REPOSITORY / "docs" / "integrations.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a recording in ``result``, as the working directory."""
    shutil.copytree(DEMO, tmp_path / "result")
    (tmp_path / "result" / "train.py").rename(tmp_path / "train.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _workflow() -> list[dict[str, Any]]:
    (text,) = _blocks("yaml")
    return list(yaml.safe_load(text)["jobs"]["advisor"]["steps"])


def test_the_workflow_writes_what_it_uploads_and_fails_on_grave_findings(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [step.get("run", "") for step in _workflow()]
    (command,) = [run for run in runs if run.startswith("npu-advisor")]
    assert main(shlex.split(command)[1:]) == 1
    assert "::error file=train.py,line=" in capsys.readouterr().out
    (upload,) = [step["with"] for step in _workflow() if "with" in step]
    log = json.loads((project / upload["sarif_file"]).read_text("utf-8"))
    results = log["runs"][0]["results"]
    uris = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results}
    assert uris == {"train.py"}
    assert any(f"cat {path.name} " in run for path in project.glob("*.md") for run in runs)


def test_the_fix_commands_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (project / "train.py").read_text("utf-8")
    for line in _blocks("console")[0].splitlines():
        assert main(shlex.split(line, comments=True)[1:]) == 0
    assert "NpuFusedAdamW(model.parameters(), lr=1e-4)  # site" in (project / "train.py").read_text("utf-8")
    assert before != (project / "train.py").read_text("utf-8")
    capsys.readouterr()


def test_the_sarif_command_writes_a_file(project: Path) -> None:
    (command,) = re.findall(r"`(npu-advisor result -f sarif [^`]*)`", TEXT)
    assert main(shlex.split(command)[1:]) == 0
    assert (project / "advisor.sarif").stat().st_size


def test_settings_and_codemods_that_are_named_exist() -> None:
    named = re.findall(r"`(\w+)`", TEXT.partition("`initializationOptions`:")[2].partition(".\n")[0])
    aliases = {field.alias for field in Settings.model_fields.values()}
    assert set(named) == aliases
    assert set(re.findall(r"codemod: ([\w-]+)", TEXT)) <= set(CODEMODS)
    for block in _blocks("json"):
        arguments = json.loads(block)["glspc.server.commandArguments"]
        assert arguments[0] == "lsp"


def test_the_python_examples_parse_and_import() -> None:
    for block in _blocks("python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                exec(compile(ast.Module([node], []), "integrations.md", "exec"), {})


def test_the_comment_that_leaves_a_finding_out_does(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (comment,) = re.findall(r"# npu-advisor: ignore\[[^\n]*", TEXT)
    script = project / "train.py"
    lines = script.read_text("utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if "site:top_kernel" in line)
    lines[at] += "  " + comment.replace("dispatch-sync-in-step", "kernel-top-cost")
    script.write_text("\n".join(lines) + "\n", "utf-8")
    assert main(["result", "-f", "json", "-q"]) == 0
    report = load_report(capsys.readouterr().out)
    assert [(item.finding.rule_id, item.reason) for item in report.suppressed] == [
        ("kernel-top-cost", "once per epoch")
    ]
