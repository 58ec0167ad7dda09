"""The longest common subsequence of two sequences of small numbers, row by row on arrays.

Row i of the table L holds the lengths for a[:i] against every b[:j]:
L[i, j] = max(L[i-1, j], L[i, j-1], L[i-1, j-1] + (a[i] == b[j])), where the middle term is a running maximum, so a row
is three array operations. Where the table would be large the sequences are halved (Hirschberg), which doubles the time
and needs two rows.
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


def common(a: Ints, b: Ints) -> Pairs:
    """The pairs of a longest common subsequence of ``a`` and ``b``; of several the one that lies furthest back."""
    head = _agreeing(a, b)
    tail = _agreeing(a[head:][::-1], b[head:][::-1])
    inner = _halved(a[head : len(a) - tail], b[head : len(b) - tail])
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


def _halved(a: Ints, b: Ints) -> Pairs:
    if not len(a) or not len(b):
        none = np.zeros(0, dtype=np.int64)
        return Pairs(none, none)
    if (len(a) + 1) * (len(b) + 1) <= _KEPT_CELLS or len(a) == 1:
        return _walked(a, b)
    middle = len(a) // 2
    upper, lower = _last_row(a[:middle], b), _last_row(a[middle:][::-1], b[::-1])[::-1]
    split = int(np.argmax(upper + lower))
    first, second = _halved(a[:middle], b[:split]), _halved(a[middle:], b[split:])
    return Pairs(np.concatenate((first.a, second.a + middle)), np.concatenate((first.b, second.b + split)))


def _next_row(row: Ints, element: int, b: Ints, into: Ints) -> None:
    np.add(row[:-1], b == element, out=into[1:])
    np.maximum(into, row, out=into)
    np.maximum.accumulate(into, out=into)


def _last_row(a: Ints, b: Ints) -> Ints:
    row, spare = (np.zeros(len(b) + 1, dtype=np.int64) for _ in range(2))
    for element in a.tolist():
        spare[0] = 0
        _next_row(row, element, b, spare)
        row, spare = spare, row
    return row


def _walked(a: Ints, b: Ints) -> Pairs:
    """The pairs from the whole table, walked back from its end."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for row, element in enumerate(a.tolist()):
        _next_row(table[row], element, b, table[row + 1])
    found: list[tuple[int, int]] = []
    i, j = len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1] and table[i, j] == table[i - 1, j - 1] + 1:
            i, j = i - 1, j - 1
            found.append((i, j))
        elif table[i - 1, j] >= table[i, j - 1]:
            i -= 1
        else:
            j -= 1
    pairs = np.array(found[::-1], dtype=np.int64).reshape(-1, 2)
    return Pairs(pairs[:, 0], pairs[:, 1])
