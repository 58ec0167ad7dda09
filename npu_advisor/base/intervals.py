"""Sets of half-open time intervals as pairs of int64 arrays; every function is one pass over sorted columns.

A *union* is a :class:`Spans` whose intervals are sorted, disjoint and not empty; it is what all functions return.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Spans(NamedTuple):
    """Intervals ``[start[i], end[i])`` in ns."""

    start: Ints
    end: Ints

    @property
    def total(self) -> int:
        """Summed length in ns."""
        return int((self.end - self.start).sum())


def empty() -> Spans:
    """No interval at all."""
    none = np.zeros(0, dtype=np.int64)
    return Spans(none, none)


def distinct(values: Ints) -> Ints:
    """The distinct values in order; many times faster than np.unique where most of them differ."""
    values = np.sort(values)
    new = np.ones(len(values), dtype=bool)
    new[1:] = values[1:] != values[:-1]
    return values[new]


def union(start: Ints, end: Ints) -> Spans:
    """The union of any intervals; those of no or negative length are dropped."""
    keep = end > start
    start, end = np.asarray(start)[keep], np.asarray(end)[keep]
    if not len(start):
        return empty()
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.ones(len(start), dtype=bool)
    first[1:] = start[1:] > end[:-1]
    last = np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)
    return Spans(start[first].astype(np.int64), end[last].astype(np.int64))


def _count(spans: Spans, at: Ints) -> Ints:
    """Length of ``spans`` (a union) that lies before each time in ``at``."""
    if not len(spans.start):
        return np.zeros(len(at), dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(spans.end - spans.start)))
    index = np.searchsorted(spans.start, at, side="right")
    inside: Ints = np.clip(spans.end[np.maximum(index - 1, 0)] - at, 0, None)
    length: Ints = np.where(index > 0, before[index] - inside, 0).astype(np.int64)
    return length


def covered(start: Ints, end: Ints, spans: Spans) -> Ints:
    """How much of each interval lies under the union ``spans``, in ns."""
    length: Ints = np.maximum(_count(spans, np.maximum(end, start)) - _count(spans, start), 0)
    return length


def _sweep(a: Spans, b: Spans) -> tuple[Ints, Ints, Ints]:
    """Every border of two unions in order, and from there on how many of a and of b are open."""
    at = np.concatenate((a.start, a.end, b.start, b.end))
    step_a = np.concatenate((np.ones(len(a.start)), -np.ones(len(a.end)), np.zeros(2 * len(b.start)))).astype(np.int64)
    step_b = np.concatenate((np.zeros(2 * len(a.start)), np.ones(len(b.start)), -np.ones(len(b.end)))).astype(np.int64)
    order = np.argsort(at, kind="stable")
    return at[order], np.cumsum(step_a[order]), np.cumsum(step_b[order])


def _pieces(at: Ints, keep: Mask) -> Spans:
    return union(at[:-1][keep[:-1]], at[1:][keep[:-1]]) if len(at) else empty()


def intersect(a: Spans, b: Spans) -> Spans:
    """What two unions have in common."""
    at, in_a, in_b = _sweep(a, b)
    return _pieces(at, (in_a > 0) & (in_b > 0))


def subtract(a: Spans, b: Spans) -> Spans:
    """What is in the union ``a`` and not in ``b``."""
    at, in_a, in_b = _sweep(a, b)
    return _pieces(at, (in_a > 0) & (in_b == 0))


def clip(spans: Spans, low: int, high: int) -> Spans:
    """The part of a union inside ``[low, high)``."""
    # Callers clip to one step after the other: only the intervals that reach into it may cost anything.
    first, last = np.searchsorted(spans.end, low, side="right"), np.searchsorted(spans.start, high)
    if first >= last:
        return empty()
    return union(np.clip(spans.start[first:last], low, high), np.clip(spans.end[first:last], low, high))


def latest_open(start: Ints, end: Ints, at: Ints) -> Ints:
    """For each time the interval that started last among those open then; each time lies in at least one."""
    order = np.lexsort((end, start))
    index = np.searchsorted(start[order], at, side="right") - 1
    while True:
        closed = np.flatnonzero((end[order[index]] <= at) & (index > 0))
        if not len(closed):
            return np.asarray(order[index])
        index[closed] -= 1


def cut(spans: Spans, at: Ints) -> Spans:
    """The union cut at the times ``at``: sorted and disjoint, neighbours may touch."""
    if not len(spans.start):
        return spans
    borders = np.unique(at)
    whole = np.searchsorted(spans.start, borders, side="right") - 1
    inside = borders[(whole >= 0) & (borders > spans.start[whole]) & (borders < spans.end[whole])]
    return Spans(np.sort(np.append(spans.start, inside)), np.sort(np.append(spans.end, inside)))
