"""A second run from kept columns gives the report that the files give."""

from __future__ import annotations

import os
import shutil
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from making import op, write_csv, write_info, write_trace

from npu_advisor import analyze
from npu_advisor.base.shelf import COLUMNS, REPORT
from npu_advisor.model.profile import Profile
from npu_advisor.readers import cached, locate, read_rank
from npu_advisor.readers.cached import Cache
from npu_advisor.readers.stored import save

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{COLUMNS}"))


def _never(*_: object) -> Profile:
    raise AssertionError("read again")


def _small(folder: Path, name: str = "a") -> Path:
    folder.mkdir(exist_ok=True)
    write_info(folder)
    write_trace(folder, [op(name, 0, 1), op("半", 2, 3, **{"Call stack": "a.py(1): f"})])
    return folder


def test_the_same_report_from_kept_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "demo"
    shutil.copytree(DEMO, profile)
    plain = analyze(profile).model_dump_json()
    kept = tmp_path / "kept"
    assert analyze(profile, cache=kept).model_dump_json() == plain
    assert len(_entries(kept)) == len(locate(profile))
    monkeypatch.setattr(cached, "read_rank", _never)
    for entry in kept.glob(f"*{REPORT}"):
        entry.unlink()
    again = analyze(profile, cache=kept)
    assert again.model_dump_json() == plain
    assert again.whatif("remove kernels where true").runs == analyze(profile).whatif("remove kernels where true").runs


def test_every_column_comes_back_as_it_was(tmp_path: Path) -> None:
    source = locate(DEMO)[0]
    read = read_rank(source)
    cache = Cache(tmp_path / "kept")
    cache.read_rank(source)
    again = cache.read_rank(source)
    assert again.info == read.info and again.absent == read.absent and again.diagnostics == read.diagnostics
    assert again.stored.keys() == read.stored.keys()
    for name, table in read.stored.items():
        assert again.table(name).stored == table.stored and len(again.table(name)) == len(table)
        for column in table.stored:
            one, other = table[column], again.table(name)[column]
            assert getattr(one, "codes", one).dtype == getattr(other, "codes", other).dtype
            if hasattr(one, "codes"):
                one, other = table.strings(column), again.table(name).strings(column)
            np.testing.assert_array_equal(one, other)


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    folder, cache = _small(tmp_path / "p"), Cache(tmp_path / "kept")
    assert list(cache.read_rank(locate(folder)[0]).ops["name"]) == ["a", "半"]
    _small(folder, "b")
    assert list(cache.read_rank(locate(folder)[0]).ops["name"]) == ["b", "半"]
    assert cache.shelf.use().columns == 2


def test_what_changes_while_it_is_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = _small(tmp_path / "p"), Cache(tmp_path / "kept")

    def read(*given: object) -> Profile:
        profile = read_rank(*given)  # type: ignore[arg-type]
        _small(folder, "longer")
        return profile

    monkeypatch.setattr(cached, "read_rank", read)
    cache.read_rank(locate(folder)[0])
    assert cache.shelf.use().columns == 0


def test_another_version_of_the_reader_reads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = _small(tmp_path / "p"), Cache(tmp_path / "kept")
    cache.read_rank(locate(folder)[0])
    monkeypatch.setattr(cached, "_code", lambda: "another")
    cache.read_rank(locate(folder)[0])
    assert cache.shelf.use().columns == 2


@pytest.mark.parametrize("damage", [b"", b"PK", b"not an archive"])
def test_a_damaged_entry_is_replaced(tmp_path: Path, damage: bytes) -> None:
    folder, cache = _small(tmp_path / "p"), Cache(tmp_path / "kept")
    cache.read_rank(locate(folder)[0])
    (entry,) = _entries(cache.shelf.folder)
    whole = entry.read_bytes()
    for bad in (damage, whole[: len(whole) // 2], whole.replace(b"start_ns", b"start_no")):
        entry.write_bytes(bad)
        assert len(cache.read_rank(locate(folder)[0]).ops) == 2
        assert entry.stat().st_size == len(whole)


def test_many_runs_may_share_it(tmp_path: Path) -> None:
    folder, kept = _small(tmp_path / "p"), tmp_path / "kept"
    found: list[int] = []

    def run() -> None:
        found.append(len(Cache(kept).read_rank(locate(folder)[0]).ops))

    runs = [threading.Thread(target=run) for _ in range(8)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert found == [2] * 8 and [path.suffix for path in kept.iterdir()] == [COLUMNS]


def test_texts_that_cannot_be_kept_are_read_again(tmp_path: Path) -> None:
    folder, cache = _small(tmp_path / "p"), Cache(tmp_path / "kept")
    profile = read_rank(locate(folder)[0])
    names = profile.table("ops").with_columns(name=["\ud800", "x"])
    profile.put(names)
    cache.shelf.put(f"entry{COLUMNS}", partial(save, profile))
    assert list(cache.shelf.folder.iterdir()) == []


def test_a_file_put_off_stays_put_off(tmp_path: Path) -> None:
    folder, cache = _small(tmp_path / "p"), Cache(tmp_path / "kept")
    head = ["Name", *(f"{where} {what} Duration(us)" for where in ("Host", "Device") for what in ("Self", "Total"))]
    write_csv(folder, "operator_details.csv", head, [["a", 1, 2, 3, 4]])
    for _ in range(2):
        profile = cache.read_rank(locate(folder)[0])
        assert "op_details" not in profile.stored
        assert profile.op_details["host_total_us"].tolist() == [2]


def test_progress_is_complete_at_once(tmp_path: Path) -> None:
    folder, cache = _small(tmp_path / "p"), Cache(tmp_path / "kept")
    source = locate(folder)[0]
    cache.read_rank(source)
    told: list[tuple[int, int]] = []
    cache.read_rank(source, lambda done, total: told.append((done, total)))
    assert told == [(source.size, source.size)]


def test_what_somebody_still_writes_is_not_kept(tmp_path: Path) -> None:
    """A trace without an end says so only while its last change is young."""
    folder, cache = _small(tmp_path / "p"), Cache(tmp_path / "kept")
    trace = folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    trace = trace if trace.exists() else next(folder.rglob("trace_view.json"))
    trace.write_text(trace.read_text().rstrip().rstrip("]"))
    assert "still_written" in {remark.code for remark in cache.read_rank(locate(folder)[0]).diagnostics}
    assert cache.shelf.use().columns == 0
    old = trace.stat().st_mtime - 3600
    os.utime(trace, (old, old))
    assert "still_written" not in {remark.code for remark in cache.read_rank(locate(folder)[0]).diagnostics}
    assert cache.shelf.use().columns == 1
