from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from places import DEMO

from npu_advisor.cli.app import main
from npu_advisor.cli.watch import Watch, watch
from npu_advisor.readers import locate
from npu_advisor.readers.settled import is_whole, signature

PROFILE = next(DEMO.glob("*_ascend_pt"))
OUTPUT = "ASCEND_PROFILER_OUTPUT"


def _appear(folder: Path) -> Path:
    return Path(shutil.copytree(PROFILE, folder / PROFILE.name))


def test_once_analyses_what_is_there_and_writes_beside_it(tmp_path, capsys):
    profile = _appear(tmp_path)
    before = sorted(profile.rglob("*"))
    assert main(["watch", str(tmp_path), "--once", "-f", "json", "-f", "sarif", "-f", "html"]) == 0
    assert "first: The host cannot keep the device fed" in capsys.readouterr().out
    assert sorted(profile.rglob("*")) == before
    report = json.loads((tmp_path / f"{PROFILE.name}.advisor.json").read_text(encoding="utf-8"))
    assert report["findings"] and (tmp_path / f"{PROFILE.name}.advisor.sarif").is_file()
    page = (tmp_path / f"{PROFILE.name}.advisor.html").read_text(encoding="utf-8")
    assert 'id="timelines"' in page and 'data-table="kernel_type"' in page
    # The reports are not taken for profiles the next time.
    assert main(["watch", str(tmp_path), "--once", "-f", "json", "--fail-on", "high"]) == 1


def test_a_profile_that_appears_later_is_waited_for(tmp_path, capsys):
    steps: list[float] = []

    def pause(seconds: float) -> None:
        steps.append(seconds)
        if len(steps) == 2:
            _appear(tmp_path)

    assert watch(Watch(str(tmp_path), forms=("json",), once=True), pause) == 0
    assert len(steps) >= 3  # it must have been seen twice without a change


def test_a_profile_that_still_grows_is_not_read(tmp_path):
    trace = _appear(tmp_path) / OUTPUT / "trace_view.json"
    whole = trace.read_bytes()
    sizes = []

    def pause(_seconds: float) -> None:
        assert not list(tmp_path.glob("*.advisor.json"))
        sizes.append(len(sizes))
        assert len(sizes) < 20
        if len(sizes) <= 4:
            trace.write_bytes(whole[: len(whole) * len(sizes) // 4])

    assert watch(Watch(str(tmp_path), forms=("json",), once=True), pause) == 0
    assert len(sizes) >= 5


def test_nothing_within_the_time_is_said_with_exit_3(tmp_path, capsys):
    assert main(["watch", str(tmp_path / "none"), "--once", "--timeout", "0.01"]) == 3
    assert "no profile was complete" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["-f", "nope"], ["-f", "github"], ["--fail-on", "x"], ["--lang", "fr"]])
def test_wrong_options_are_refused(tmp_path, option, capsys):
    assert main(["watch", str(tmp_path), *option]) == 2
    assert "cannot be" in capsys.readouterr().err


def test_a_trace_without_its_end_is_not_whole(tmp_path):
    profile = _appear(tmp_path)
    (source,) = locate(profile)
    assert is_whole(source) and signature(source) == signature(source)
    trace = profile / OUTPUT / "trace_view.json"
    trace.write_bytes(trace.read_bytes()[:-40])
    assert not is_whole(source)
