"""Tables of numbers straight from the pages of an SQLite file, as columns: a tenth of what a cursor's rows cost.

The format of the file is laid down for good (sqlite.org/fileformat2.html). A table is a tree of pages, whose leaves
hold its rows by rowid; a row is a record: one byte for the kind of each value, then the values, big-endian. Only
records of this plain form are read here. Whatever is different in any way, damage above all, is for SQLite to read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from npu_advisor.readers.numbers import Float, Int

Bytes = npt.NDArray[np.uint8]
# Pages read at once: what is made of them stays near the processor.
_PAGES = 256
_INTERIOR, _LEAF = 5, 13
_DEEPEST = 20
# Kinds of values. One byte tells a kind below 128; odd ones from 13 on are text of (kind - 13) / 2 bytes.
_NULL, _REAL, _ZERO, _ONE, _TEXT, _LONG = 0, 7, 8, 9, 13, 128
_SIZES: Int = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((kind - 12) // 2 for kind in range(12, _LONG))], np.int64)
# A number of n bytes is the first n of eight.
_SHIFTS = np.array([0, 56, 48, 40, 32, 16, 0], np.uint8)
# No record of such kinds reaches further beyond its page.
_BEYOND = 1 << 14
# The digits that every int64 has room for.
_DIGITS = 18


class UnusualPagesError(Exception):
    """SQLite has to read this table."""


@dataclass(frozen=True)
class Layout:
    """The page a table begins at, the columns in its records, and the place of the one that is the rowid (or -1)."""

    root: int
    columns: list[str]
    rowid: int

    def places(self, names: Iterable[str]) -> list[int]:
        """Where the records have these columns."""
        return [self.columns.index(name) for name in names]


def layout_of(connection: sqlite3.Connection, table: str) -> Layout:
    """As the schema has it. Raises UnusualPagesError where records do not follow from that."""
    try:
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?"
        (root,) = connection.execute(query, (table,)).fetchone()
        columns = connection.execute("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)", (table,)).fetchall()
        # A key with an index is a column like any other.
        indexed = connection.execute("SELECT 1 FROM pragma_index_list(?) WHERE origin = 'pk'", (table,)).fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise UnusualPagesError from error
    _must(not any(hidden for *_, hidden in columns))
    keys = [place for place, (_, kind, key, _) in enumerate(columns) if key and kind.upper() == "INTEGER"]
    alone = sum(bool(key) for _, _, key, _ in columns) == 1 and not indexed
    return Layout(root, [name for name, *_ in columns], keys[0] if keys and alone else -1)


class Pages:
    """The pages of an open file, numbered from 1."""

    def __init__(self, path: Path, size: int, reserved: int, count: int) -> None:
        self._path, self._size, self._usable, self._count = path, size, size - reserved, count

    @classmethod
    def of(cls, path: Path) -> Pages:
        """Raises OSError."""
        with path.open("rb") as file:
            head = file.read(100).ljust(100, b"\0")
            size = int.from_bytes(head[16:18], "big")
            size = 1 << 16 if size == 1 else max(size, 1)
            return cls(path, size, head[20], file.seek(0, 2) // size)

    def read(self, table: Layout, wanted: Sequence[int], kind: type) -> Iterator[list[npt.NDArray[Any]]]:
        """The columns, by their places, of some rows after the other: int64 with -1, or float64 with NaN, for none.

        Raises UnusualPagesError, after any number of rows.
        """
        try:
            with self._path.open("rb", buffering=0) as file:
                leaves = self._leaves(file, table.root)
                for first in range(0, len(leaves), _PAGES):
                    data = self._load(file, leaves[first : first + _PAGES])
                    yield _Records(data, self._cells(data, _LEAF), self._size, table).columns(wanted, kind)
        except OSError as error:
            raise UnusualPagesError from error

    def _leaves(self, file: IO[bytes], root: int) -> Int:
        """The numbers of the leaf pages, in order of rows."""
        level = np.array([root], np.int64)
        for _ in range(_DEEPEST):
            if self._load(file, level[:1])[0] != _INTERIOR:
                return level
            data = self._load(file, level)
            children = _at(data, ">u4")[self._cells(data, _INTERIOR)].astype(np.int64)
            pages = self._pages_of(data)
            last = _at(data, ">u4")[np.arange(len(pages)) * self._size + 8].astype(np.int64)
            level = np.insert(children, np.cumsum(_counts(pages)), last)
            _must(len(np.unique(level)) == len(level))
        raise UnusualPagesError

    def _load(self, file: IO[bytes], numbers: Int) -> Bytes:
        """These pages one after the other, and zeros behind them."""
        _must(len(numbers) > 0 and numbers.min() >= 1 and numbers.max() <= self._count)
        data = np.zeros(len(numbers) * self._size + _BEYOND, np.uint8)
        borders = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        for begin, end in pairwise(borders):
            file.seek((int(numbers[begin]) - 1) * self._size)
            part = data.data[begin * self._size : end * self._size]
            _must(file.readinto(part) == len(part))  # type: ignore[attr-defined]
        return data

    def _pages_of(self, data: Bytes) -> Bytes:
        return data[:-_BEYOND].reshape(-1, self._size)

    def _cells(self, data: Bytes, kind: int) -> Int:
        """Where each cell of the pages, all of that ``kind``, begins."""
        pages = self._pages_of(data)
        count, head = _counts(pages), 8 if kind == _LEAF else 12
        most = int(count.max())
        _must((pages[:, 0] == kind).all() and (count > 0).all() and head + 2 * most <= self._usable)
        there = np.arange(most) < count[:, None]
        place = np.ascontiguousarray(pages[:, head : head + 2 * most]).view(">u2").astype(np.int64)
        _must((place[there] >= head).all() and (place[there] < self._usable).all())
        place += np.arange(len(pages))[:, None] * self._size
        return place[there]


class _Records:
    """The records at the cells ``at``."""

    def __init__(self, data: Bytes, at: Int, page: int, table: Layout) -> None:
        self._data, self._table = data, table
        end = (at // page + 1) * page
        payload, at = self._varints(at)
        self._rowid, at = self._varints(at)
        _must((self._data[at] == len(table.columns) + 1).all())
        self._kinds, self._values = at + 1, at + len(table.columns) + 1
        self._end = at + payload
        _must((self._end <= end).all())

    def _varints(self, at: Int) -> tuple[Int, Int]:
        """The numbers at these places, and where what follows them begins."""
        byte = self._data[at]
        value, at, more = (byte & 127).astype(np.int64), at + 1, byte >= 128
        for _ in range(7):
            if not more.any():
                break
            byte = self._data[at]
            value, at = np.where(more, value << 7 | byte & 127, value), at + more
            more &= byte >= 128
        _must(not more.any())
        return value, at

    def columns(self, wanted: Sequence[int], kind: type) -> list[npt.NDArray[Any]]:
        """The columns at these places."""
        found: dict[int, npt.NDArray[Any]] = {}
        at = self._values
        for place in range(len(self._table.columns)):
            kinds = self._data[self._kinds + place]
            _must((kinds < _LONG).all())
            if place in wanted:
                known = self._rowid if place == self._table.rowid else None
                found[place] = self._whole(at, kinds, known) if kind is np.int64 else self._number(at, kinds, known)
            at = at + _SIZES[kinds]
        _must((at == self._end).all())
        return [found[place] for place in wanted]

    def _whole(self, at: Int, kinds: Bytes, rowid: Int | None) -> Int:
        value = _at(self._data, ">i8")[at].astype(np.int64)
        plain = (kinds > _NULL) & (kinds < _REAL)
        if plain.all():
            return value >> _SHIFTS[kinds]
        value >>= _SHIFTS[np.where(plain, kinds, 0)]
        for kind in np.unique(kinds[~plain]).tolist():
            rows = np.flatnonzero(kinds == kind)
            if kind == _NULL:
                value[rows] = -1 if rowid is None else rowid[rows]
            elif kind in (_ZERO, _ONE):
                value[rows] = kind - _ZERO
            else:
                value[rows] = self._digits(at[rows], kind)
        return value

    def _digits(self, at: Int, kind: int) -> Int:
        """Text of digits."""
        width = int(_SIZES[kind])
        _must(kind >= _TEXT and kind % 2 == 1 and 0 < width <= _DIGITS + 1)
        digits = as_strided(self._data, (len(self._data) - width, width), (1, 1))[at] - np.uint8(ord("0"))
        _must((digits < 10).all() and (width <= _DIGITS or (digits[:, 0] < 9).all()))
        return digits.astype(np.int64) @ 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)

    def _number(self, at: Int, kinds: Bytes, rowid: Int | None) -> Float:
        real = kinds == _REAL
        value = _at(self._data, ">f8")[at].astype(np.float64)
        rest = np.flatnonzero(~real)
        if len(rest):
            none = kinds[rest] == _NULL
            whole = self._whole(at[rest], kinds[rest], None if rowid is None else rowid[rest])
            value[rest] = np.where(none, np.nan, whole) if rowid is None else whole
        return value


def _at(data: Bytes, kind: str) -> npt.NDArray[Any]:
    """What numbers of that type begin at every byte."""
    first = data[: np.dtype(kind).itemsize].view(kind)
    return as_strided(first, (len(data) - first.itemsize + 1,), (1,))


def _counts(pages: Bytes) -> Int:
    """How many cells each page has."""
    return pages[:, 3].astype(np.int64) << 8 | pages[:, 4]


def _must(holds: bool | np.bool_) -> None:
    if not holds:
        raise UnusualPagesError
