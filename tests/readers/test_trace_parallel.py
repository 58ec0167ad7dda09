"""A trace scanned span by span, alone or with helpers, is the trace that one stream gives."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from making import op, write_trace

from npu_advisor import analyze
from npu_advisor.base.shelf import COLUMNS
from npu_advisor.readers import trace_parallel, trace_seams, trace_spans
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.trace import read_trace
from npu_advisor.readers.trace_spans import Reading

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"


@pytest.fixture
def in_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of 40 kB, blocks of 4 kB, for files of any size."""
    monkeypatch.setattr(trace_parallel, "LARGE", 0)
    monkeypatch.setattr(trace_seams.spans_of, "__defaults__", (40_000,))
    monkeypatch.setattr(trace_spans, "BLOCK", 4000)


def _profile(folder: Path) -> Path:
    shutil.copytree(DEMO, folder / "demo")
    return folder / "demo"


def _trace(profile: Path) -> Path:
    (trace,) = profile.glob("**/trace_view.json")
    return trace


def _report(profile: Path) -> str:
    return analyze(profile).model_dump_json()


@pytest.mark.parametrize("processes", ["1", "2", "3"])
def test_any_number_of_processes_gives_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, processes: str
) -> None:
    profile = _profile(tmp_path)
    streamed = _report(profile)
    request.getfixturevalue("in_spans")
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", processes)
    assert len(trace_seams.spans_of(_trace(profile))) > 5
    assert _report(profile) == streamed


@pytest.fixture
def in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of 40 kB of a zipped file of any size."""
    monkeypatch.setattr(trace_parallel, "LARGE_ZIPPED", 0)
    monkeypatch.setattr(trace_parallel, "SPAN", 40_000)


@pytest.mark.usefixtures("in_stretches")
@pytest.mark.parametrize("processes", ["1", "3"])
def test_a_zipped_trace_gives_the_same_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str) -> None:
    profile = _profile(tmp_path)
    plain, trace = _report(profile), _trace(profile)
    _zip(trace)
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", processes)
    assert _report(profile).replace("trace_view.json.gz", "trace_view.json") == plain


def _zip(trace: Path) -> Path:
    zipped = trace.with_name(f"{trace.name}.gz")
    zipped.write_bytes(gzip.compress(trace.read_bytes()))
    trace.unlink()
    return zipped


def test_columns_that_were_kept_give_the_same_report(tmp_path: Path) -> None:
    profile, cache = _profile(tmp_path), tmp_path / "cache"
    read = _report(profile)
    assert analyze(profile, cache=cache).model_dump_json() == read
    (columns,) = cache.glob(f"*{COLUMNS}")
    for entry in set(cache.iterdir()) - {columns}:
        entry.unlink()
    used = columns.stat().st_mtime_ns
    assert analyze(profile, cache=cache).model_dump_json() == read
    assert columns.stat().st_mtime_ns > used


@pytest.mark.usefixtures("in_stretches")
@pytest.mark.parametrize("processes", ["1", "3"])
def test_a_zipped_file_that_is_no_trace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", processes)
    zipped = tmp_path / "trace_view.json.gz"
    zipped.write_bytes(gzip.compress(b"no trace at all"))
    with pytest.raises(UnreadableFileError):
        read_trace(zipped, Notes())


@pytest.mark.usefixtures("in_spans")
@pytest.mark.parametrize("cut", [0.3, 0.999])
def test_a_cut_trace_is_cut_at_the_same_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: float) -> None:
    trace = tmp_path / "trace_view.json"
    text = _trace(DEMO).read_bytes()
    trace.write_bytes(text[: int(len(text) * cut)])
    told = []
    for large in (0, 1 << 40):
        monkeypatch.setattr(trace_parallel, "LARGE", large)
        notes = Notes()
        events = read_trace(trace, notes).events
        told.append((events, [(note.code, note.message) for note in notes]))
    assert told[0] == told[1]
    assert [code for code, _ in told[0][1]] == ["trace_truncated"]


@pytest.mark.usefixtures("in_spans")
def test_damage_costs_the_same_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace_view.json"
    text = _trace(DEMO).read_bytes()
    for number in range(1, 6):
        at = text.index(b'"ts"', number * len(text) // 7)
        text = text[:at] + (b"\xff" if number % 2 else b"\\q") + text[at + 1 :]
    trace.write_bytes(text)
    told = []
    for large in (0, 1 << 40):
        monkeypatch.setattr(trace_parallel, "LARGE", large)
        notes = Notes()
        events = read_trace(trace, notes).events
        told.append((events, [(note.code, note.message) for note in notes]))
    assert told[0] == told[1]


@pytest.mark.usefixtures("in_spans", "in_stretches")
@pytest.mark.parametrize("zipped", [False, True])
def test_helpers_that_die_are_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool) -> None:
    trace = _trace(_profile(tmp_path))
    trace = _zip(trace) if zipped else trace
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", "3")
    expected = read_trace(trace, Notes())
    for code in ("raise SystemExit(3)", "print('no part', flush=True); import time; time.sleep(0.1)"):
        monkeypatch.setattr(trace_parallel, "_CODE", code)
        found = read_trace(trace, Notes())
        assert found.events == expected.events
        assert (found.tables["ops"]["start_ns"] == expected.tables["ops"]["start_ns"]).all()


def test_a_zipped_trace_is_read_again_for_a_stretch_that_was_given_back(tmp_path: Path) -> None:
    path = _zip(_trace(_profile(tmp_path)))
    turns = [trace_seams.Turn(path, 40_000, number) for number in range(4)]
    once, reading = [Reading().stretch(turn) for turn in turns], Reading()
    assert [reading.stretch(turns[number]) for number in (0, 3, 1, 2)] == [once[number] for number in (0, 3, 1, 2)]
    assert len({block.offset for block, _ in once if block}) == 4
    assert reading.stretch(turns[0]._replace(number=10_000))[0] is None
    assert reading.extent(turns[0]) == Reading().extent(turns[0])
    assert reading.stretch(turns[1]) == once[1]


def test_only_a_bare_plain_array_is_cut_unread(tmp_path: Path) -> None:
    wrapped = tmp_path / "trace_view.json"
    events = json.loads(_trace(DEMO).read_bytes())
    wrapped.write_text(json.dumps({"traceEvents": events}))
    zipped = tmp_path / "trace_view.json.gz"
    zipped.write_bytes(gzip.compress(_trace(DEMO).read_bytes()))
    assert trace_seams.spans_of(wrapped) == []
    assert trace_seams.spans_of(zipped) == []


def test_the_last_spans_are_short(tmp_path: Path) -> None:
    """All processes end together; nothing is left out."""
    trace = write_trace(tmp_path, [op(f"op{number}", number, 1) for number in range(100_000)])
    spans = trace_seams.spans_of(trace)
    lengths = [end - begin for begin, end in spans]
    assert [begin for begin, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == trace.stat().st_size
    assert max(lengths[-trace_seams.LAST :]) < max(lengths) / 2


def test_a_helper_starts_without_pandas() -> None:
    """It would take longer to start than to scan a span, and twice the memory."""
    told = "import sys, npu_advisor.readers.trace_helper; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0
