"""Which rows have a key: sorted once, asked often, so that a question costs what it finds and not the whole column."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints, distinct


class Index:
    """The rows of a column of keys; those below zero stand for none and are never found."""

    def __init__(self, keys: Ints) -> None:
        rows = np.flatnonzero(keys >= 0)
        self._rows = rows[np.argsort(keys[rows], kind="stable")]
        self._keys = keys[self._rows]

    def of(self, keys: Ints) -> Ints:
        """The rows with one of ``keys``, in order."""
        wanted = distinct(keys)
        return self.between(wanted, wanted + 1)

    def between(self, low: Ints, high: Ints) -> Ints:
        """The rows with a key in one of the disjoint ``[low, high)``, in order."""
        rows: Ints = np.sort(self._rows[ranges(np.searchsorted(self._keys, low), np.searchsorted(self._keys, high))])
        return rows


def ranges(first: Ints, end: Ints) -> Ints:
    """The numbers of each ``range(first, end)``, one after the other; an end before its first gives none."""
    count = np.maximum(end - first, 0)
    found: Ints = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    return found
