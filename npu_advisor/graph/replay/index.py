"""Which rows have a key: sorted once, asked often, so that a question costs what it finds and not the whole column."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints, distinct
from npu_advisor.graph.replay.arrays import Numbers

# Keys up to this one are kept narrow; no row has a key of that.
_MOST = 2**31 - 2


class Index:
    """The rows of a column of keys; those below zero stand for none and are never found."""

    def __init__(self, keys: Numbers) -> None:
        rows = np.flatnonzero(keys >= 0)
        self._rows: Numbers = rows[np.argsort(keys[rows], kind="stable")].astype(np.int32)
        self._keys: Numbers = keys[self._rows]
        if self._keys.max(initial=0) <= _MOST:
            self._keys = self._keys.astype(np.int32)

    def of(self, keys: Ints) -> Ints:
        """The rows with one of ``keys``, in order."""
        wanted = distinct(keys)
        return self.between(wanted, wanted + 1)

    def between(self, low: Ints, high: Ints) -> Ints:
        """The rows with a key in one of the disjoint ``[low, high)``, in order."""
        return np.sort(self._rows[ranges(self._first(low), self._first(high))]).astype(np.int64)

    def _first(self, key: Ints) -> Ints:
        """Where the rows begin whose key is no lower."""
        # Of another type, numpy would convert all keys for each question.
        narrow = self._keys.dtype == np.int32
        return np.searchsorted(self._keys, np.clip(key, -1, _MOST + 1).astype(np.int32) if narrow else key)


def ranges(first: Ints, end: Ints) -> Ints:
    """The numbers of each ``range(first, end)``, one after the other; an end before its first gives none."""
    count = np.maximum(end - first, 0)
    found: Ints = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    return found
