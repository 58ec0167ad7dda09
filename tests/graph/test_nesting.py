"""Which event lies in which, against a slow and obvious oracle."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.graph.nesting import Nesting


def forest(rows):
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Nesting(columns[:, 0], columns[:, 1], columns[:, 2])


@st.composite
def nested(draw):
    """Properly nested events on two tracks."""
    rows = []

    def grow(track, low, high, depth):
        at = low
        while at < high and depth < 4 and draw(st.booleans()):
            start = draw(st.integers(at, high - 1))
            end = draw(st.integers(start + 1, high))
            rows.append((track, start, end))
            grow(track, start + 1, end, depth + 1)
            at = end

    for track in (3, 8):
        grow(track, 0, 30, 0)
    return draw(st.permutations(rows)) if rows else rows


@given(nested())
def test_parent_is_the_smallest_container(rows):
    tree = forest(rows)
    for row, (track, start, end) in enumerate(rows):
        around = [
            other
            for other, (lane, low, high) in enumerate(rows)
            if other != row and lane == track and low <= start and end <= high and (low, high) != (start, end)
        ]
        want = min(around, key=lambda other: rows[other][2] - rows[other][1], default=-1)
        assert tree.parent[row] == want
        assert tree.depth[row] == len(around)


@given(nested())
def test_subtree_is_a_range_of_preorder_numbers(rows):
    tree = forest(rows)
    for row in range(len(rows)):
        under = {other for other in range(len(rows)) if tree.pre[row] < tree.pre[other] <= tree.last[row]}
        children = {row}
        while more := {other for other in range(len(rows)) if tree.parent[other] in children} - children:
            children |= more
        assert under == children - {row}


@given(nested(), st.integers(-1, 31))
def test_innermost(rows, at):
    tree = forest(rows)
    for track in (3, 8, 9):
        open_ = [row for row, (lane, low, high) in enumerate(rows) if lane == track and low <= at < high]
        want = min(open_, key=lambda row: rows[row][2] - rows[row][1], default=-1)
        assert tree.innermost(np.array([track]), np.array([at]))[0] == want


def test_a_child_may_end_after_its_parent():
    tree = forest([(0, 0, 100), (0, 90, 105)])
    assert tree.parent.tolist() == [-1, 0]


def test_an_event_that_only_touches_its_predecessor_is_its_sibling():
    tree = forest([(0, 0, 100), (0, 30, 40), (0, 39, 60)])
    assert tree.parent.tolist() == [-1, 0, 0]


def test_equal_spans_nest_in_the_order_written():
    tree = forest([(0, 0, 10), (0, 0, 10)])
    assert tree.parent.tolist() == [-1, 0]


def test_inherit_fills_from_the_nearest_ancestor():
    tree = forest([(0, 0, 100), (0, 10, 90), (0, 20, 30), (0, 95, 99)])
    assert tree.inherit(np.array([7, -1, 5, -1])).tolist() == [7, 7, 5, 7]


@st.composite
def overlapping(draw):
    """Events on two tracks that nest, touch, cross or take no time, as they come."""
    event = st.tuples(st.sampled_from((3, 8)), st.integers(0, 20), st.integers(0, 9))
    return [(track, start, start + length) for track, start, length in draw(st.lists(event, max_size=24))]


@given(overlapping())
def test_each_event_is_nested_as_if_the_lane_were_walked(rows):
    """Under the innermost event that is open at its start and covers half of it, or outlasts it."""
    tree = forest(rows)
    for lane in {track for track, _, _ in rows}:
        walked = []
        order = sorted(
            (row for row in range(len(rows)) if rows[row][0] == lane), key=lambda row: (rows[row][1], -rows[row][2])
        )
        for row in order:
            _, start, end = rows[row]
            while walked:
                until = rows[walked[-1]][2]
                if until > start and (until >= end or 2 * (until - start) >= end - start):
                    break
                walked.pop()
            assert tree.parent[row] == (walked[-1] if walked else -1)
            assert tree.depth[row] == len(walked)
            walked.append(row)


@given(nested(), st.lists(st.integers(-1, 3), min_size=60, max_size=60))
def test_inherited_values_are_those_of_the_nearest_ancestor(rows, values):
    tree = forest(rows)
    values = np.array(values[: len(rows)], dtype=np.int64)
    for row, found in enumerate(tree.inherit(values)):
        while values[row] < 0 <= tree.parent[row]:
            row = tree.parent[row]
        assert found == values[row]
