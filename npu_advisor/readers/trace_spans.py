"""Scan one span of a plain trace, in any process: with few imports, so that one starts fast."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from npu_advisor.readers.trace_decode import ASCEND, Recovery, decode
from npu_advisor.readers.trace_events import EventSorter, Sorted
from npu_advisor.readers.trace_seams import BLOCK, PADDING, Block, Span, Stretch, last_seam

# Importing numba and loading what it compiled takes as long as decoding half of this.
LARGE = 256 << 20


class Part(NamedTuple):
    """What one span held; ``complete`` is False where the file breaks off in it."""

    events: Sorted
    recovery: Recovery
    complete: bool


@contextmanager
def no_cyclic_gc() -> Iterator[None]:
    """Decoding makes many small objects and no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def part_of(task: Span | Stretch, compiled: bool = True) -> Part:
    """What a stretch of a trace holds; without ``compiled``, numba is left alone. Raises OSError."""
    if isinstance(task, Span):
        return scan(*task, compiled)
    block = task.block
    # How large the whole is shows only as it is unzipped.
    compiled = compiled and compiled_wanted(block.offset + len(block.data))
    data = block.data
    return _scanned(data, 0, len(data), block.offset, last=block.last, complete=task.complete, compiled=compiled)


def scan(path: Path, begin: int, end: int, size: int, compiled: bool = True) -> Part:
    """Decode and sort the events of one span of a file of ``size`` bytes. Raises OSError."""
    with path.open("rb") as file:
        file.seek(begin)
        data = file.read(end - begin)
    low, complete = 0, True
    if begin == 0:
        low = data.index(b"[") + 1
    high = len(data.rstrip(PADDING))
    if end == size:
        complete = data[high - 1 : high] == b"]"
        high -= complete
    compiled = compiled and compiled_wanted(size)
    return _scanned(data, low, high, begin, last=end == size, complete=complete, compiled=compiled)


def _scanned(data: bytes, low: int, high: int, offset: int, *, last: bool, complete: bool, compiled: bool) -> Part:
    """The events of ``data`` between two bytes of it, which begins at ``offset`` of its trace."""
    sorter, recovery = EventSorter(), Recovery()
    if found := _compiled(data, low, high) if compiled else None:
        sorter, recovery.events = found
    else:
        with no_cyclic_gc():
            for block in _blocks(data, low, high, offset, last=last):
                sorter.add(decode(block, complete, recovery, ASCEND))
    return Part(sorter.sorted(), recovery, complete)


def compiled_wanted(size: int) -> bool:
    """Whether compiled code scans a trace of ``size`` bytes or more: as NPU_ADVISOR_SCANNER says, else when large."""
    asked = os.environ.get("NPU_ADVISOR_SCANNER", "")
    return asked == "compiled" or (asked != "python" and size >= LARGE)


def _compiled(data: bytes, low: int, high: int) -> tuple[EventSorter, int] | None:
    from npu_advisor.readers.trace_compiled import sort

    return sort(data, low, high)


def _blocks(data: bytes, low: int, high: int, offset: int, *, last: bool) -> Iterator[Block]:
    while low < high:
        seam = last_seam(data, low, low + BLOCK) if low + BLOCK < high else None
        until = seam.start() + 1 if seam else high
        rest = data[low:until]
        text = rest.lstrip(PADDING + b",")
        text, begin = text.rstrip(PADDING + b","), low + len(rest) - len(text)
        if text:
            yield Block(text, offset + begin, last=last and until == high)
        low = seam.end() - 1 if seam else high
