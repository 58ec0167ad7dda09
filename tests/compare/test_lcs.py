"""The longest common subsequence, against the textbook table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.compare import lcs

SEQUENCE = st.lists(st.integers(0, 4), max_size=24)


def _length(a: list[int], b: list[int]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@pytest.mark.parametrize("kept_cells", [lcs._KEPT_CELLS, 16], ids=["whole", "halved"])
@given(a=SEQUENCE, b=SEQUENCE)
def test_it_is_common_rising_and_longest(a: list[int], b: list[int], kept_cells: int) -> None:
    before, lcs._KEPT_CELLS = lcs._KEPT_CELLS, kept_cells
    try:
        pairs = lcs.common(np.array(a, dtype=np.int64), np.array(b, dtype=np.int64))
    finally:
        lcs._KEPT_CELLS = before
    assert [a[i] for i in pairs.a] == [b[j] for j in pairs.b]
    assert (np.diff(pairs.a) > 0).all() and (np.diff(pairs.b) > 0).all()
    assert len(pairs.a) == _length(a, b)


def test_of_two_runs_of_a_loop_the_later_one_is_taken() -> None:
    loop, once = np.array([1, 2, 3, 1, 2, 3], dtype=np.int64), np.array([7, 1, 2, 3, 8], dtype=np.int64)
    assert lcs.common(loop, once).a.tolist() == [3, 4, 5]
    assert lcs.common(once, loop).b.tolist() == [3, 4, 5]


def test_one_element_put_in_shifts_the_rest() -> None:
    a = np.array([1, 2, 3, 1, 2, 3], dtype=np.int64)
    pairs = lcs.common(a, np.insert(a, 3, 9))
    assert pairs.a.tolist() == [0, 1, 2, 3, 4, 5]
    assert pairs.b.tolist() == [0, 1, 2, 4, 5, 6]
