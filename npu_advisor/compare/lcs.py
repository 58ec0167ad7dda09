"""The longest common subsequence of two sequences of small numbers, row by row on arrays.

Row i of the table L holds the worth of a[:i] against every b[:j]:
L[i, j] = max(L[i-1, j], L[i, j-1], L[i-1, j-1] + w(i, j) where a[i] == b[j]), where the middle term is a running
maximum, so a row is a few array operations. w is a constant plus i + j, the constant so large that a longer sequence is
always worth more: of several longest ones that gives the one that lies furthest back (of two runs of a loop the second,
which is warm). Where the table would be large the sequences are halved (Hirschberg), which doubles the time and needs
two rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints

# Cells of a table that is kept whole, 8 bytes each.
_KEPT_CELLS = 2_000_000


class Pairs(NamedTuple):
    """Positions in the one and in the other sequence that belong together, both rising."""

    a: Ints
    b: Ints


class _Part(NamedTuple):
    """A stretch of a sequence: its elements, and what a pair at each is worth for lying there."""

    element: Ints
    worth: Ints

    def cut(self, chosen: slice) -> _Part:
        return _Part(self.element[chosen], self.worth[chosen])


def common(a: Ints, b: Ints) -> Pairs:
    """The pairs of a longest common subsequence of ``a`` and ``b``.

    What agrees at both ends is paired as it stands; of several longest ones between them the furthest back is taken.
    """
    head = _agreeing(a, b)
    tail = _agreeing(a[head:][::-1], b[head:][::-1])
    inner_a, inner_b = a[head : len(a) - tail], b[head : len(b) - tail]
    longest = (len(inner_a) + len(inner_b) + 1) * (min(len(inner_a), len(inner_b)) + 1)
    inner = _halved(_Part(inner_a, np.arange(len(inner_a)) + longest), _Part(inner_b, np.arange(len(inner_b))))
    ends = np.arange(tail)
    return Pairs(
        np.concatenate((np.arange(head), inner.a + head, ends + len(a) - tail)),
        np.concatenate((np.arange(head), inner.b + head, ends + len(b) - tail)),
    )


def _agreeing(a: Ints, b: Ints) -> int:
    """How many elements at the start are equal."""
    length = min(len(a), len(b))
    differing = np.flatnonzero(a[:length] != b[:length])
    return int(differing[0]) if len(differing) else length


def _halved(a: _Part, b: _Part) -> Pairs:
    length, other = len(a.element), len(b.element)
    if not length or not other:
        none = np.zeros(0, dtype=np.int64)
        return Pairs(none, none)
    if (length + 1) * (other + 1) <= _KEPT_CELLS or length == 1:
        return _walked(a, b)
    middle, backwards = length // 2, slice(None, None, -1)
    upper = _last_row(a.cut(slice(middle)), b)
    lower = _last_row(a.cut(slice(middle, None)).cut(backwards), b.cut(backwards))[::-1]
    split = int(np.argmax(upper + lower))
    first = _halved(a.cut(slice(middle)), b.cut(slice(split)))
    second = _halved(a.cut(slice(middle, None)), b.cut(slice(split, None)))
    return Pairs(np.concatenate((first.a, second.a + middle)), np.concatenate((first.b, second.b + split)))


def _next_row(row: Ints, element: int, worth: int, b: _Part, into: Ints) -> None:
    np.add(row[:-1], (b.element == element) * (b.worth + worth), out=into[1:])
    np.maximum(into, row, out=into)
    np.maximum.accumulate(into, out=into)


def _last_row(a: _Part, b: _Part) -> Ints:
    row, spare = (np.zeros(len(b.element) + 1, dtype=np.int64) for _ in range(2))
    for element, worth in zip(a.element.tolist(), a.worth.tolist(), strict=True):
        spare[0] = 0
        _next_row(row, element, worth, b, spare)
        row, spare = spare, row
    return row


def _walked(a: _Part, b: _Part) -> Pairs:
    """The pairs from the whole table, walked back from its end."""
    table = np.zeros((len(a.element) + 1, len(b.element) + 1), dtype=np.int64)
    for row, (element, worth) in enumerate(zip(a.element.tolist(), a.worth.tolist(), strict=True)):
        _next_row(table[row], element, worth, b, table[row + 1])
    found: list[tuple[int, int]] = []
    i, j = len(a.element), len(b.element)
    while i and j:
        if table[i - 1, j] == table[i, j]:
            i -= 1
        elif table[i, j - 1] == table[i, j]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            found.append((i, j))
    pairs = np.array(found[::-1], dtype=np.int64).reshape(-1, 2)
    return Pairs(pairs[:, 0], pairs[:, 1])
