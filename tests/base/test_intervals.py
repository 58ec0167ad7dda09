"""Interval algebra against sets of single nanoseconds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.base import intervals

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(-3, 12)), max_size=12)


def ticks(pairs):
    return {tick for start, length in pairs for tick in range(start, start + length)}


def union_of(pairs):
    start = np.array([start for start, _ in pairs], dtype=np.int64)
    length = np.array([length for _, length in pairs], dtype=np.int64)
    return intervals.union(start, start + length)


def ticks_of(spans):
    return {tick for start, end in zip(spans.start, spans.end, strict=True) for tick in range(start, end)}


@given(SPANS)
def test_union_is_sorted_disjoint_and_complete(pairs):
    spans = union_of(pairs)
    assert ticks_of(spans) == ticks(pairs)
    assert spans.total == len(ticks(pairs))
    assert (spans.end > spans.start).all()
    assert (spans.start[1:] > spans.end[:-1]).all()


@given(SPANS, SPANS)
def test_intersect_and_subtract(left, right):
    a, b = union_of(left), union_of(right)
    assert ticks_of(intervals.intersect(a, b)) == ticks(left) & ticks(right)
    assert ticks_of(intervals.subtract(a, b)) == ticks(left) - ticks(right)


@given(SPANS, SPANS)
def test_covered_counts_each_interval_on_its_own(rows, cover):
    start = np.array([start for start, _ in rows], dtype=np.int64)
    end = start + np.array([length for _, length in rows], dtype=np.int64)
    got = intervals.covered(start, end, union_of(cover))
    want = [len(set(range(a, b)) & ticks(cover)) for a, b in zip(start, end, strict=True)]
    assert got.tolist() == want


@given(SPANS, st.integers(0, 40), st.integers(0, 40))
def test_clip(pairs, low, high):
    assert ticks_of(intervals.clip(union_of(pairs), low, high)) == ticks(pairs) & set(range(low, high))
