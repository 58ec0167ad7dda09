"""Whole numbers in little room."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_SIZES = tuple(np.iinfo(size) for size in (np.int8, np.int16, np.int32))


def narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers in the fewest bytes that hold them all; other arrays as they are."""
    if values.dtype.kind != "i" or not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    for size in _SIZES:
        if size.min <= low and high <= size.max:
            return values.astype(size.dtype, copy=False)
    return values


def widened(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers as int64, so that reckoning with them cannot overflow; other arrays as they are."""
    return values.astype(np.int64, copy=False) if values.dtype.kind == "i" else values


def few(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The distinct values of small integers from -1 on, in order."""
    return np.flatnonzero(np.bincount(values + 1)) - 1
