"""What is shipped: the rules travel inside the wheel and the sdist, and are found in every form of installation."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from places import REPOSITORY

from npu_advisor import __version__

RULES = REPOSITORY / "rules"


def _rule_names() -> set[str]:
    return {path.relative_to(RULES).as_posix() for path in RULES.rglob("*.yaml")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built by hatchling itself (no build isolation, no network)."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    return out


def test_there_are_rules_and_each_has_its_test() -> None:
    names = _rule_names()
    rules = {name for name in names if "/" in name and not name.endswith(".test.yaml")}
    assert len(rules) >= 5
    assert {name.replace(".yaml", ".test.yaml") for name in rules} <= names


def test_the_wheel_carries_every_rule(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    prefix = "npu_advisor/_rules/"
    assert {name.removeprefix(prefix) for name in names if name.startswith(prefix)} == _rule_names()
    assert not [name for name in names if name.startswith(("tests/", "fixtures/", "rules/"))]
    assert "npu_advisor/cli/app.py" in names
    templates = {path.name for path in (REPOSITORY / "npu_advisor/report/html/templates").iterdir()}
    assert {f"npu_advisor/report/html/templates/{name}" for name in templates} <= names


def test_the_sdist_carries_what_building_and_testing_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"rules/{name}" for name in _rule_names()} <= names
    assert {"tests/test_packaging.py", "fixtures/generate.py", "fixtures/demo/train.py", "README.md"} <= names


def _rules_found_from(root: Path) -> Path:
    """The folder of shipped rules that the package lying in ``root`` loads its rules from."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import npu_advisor\n"
        "from npu_advisor.rules.loader import load_rules, shipped_dir\n"
        "print(npu_advisor.__file__, shipped_dir(), len(load_rules()), npu_advisor.__version__, sep='\\n')\n"
    )
    command = [sys.executable, "-c", program, str(root)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    where, rules, count, version = result.stdout.splitlines()
    assert Path(where).parent == root / "npu_advisor"
    assert int(count) >= 5
    assert version == __version__
    return Path(rules)


def test_an_unpacked_wheel_finds_its_own_rules(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    assert _rules_found_from(tmp_path) == tmp_path / "npu_advisor" / "_rules"


def test_a_checkout_finds_the_rules_beside_the_package() -> None:
    assert _rules_found_from(REPOSITORY) == RULES
