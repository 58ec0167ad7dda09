"""The post-training hook, with profilers that only write files; ``test_torch.py`` uses a real one."""

from __future__ import annotations

import json
import logging
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from places import DEMO

from npu_advisor.hook import trace_handler, trainer_callback
from npu_advisor.hook.handler import LOG

PROFILE = next(DEMO.glob("*_ascend_pt"))


def fake_profiler(monkeypatch: pytest.MonkeyPatch, name: str, write: Callable[[Path], None]) -> object:
    """A profiler of the module ``name`` whose tensorboard handler calls ``write(folder)``."""
    module = ModuleType(name)

    def tensorboard_trace_handler(folder: str, worker_name: str | None = None, **options: Any) -> Callable[[Any], None]:
        def handle(profiler: Any) -> None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            write(Path(folder))

        return handle

    module.tensorboard_trace_handler = tensorboard_trace_handler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    return type("profile", (), {"__module__": name})()


def copy_profile(folder: Path) -> None:
    shutil.copytree(PROFILE, folder / PROFILE.name)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], logging.LogRecord]]:
    """``said()`` waits for the one line that the hook logs."""
    caplog.set_level(logging.INFO, logger=LOG.name)

    def wait() -> logging.LogRecord:
        until = time.monotonic() + 120
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.1)
        (record,) = caplog.records
        return record

    yield wait


@pytest.mark.parametrize("module", ["torch_npu.profiler", "torch.profiler"])
def test_reports_are_written_beside_the_profile_and_one_line_is_logged(monkeypatch, tmp_path, said, module):
    profiler = fake_profiler(monkeypatch, module, copy_profile)
    trace_handler(tmp_path / "result", report=["terminal", "json"])(profiler)
    assert "first: The host cannot keep the device fed (train.py:81)" in said().getMessage()
    written = {path.name for path in (tmp_path / "result").iterdir()} - {PROFILE.name}
    assert written == {f"{PROFILE.name}.advisor.txt", f"{PROFILE.name}.advisor.json"}
    report = json.loads((tmp_path / "result" / f"{PROFILE.name}.advisor.json").read_text(encoding="utf-8"))
    assert report["findings"][0]["rule_id"] == "dispatch-dequeue-gap"
    assert {path.name for path in (tmp_path / "result" / PROFILE.name).rglob("*")} == {
        path.name for path in PROFILE.rglob("*")
    }


def test_a_profile_that_is_parsed_later_is_waited_for(monkeypatch, tmp_path, said):
    def write(folder: Path) -> None:
        (folder / PROFILE.name / "FRAMEWORK").mkdir(parents=True)

    profiler = fake_profiler(monkeypatch, "torch_npu.profiler", write)
    trace_handler(tmp_path, report="json")(profiler)
    time.sleep(2.0)
    shutil.copytree(PROFILE, tmp_path / PROFILE.name, dirs_exist_ok=True)
    assert said().levelno == logging.INFO and (tmp_path / f"{PROFILE.name}.advisor.json").is_file()


def test_a_grave_finding_is_logged_as_an_error(monkeypatch, tmp_path, said):
    profiler = fake_profiler(monkeypatch, "torch.profiler", copy_profile)
    trace_handler(tmp_path, report="json", fail_on="high")(profiler)
    assert said().levelno == logging.ERROR


def test_a_broken_profile_never_breaks_training(monkeypatch, tmp_path, said):
    def write(folder: Path) -> None:
        output = folder / PROFILE.name / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        (output / "trace_view.json").write_text("{ no trace ]", encoding="utf-8")

    trace_handler(tmp_path, report="json")(fake_profiler(monkeypatch, "torch.profiler", write))
    assert "no report" in said().getMessage() and said().levelno == logging.WARNING


def test_a_full_disk_never_breaks_training(monkeypatch, tmp_path, said):
    profiler = fake_profiler(monkeypatch, "torch.profiler", copy_profile)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(folder: Path) -> None:
        copy_profile(folder)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # the child may not write a byte

    profiler = fake_profiler(monkeypatch, "torch.profiler", limited)
    try:
        trace_handler(tmp_path, report="json")(profiler)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot write" in said().getMessage()


def test_a_crash_of_the_analysis_never_breaks_training(monkeypatch, tmp_path, said):
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('injected')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    trace_handler(tmp_path / "result")(fake_profiler(monkeypatch, "torch.profiler", copy_profile))
    assert "no report: RuntimeError: injected" in said().getMessage()


def test_an_interpreter_that_cannot_start_is_logged(monkeypatch, tmp_path, said):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    trace_handler(tmp_path / "result")(fake_profiler(monkeypatch, "torch.profiler", copy_profile))
    assert "could not start" in said().getMessage()


def test_only_the_first_rank_analyses_unless_each_is_asked_for(monkeypatch, tmp_path, said, caplog):
    monkeypatch.setenv("RANK", "3")
    profiler = fake_profiler(monkeypatch, "torch.profiler", copy_profile)
    trace_handler(tmp_path / "a", report="json")(profiler)
    assert not caplog.records
    trace_handler(tmp_path / "b", report="json", ranks="each")(profiler)
    said()
    assert (tmp_path / "b" / f"{PROFILE.name}.advisor.json").is_file()


def test_what_the_profiler_itself_raises_is_its_own(monkeypatch, tmp_path):
    def write(folder: Path) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        trace_handler(tmp_path)(fake_profiler(monkeypatch, "torch.profiler", write))


def test_a_trainer_callback_profiles_and_survives_a_failing_profiler(monkeypatch, tmp_path, said):
    transformers = ModuleType("transformers")
    transformers.TrainerCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    calls: list[str] = []

    class Profile:
        def __init__(self, **options: Any) -> None:
            assert options["with_stack"] and callable(options["on_trace_ready"])

        def start(self) -> None:
            calls.append("start")

        def step(self) -> None:
            calls.append("step")
            raise RuntimeError("the device is gone")

        def stop(self) -> None:
            calls.append("stop")

    profiler = SimpleNamespace(profile=Profile, schedule=lambda **numbers: numbers)
    monkeypatch.setitem(sys.modules, "torch.profiler", profiler)
    callback = trainer_callback(str(tmp_path))
    callback.on_train_begin(None, None, None)
    callback.on_step_end(None, None, None)
    callback.on_step_end(None, None, None)
    callback.on_train_end(None, None, None)
    assert calls == ["start", "step"] and "the device is gone" in said().getMessage()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python cannot keep the working directory off its path")
def test_files_of_the_working_directory_are_not_imported(monkeypatch, tmp_path, said):
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('not mine')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    trace_handler(tmp_path / "result", report="json")(fake_profiler(monkeypatch, "torch.profiler", copy_profile))
    assert said().levelno == logging.INFO
