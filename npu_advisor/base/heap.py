"""The memory of this process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# Containers made, less those freed, before the collector looks for cycles.
_SELDOM = 500_000
_ALSO: list[Callable[[], None]] = []


def give_back() -> None:
    """Return freed memory to the system, so that what one stage has let go is there for the next.

    The allocator of glibc keeps freed columns between those that live on: half of what a process holds once a large
    trace is read. Elsewhere only what was told to :func:`also_give_back` goes.
    """
    for give in _ALSO:
        give()
    trim = _trim()
    if trim is not None:
        trim(0)


def also_give_back(give: Callable[[], None]) -> Callable[[], None]:
    """Have ``give`` called whenever memory is given back: there is more to give than what was freed."""
    _ALSO.append(give)
    return give


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Look for garbage in cycles rarely, and not at all in the end.

    One run makes little of it, looking takes a tenth of a short one, and all of it goes with the process.
    """
    before = gc.get_threshold()
    gc.set_threshold(_SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)


@cache
def _trim() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
