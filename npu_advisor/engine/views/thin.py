"""Level of detail: merge events that lie too close together to be told apart, until few enough are left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask, Spans, covered

# A merged mark spans at most this many times the resolution, so that the texture of a busy lane remains.
_RUN = 4


class Marks(NamedTuple):
    """What is drawn: the event that names a mark (the longest it holds), its span, and how many events it ``holds``."""

    event: Ints
    start: Ints
    end: Ints
    holds: Ints


def thin(start: Ints, end: Ints, row: Ints, most: int, focus: Spans) -> Marks:
    """At most about ``most`` marks for the events of one lane, sorted by row and start.

    Events inside ``focus`` (a union) get three quarters of the marks: what a finding points to stays readable while
    the rest is only an outline. Only events of one ``row`` are merged.
    """
    if len(start) <= most:
        rows = np.lexsort((start, row))
        return Marks(rows, start[rows], end[rows], np.ones(len(rows), dtype=np.int64))
    near = covered(start, np.maximum(end, start + 1), focus) > 0
    inside = _thinned(start, end, row, near, most * 3 // 4 if (~near).any() else most)
    outside = _thinned(start, end, row, ~near, max(most - len(inside.event), most // 4))
    marks = Marks(*(np.concatenate(pair) for pair in zip(inside, outside, strict=True)))
    order = np.lexsort((marks.start, row[marks.event]))
    return Marks(*(column[order] for column in marks))


def _thinned(start: Ints, end: Ints, row: Ints, mask: Mask, most: int) -> Marks:
    rows = np.flatnonzero(mask)
    rows = rows[np.lexsort((start[rows], row[rows]))]
    marks = Marks(rows, start[rows], end[rows], np.ones(len(rows), dtype=np.int64))
    if not len(rows):
        return marks
    span = int(end[rows].max() - start[rows].min())
    resolution = max(span // (_RUN * 8 * max(most, 1)), 1)
    # Beyond the whole span nothing is left to merge: one mark a row.
    while len(marks.event) > most and resolution <= 2 * (span + 1):
        marks = _merged(rows, start, end, row, resolution)
        resolution *= 2
    return marks


def _merged(rows: Ints, start: Ints, end: Ints, row: Ints, resolution: int) -> Marks:
    """Neighbours that are shorter than ``resolution`` and not further apart become one mark."""
    low, high, lane = start[rows], end[rows], row[rows]
    short = high - low < resolution
    apart = np.ones(len(rows), dtype=bool)
    apart[1:] = (
        ~(short[1:] & short[:-1])
        | (low[1:] - high[:-1] >= resolution)
        | (lane[1:] != lane[:-1])
        | (low[1:] // (_RUN * resolution) != low[:-1] // (_RUN * resolution))
    )
    first = np.flatnonzero(apart)
    group = np.cumsum(apart) - 1
    # The longest of each group: the last one when sorted by group and duration.
    order = np.lexsort((high - low, group))
    longest = order[np.append(first[1:], len(rows)) - 1]
    return Marks(
        rows[longest],
        low[first],
        np.maximum.reduceat(high, first),
        np.diff(np.append(first, len(rows))).astype(np.int64),
    )


def shares(counts: Sequence[int], total: int) -> list[int]:
    """How many of ``total`` marks each lane gets: small lanes all they need, the rest in equal parts."""
    given = [0] * len(counts)
    left = total
    for done, index in enumerate(sorted(range(len(counts)), key=lambda i: counts[i])):
        given[index] = min(counts[index], left // (len(counts) - done))
        left -= given[index]
    return given
