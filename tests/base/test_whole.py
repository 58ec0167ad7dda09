"""Whole numbers keep their values in less room."""

import numpy as np
import pytest

from npu_advisor.base.whole import few, narrow, widened
from npu_advisor.model.table import Table


@pytest.mark.parametrize(
    ("values", "size"),
    [([-128, 127], 1), ([0, 128], 2), ([-32769, 0], 4), ([2**31 - 1], 4), ([2**31], 8), ([-(2**63), 2**63 - 1], 8)],
)
def test_the_fewest_bytes_that_hold_them_all(values: list[int], size: int) -> None:
    kept = narrow(np.array(values, np.int64))
    assert kept.dtype.itemsize == size
    assert widened(kept).dtype == np.int64
    assert widened(kept).tolist() == values


def test_other_arrays_stay_as_they_are() -> None:
    for values in (np.array([1.0]), np.array([True]), np.zeros(0, np.int64)):
        assert narrow(values) is values
        assert widened(values).dtype == values.dtype


def test_small_numbers_are_told_once_each_in_order() -> None:
    assert few(np.array([3, -1, 0, 3, -1], np.int64)).tolist() == [-1, 0, 3]
    assert few(np.zeros(0, np.int64)).tolist() == []


def test_a_table_gives_out_what_the_schema_says() -> None:
    table = Table.build("ops", {"start_ns": [5, 6], "dur_ns": [100, 120], "track": np.array([1, -1], np.int8)})
    assert {table[name].dtype for name in ("start_ns", "dur_ns", "track", "end_ns", "parent")} == {np.dtype(np.int64)}
    # Added up in as many bytes as they are kept in, 6 and 120 and 120 would be below zero.
    assert (table["end_ns"] + table["dur_ns"]).tolist() == [205, 246]
    assert table["dur_us"].tolist() == [0.1, 0.12]
    assert {str(dtype) for dtype in table.frame[["start_ns", "dur_ns", "track"]].dtypes} == {"int64"}


@pytest.mark.parametrize("rows", [np.array([1, 0, 1]), np.array([True, False])])
def test_some_rows_are_what_all_of_the_column_has_there(rows: np.ndarray) -> None:
    table = Table.build("ops", {"start_ns": [5, 6], "dur_ns": [100, 120], "name": ["a", "b"]})
    for name in ("start_ns", "dur_ns", "end_ns", "dur_us", "rank", "parent", "self_us"):
        np.testing.assert_array_equal(table.at(name, rows), table[name][rows])
        assert table.at(name, rows).dtype == table[name].dtype
    assert list(table.at("name", rows)) == list(table["name"][rows])
