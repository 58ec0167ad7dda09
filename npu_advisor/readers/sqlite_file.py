"""One SQLite file, read only: its tables and columns by name, read in chunks straight into arrays.

Nothing is ever written beside the file: it is opened ``mode=ro&immutable=1``, and where a log with changes lies beside
it (which ``immutable`` would ignore), a temporary copy of both is read instead.  Tools that open these files add and
reorder columns, so columns are asked for by name, and every value passes a cast: some columns of whole numbers hold
text.  Damage costs what cannot be read of one table, not the file.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from itertools import chain, islice
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.messages import say
from npu_advisor.base.numbering import factorize
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.numbers import NO_ID, Float, Int
from npu_advisor.readers.sqlite_pages import Pages, UnusualPagesError, layout_of

MAGIC = b"SQLite format 3\0"
# Of a column, the whole numbers whose rows are asked for.
Only = tuple[str, Sequence[int]]
# Rows fetched at once: few enough to stay near the processor.
_CHUNK = 2_000
# No row takes fewer bytes in the file; beyond this a broken page is being read again and again.
_LEAST_ROW_BYTES = 4
# SQL for a number that is none: infinite, as SQLite has no NaN.
_NOTHING = "9e999"
_NUMERIC = ("INTEGER", "NUMERIC", "REAL")
_LOGS = ("-wal", "-journal")
# The message of an error may quote bytes of the file, and then fail to become text.
FAILURES = (sqlite3.Error, UnicodeDecodeError)


class Database:
    """An open file.  ``tables`` maps lower-case names of tables to their columns (lower case -> as written).

    ``progress`` gets the share of all rows that were read so far: as ids may be sparse, rather too little of it.
    """

    def __init__(self, connection: sqlite3.Connection, pages: Pages | None, path: Path, notes: Notes) -> None:
        self.file, self.notes = path.name, notes
        self._connection, self._pages = connection, pages
        self._most = path.stat().st_size // _LEAST_ROW_BYTES + 1
        self._names: dict[str, str] = {}
        self.tables: dict[str, dict[str, str]] = {}
        self._numeric: set[tuple[str, str]] = set()
        self._strings: Strings | None = None
        self._broken: set[str] = set()
        self.progress: Callable[[float], None] | None = None
        self._read: dict[str, int] = {}
        self._share = 0.0

    def read_schema(self) -> None:
        """Fill ``tables``; raises one of FAILURES where that cannot be read."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        for (name,) in self._connection.execute(query).fetchall():
            columns = self._connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
            self._names[name.lower()] = name
            self.tables[name.lower()] = {column[1].lower(): column[1] for column in columns}
            self._numeric |= {(name.lower(), column[1]) for column in columns if column[2].upper() in _NUMERIC}

    def __contains__(self, table: str) -> bool:
        return table.lower() in self.tables

    def has(self, table: str, column: str) -> bool:
        """Whether the table has the column (or one of several spellings, ``blockDim|blockNum``)."""
        return self._column(table, column) is not None

    def _column(self, table: str, column: str) -> str | None:
        known = self.tables.get(table.lower(), {})
        return next((known[name] for name in column.lower().split("|") if name in known), None)

    def ints(self, table: str, *columns: str) -> dict[str, Int]:
        """Whole numbers by column (under its first spelling); -1 where there is none, or no such column or table.

        In as few bytes as hold them: not to be reckoned with before they are ``widened``.
        """
        return self._cells(table, columns, None, (_whole, "-1", np.int64))

    def floats(self, table: str, *columns: str, only: Only | None = None) -> dict[str, Float]:
        """Numbers by column; NaN where there is none, or no such column or table."""
        cells = self._cells(table, columns, only, (_number, _NOTHING, np.float64))
        for values in cells.values():
            values[~np.isfinite(values)] = np.nan
        return cells

    def _cells(
        self, table: str, columns: Sequence[str], only: Only | None, how: tuple[Callable[[str], str], str, type]
    ) -> dict[str, Any]:
        """Numbers by column, an array of its own each; ``how`` is the cast, what stands for none, and the type."""
        cast, none, kind = how
        names = {column.split("|")[0]: self._column(table, column) for column in columns}
        if not any(names.values()):
            return {name: np.zeros(0, kind) for name in names}
        casts = [cast(name) if name else none for name in names.values()]
        # Where a column is declared to hold numbers they need no cast, unless one of them is none after all.
        quick = [
            f"IFNULL({_quoted(name)}, {none})" if name and (table.lower(), name) in self._numeric else safe
            for name, safe in zip(names.values(), casts, strict=True)
        ]
        with suppress(UnusualPagesError):
            return _joined(names, kind, self._paged(table, list(names.values()), only, kind))
        try:
            return _joined(names, kind, self._fetched(table, quick, only, kind))
        except (TypeError, ValueError, OverflowError):
            return _joined(names, kind, self._fetched(table, casts, only, kind))

    def _paged(self, table: str, columns: list[str | None], only: Only | None, kind: type) -> Iterator[list[Any]]:
        """The columns of some rows after the other, as the pages have them. Raises UnusualPagesError."""
        if self._pages is None:
            raise UnusualPagesError
        name = self._names[table.lower()]
        layout, seen = layout_of(self._connection, name), 0
        wanted = [column for column in columns if column] + ([only[0]] if only else [])
        for cells in self._pages.read(layout, layout.places(wanted), kind):
            seen += len(cells[0])
            self._tell(name, seen)
            if only:
                rows = np.isin(cells.pop(), only[1])
                cells = [values[rows] for values in cells]
            unknown: Any = np.full(len(cells[0]), np.nan) if kind is np.float64 else np.full(len(cells[0]), -1, np.int8)
            given = iter(cells)
            yield [next(given) if column else unknown for column in columns]
        self._tell(name, seen, ended=True)

    def _fetched(self, table: str, query: Sequence[str], only: Only | None, kind: type) -> Iterator[list[Any]]:
        """The columns of some rows after the other, as SQLite fetches them."""
        for rows in self._rows(table, query, only):
            cells: Any = np.fromiter(chain.from_iterable(rows), kind, len(rows) * len(query))
            yield list(cells.reshape(-1, len(query)).T)

    def counts(self, table: str, column: str) -> dict[int, int]:
        """How many rows have each whole number in ``column``; those without one are left out."""
        (values,) = self.ints(table, column).values()
        numbers, counts = np.unique(values[values >= 0], return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def texts(self, table: str, *columns: str, only: Only | None = None) -> list[tuple[str, ...]]:
        """Rows of a small table as texts; "" where there is no value or no such column."""
        names = [self._column(table, column) for column in columns]
        query = [f"IFNULL(CAST({_quoted(name)} AS TEXT), '')" if name else "''" for name in names]
        return list(chain.from_iterable(self._rows(table, query, only))) if any(names) else []

    def enum(self, table: str) -> dict[int, str]:
        """A small table of (id, name)."""
        return {_int(number): name for number, name in self.texts(table, "id", "name")}

    @property
    def strings(self) -> Strings:
        """STRING_IDS."""
        if self._strings is None:
            self._strings = Strings(self)
        return self._strings

    def _rows(self, table: str, query: Sequence[str], only: Only | None) -> Iterator[list[Any]]:
        """Chunks of rows; a table that breaks off is reported and ends there."""
        name = self._names.get(table.lower())
        if name is None:
            return
        where = f"WHERE {_quoted(only[0])} IN ({', '.join(map(str, only[1]))})" if only else ""
        sql = f"SELECT {', '.join(query)} FROM {_quoted(name)} {where} LIMIT {self._most}"
        seen = 0
        try:
            cursor = self._connection.execute(sql)
            while True:
                part: list[Any] = []
                try:
                    part.extend(islice(cursor, _CHUNK))
                except FAILURES:
                    seen += len(part)
                    yield part
                    raise
                if not part:
                    break
                seen += len(part)
                self._tell(name, seen)
                yield part
            if not only:
                self._tell(name, seen, ended=True)
        except FAILURES as error:
            if table not in self._broken:
                self.notes.say("db_damaged", "warning", self.file, table=table, error=error, rows=seen)
            self._broken.add(table)

    @cached_property
    def _rows_in(self) -> dict[str, int]:
        """How many rows each table may have, told without reading it; 0 where it cannot be."""
        found = {}
        for name in self._names.values():
            with suppress(*FAILURES):
                query = "SELECT (SELECT MAX(_rowid_) FROM {0}) - (SELECT MIN(_rowid_) FROM {0}) + 1"
                found[name] = min(self._connection.execute(query.format(_quoted(name))).fetchone()[0] or 0, self._most)
        return found

    def _tell(self, name: str, seen: int, *, ended: bool = False) -> None:
        """``seen`` rows of a table were read; a second reading of it does not count."""
        if self.progress is None:
            return
        if ended:
            self._rows_in[name] = seen
        self._read[name] = max(self._read.get(name, 0), min(seen, self._rows_in.get(name, 0)))
        share = sum(self._read.values()) / max(1, sum(self._rows_in.values()))
        self._share = max(self._share, min(share, 1.0))
        self.progress(self._share)


class Strings:
    """The texts that names in other tables are numbers of."""

    def __init__(self, db: Database) -> None:
        rows = db.texts("STRING_IDS", "id", "value")
        numbers = np.array([_int(row[0]) for row in rows], np.int64)
        order = np.argsort(numbers, kind="stable")
        self._numbers: Int = numbers[order]
        self._texts = np.array([*(rows[place][1] for place in order), ""], dtype=object)

    def of(self, numbers: Int) -> list[str]:
        """The text of each number; "" for one that is not known."""
        return list(self._texts[self._places(numbers)])

    def _places(self, numbers: Int) -> Int:
        if not len(self._numbers):
            return np.full(len(numbers), -1, np.int64)
        place = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return np.where(self._numbers[place] == numbers, place, -1)

    def named(self, wanted: Collection[str]) -> dict[int, str]:
        """The numbers of these texts."""
        pairs = zip(self._numbers.tolist(), self._texts, strict=False)
        return {number: text for number, text in pairs if text in wanted}

    def category(self, numbers: Int) -> Categorical:
        """A column of texts; ``N/A``, blanks and unknown numbers are missing."""
        codes, places = factorize(self._places(numbers))
        texts = self._texts[places].tolist()
        return Categorical.merged(codes, ["" if text.strip() in ("", "N/A") else text for text in texts])


def _joined(names: Collection[str], kind: type, parts: Iterator[list[Any]]) -> dict[str, Any]:
    """The columns by name, whole; what they are made of is let go column by column."""
    cells: dict[str, list[Any]] = {name: [] for name in names}
    for part in parts:
        for name, values in zip(names, part, strict=True):
            cells[name].append(values)
    return {name: np.concatenate(cells.pop(name) or [np.zeros(0, kind)]) for name in names}


def known(numbers: Int) -> Int:
    """Ids with the writer's "none" (4294967295) as -1."""
    return np.where(numbers == NO_ID, -1, numbers)


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return -1


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _whole(name: str) -> str:
    column = _quoted(name)
    text = f"{column} GLOB '[0-9]*' OR {column} GLOB '-[0-9]*'"
    return (
        f"CASE WHEN typeof({column}) = 'integer' THEN {column} "
        f"WHEN typeof({column}) = 'real' OR typeof({column}) = 'text' AND ({text}) "
        f"THEN CAST({column} AS INTEGER) ELSE -1 END"
    )


def _number(name: str) -> str:
    column = _quoted(name)
    return (
        f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN {column} "
        f"WHEN typeof({column}) = 'text' AND ltrim({column}, '-') GLOB '[0-9]*' THEN CAST({column} AS REAL) "
        f"ELSE {_NOTHING} END"
    )


def is_database(path: Path) -> bool:
    """Whether the file begins as an SQLite database does."""
    try:
        with path.open("rb") as handle:
            return handle.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@contextmanager
def open_database(path: Path, notes: Notes) -> Iterator[Database]:
    """The database at ``path``. Raises UnreadableFileError when it is empty, none, or too damaged to name a table."""
    try:
        path = path.resolve(strict=True)
        size = path.stat().st_size
        with path.open("rb") as handle:
            head = handle.read(len(MAGIC))
    except OSError as error:
        raise UnreadableFileError(say("reason.unreadable", error=error.strerror or error)) from error
    if not size:
        raise UnreadableFileError(say("reason.empty_file"))
    if head != MAGIC:
        raise UnreadableFileError(say("reason.not_a_database"))
    with tempfile.TemporaryDirectory(prefix="npu-advisor-") as folder:
        # What a log changes is not in the pages yet.
        logged = any(_size(_beside(path, log)) for log in _LOGS)
        uri = f"{_copied(path, Path(folder)).as_uri()}?mode=rw" if logged else f"{path.as_uri()}?mode=ro&immutable=1"
        with closing(_connected(uri)) as connection:
            yield _opened(connection, None if logged else Pages.of(path), path, notes)


def _beside(path: Path, log: str) -> Path:
    return path.with_name(path.name + log)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _copied(path: Path, folder: Path) -> Path:
    try:
        for source in (path, *(_beside(path, log) for log in _LOGS)):
            if source == path or _size(source):
                shutil.copyfile(source, folder / source.name)
    except OSError as error:
        raise UnreadableFileError(say("reason.unreadable", error=error.strerror or error)) from error
    return folder / path.name


def _connected(uri: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    except FAILURES as error:
        raise UnreadableFileError(say("reason.bad_database", error=error)) from error
    connection.text_factory = methodcaller("decode", "utf-8", "replace")
    return connection


def _opened(connection: sqlite3.Connection, pages: Pages | None, path: Path, notes: Notes) -> Database:
    database = Database(connection, pages, path, notes)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        try:
            database.read_schema()
        except FAILURES as error:
            # A file that was cut is refused as a whole, unless the schema counts as being repaired.
            connection.execute("PRAGMA writable_schema = ON")
            database = Database(connection, pages, path, notes)
            database.read_schema()
            notes.say("db_damaged", "warning", path.name, "db_damaged_file", error=error)
    except FAILURES as error:
        raise UnreadableFileError(say("reason.bad_database", error=error)) from error
    return database
