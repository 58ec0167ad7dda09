"""What every test may use: stored output to compare with, and profiles and reports that are made only once.

``pytest --update-snapshots`` rewrites the stored output; a reviewer reads the diff.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import settings
from synthetic import Settings, generate

from npu_advisor import Report, analyze

# How long an example takes is the machine's affair.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

SNAPSHOTS = Path(__file__).parent / "snapshots"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="rewrite the stored reporter output")


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are as wide as they are designed to be, whatever runs the tests."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``snapshot(name, text)``: ``text`` must be what ``tests/snapshots/<name>`` holds."""

    def check(name: str, text: str) -> None:
        path = SNAPSHOTS / name
        if request.config.getoption("--update-snapshots"):
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.is_file(), f"no snapshot {name}: run pytest --update-snapshots and read it"
        assert text == path.read_text(encoding="utf-8")

    return check


@lru_cache(maxsize=64)
def _report(path: Path) -> Report:
    return analyze(path)


@pytest.fixture(scope="session")
def report_of() -> Callable[[Path], Report]:
    """``report_of(path)`` is ``analyze(path)``, remembered."""
    return _report


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Settings], Path]:
    """``generated(settings)`` is a folder with that profile and its truth.json, written once a session."""
    written: dict[str, Path] = {}

    def write(settings: Settings) -> Path:
        key = repr(settings)
        if key not in written:
            written[key] = tmp_path_factory.mktemp("generated")
            generate(written[key], settings)
        return written[key]

    return write
