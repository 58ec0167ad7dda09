"""Scan one span of a plain trace, in any process: with few imports, so that one starts fast."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO, FileIO
from typing import TYPE_CHECKING, NamedTuple

from npu_advisor.readers.trace_decode import ASCEND, Recovery, decode
from npu_advisor.readers.trace_events import EventSorter, Sorted
from npu_advisor.readers.trace_seams import BLOCK, PADDING, Block, Extent, Span, Turn, last_seam

if TYPE_CHECKING:
    from npu_advisor.readers.trace_blocks import EventBlocks

# Importing numba and loading what it compiled takes as long as decoding half of this.
LARGE = 256 << 20
_BETWEEN = re.compile(rb"[,%b]*" % re.escape(PADDING))


class Part(NamedTuple):
    """What one stretch held; ``complete`` is False where the file breaks off in it, ``weight`` are its bytes of the
    file."""

    events: Sorted
    recovery: Recovery
    complete: bool
    weight: int


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


def part_of(task: Span | Turn, reading: Reading, compiled: bool = True) -> Part | None:
    """What a stretch of a trace holds, None for one behind its end; without ``compiled``, numba is left alone.

    Raises OSError, and UnreadableFileError when it is no trace.
    """
    if isinstance(task, Span):
        with task.path.open("rb", buffering=0) as file:
            file.seek(task.begin)
            first, last = task.begin == 0, task.end == task.size
            text = _Text(file, task.begin, task.weight, first=first, last=last)
            return _scanned(text, task.weight, compiled and compiled_wanted(task.size))
    block, weight = reading.stretch(task)
    if block is None:
        return None
    text = _Text(BytesIO(block.text), block.offset - 1, len(block.text), first=True, last=True, cut=block.cut)
    # How large the whole is shows only as it is unzipped.
    return _scanned(text, weight, compiled and compiled_wanted(block.offset + len(block.text)))


class Reading:
    """How far this process has read a file that has to be read from its beginning.

    Every process reads all of it: unzipping costs less than sending text from one to the other.
    """

    def __init__(self) -> None:
        self._blocks: EventBlocks | None = None
        self._each: Iterator[Block] = iter(())
        self._next = 0

    def stretch(self, turn: Turn) -> tuple[Block | None, int]:
        """A stretch, None behind the end, and how many bytes of the file it took.

        Raises UnreadableFileError when the file is no trace.
        """
        blocks, block, before = self._begun(turn, turn.number < self._next), None, 0
        while self._next <= turn.number:
            before = blocks.position
            if (block := next(self._each, None)) is None:
                break
            self._next += 1
        return block, blocks.position - before

    def extent(self, turn: Turn) -> Extent:
        """How far the file of ``turn`` goes. Raises UnreadableFileError when it is no trace."""
        blocks = self._begun(turn, False)
        for _ in self._each:
            self._next += 1
        return blocks.extent

    def _begun(self, turn: Turn, again: bool) -> EventBlocks:
        from npu_advisor.readers.trace_blocks import EventBlocks

        if self._blocks is None or again:
            self._blocks, self._next = EventBlocks(turn.path, block=turn.block), 0
            self._each = iter(self._blocks)
        return self._blocks


def _scanned(text: _Text, weight: int, compiled: bool) -> Part:
    sorter, recovery = EventSorter(), Recovery()
    if found := _compiled(text) if compiled else None:
        sorter, recovery.events = found
    else:
        with no_cyclic_gc():
            for block in text.blocks():
                sorter.add(decode(block, recovery, ASCEND))
    return Part(sorter.sorted(), recovery, text.complete, weight)


def compiled_wanted(size: int) -> bool:
    """Whether compiled code scans a trace of ``size`` bytes or more: as NPU_ADVISOR_SCANNER says, else when large."""
    asked = os.environ.get("NPU_ADVISOR_SCANNER", "")
    return asked == "compiled" or (asked != "python" and size >= LARGE)


def _compiled(text: _Text) -> tuple[EventSorter, int] | None:
    # Asking first spares what the import and the text would take.
    if find_spec("numba") is None:
        return None
    from npu_advisor.readers.trace_compiled import sort

    return sort(*text.whole())


class _Text:
    """The next ``length`` bytes of ``file``, which lie at ``offset`` of the trace; the ``first`` ones of it begin with
    the bracket that opens the array, the ``last`` ones end with the one that closes it. Once they are read ``complete``
    tells whether that was there. What is ``cut`` was closed by whoever read the file."""

    def __init__(
        self, file: FileIO | BytesIO, offset: int, length: int, *, first: bool, last: bool, cut: bool = False
    ) -> None:
        self._file, self._offset, self._length = file, offset, length
        self._first, self._last, self._cut = first, last, cut
        self.complete = True

    def whole(self) -> tuple[bytes, int, int]:
        """All of it, and where the events lie in that; it can be read again."""
        begin = self._file.tell()
        data = self._file.read(self._length)
        self._file.seek(begin)
        return data, self._low(data) if self._first else 0, self._high(data)

    def blocks(self) -> Iterator[Block]:
        """The events, in one memory that the processor's cache holds: a block is good until the next is asked for."""
        room, place, left = bytearray(BLOCK + 2), self._offset - 1, self._length
        low, filled, first = 1, 1, self._first
        while left:
            got = self._file.readinto(memoryview(room)[filled : min(len(room) - 1, filled + left)])
            # A file that became shorter ends here.
            left, filled = left - got if got else 0, filled + got
            if first:
                low = self._low(room)
            seam = last_seam(room, low, filled) if left else None
            if left and not seam:
                # A block is still out: its memory stays as it is.
                room = room + bytes(len(room)) if filled + 1 == len(room) else room
                continue
            low = _BETWEEN.match(room, low, filled).end()  # type: ignore[union-attr]
            until = seam.start() + 1 if seam else self._high(room[:filled])
            if low < until:
                # Neither place is one of an event.
                room[low - 1], room[until] = b"[]"
                yield Block(memoryview(room)[low - 1 : until + 1], place + low, self._cut or not self.complete)
            if seam:
                rest = room[seam.end() - 1 : filled]
                place += seam.end() - 2
                low, filled, first = 1, 1 + len(rest), False
                room[low:filled] = rest

    def _low(self, data: bytes | bytearray) -> int:
        """Where the array opens."""
        return max(data.find(b"["), 0) + 1

    def _high(self, data: bytes | bytearray) -> int:
        """Where the events of ``data`` end, which is the last of the text."""
        data = data.rstrip(PADDING)
        if self._last:
            self.complete = data.endswith(b"]")
            data = data.removesuffix(b"]")
        return len(data.rstrip(PADDING + b","))
