"""One CSV file as text columns under names of our own, whatever its version calls them.

Cells are read as text: the converters in ``numbers`` decide what they mean.  A byte-order
mark, blank lines, tabs after values, multi-line cells and columns that come and go with versions are ordinary here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.messages import say
from npu_advisor.readers.cells import Cells, GrowingCells, joined_cells
from npu_advisor.readers.csvbytes import NotPlainError, blocks
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.numbers import Bool, Float, Int, floats, integers

csv.field_size_limit(1 << 28)


@dataclass
class CsvFile:
    """The wanted columns of one file that the file has."""

    name: str
    columns: dict[str, Cells]
    length: int
    notes: Notes

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def __len__(self) -> int:
        return self.length

    def keep(self, rows: Bool) -> CsvFile:
        """The rows chosen."""
        return self.take(np.flatnonzero(rows))

    def take(self, rows: Int) -> CsvFile:
        """The rows at these positions, in this order."""
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        return CsvFile(self.name, columns, len(rows), self.notes)

    def filled(self, *columns: str) -> Bool:
        """Which rows have something in every one of the columns (a line of blanks or tabs is no row)."""
        result = np.ones(self.length, bool)
        for column in columns:
            result &= ~self.columns[column].blank()
        return result

    def floats(self, column: str, scale: float = 1.0) -> Float:
        """Finite numbers times ``scale``; NaN where there is none or the column is not there."""
        if column not in self.columns:
            return np.full(self.length, np.nan)
        return self.columns[column].each(lambda texts: floats(texts, scale))

    def ints(self, column: str, missing: int = -1) -> Int:
        """Whole numbers; ``missing`` where there is none or the column is not there."""
        if column not in self.columns:
            return np.full(self.length, missing, np.int64)
        return self.columns[column].each(lambda texts: integers(texts, missing))

    def times(self, column: str) -> Int:
        """Absolute times in ns, -1 where blank or unreadable; the latter are reported."""
        if column not in self.columns:
            return np.full(self.length, -1, np.int64)
        result, ok = self.columns[column].nanoseconds()
        given = map(str.strip, self.columns[column].strings(np.flatnonzero(~ok)))
        damaged = [text for text in given if text not in ("", "N/A", "None")]
        if damaged:
            self.notes.say(
                "bad_timestamp", "warning", self.name, count=len(damaged), rows=self.length, example=damaged[0]
            )
        return np.where(ok, result, -1)

    def durations(self, column: str) -> tuple[Int, Bool]:
        """Durations in ns, and which could be read."""
        return self.columns[column].nanoseconds()

    def texts(self, column: str) -> Categorical:
        """The column as a categorical; blanks and ``N/A`` are missing."""
        if column not in self.columns:
            return Categorical.of([None] * self.length)
        return self.columns[column].categorical()


def joined(files: Sequence[CsvFile]) -> CsvFile:
    """The pieces of one table, one below the other, under the name of the first; a column that one lacks is blank."""
    if len(files) == 1:
        return files[0]
    names = dict.fromkeys(name for file in files for name in file.columns)
    blank = [Cells.of([""] * len(file)) for file in files]
    columns = {
        name: joined_cells([file.columns.get(name, empty) for file, empty in zip(files, blank, strict=True)])
        for name in names
    }
    return CsvFile(files[0].name, columns, sum(map(len, files)), files[0].notes)


def read_csv(path: Path, wanted: Mapping[str, Sequence[str]], required: Sequence[str], notes: Notes) -> CsvFile:
    """The columns of ``path`` named in ``wanted`` (our name -> spellings, case ignored; the first present wins).

    Raises UnreadableFileError when the file cannot be opened, has no row, or lacks a ``required`` column.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as handle:
            header = next(_parsed(handle), None) or []
    except OSError as error:
        raise UnreadableFileError(say("reason.unreadable", error=error.strerror or error)) from error
    given = {title.strip().lower(): position for position, title in reversed(list(enumerate(header)))}
    places: dict[str, int] = {}
    for name, spellings in wanted.items():
        place = next((given[spelling.lower()] for spelling in spellings if spelling.lower() in given), None)
        if place is not None:
            places[name] = place
    for name in required:
        if name not in places:
            raise UnreadableFileError(say("reason.no_column", column=wanted[name][0]))
    cells = _cells(path, len(header), sorted(set(places.values())), notes)
    length = len(next(iter(cells.values()))) if cells else 0
    if not length:
        raise UnreadableFileError(say("reason.no_rows"))
    return CsvFile(path.name, {name: cells[place] for name, place in places.items()}, length, notes)


def looks_sound(path: Path, titles: Sequence[str]) -> bool:
    """Whether a CSV has all the columns ``titles``, a row, and an end: then reading it can wait until it is needed."""
    try:
        with path.open("rb") as handle:
            head = handle.read(_HEAD)
            handle.seek(0, io.SEEK_END)
            handle.seek(-min(handle.tell(), 1), io.SEEK_END)
            ended = handle.read(1) in (b"\n", b"\r")
    except OSError:
        return False
    lines = io.StringIO(head.decode("utf-8-sig", "replace"), newline="")
    parsed = _parsed(lines)
    header, row = next(parsed, None) or [], next(parsed, None) or []
    given = {title.strip().lower() for title in header}
    return ended and len(row) == len(header) and given.issuperset(title.lower() for title in titles)


# Rows that a parser has read and that wait for their columns.
_ROWS = 1 << 12
# What a header and the first row fit in.
_HEAD = 1 << 16
_PIECE = 1 << 20


def _cells(path: Path, width: int, places: list[int], notes: Notes) -> dict[int, Cells]:
    """Column position -> cells."""
    columns = {place: GrowingCells() for place in places}
    header = 1
    try:
        with path.open("rb", buffering=0) as file:
            for block in blocks(file, width):
                for place, column in columns.items():
                    column.add_bytes(block.cells(place)[header:], quoted=True)
                header = 0
    except NotPlainError:
        return _patient(path, width, places, notes)
    return {place: column.cells() for place, column in columns.items()}


_END: list[str] = ["end"]


def _parsed(lines: Iterable[str]) -> Iterator[list[str] | None]:
    """The rows of a CSV; None for one that the parser refuses (a field beyond its limit)."""
    reader = csv.reader(line.replace("\0", "") for line in lines)
    while (row := _next(reader)) is not _END:
        yield row


def _next(reader: Iterator[list[str]]) -> list[str] | None:
    try:
        return next(reader, _END)
    except csv.Error:
        return None


def _patient(path: Path, width: int, places: list[int], notes: Notes) -> dict[int, Cells]:
    """As ``_cells``, by the parser of the standard library.  In a file that breaks off rows of another width are
    damage: they are left out and counted.
    """
    columns = {place: GrowingCells() for place in places}
    cut, kept, dropped, blank = _cut(path), 0, 0, [""] * width
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as handle:
        parsed = _parsed(handle)
        next(parsed, None)
        while rows := [*islice(parsed, _ROWS)]:
            given = [row for row in rows if row is None or _says(row, width if cut else 0)]
            sound = [row for row in given if row is not None and (len(row) == width or not cut)]
            whole = [row if len(row) == width else [*row, *blank][:width] for row in sound]
            by_place = [*zip(*whole, strict=True)]
            for place, column in columns.items() if whole else ():
                column.add(by_place[place])
            kept, dropped = kept + len(sound), dropped + len(given) - len(sound)
    if dropped:
        notes.say("csv_damaged", "warning", path.name, dropped=dropped, kept=kept)
    return {place: column.cells() for place, column in columns.items()}


def _says(row: list[str], width: int) -> bool:
    """Whether there is anything in a row, be it blank cells: of ``width``, or (0) of any row but a blank line."""
    return "".join(row).strip() != "" or (len(row) > 1 and len(row) == (width or len(row)))


def _cut(path: Path) -> bool:
    """Whether a file may end in the middle of a row: without a line end, or with a quote that none closes."""
    quotes, last = 0, b"\n"
    with path.open("rb") as handle:
        while piece := handle.read(_PIECE):
            quotes, last = quotes + piece.count(b'"'), piece[-1:]
    return last not in b"\r\n" or quotes % 2 == 1
