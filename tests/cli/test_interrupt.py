"""Ctrl-C, wherever a run is: no report, no traceback, no process and no file left behind."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npu_advisor.__main__ import main

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system has no groups of processes")

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"
# A run that interrupts itself and its helpers, as a terminal does, or itself ALONE, as `kill` does: where it calls the
# function that is named, the wanted time. Traces of any size are scanned by helpers.
PROGRAM = """
import importlib, os, signal, sys

module, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
from npu_advisor.readers import trace_parallel, trace_seams
trace_parallel.LARGE = trace_parallel.LARGE_ZIPPED = 0
trace_parallel.SPAN = 40_000
trace_seams.spans_of.__defaults__ = (40_000,)

place = importlib.import_module(module)
original = getattr(place, name)

def interrupted(*given, **options):
    global times
    times -= 1
    if times == 0:
        os.kill(os.getpid(), signal.SIGINT) if os.environ.get("ALONE") else os.killpg(0, signal.SIGINT)
    return original(*given, **options)

setattr(place, name, interrupted)
from npu_advisor.cli.app import main
sys.exit(main(sys.argv[4:]))
"""
SCANNING = ("npu_advisor.readers.trace_parallel", "_Joined", 1)
PHASES = {
    "finding the profile": ("npu_advisor.session", "locate_all", 1),
    "scanning with helpers": SCANNING,
    "reading a table": ("npu_advisor.readers.rank", "read_kernel_details", 1),
    "linking": ("npu_advisor.session", "link", 1),
    "loading the rules": ("npu_advisor.session", "load_rules", 1),
    "running the rules": ("npu_advisor.engine.run", "run_rule", 40),
    "replaying": ("npu_advisor.session", "replay_runs", 1),
    "pricing": ("npu_advisor.session", "price", 1),
    "rendering": ("npu_advisor.report.terminal", "render_terminal", 1),
}


class Ended:
    """A run that was interrupted, and everything that it left."""

    def __init__(self, place: tuple[str, str, int], arguments: list[str], folder: Path) -> None:
        temporary = folder / "temporary"
        temporary.mkdir()
        known = {**os.environ, "TMPDIR": str(temporary), "NPU_ADVISOR_PROCESSES": "3"}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, place), *arguments],
            cwd=folder,
            env=known,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self.out, self.said = process.communicate(timeout=120)
            self.code = process.returncode
            self.alive = not _is_gone(process.pid)
            self.files = sorted(path.name for path in temporary.rglob("*"))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _is_gone(group: int) -> bool:
    """Whether no process of ``group`` is left; what has just been told to end may take a moment."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def _assert_clean(ended: Ended) -> None:
    assert ended.code == 130, ended.said.decode()
    assert ended.out == b""
    assert ended.said == b""
    assert not ended.alive
    assert ended.files == []


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_ends_without_a_trace(phase: str, tmp_path: Path) -> None:
    _assert_clean(Ended(PHASES[phase], [str(DEMO)], tmp_path))


def test_before_there_is_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Importing:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "npu_advisor.cli.app", Importing())
    assert main() == 130


def test_what_would_be_kept_is_not_left_half(tmp_path: Path) -> None:
    place = ("npu_advisor.readers.stored", "_adapter", 1)
    _assert_clean(Ended(place, [str(DEMO), "--cache", "kept"], tmp_path))
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_zipped_trace(tmp_path: Path) -> None:
    profile = tmp_path / "demo"
    shutil.copytree(DEMO, profile)
    (trace,) = profile.rglob("trace_view.json")
    with gzip.open(f"{trace}.gz", "wb") as zipped:
        zipped.write(trace.read_bytes())
    trace.unlink()
    _assert_clean(Ended(SCANNING, [str(profile)], tmp_path))


def test_a_database_with_a_log_beside_it(tmp_path: Path) -> None:
    """It is read from a copy, which goes too."""
    path = tmp_path / "ascend_pytorch_profiler_0.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("create table STRING_IDS (id integer, value text)")
        database.execute("insert into STRING_IDS values (1, 'a')")
        database.commit()
        _assert_clean(Ended(("npu_advisor.readers.sqlite", "_read_main", 1), [str(path)], tmp_path))


@pytest.mark.parametrize("alone", ["", "1"])
def test_the_workers_of_a_job_end_at_once(alone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they were at is not finished first."""
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("ALONE", alone)
    for rank in range(3):
        shutil.copytree(DEMO, tmp_path / "job" / f"rank{rank}")
    job = ["cluster", "job", "--workers", "2", "--memory", "4GB", "-q", "--summaries", "kept"]
    _assert_clean(Ended(("npu_advisor.cluster.engines", "wait", 1), job, tmp_path))
    assert list((tmp_path / "kept").iterdir()) == []
