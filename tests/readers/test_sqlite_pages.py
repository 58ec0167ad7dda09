"""What the pages say is what SQLite says; where they are no plain records of numbers, SQLite says it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.sqlite_file import Database, open_database
from npu_advisor.readers.sqlite_pages import Pages, UnusualPagesError

# Of every size that a number is kept in, and both signs.
WHOLE = [0, 1, 2, -1, 127, 128, -129, 40_000, 2**23, 2**31, -(2**33), 2**47, 2**48, 2**62, -(2**63), 2**63 - 1]
COLUMNS = ("a", "b", "c", "d")


def write(path: Path, schema: str, rows: list[tuple[Any, ...]], *later: str, page: int = 512) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA page_size = {page}")
        connection.execute(schema)
        if rows:
            connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
        for statement in later:
            connection.execute(statement)
    return path


def told(path: Path, read: Callable[[Database], Any]) -> Any:
    """What is read, and what there was to say; a file that cannot be opened is its reason."""
    notes = Notes()
    try:
        with open_database(path, notes) as db:
            cells = {name: values.tolist() for name, values in read(db).items()}
    except UnreadableFileError as error:
        return error.reason.en
    return repr(cells), [(note.code, note.message.en) for note in notes]


def refuse(*_: Any) -> Any:
    raise UnusualPagesError


def forbid(*_: Any) -> Any:
    raise AssertionError("SQLite was asked")


@pytest.fixture
def same(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Check that whole numbers and fractions are those that SQLite reads; ``plain``: that it was not asked for them."""

    def check(path: Path, *columns: str, plain: bool, only: tuple[str, list[int]] | None = None) -> Any:
        wanted = columns or COLUMNS
        answers = []
        for read in (lambda db: db.ints("t", *wanted), lambda db: db.floats("t", *wanted, only=only)):
            with monkeypatch.context() as patch:
                if plain:
                    patch.setattr(Database, "_fetched", forbid)
                fast = told(path, read)
            with monkeypatch.context() as patch:
                patch.setattr(Pages, "read", refuse)
                assert fast == told(path, read)
            answers.append(fast[0])
        return answers

    return check


def test_every_size_of_number(tmp_path: Path, same: Callable[..., Any]) -> None:
    rows = [(a, b, None, a) for a in WHOLE for b in WHOLE]
    path = write(tmp_path / "x.db", "CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER, d NUMERIC)", rows)
    whole, _ = same(path, plain=True)
    assert whole == repr(
        {"a": [row[0] for row in rows], "b": [row[1] for row in rows], "c": [-1] * 256, "d": [row[0] for row in rows]}
    )


def test_fractions_and_numbers_beside_them(tmp_path: Path, same: Callable[..., Any]) -> None:
    values = [0.5, -1e300, float("inf"), 3.0, 7, None, 2**62]
    path = write(tmp_path / "x.db", "CREATE TABLE t (a REAL, b NUMERIC)", [(v, v) for v in values])
    _, fractions = same(path, "a", "b", plain=False)
    expected = [0.5, -1e300, float("nan"), 3.0, 7.0, float("nan"), float(2**62)]
    assert fractions == repr({"a": expected, "b": expected})


def test_fractions_need_no_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.db", "CREATE TABLE t (a NUMERIC)", [(0.5,), (None,), (4,)])
    monkeypatch.setattr(Database, "_fetched", forbid)
    assert told(path, lambda db: db.floats("t", "a"))[0] == repr({"a": [0.5, float("nan"), 4.0]})


def test_numbers_written_as_text(tmp_path: Path, same: Callable[..., Any]) -> None:
    texts = ["1736408883704643212", "8999999999999999999", "7", "0012", None, "123456789"]
    whole, _ = same(write(tmp_path / "x.db", "CREATE TABLE t (a TEXT)", [(text,) for text in texts]), "a", plain=True)
    assert whole == repr({"a": [1736408883704643212, 8999999999999999999, 7, 12, -1, 123456789]})


@pytest.mark.parametrize("odd", ["9223372036854775808", "-5", "12.5", " 3", "", "N/A", b"12", "x" * 70, 1.5, "9" * 25])
def test_other_values_are_left_to_sqlite(tmp_path: Path, same: Callable[..., Any], odd: Any) -> None:
    path = write(tmp_path / "x.db", "CREATE TABLE t (a, b INTEGER)", [(1, 2), (odd, 3), (4, odd)])
    same(path, "a", "b", plain=False)


def test_rows_of_many_pages_in_the_order_of_their_ids(tmp_path: Path, same: Callable[..., Any]) -> None:
    chance = random.Random(3)
    ids = [*chance.sample(range(2**40), 2000), 2**52, *range(300)]
    rows = [(number, place, str(chance.randrange(10**18))) for place, number in enumerate(ids)]
    path = write(tmp_path / "x.db", "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c TEXT)", rows)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM t WHERE b % 3 = 1")
    whole, _ = same(path, "c", "a", "missing", plain=True)
    kept = sorted(row for row in rows if row[1] % 3 != 1)
    assert whole == repr(
        {"c": [int(row[2]) for row in kept], "a": [row[0] for row in kept], "missing": [-1] * len(kept)}
    )


def test_only_some_rows(tmp_path: Path, same: Callable[..., Any]) -> None:
    path = write(tmp_path / "x.db", "CREATE TABLE t (a INTEGER, b REAL)", [(n % 5, n / 2) for n in range(999)])
    # As SQLite has it, names of columns have no case.
    for column in ("a", "A", "missing"):
        same(path, "b", plain=False, only=(column, [1, 3]))
    with open_database(path, Notes()) as db:
        assert len(db.floats("t", "b", only=("a", [1, 3]))["b"]) == 400


@pytest.mark.parametrize(
    ("schema", "later", "plain"),
    [
        ("CREATE TABLE t (a INTEGER PRIMARY KEY DESC, b INTEGER)", [], True),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INTEGER)", [], True),
        ("CREATE TABLE t (a INTEGER, b INTEGER, PRIMARY KEY (a, b))", [], True),
        ("CREATE TABLE t (a INTEGER, b INTEGER, PRIMARY KEY (b))", [], True),
        ("CREATE TABLE t (a INTEGER, b INTEGER, PRIMARY KEY (b)) WITHOUT ROWID", [], False),
        ("CREATE TABLE t (a INTEGER, b INTEGER)", ["ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 9"], False),
        ("CREATE TABLE t (a INTEGER, b INTEGER)", ["CREATE INDEX i ON t (b)"], True),
        ("CREATE TABLE t (a INTEGER, b INTEGER)", ["DELETE FROM t"], False),
        ("CREATE TABLE t (a INTEGER, b INTEGER, c AS (a + b) STORED, d INTEGER)", [], False),
        ("CREATE TABLE t (c AS (a + b), a INTEGER, b INTEGER, d INTEGER)", [], False),
    ],
)
def test_schemas(tmp_path: Path, same: Callable[..., Any], schema: str, later: list[str], plain: bool) -> None:
    rows = [(n, 10_000 - n) for n in range(200)]
    fill = [f"INSERT INTO t (a, b) VALUES {', '.join(map(str, rows))}"]
    path = write(tmp_path / "x.db", schema, [], *fill, *later)
    same(path, plain=plain)


@pytest.mark.parametrize(("width", "plain"), [(126, True), (127, False), (128, False), (300, False)])
def test_tables_of_many_columns(tmp_path: Path, same: Callable[..., Any], width: int, plain: bool) -> None:
    names = [f"c{place}" for place in range(width)]
    rows = [tuple(n + place for place in range(width)) for n in range(50)]
    path = write(tmp_path / "x.db", f"CREATE TABLE t ({', '.join(names)})", rows, page=4096)
    same(path, names[0], names[-1], plain=plain)


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_other_encodings(tmp_path: Path, same: Callable[..., Any], encoding: str) -> None:
    schema = "CREATE TABLE t (a TEXT, b INTEGER)"
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
    path = write(tmp_path / "x.db", schema, [("12", 5), ("3", 6)])
    whole, _ = same(path, "a", "b", plain=False)
    assert whole == repr({"a": [12, 3], "b": [5, 6]})


@pytest.mark.parametrize("page", [512, 4096, 65536])
def test_a_long_row_goes_on_in_other_pages(tmp_path: Path, same: Callable[..., Any], page: int) -> None:
    rows = [(n, "long" * (page if n == 77 else 1), n) for n in range(100)]
    path = write(tmp_path / "x.db", "CREATE TABLE t (a INTEGER, b TEXT, c INTEGER)", rows, page=page)
    same(path, "a", "c", plain=False)


def test_what_a_log_holds_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "x.db", "CREATE TABLE t (a INTEGER)", [(1,)])
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE t SET a = 2")
        writer.commit()
        assert told(path, lambda db: db.ints("t", "a"))[0] == repr({"a": [2]})


@pytest.mark.parametrize("counts", [True, False])
def test_pages_beyond_those_counted_are_left_to_sqlite(tmp_path: Path, same: Callable[..., Any], counts: bool) -> None:
    path = write(tmp_path / "x.db", "CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER, d INTEGER)", [(7,) * 4] * 600)
    data = bytearray(path.read_bytes())
    data[28:32] = (int.from_bytes(data[28:32], "big") - 2).to_bytes(4, "big")
    data[95] += not counts
    path.write_bytes(data)
    whole, _ = same(path, plain=not counts)
    assert (whole.count("7") < 2400) == counts


@pytest.mark.parametrize("seed", range(6))
def test_damage_is_left_to_sqlite_or_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    rows = [(n, chance.choice(WHOLE), str(10**17 + n), chance.choice(WHOLE)) for n in range(600)]
    path = write(tmp_path / "x.db", "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c TEXT, d INTEGER)", rows)
    whole, taken, files = path.read_bytes(), 0, 40
    for _ in range(files):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            # Where a page begins is what tells its cells.
            at = chance.randrange(1, len(data) // 512) * 512 + min(511, int(chance.expovariate(0.02)))
            data[at] = chance.randrange(256)
        path.write_bytes(data[: chance.choice((len(data), len(data), chance.randrange(1024, len(data))))])
        with monkeypatch.context() as patch:
            patch.setattr(Database, "_fetched", forbid)
            try:
                fast = told(path, lambda db: db.ints("t", *COLUMNS))
            except AssertionError:
                continue
        with monkeypatch.context() as patch:
            patch.setattr(Pages, "read", refuse)
            assert fast == told(path, lambda db: db.ints("t", *COLUMNS))
        taken += 1
    assert 0 < taken < files


@pytest.mark.parametrize("leaf", [False, True])
def test_pages_that_lead_back_or_hold_nothing(tmp_path: Path, same: Callable[..., Any], leaf: bool) -> None:
    path = write(tmp_path / "x.db", "CREATE TABLE t (a INTEGER)", [(n,) for n in range(3000)])
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master").fetchone()
    data = bytearray(path.read_bytes())
    begin = (root - 1) * 512
    assert data[begin] == 5
    if leaf:
        # Cells of its own: none.
        data[(root + 3) * 512 + 3 : (root + 3) * 512 + 5] = bytes(2)
    else:
        data[begin + 8 : begin + 12] = root.to_bytes(4, "big")
    path.write_bytes(data)
    same(path, "a", plain=False)
