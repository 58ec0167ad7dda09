"""Intervals that belong to somebody, against a count of every ns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.engine.intervals import running_end, union_per_owner

# Rows without a time lie far before all others.
_STARTS = st.one_of(st.integers(0, 20), st.just(-1), st.integers(1736408883704643212, 1736408883704643222))
_ROWS = st.lists(st.tuples(st.integers(-1, 3), _STARTS, st.integers(0, 9)))


def _columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    owner, start, length = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return owner, start, start + length


@given(_ROWS)
def test_the_latest_end_so_far_is_that_of_the_owner(rows: list[tuple[int, int, int]]) -> None:
    owner, _, end = _columns(sorted(rows, key=lambda row: row[0]))
    told = [max(end[owner == who][: place + 1]) for who in np.unique(owner) for place in range((owner == who).sum())]
    assert running_end(owner, end).tolist() == told


@given(_ROWS)
def test_a_union_covers_what_each_owner_covers(rows: list[tuple[int, int, int]]) -> None:
    owner, start, end = union_per_owner(*_columns(rows))
    covered = [(who, at) for who, first, past in zip(owner, start, end, strict=True) for at in range(first, past)]
    assert len(covered) == len(set(covered))
    assert set(covered) == {(who, at) for who, first, length in rows for at in range(first, first + length)}
