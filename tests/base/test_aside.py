from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from npu_advisor.base.aside import Aside, is_aside
from npu_advisor.base.heap import give_back

COLUMNS = [
    np.arange(1000, dtype=np.int64),
    np.array([True, False, True]),
    np.zeros(0),
    np.arange(12, dtype=np.int8).reshape(3, 4)[:, ::2],
    np.array(["a", None], dtype=object),
    np.linspace(0.0, 1.0, 7),
]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_arrays_are_the_same_and_only_to_be_read(tmp_path: Path) -> None:
    found = Aside().put(COLUMNS)
    for before, after in zip(COLUMNS, found, strict=True):
        assert after.dtype == before.dtype
        assert after.tolist() == before.tolist()
    assert [is_aside(array) for array in found] == [True, True, False, True, False, True]
    with pytest.raises(ValueError, match="read-only"):
        found[0][0] = 1
    # Nobody has to remove what nobody can see.
    assert sys.platform == "win32" or not list(tmp_path.iterdir())


def test_what_is_there_stays_and_more_joins_it() -> None:
    aside = Aside()
    first = aside.put(COLUMNS)
    part = first[0][10:20].view()
    again = aside.put([first[0], part, np.full(3, 7)])
    assert again[0] is first[0]
    assert again[1] is part
    assert again[2].tolist() == [7, 7, 7]
    del aside
    assert first[0].tolist() == list(range(1000))


class _Pair(NamedTuple):
    one: np.ndarray[Any, Any]
    rest: list[Any]


@dataclass
class _Thing:
    array: np.ndarray[Any, Any]
    pair: _Pair
    name: str


def test_the_arrays_in_a_thing_are_put_aside_wherever_they_are() -> None:
    before = _Thing(COLUMNS[0], _Pair(COLUMNS[1], [(COLUMNS[3], None), 5, COLUMNS[0]]), "name")
    after = Aside().put_parts(before)
    inner = after.pair.rest[0][0]
    assert [is_aside(array) for array in (after.array, after.pair.one, inner)] == [True] * 3
    assert after.array.tolist() == COLUMNS[0].tolist()
    assert after.pair.one.tolist() == COLUMNS[1].tolist()
    assert inner.tolist() == COLUMNS[3].tolist()
    assert after.pair.rest[2] is after.array
    assert (after.name, after.pair.rest[0][1], after.pair.rest[1]) == ("name", None, 5)


def test_where_no_file_can_be_written_arrays_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    found = Aside().put(COLUMNS)
    assert all(after is before for before, after in zip(COLUMNS, found, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes pages back when told, and tells")
def test_what_was_read_goes_and_is_read_again() -> None:
    (found,) = Aside().put([np.ones(4 << 20, dtype=np.int64)])
    before = _pages()
    assert found.sum() == 4 << 20
    read = _pages() - before
    give_back()
    left = _pages() - before
    # 32 MB are 8192 pages of 4 kB.
    assert read > 8000
    assert left < 1000
    assert found.sum() == 4 << 20


def _pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


FULL = """
import resource
import numpy as np
from npu_advisor.base.aside import Aside

resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
array = np.arange(100_000)
aside = Aside()
assert aside.put([array])[0] is array
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no bound of file sizes to set")
def test_a_disk_that_is_full_costs_nothing_but_the_memory() -> None:
    done = subprocess.run([sys.executable, "-W", "default", "-c", FULL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
