"""Columns of text against what pandas makes of the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.numbering import Numbering, factorize, firsts

_TEXTS = st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "算子", "N/A"])))


def _known(values: list[str | None]) -> list[str | None]:
    return [text or None for text in values]


@given(_TEXTS)
def test_a_column_tells_what_was_put_in(values: list[str | None]) -> None:
    column = Categorical.of(values)
    assert len(column) == len(values)
    assert list(column) == _known(values) == [column[row] for row in range(len(values))]
    assert list(column.categories) == list(dict.fromkeys(text for text in values if text))
    other = pd.Categorical(_known(values), categories=column.categories)
    assert column.to_pandas().equals(other)
    assert list(Categorical.of(other)) == list(Categorical.of(pd.Series(values, dtype=object))) == _known(values)


@given(_TEXTS, st.sampled_from(["a", "算子", "never"]))
def test_equal_is_never_missing_and_unequal_always(values: list[str | None], text: str) -> None:
    column = Categorical.of(values)
    assert (column == text).tolist() == [value == text for value in values]
    assert (column != text).tolist() == [value != text for value in values]


@given(_TEXTS, st.data())
def test_rows_are_taken_by_position_mask_and_slice(values: list[str | None], data: st.DataObject) -> None:
    column, told = Categorical.of(values), _known(values)
    mask = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    rows = np.flatnonzero(mask)
    assert list(column[np.array(mask, bool)]) == list(column[rows]) == [told[row] for row in rows]
    assert list(column[1:]) == told[1:]
    kept = column[rows].remove_unused_categories()
    assert list(kept) == list(column[rows])
    assert list(kept.categories) == [text for text in column.categories if text in {told[row] for row in rows}]


@given(_TEXTS, st.lists(st.sampled_from(["", "x", "y"]), min_size=4, max_size=4))
def test_equal_labels_are_merged(values: list[str | None], labels: list[str]) -> None:
    column = Categorical.of(values)
    named = dict(zip(column.categories, labels, strict=False))
    made = Categorical.merged(column.codes, [named[text] for text in column.categories])
    assert list(made) == [named[value] or None if value else None for value in values]
    assert len({*made.categories}) == len(made.categories) and "" not in made.categories


def test_codes_take_as_few_bytes_as_the_categories_ask_for() -> None:
    for size, bytes_ in ((1, 1), (128, 1), (129, 2), (2**15 + 1, 4)):
        assert Categorical(np.zeros(3, np.int64), map(str, range(size))).codes.dtype.itemsize == bytes_


@pytest.mark.parametrize(
    ("codes", "categories"),
    [([0, 1], ["a"]), ([-2], ["a"]), ([0.0], ["a"]), ([0], ["a", "a"])],
    ids=["no such category", "below missing", "no whole number", "twice"],
)
def test_what_is_no_column_is_refused(codes: list[float], categories: list[str]) -> None:
    with pytest.raises(ValueError, match=r"codes|distinct"):
        Categorical(np.array(codes), categories)


def test_numbers_are_no_texts() -> None:
    with pytest.raises(ValueError, match="no text"):
        Categorical.of(["a", 7])


@given(
    st.one_of(
        st.lists(st.integers(-5, 5)),
        st.lists(st.sampled_from([-(2**62), 0, 2**62, 3])),
        st.lists(st.integers(-(2**62), 2**62), min_size=9),
        st.lists(st.sampled_from([0.5, float("nan"), -1.0])),
    )
)
def test_numbers_are_given_in_the_order_met(values: list[float]) -> None:
    array = np.array(values, np.float64 if any(isinstance(value, float) for value in values) else np.int64)
    numbers, distinct = factorize(array)
    expected, uniques = pd.factorize(array, use_na_sentinel=False)
    assert numbers.tolist() == expected.tolist()
    np.testing.assert_array_equal(distinct, uniques)
    np.testing.assert_array_equal(array[firsts(numbers)], uniques)
    assert sorted(firsts(numbers)) == firsts(numbers).tolist()


@pytest.mark.parametrize("size", [np.int8, np.int16, np.int32])
def test_numbers_of_few_bytes_do_not_run_over(size: type) -> None:
    most = np.iinfo(size).max
    values = np.array([-1, most, 0, most, *range(100)] * (most // 100 if size is np.int16 else 1), size)
    numbers, distinct = factorize(values)
    assert distinct[numbers].tolist() == values.tolist() and len({*distinct.tolist()}) == len(distinct)


def test_known_keys_keep_their_numbers() -> None:
    numbers = Numbering({None: -1})
    assert numbers.of(["b", None, "a", "b"]).tolist() == [0, -1, 1, 0] and numbers.new == ["b", "a"]
