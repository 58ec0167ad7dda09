"""Numbers for distinct values, in the order met."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# Distinct values that are found one after the other.
_FEW = 8
_SPREAD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


class Numbering(dict[Any, int]):
    """Numbers for distinct keys, in the order met. (``__missing__`` keeps the look-up of known keys in C.)"""

    def __init__(self, known: dict[Any, int] | None = None) -> None:
        super().__init__(known or {})
        self._given = len(self)

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self) - self._given
        return number

    def of(self, keys: list[Any]) -> npt.NDArray[np.int32]:
        """The number of each key."""
        return np.fromiter(map(self.__getitem__, keys), np.int32, len(keys))

    @property
    def new(self) -> list[Any]:
        """The keys that were not known from the start, by number."""
        return list(self)[self._given :]


def factorize(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """The number of each value of an array of numbers, and the distinct values by number; all NaN are one."""
    if len(values) and values.dtype.kind == "i":
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * len(values):
            numbers, found = _close(values.astype(np.int64) - low if low else values, high - low + 1)
            return numbers, found + low
        if (few := _few(values)) is not None:
            return few
        same = first_equal(values.astype(np.int64, copy=False).view(np.uint64)[:, None])
        found = np.flatnonzero(same == np.arange(len(values)))
        return _places(found, len(values))[same], values[found]
    distinct, first, numbers = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return _places(order, len(order))[numbers], distinct[order]


def paired(numbers: npt.NDArray[np.int64], codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The number of each pair of one of ``numbers``, from 0, and one of ``codes``, from -1; in the order met."""
    return factorize(numbers * (int(codes.max(initial=-1)) + 2) + codes + 1)[0]


def firsts(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each of such numbers is met first."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))


def first_equal(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """For each row of ``words`` (n, k) the first row that is equal: hashed, and compared word for word."""
    hashes = words[:, 0] * _SPREAD
    for place in range(1, words.shape[1]):
        hashes = (hashes ^ (hashes >> _HALF) ^ words[:, place]) * _SPREAD
    rows = np.arange(len(words), dtype=np.int32)
    slots = np.empty(4 << max(4, len(words).bit_length()), np.int32)
    shift = np.uint64(64 - (len(slots).bit_length() - 1))
    found, left = np.empty(len(words), np.int32), words
    while True:
        slot = (hashes >> shift).astype(np.intp)
        # Of rows that are assigned to one slot the last one stays.
        slots[slot[::-1]] = rows[::-1]
        first = slots[slot]
        found[rows] = first
        others = np.flatnonzero((words[first] != left).any(axis=1))
        if not len(others):
            return found
        rows, left = rows[others], left[others]
        hashes = (hashes[others] ^ (hashes[others] >> _HALF)) * _SPREAD


def _close(values: npt.NDArray[Any], size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same for whole numbers from 0 to ``size``, without sorting them."""
    first = np.full(size, -1, np.int64)
    # Of values that are assigned to one place the last one stays.
    first[values[::-1]] = np.arange(len(values))[::-1]
    found = np.flatnonzero(first >= 0)
    found = found[np.argsort(first[found])]
    return _places(found, size)[values], found


def _few(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]] | None:
    """The same where there are only some distinct values; None where there are more."""
    rest = values
    found: list[Any] = []
    while len(rest):
        if len(found) == _FEW:
            return None
        found.append(rest[0])
        rest = rest[rest != rest[0]]
    distinct = np.array(found, values.dtype)
    order = np.argsort(distinct)
    return order[np.searchsorted(distinct[order], values)], distinct


def _places(order: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    places = np.empty(size, np.int64)
    places[order] = np.arange(len(order))
    return places
