"""Rows of two files are one event by name and time: as a look at every pair would find them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.base.categorical import Categorical
from npu_advisor.readers.join import match, outer_first

EVENTS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-1, 40)), max_size=25)


def by_pairs(ours: list[tuple[str | None, int]], theirs: list[tuple[str | None, int]], within: int) -> list[int]:
    found, free = [-1] * len(ours), {row for row, (name, _) in enumerate(theirs) if name}
    for row, event in enumerate(ours):
        same = [other for other in sorted(free) if theirs[other] == event]
        if same:
            found[row] = same[0]
            free.discard(same[0])
    wishes = []
    for row in sorted((row for row, known in enumerate(found) if known < 0), key=lambda row: ours[row][1]):
        name, start = ours[row]
        before = max(
            ((t, other) for other in free if theirs[other][0] == name and (t := theirs[other][1]) <= start),
            default=None,
        )
        after = min(
            ((t, other) for other in free if theirs[other][0] == name and (t := theirs[other][1]) > start), default=None
        )
        near = [(abs(side[0] - start), place, side[1]) for place, side in enumerate((before, after)) if side]
        if near and min(near)[0] <= within:
            wishes.append((min(near)[0], row, min(near)[2]))
    for _, row, other in sorted(wishes, key=lambda wish: wish[0]):
        if other in free:
            found[row] = other
            free.discard(other)
    return found


@given(EVENTS, EVENTS, st.sampled_from([0, 1, 5]))
def test_each_event_finds_the_other_that_is_nearest(
    ours: list[tuple[str | None, int]], theirs: list[tuple[str | None, int]], within: int
) -> None:
    (names, starts), (others, other_starts) = (
        (Categorical.of([name for name, _ in events]), np.array([start for _, start in events], np.int64))
        for events in (ours, theirs)
    )
    assert match(names, starts, others, other_starts, within).tolist() == by_pairs(ours, theirs, within)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=40))
def test_rows_come_by_start_the_longest_first(slices: list[tuple[int, int]]) -> None:
    start, duration = np.array(slices, np.int64).reshape(-1, 2).T
    rows = range(len(slices))
    assert outer_first(start, duration).tolist() == sorted(rows, key=lambda row: (slices[row][0], -slices[row][1]))
    assert outer_first(start).tolist() == sorted(rows, key=lambda row: slices[row][0])
