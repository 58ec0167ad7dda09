"""Columns kept in little room say what the cells say, whichever way they are kept."""

import numpy as np
import pytest

from npu_advisor.readers.cells import Cells, GrowingCells, joined_cells
from npu_advisor.readers.columns import Ids, Rows
from npu_advisor.readers.numbers import floats, ns_from_text

MANY = 3000
COLUMNS = {
    "few": [("1.5", "N/A", "", " 2 ")[row % 4] for row in range(MANY)],
    "each its own": [f"{row}.125\t" for row in range(MANY)],
    "own, some blank": [f"{row}" if row % 3 else " " for row in range(MANY)],
    "own, later not ASCII": [f"{row}" if row < 2000 else f"核{row}" for row in range(MANY)],
    "own, later long": [f"{row}" if row < 2000 else f"{row}" * 20 for row in range(MANY)],
    "short": ["7", "8", "7"],
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_cells_say_what_was_put_in(values: list[str]) -> None:
    column = GrowingCells()
    for low in range(0, len(values), 1100):
        column.add(values[low : low + 1100])
    for cells in (column.cells(), Cells.of(values), joined_cells([Cells.of(values[:40]), Cells.of(values[40:])])):
        assert len(cells) == len(values)
        assert cells.strings() == values
        assert cells[np.array([2, 0])].strings() == [values[2], values[0]]
        assert cells.blank().tolist() == [not value.strip() for value in values]
        np.testing.assert_array_equal(cells.each(floats), floats(values))
        for found, expected in zip(cells.nanoseconds(), ns_from_text(values), strict=True):
            np.testing.assert_array_equal(found, expected)
        stripped = [None if value.strip() in ("", "N/A") else value.strip() for value in values]
        told = cells.categorical()
        assert [None if code < 0 else told.categories[code] for code in told.codes] == stripped
        assert sorted(told.categories) == sorted({text for text in stripped if text is not None})


def test_texts_that_repeat_take_a_byte_a_cell() -> None:
    cells = Cells.of(COLUMNS["few"])
    assert cells._codes is not None
    assert cells._codes.itemsize == 1


def test_ids_are_one_only_where_they_are_equal() -> None:
    """The text of a number is not that number; ids of 20 digits are longer than an int64."""
    texts = ["5", "05", "40259085543460044799", "40259085543460044798", "a", "-5", "+5", "", "0", "00", "٣", "3", "1_0"]
    texts += ["1" * 36, "1" * 37, "0" + "1" * 35]
    given = [5, 2**63, None, -5, 5, 0, *texts]
    parts = [given, given[::-1], [5], ["5", "40259085543460044799", "0"], ["00", "0"], ["", "5"], texts, [-5, 5]]
    ids = Ids()
    told: dict[tuple[int, int], set[str]] = {}
    for part in parts:
        for key, pair in zip(part, ids.of(part).tolist(), strict=True):
            told.setdefault(tuple(pair), set()).add(repr(key))
    assert sorted(map(len, told.values())) == [1] * len({*map(repr, given)})


def test_ids_of_several_stretches_are_one_where_they_are_equal() -> None:
    first, second, joined = Ids(), Ids(), Ids()
    told = []
    for ids, given in ((first, ["b", 5, "a"]), (second, ["a", "5", "c", "b"])):
        numbers = ids.of(given)[:, 0]
        told += joined.renumbered(numbers, ids.others).tolist()
    b, five, a, again_a, text_five, c, again_b = told
    assert (a, b) == (again_a, again_b)
    assert len({a, b, c, five, text_five}) == 5
    assert (joined.others, five) == (["b", "a", "c"], 5)


def test_rows_widen_as_larger_numbers_come() -> None:
    rows, blocks = Rows(), ([1, 2], [300], [2**40], [-1] * 9)
    for block in blocks:
        rows.extend(step=np.array(block, np.int64))
    assert len(rows) == 13
    assert rows.take()["step"].tolist() == [value for block in blocks for value in block]
    assert rows.take() == {}
