"""Tables of numbers straight from the pages of an SQLite file, as columns: a tenth of what a cursor's rows cost.

The format of the file is laid down for good (sqlite.org/fileformat2.html). A table is a tree of pages, whose leaves
hold its rows by rowid; a row is a record: one byte for the kind of each value, then the values, big-endian. Only
records of this plain form are read here. Whatever is different in any way, damage above all, is for SQLite to read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from npu_advisor.base.whole import narrow
from npu_advisor.readers.numbers import Float, Int, from_digits

Bytes = npt.NDArray[np.uint8]
# Pages read at once: what is made of them stays near the processor.
_PAGES = 256
_INTERIOR, _LEAF = 5, 13
_DEEPEST = 20
# Bytes of the longest number that is all groups of seven bits.
_VARINT = 8
# Kinds of values. One byte tells a kind below 128; odd ones from 13 on are text of (kind - 13) / 2 bytes.
_NULL, _REAL, _ZERO, _ONE, _TEXT, _LONG = 0, 7, 8, 9, 13, 128
_SIZES: Int = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((kind - 12) // 2 for kind in range(12, _LONG))], np.int64)
# A number of n bytes is the first n of eight.
_SHIFTS = np.zeros(_LONG, np.uint8)
_SHIFTS[1:_REAL] = 56, 48, 40, 32, 16, 0
# Numbers that take no byte, and none.
_FIXED = np.full(_LONG, -1, np.int64)
_FIXED[[_ZERO, _ONE]] = 0, 1
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

    def places(self, names: Sequence[str]) -> list[int]:
        """Where the records have these columns. Raises UnusualPagesError for one that is not spelt so."""
        _must({*names} <= {*self.columns})
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
            count = file.seek(0, 2) // size
        # What lies behind the last page that the header counts is no part of the database; old writers do not count.
        counted = int.from_bytes(head[28:32], "big") if head[24:28] == head[92:96] else 0
        return cls(path, size, head[20], min(count, counted or count))

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
        page_end = (at // page + 1) * page
        payload, self._rowids = self._varints(at)
        header = self._behind(self._rowids)
        self._kinds, self._values, self._end = header + 1, header + len(table.columns) + 1, header + payload
        _must(len(table.columns) + 1 < _LONG and (data[header] == len(table.columns) + 1).all())
        _must((self._end <= page_end).all())

    def _behind(self, at: Int) -> Int:
        """Where what follows the varints at these places begins."""
        more = self._data[at] >= _LONG
        for _ in range(_VARINT):
            if not more.any():
                return at + 1
            at = at + more
            more &= self._data[at] >= _LONG
        raise UnusualPagesError

    def _varints(self, at: Int) -> tuple[Int, Int]:
        """The numbers at these places, and where what follows them begins."""
        behind = self._behind(at)
        value = self._data[at].astype(np.int64) & (_LONG - 1)
        for place in range(1, int((behind - at).max(initial=1))):
            byte = self._data[at + place] & (_LONG - 1)
            value = np.where(at + place < behind, value << 7 | byte, value)
        return value, behind

    def columns(self, wanted: Sequence[int], kind: type) -> list[npt.NDArray[Any]]:
        """The columns at these places, whole numbers in as few bytes as hold them."""
        found: dict[int, npt.NDArray[Any]] = {}
        at, read = self._values, self._whole if kind is np.int64 else self._number
        for place in range(len(self._table.columns)):
            kinds = self._data[self._kinds + place]
            if (kinds == kinds[0]).all():
                kinds = kinds[:1]
            _must((kinds < _LONG).all())
            if place in wanted:
                rowid = place == self._table.rowid
                found[place] = narrow(self._varints(self._rowids)[0].astype(kind) if rowid else read(at, kinds))
            at = at + _SIZES[kinds]
        _must((at == self._end).all())
        return [found[place] for place in wanted]

    def _whole(self, at: Int, kinds: Bytes) -> Int:
        """The whole numbers that begin there, of these kinds, or all of one kind."""
        value: Int = _at(self._data, ">i8")[at].astype(np.int64) >> _SHIFTS[kinds]
        sized = (kinds > _NULL) & (kinds < _REAL)
        if sized.all():
            return value
        _must((kinds != _REAL).all())
        value = np.where(sized, value, _FIXED[kinds])
        for kind in np.unique(kinds[kinds > _ONE]).tolist():
            rows = np.broadcast_to(kinds == kind, at.shape)
            value[rows] = self._digits(at[rows], kind)
        return value

    def _digits(self, at: Int, kind: int) -> Int:
        """Text of digits."""
        width = int(_SIZES[kind])
        _must(kind >= _TEXT and kind % 2 == 1 and 0 < width <= _DIGITS + 1)
        digits = as_strided(self._data, (len(self._data) - width, width), (1, 1))[at] - np.uint8(ord("0"))
        _must((digits < 10).all() and (width <= _DIGITS or (digits[:, 0] < 9).all()))
        return from_digits(digits)

    def _number(self, at: Int, kinds: Bytes) -> Float:
        """The same with fractions."""
        real = np.broadcast_to(kinds == _REAL, at.shape)
        if not real.any():
            return np.where(kinds == _NULL, np.nan, self._whole(at, kinds))
        value: Float = _at(self._data, ">f8")[at].astype(np.float64)
        if not real.all():
            value[~real] = self._number(at[~real], kinds[~real])
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
