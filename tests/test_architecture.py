"""The gate on the project itself: layers, style, types, start-up cost, and what no file may hold."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest
from places import DEMO, REPOSITORY

from npu_advisor.base.messages import MESSAGES

pytestmark = pytest.mark.gate

_MACHINE_PATHS = r"(?<![\w.$/}])/(?:work|tmp|root|Users|opt/venv)/"
# Spelt with a class around one letter each, so that this file does not hold what it forbids.
_REGISTRIES = r"py[p]i\.org|python[h]osted\.org|artifac[t]ory|nexu[s]\.|/sim[p]le/|\bindex-[u]rl\b|npm[j]s\."
_UNFINISHED = r"\bTO[D]O\b|\bFIXM[E]\b|\bXX[X]\b"


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False)


def _project_files() -> list[Path]:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed.returncode:
        pytest.skip("not a git checkout")
    found = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    return [path for path in found if path.is_file()]


def _lines_with(pattern: str) -> list[str]:
    hits = []
    for path in _project_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(pattern, line):
                hits.append(f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()[:120]}")
    return hits


def test_layers_import_only_what_they_may() -> None:
    result = _run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 kept, 0 broken" in result.stdout, result.stdout


def test_ruff_finds_nothing() -> None:
    result = _run(sys.executable, "-m", "ruff", "check", "--no-cache", ".")
    assert result.returncode == 0, result.stdout


def test_code_is_formatted() -> None:
    result = _run(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", ".")
    assert result.returncode == 0, result.stdout


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python gets older numpy and pandas stubs, which say less")
@pytest.mark.parametrize("target", [("-p", "npu_advisor"), ("fixtures/generate.py",)], ids=["package", "generator"])
def test_types_hold(target: tuple[str, ...], tmp_path: Path) -> None:
    result = _run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *target)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_file_names_a_path_of_one_machine() -> None:
    assert _lines_with(_MACHINE_PATHS) == []


def test_no_file_names_a_package_registry() -> None:
    assert _lines_with(_REGISTRIES) == []


def test_nothing_is_left_for_later() -> None:
    assert _lines_with(_UNFINISHED) == []


@pytest.mark.parametrize("arguments", [["--help"], ["rules", "--help"]])
def test_help_needs_no_heavy_library(arguments: list[str]) -> None:
    """Importing pandas or networkx takes longer than all of --help may."""
    program = (
        "import resource, sys\n"
        "from npu_advisor.cli.app import main\n"
        f"sys.argv = ['npu-advisor', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = sorted({'pandas', 'numpy', 'networkx', 'msgspec'} & set(sys.modules))\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(heavy, used.ru_utime + used.ru_stime, file=sys.stderr)\n"
    )
    results = [_run(sys.executable, "-c", program) for _ in range(3)]
    for result in results:
        assert result.returncode == 0, result.stderr
        assert result.stderr.startswith("[] "), result.stderr
    assert min(float(result.stderr.split()[-1]) for result in results) < 0.4


@pytest.mark.parametrize("form", ["terminal", "json"])
def test_a_report_needs_no_data_frame(form: str) -> None:
    """Importing pandas takes longer, and more memory, than reading and judging a small profile."""
    program = (
        "import sys\n"
        "from npu_advisor.__main__ import main\n"
        f"sys.argv = ['npu-advisor', {str(DEMO)!r}, '-f', {form!r}, '-q']\n"
        "assert not main()\n"
        "print(sorted({'pandas', 'pyarrow', 'networkx', 'sqlite3'} & set(sys.modules)), file=sys.stderr)\n"
    )
    result = _run(sys.executable, "-c", program)
    assert result.stderr == "[]\n" and result.stdout, result.stderr


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys; before = set(sys.modules); import npu_advisor; print(sorted(set(sys.modules) - before))"
    loaded = _run(sys.executable, "-c", program).stdout
    assert "pandas" not in loaded
    assert "pydantic" not in loaded


@pytest.mark.parametrize("key", sorted(MESSAGES))
def test_both_languages_of_a_message_use_the_same_fields(key: str) -> None:
    english, chinese = (sorted({name for _, name, _, _ in Formatter().parse(text) if name}) for text in MESSAGES[key])
    assert english == chinese


def test_the_generator_shares_no_code_with_the_product() -> None:
    """Its scheduler is the truth that the product's analysis is compared with."""
    sources = [path for path in (REPOSITORY / "fixtures").rglob("*.py") if "demo" not in path.parts]
    assert len(sources) > 5
    assert [path.name for path in sources if re.search(r"^\s*(from|import) npu_advisor", path.read_text(), re.M)] == []
