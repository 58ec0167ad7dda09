"""The bytes of a CSV say the same as the parser of the standard library."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_advisor.readers import csvbytes, csvfile
from npu_advisor.readers.csvbytes import NotPlainError, blocks, unquoted
from npu_advisor.readers.csvfile import read_csv
from npu_advisor.readers.notes import Notes, UnreadableFileError

TEXTS = st.text(st.sampled_from('ab7.,"\n é核 \t'), max_size=9) | st.text("x1", min_size=120, max_size=140)
HEADER = ["A", "B", "C"]
WANTED = {name: (name,) for name in HEADER}
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)


def plainly(path: Path) -> list[list[str]]:
    """The rows that are found among the bytes."""
    rows = []
    with path.open("rb", buffering=0) as file:
        for block in blocks(file, len(HEADER)):
            columns = [[unquoted(cell).decode() for cell in block.cells(place).tolist()] for place in range(3)]
            rows += [list(row) for row in zip(*columns, strict=True)]
    return rows


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvbytes, "_SIZE", 512)


@pytest.mark.usefixtures("small_blocks")
@same_folder
@given(
    rows=st.lists(st.lists(TEXTS, min_size=3, max_size=3), min_size=1, max_size=40),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_whatever_a_writer_writes_is_found(tmp_path: Path, rows: list[list[str]], end: str, quoting: int) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=quoting).writerows(rows)
    (tmp_path / "x.csv").write_bytes(text.getvalue().encode())
    assert plainly(tmp_path / "x.csv") == rows


def told(path: Path) -> tuple[object, ...]:
    notes = Notes()
    try:
        file = read_csv(path, WANTED, (), notes)
    except UnreadableFileError as error:
        return (error.reason, *notes)
    return ({name: file.columns[name].strings() for name in HEADER}, *notes)


@pytest.mark.usefixtures("small_blocks")
@same_folder
@given(
    parts=st.lists(st.sampled_from([*'ab,,,,"\n\n\r\0 \t', "\r\n", '"a"', '""', ",1,2\n", "é", "\x81"]), max_size=60)
)
def test_damage_costs_what_it_costs_the_parser(tmp_path: Path, parts: list[str]) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"A,B,C\n" + "".join(parts).encode("latin1"))
    found = told(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csvfile, "blocks", refuse)
        assert found == told(path)


def refuse(*_: object) -> object:
    raise NotPlainError


@pytest.mark.parametrize("text", ["a,b,c", "a,b\rc,d,e\n", 'a,x"y",c\n', 'a,"x"y,c\n', 'a,"b,c\n', "a,b\0,c\n"])
def test_what_is_not_plain_is_left_to_the_parser(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.csv").write_text(text, newline="")
    with pytest.raises(NotPlainError):
        plainly(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b,c\n\n \t\nd,e,f\r\n\r\n", [["a", "b", "c"], ["d", "e", "f"]]),
        ("a\nb,c\r\n,,\nd,e,f,g\n", [["a", "", ""], ["b", "c", ""], ["", "", ""], ["d", "e", "f"]]),
    ],
)
def test_blank_lines_are_no_rows_and_rows_of_any_width_are(tmp_path: Path, text: str, rows: list[list[str]]) -> None:
    (tmp_path / "x.csv").write_text(text, newline="")
    assert plainly(tmp_path / "x.csv") == rows


@pytest.mark.usefixtures("small_blocks")
def test_a_row_longer_than_a_block_is_left_to_the_parser(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("A,B,C\n1,2,3\n" + "x" * 600 + ",5,6\n")
    assert told(path) == ({"A": ["1", "x" * 600], "B": ["2", "5"], "C": ["3", "6"]},)
