"""Scan one span of a plain trace, in any process: with few imports, so that one starts fast."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from npu_advisor.readers.trace_decode import ASCEND, Recovery, decode
from npu_advisor.readers.trace_events import EventSorter, Sorted
from npu_advisor.readers.trace_seams import BLOCK, PADDING, Block, Span, Stretch, last_seam


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


def part_of(task: Span | Stretch) -> Part:
    """What a stretch of a trace holds. Raises OSError."""
    if isinstance(task, Span):
        return scan(*task)
    block = task.block
    return _scanned(block.data, 0, len(block.data), block.offset, last=block.last, complete=task.complete)


def scan(path: Path, begin: int, end: int, size: int) -> Part:
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
    return _scanned(data, low, high, begin, last=end == size, complete=complete)


def _scanned(data: bytes, low: int, high: int, offset: int, *, last: bool, complete: bool) -> Part:
    """The events of ``data`` between two bytes of it, which begins at ``offset``."""
    sorter, recovery = EventSorter(), Recovery()
    with no_cyclic_gc():
        for block in _blocks(data, low, high, offset, last=last):
            sorter.add(decode(block, complete, recovery, ASCEND))
    return Part(sorter.sorted(), recovery, complete)


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
