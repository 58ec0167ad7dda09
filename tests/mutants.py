"""Damage for input files: what a seed makes of a small profile, whatever form its files have.

A mutator takes the bytes of one file and a random generator and returns other bytes. Which mutators suit a file is
told by the end of its name, so another form needs only a base (a folder of files) that holds it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

Mutator = Callable[[bytes, random.Random], bytes]
Container = dict[str, Any] | list[Any]

# What generator and cases keep beside the profile for tests.
NO_INPUT = ("truth.json", "expected.json")
DIGITS = "7" * 10**6
LONG = "长a\t<b>[/red]" * 20_000
# Values that no writer gives; a Raw one is no JSON value either and is written as it stands.
SCALARS: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40),
    *(0.5, -0.0, 1e-320, 1e308, -1e308),
    *("", " ", "0", "-1", "N/A", "nan", "inf", "-inf", "1e400", "1e5", "0x10", "１２", "12,5", "4294967295"),
    *("9223372036854775807", "9223372036854775808", "9" * 30 + ".123", "1736408883704643.2125", "-5.5", "+5"),
    *(
        "\x1b[31m",
        "[bold]x[/bold]",
        "\u202e",
        "\ud800",
        "\0",
        "a\nb",
        "a.py(3): f;\r\nb.py(4): g",
        "=1+1",
        "%s{x}",
        "'\"\\",
    ),
]
NESTED: list[Any] = [[], {}, [[]], {"a": {"b": [1, {"c": None}]}}, [1, "2", None], {"name": "x", "ph": "X"}]


@dataclass(frozen=True)
class Raw:
    """Text that stands in a JSON file as it is."""

    text: str


RAW = [
    *(Raw(text) for text in ("NaN", "Infinity", "-Infinity", "nan", "1e999", "-1e999", "undefined", "'x'", "01", "+1")),
    *(Raw(text) for text in (r'"\x"', r'"C:\proj\new"', '"\t"', '"', "}", "]", "", "/* */1", DIGITS, "-0." + DIGITS)),
    *(Raw(text) for text in ("[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000, "[" * 100_000)),
]

# Those that may stand in every row without making a small file large.
RAW_SHORT = [raw for raw in RAW if len(raw.text) < 100]


@dataclass(frozen=True)
class Base:
    """A small profile to damage: its files by path below the folder."""

    name: str
    files: dict[str, bytes]

    @classmethod
    def of(cls, folder: Path, name: str = "") -> Base:
        """Every file below ``folder`` that has mutators."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and mutators_of(path.name))
        paths = [path for path in paths if path.name not in NO_INPUT]
        return cls(name or folder.name, {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths})


@dataclass(frozen=True)
class Mutant:
    """What one seed made: the files to write, and how it came about."""

    seed: int
    base: str
    steps: tuple[str, ...]
    files: dict[str, bytes]

    def write(self, folder: Path) -> None:
        """Put the files below ``folder``."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def __str__(self) -> str:
        return f"seed {self.seed} on {self.base}: {', '.join(self.steps)}"


def mutant(seed: int, bases: list[Base]) -> Mutant:
    """The mutant of ``seed``: one to three mutations, mostly of one file, now and then a file less."""
    rng = random.Random(seed)
    base = bases[seed % len(bases)]
    files, steps = dict(base.files), []
    target = rng.choice(sorted(files))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.2:
            target = rng.choice(sorted(files))
        if rng.random() < 0.04 and len(files) > 1:
            del files[target]
            steps.append(f"no {PurePosixPath(target).name}")
            target = rng.choice(sorted(files))
            continue
        change = rng.choice(mutators_of(target))
        files[target] = change(files[target], rng)
        steps.append(f"{change.__name__.strip('_')} {PurePosixPath(target).name}")
    return Mutant(seed, base.name, tuple(steps), files)


def mutators_of(name: str) -> list[Mutator]:
    """The mutators for a file of this name; empty for a file that is no input."""
    ends: dict[str, list[Mutator]] = {".json": _JSON, ".csv": _CSV, ".db": _DB, ".gz": _GZ}
    return next((found for end, found in ends.items() if name.endswith(end)), [])


# ---- bytes ----------------------------------------------------------------------------------------------------


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 7, 60, 900, 20_000)))


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _behead(data: bytes, rng: random.Random) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _flip(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 30)) if damaged else 0):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def _lose(data: bytes, rng: random.Random) -> bytes:
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, end = _span(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 2, 9)) + data[end:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    junk = rng.choice(
        (
            b"\0" * 40,
            b"\xff\xfe\xc3\x28",
            b"\xed\xa0\x80",
            b'"',
            b"}",
            b"]",
            b",",
            b"\n",
            b"\r",
            b"\\",
            b"\x1a",
            b'"' * 9,
        )
    )
    return data[:at] + junk + data[at:]


def _number(data: bytes, rng: random.Random) -> bytes:
    """A number with a million digits where a digit was."""
    digits = [at for at in rng.sample(range(len(data)), min(len(data), 200)) if 48 <= data[at] <= 57]
    return data[: digits[0]] + DIGITS.encode() + data[digits[0] :] if digits else data


def _blank(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"", b" ", b"\n\n\n", b"\xef\xbb\xbf", b"\0" * 512, b"null", b"0", b'""', b"[]", b"{}", b"[{}]"))


def _other_encoding(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return rng.choice(
        (text.encode("utf-16"), text.encode("utf-8-sig"), text.encode("gb18030"), data.replace(b"\n", b"\r\n"))
    )


def _zip(data: bytes, rng: random.Random) -> bytes:
    packed = gzip.compress(data, 1)
    return rng.choice((packed, packed[: len(packed) // 2], packed + b"junk"))


_BYTES: list[Mutator] = [_cut, _behead, _flip, _lose, _repeat, _insert, _number, _blank, _other_encoding, _zip]


# ---- JSON -----------------------------------------------------------------------------------------------------


def _odd(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(SCALARS)
    return rng.choice(NESTED) if kind < 0.75 else rng.choice(RAW) if kind < 0.97 else LONG


def _written(value: Any) -> bytes:
    """``value`` as JSON, its Raw parts as they stand, lone surrogates as their escapes."""
    raw: list[str] = []

    def mark(part: Any) -> str:
        raw.append(part.text)
        return f"\u0001{len(raw) - 1}\u0001"

    text = json.dumps(value, default=mark, ensure_ascii=False)
    for number, part in enumerate(raw):
        text = text.replace(f'"\\u0001{number}\\u0001"', part, 1)
    return text.encode("utf-8", "backslashreplace")


def _containers(value: Any, depth: int = 0) -> Iterator[Container]:
    if isinstance(value, (dict, list)) and depth < 20:
        if value:
            yield value
        for child in value.values() if isinstance(value, dict) else value:
            yield from _containers(child, depth + 1)


def _slot(container: Container, rng: random.Random) -> Any:
    return rng.choice(list(container)) if isinstance(container, dict) else rng.randrange(len(container))


def _of_json(change: Callable[[Any, list[Container], random.Random], Any]) -> Mutator:
    """A mutator of the decoded document; a document that is damaged already is flipped."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        try:
            value = json.loads(data)
            places = list(_containers(value))
        except (ValueError, RecursionError):
            return _flip(data, rng)
        if not places or len(data) > 4 * 10**6:
            return _flip(data, rng)
        return _written(change(value, places, rng))

    mutate.__name__ = change.__name__
    return mutate


def _odd_values(value: Any, places: list[Container], rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 1, 4, 20))):
        place = rng.choice(places)
        place[_slot(place, rng)] = _odd(rng)
    return value


def _odd_column(value: Any, places: list[Container], rng: random.Random) -> Any:
    """Every value of one key: odd, of another type, or gone."""
    keyed = [place for place in places if isinstance(place, dict)]
    if not keyed:
        return value
    key = _slot(rng.choice(keyed), rng)
    odd, how = (
        rng.choice([*SCALARS, *NESTED, *RAW_SHORT]),
        rng.choice(("odd", "text", "float", "gone", "renamed", "negative")),
    )
    for place in keyed:
        if key not in place or rng.random() < 0.1:
            continue
        if how == "gone":
            del place[key]
        elif how == "renamed":
            place[f"{key} "] = place.pop(key)
        else:
            place[key] = _retyped(place[key], how, odd)
    return value


def _retyped(value: Any, how: str, odd: Any) -> Any:
    try:
        return {"text": str, "float": float, "negative": lambda number: -float(number)}[how](value)
    except (KeyError, TypeError, ValueError, OverflowError):
        return odd


def _lost_members(value: Any, places: list[Container], rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 3, 40))):
        place = rng.choice(places)
        if place:
            place.pop(_slot(place, rng))
    return value


def _repeated_members(value: Any, places: list[Container], rng: random.Random) -> Any:
    lists = [place for place in places if isinstance(place, list) and place]
    for _ in range(rng.choice((1, 3, 40)) if lists else 0):
        chosen = max(lists, key=len) if rng.random() < 0.7 else rng.choice(lists)
        chosen.insert(rng.randrange(len(chosen) + 1), chosen[rng.randrange(len(chosen))])
    return value


def _reordered(value: Any, places: list[Container], rng: random.Random) -> Any:
    lists = [place for place in places if isinstance(place, list)]
    if lists:
        chosen = max(lists, key=len)
        chosen.reverse() if rng.random() < 0.5 else rng.shuffle(chosen)
    return value


def _swapped(value: Any, places: list[Container], rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 5, 50))):
        one, other = rng.choice(places), rng.choice(places)
        if not one or not other or one is other:
            continue
        here, there = _slot(one, rng), _slot(other, rng)
        first, second = one[here], other[there]
        if isinstance(first, (dict, list)) or isinstance(second, (dict, list)):
            continue
        one[here], other[there] = second, first
    return value


def _deeper(value: Any, places: list[Container], rng: random.Random) -> Any:
    place = rng.choice(places)
    slot = _slot(place, rng)
    inner = place[slot]
    for _ in range(rng.choice((1, 2, 150))):
        inner = {"args": inner} if rng.random() < 0.5 else [inner]
    place[slot] = inner
    return [value] if rng.random() < 0.2 else value


_JSON: list[Mutator] = [
    *(_of_json(change) for change in (_odd_values, _odd_values, _odd_column, _odd_column, _lost_members)),
    *(_of_json(change) for change in (_repeated_members, _reordered, _swapped, _deeper)),
    *_BYTES,
]


# ---- CSV ------------------------------------------------------------------------------------------------------


def _of_csv(change: Callable[[list[list[str]], random.Random], None]) -> Mutator:
    """A mutator of the rows, the header first."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        text = data.decode("utf-8", "replace").replace("\0", "")
        try:
            rows = list(csv.reader(io.StringIO(text)))
        except csv.Error:
            return _flip(data, rng)
        if len(rows) < 2 or not rows[0]:
            return _flip(data, rng)
        change(rows, rng)
        out = io.StringIO()
        # An escape character only because Python 3.10 refuses to write a NUL without one; it is never met otherwise.
        csv.writer(out, lineterminator="\n", escapechar="\x1a").writerows(rows)
        return out.getvalue().encode("utf-8", "surrogatepass")

    mutate.__name__ = change.__name__
    return mutate


def _cell(rng: random.Random) -> str:
    odd = rng.choice(SCALARS) if rng.random() < 0.95 else rng.choice((LONG, DIGITS))
    return "" if odd is None else str(odd)


def _odd_cells(rows: list[list[str]], rng: random.Random) -> None:
    for _ in range(rng.choice((1, 5, 60))):
        row = rng.choice(rows[1:])
        if row:
            row[rng.randrange(len(row))] = _cell(rng)


def _odd_titles(rows: list[list[str]], rng: random.Random) -> None:
    rows[0][rng.randrange(len(rows[0]))] = rng.choice((_cell(rng), rows[0][0], rows[0][-1].upper(), f" {rows[0][0]}\t"))


def _odd_cell_column(rows: list[list[str]], rng: random.Random) -> None:
    column, odd, same = rng.randrange(len(rows[0])), _cell(rng)[:10_000], rng.random() < 0.5
    for row in rows[1:]:
        if column < len(row):
            row[column] = odd if same else _cell(rng)[:10_000]


def _lost_column(rows: list[list[str]], rng: random.Random) -> None:
    column = rng.randrange(len(rows[0]))
    for row in rows:
        del row[column : column + 1]


def _repeated_column(rows: list[list[str]], rng: random.Random) -> None:
    column = rng.randrange(len(rows[0]))
    for row in rows:
        row[column:column] = row[column : column + 1]


def _reordered_columns(rows: list[list[str]], rng: random.Random) -> None:
    order = list(range(len(rows[0])))
    rng.shuffle(order)
    for row in rows:
        row[:] = [row[column] for column in order if column < len(row)]


def _ragged(rows: list[list[str]], rng: random.Random) -> None:
    for _ in range(rng.choice((1, 8))):
        row = rng.choice(rows)
        row[:] = row[: rng.randrange(len(row) + 1)] if rng.random() < 0.5 else [*row, *row]


def _rows_of_csv(rows: list[list[str]], rng: random.Random) -> None:
    body = rows[1:]
    choices: list[Callable[[], list[list[str]]]] = [
        list,
        lambda: body[::-1],
        lambda: rng.sample(body, len(body)),
        lambda: body * 3,
        lambda: rng.sample(body, max(1, len(body) // 2)),
        lambda: [*body, rows[0], *body],
    ]
    rows[1:] = rng.choice(choices)()


_CSV: list[Mutator] = [
    *(_of_csv(change) for change in (_odd_cells, _odd_cells, _odd_titles, _odd_cell_column, _odd_cell_column)),
    *(_of_csv(change) for change in (_lost_column, _repeated_column, _reordered_columns, _ragged, _rows_of_csv)),
    *_BYTES,
]


# ---- SQLite ---------------------------------------------------------------------------------------------------


def _of_db(change: Callable[[sqlite3.Connection, str, list[str], random.Random], None]) -> Mutator:
    """A mutator of one table of a database."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        try:
            with closing(sqlite3.connect(":memory:")) as db:
                db.deserialize(_rollback_mode(data))
                tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                table = rng.choice(sorted(tables))
                columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
                change(db, table, columns, rng)
                db.commit()
                return db.serialize()
        except (sqlite3.Error, IndexError, OverflowError, UnicodeError):
            return _flip(data, rng)

    mutate.__name__ = change.__name__
    return mutate


def _rollback_mode(data: bytes) -> bytes:
    """A database in memory cannot be in WAL mode, which bytes 18 and 19 say."""
    return data[:18] + b"\x01\x01" + data[20:]


def _drop_table(db: sqlite3.Connection, table: str, columns: list[str], rng: random.Random) -> None:
    db.execute(f'DROP TABLE "{table}"' if rng.random() < 0.7 else f'ALTER TABLE "{table}" RENAME TO "{table}_old"')


def _empty_table(db: sqlite3.Connection, table: str, columns: list[str], rng: random.Random) -> None:
    db.execute(f'DELETE FROM "{table}" WHERE abs(random()) % 3 < {rng.choice((1, 2, 3))}')


def _lost_db_column(db: sqlite3.Connection, table: str, columns: list[str], rng: random.Random) -> None:
    keep = [column for column in columns if column != rng.choice(columns)] or columns[:1]
    _remade(db, table, keep)


def _renamed_db_column(db: sqlite3.Connection, table: str, columns: list[str], rng: random.Random) -> None:
    column = rng.choice(columns)
    db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{column}X"')


def _untyped(db: sqlite3.Connection, table: str, columns: list[str], rng: random.Random) -> None:
    """A column as text, or with odd values of any type."""
    _remade(db, table, columns)
    column = rng.choice(columns)
    if rng.random() < 0.3:
        db.execute(f'UPDATE "{table}" SET "{column}" = CAST("{column}" AS TEXT)')
        return
    for _ in range(rng.choice((1, 6))):
        odd = rng.choice([*SCALARS, b"\xff\xfe", "7" * 500])
        some = rng.choice(("", "WHERE rowid % 3 = 1", "WHERE rowid = 1"))
        db.execute(f'UPDATE "{table}" SET "{column}" = ? {some}', (odd if not isinstance(odd, int) else _fits(odd),))


def _fits(number: int) -> int | float:
    return number if -(2**63) <= number < 2**63 else float(number)


def _repeated_rows(db: sqlite3.Connection, table: str, columns: list[str], rng: random.Random) -> None:
    _remade(db, table, columns)
    db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" ORDER BY random() LIMIT {rng.choice((1, 50, 10_000))}')


def _remade(db: sqlite3.Connection, table: str, columns: list[str]) -> None:
    """The table without constraints, with these columns."""
    names = ", ".join(f'"{column}"' for column in columns)
    db.execute(f'ALTER TABLE "{table}" RENAME TO "{table}__"')
    db.execute(f'CREATE TABLE "{table}" ({names})')
    db.execute(f'INSERT INTO "{table}" SELECT {names} FROM "{table}__"')
    db.execute(f'DROP TABLE "{table}__"')


_DB: list[Mutator] = [
    *(_of_db(change) for change in (_drop_table, _empty_table, _lost_db_column, _renamed_db_column)),
    *(_of_db(change) for change in (_untyped, _untyped, _repeated_rows)),
    *(_cut, _flip, _flip, _lose, _repeat, _insert, _blank),
]


# ---- gzip -----------------------------------------------------------------------------------------------------


def _inside(data: bytes, rng: random.Random) -> bytes:
    try:
        plain = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return _flip(data, rng)
    return gzip.compress(rng.choice(_JSON)(plain, rng), 1)


_GZ: list[Mutator] = [_inside, _inside, _cut, _flip, _lose, _repeat, _insert, _blank]
