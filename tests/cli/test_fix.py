"""``npu-advisor fix`` on profiles whose script lies beside them."""

from __future__ import annotations

import ast
import difflib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic.script import LINES, SCRIPT

from npu_advisor.cli.app import main

DEMO = SCRIPT.parent
GENERATE = DEMO.parent / "generate.py"
# Each fixable plant, how to make it large enough to be found, and the line that the fix may touch.
PLANTS = {
    "native_optimizer:kernels=5,host_us=140": "optimizer_ctor",
    "top_kernel:ms=3.9": "top_kernel",
    "dataloader:ms=8": "dataloader_ctor",
    "item:n=20": "item",
}


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo, in the working directory."""
    folder = tmp_path / "demo"
    shutil.copytree(DEMO, folder)
    monkeypatch.chdir(folder)
    return folder


def touched(script: Path) -> list[int]:
    """The lines of the original script that are not as they were."""
    old, new = SCRIPT.read_text("utf-8").splitlines(), script.read_text("utf-8").splitlines()
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [line + 1 for tag, first, last, _, _ in codes if tag != "equal" for line in range(first, last)]


def test_a_diff_changes_nothing(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", ".", "--diff", "--unsafe"]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n+ ") == out.count("\n- ") == 2
    assert "NpuFusedAdamW" in out
    assert "would change train.py:127" in err
    assert touched(demo / "train.py") == []


def test_what_is_not_safe_needs_to_be_asked_for(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", ".", "--apply", "--lang", "en"]) == 0
    assert touched(demo / "train.py") == [LINES["top_kernel"]]
    assert "not without --unsafe: train.py:127" in capsys.readouterr().err


@pytest.mark.parametrize("plant", PLANTS)
def test_each_fixable_plant_is_fixed_in_its_statement_and_once(
    plant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [sys.executable, str(GENERATE), str(tmp_path / "run"), "--steps", "2", "--layers", "2"]
    subprocess.run([*made, "--plant", plant], check=True, capture_output=True)
    script = tmp_path / "train.py"
    shutil.copy(SCRIPT, script)
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "run", "--apply", "--unsafe"]) == 0
    fixed = script.read_text("utf-8")
    ast.parse(fixed)
    assert touched(script) == [LINES[PLANTS[plant]]]
    capsys.readouterr()
    assert main(["fix", "run", "--apply", "--unsafe", "--lang", "en"]) == 0
    assert script.read_text("utf-8") == fixed
    assert "Nothing to change" in capsys.readouterr().err


def test_select_chooses_by_rule(demo: Path) -> None:
    assert main(["fix", ".", "--apply", "--unsafe", "--select", "optimizer-*"]) == 0
    assert touched(demo / "train.py") == [LINES["optimizer_ctor"]]


def test_a_script_that_has_changed_is_left_alone(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = demo / "train.py"
    script.write_text("\n\n\n" + SCRIPT.read_text("utf-8"), "utf-8")
    before = script.read_bytes()
    assert main(["fix", ".", "--apply", "--unsafe", "--lang", "en"]) == 0
    assert script.read_bytes() == before
    assert "Nothing to change" in capsys.readouterr().err


def test_bytes_that_are_not_changed_stay(demo: Path) -> None:
    script = demo / "train.py"
    script.write_bytes(b"\xef\xbb\xbf" + SCRIPT.read_bytes().replace(b"\n", b"\r\n"))
    assert main(["fix", ".", "--apply", "--unsafe"]) == 0
    data = script.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")
    assert data.count(b"\r\n") == data.count(b"\n")
    assert b"NpuFusedAdamW(model.parameters(), lr=1e-4)  # site:optimizer_ctor" in data


@pytest.mark.parametrize("options", [[], ["--diff", "--apply"]])
def test_what_to_do_must_be_said(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", str(DEMO), *options]) == 2
    assert "--apply" in capsys.readouterr().err
