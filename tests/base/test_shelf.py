"""A folder that any number of runs share: whole entries, the oldest go first, clearing leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import pytest

from npu_advisor.base import shelf
from npu_advisor.base.errors import ConfigError
from npu_advisor.base.shelf import COLUMNS, PART, REPORT, BrokenEntryError, Shelf, user_folder


def _put(kept: Shelf, name: str, content: bytes = b"x") -> None:
    kept.put(name, lambda file: file.write(content))


def _names(kept: Shelf) -> list[str]:
    return sorted(path.name for path in kept.folder.iterdir())


def test_what_was_put_comes_back(tmp_path: Path) -> None:
    kept = Shelf(tmp_path / "kept")
    assert kept.get(f"a{REPORT}", lambda file: file.read()) is None
    _put(kept, f"a{REPORT}", b"one")
    assert kept.get(f"a{REPORT}", lambda file: file.read()) == b"one"
    assert kept.use() == (0, 1, 3)


def test_a_broken_entry_goes(tmp_path: Path) -> None:
    kept = Shelf(tmp_path / "kept")
    _put(kept, f"a{REPORT}")

    def broken(file: IO[bytes]) -> bytes:
        raise BrokenEntryError

    assert kept.get(f"a{REPORT}", broken) is None
    assert _names(kept) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    kept = Shelf(tmp_path / "kept")

    def full(file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    kept.put(f"a{COLUMNS}", full)
    assert _names(kept) == []


def test_the_least_recently_used_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Shelf(tmp_path / "kept")
    for age, name in enumerate((f"a{COLUMNS}", f"b{REPORT}")):
        _put(kept, name, b"1234")
        os.utime(kept.folder / name, (age, age))
    kept.get(f"a{COLUMNS}", lambda file: file.read())
    monkeypatch.setattr(shelf, "LIMIT", 9)
    _put(kept, f"c{REPORT}", b"1234")
    assert _names(kept) == [f"a{COLUMNS}", f"c{REPORT}"]


def test_clearing_leaves_nothing(tmp_path: Path) -> None:
    kept = Shelf(tmp_path / "kept")
    for name in (f"a{COLUMNS}", f"b{REPORT}", f"left{PART}"):
        (kept.folder / name).write_text("12")
    assert kept.clear() == (1, 1, 4)
    assert _names(kept) == []


def test_what_else_lies_in_the_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Shelf(tmp_path)
    mine = ["data.npz", "film.part", "last.report", "notes.txt"]
    for name in mine:
        (tmp_path / name).write_text("12")
        os.utime(tmp_path / name, (0, 0))
    monkeypatch.setattr(shelf, "LIMIT", 0)
    _put(kept, f"a{REPORT}")
    assert kept.use() == kept.clear() == (0, 0, 0)
    assert _names(kept) == mine


def test_the_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shelf.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_folder() == tmp_path / "npu-advisor" == Shelf("auto").folder


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "kept", ""):
        with pytest.raises(ConfigError, match="cache folder"):
            Shelf(folder)
