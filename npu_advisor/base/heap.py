"""The memory of this process."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any


def give_back() -> None:
    """Return freed memory to the system, so that what one stage has let go is there for the next.

    The allocator of glibc keeps freed columns between those that live on: half of what a process holds once a large
    trace is read. Elsewhere this does nothing.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
