"""A trace file as blocks of whole events, so that memory holds a few megabytes of JSON text at a time.

A trace is an array of events, bare or under ``"traceEvents"``, plain or gzipped (told by the magic bytes).  Blocks
end at a *seam*: ``}, {`` followed by the first key of an event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

from npu_advisor.base.messages import say
from npu_advisor.readers.notes import UnreadableFileError
from npu_advisor.readers.packed import Unpacked, head_of
from npu_advisor.readers.trace_seams import BLOCK, LONGEST, MARK, PADDING, Block, Extent, last_seam

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
# What only Kineto writes: keys of its root, categories of its slices, args that it gives every op.
_KINETO = re.compile(
    rb'"(?:deviceProperties|baseTimeNanoseconds|distributedInfo|Record function id|Ev Idx)"\s*:|'
    rb'"cat"\s*:\s*"(?:kernel|cuda_runtime|cuda_driver|gpu_memcpy|gpu_memset|gpu_user_annotation|ac2g|Kernel)"'
)
# Where the events of an object may end.
_BEHIND = re.compile(rb'\}\s*(?:,\s*)?\]\s*(?:,\s*"|\})')


class EventBlocks:
    """Iterate over the blocks of the trace at ``path``.

    After the iteration ``complete`` says whether the array was closed, ``size`` how many bytes there were, ``damaged``
    whether a gzip checksum failed, and ``root`` what an object holds beside its events.  ``position`` is the number of
    bytes of the file read so far, which ``progress`` gets.  Raises UnreadableFileError when this is no trace or unpacks
    without bound.
    """

    def __init__(self, path: Path, progress: Callable[[int], None] | None = None, block: int = BLOCK) -> None:
        self.path, self.progress, self.block = path, progress, block
        self.complete, self.damaged, self.size, self.position = True, False, 0, 0
        self.root: dict[str, Any] = {}
        self._wrapped = False

    def __iter__(self) -> Iterator[Block]:
        try:
            with self.path.open("rb") as raw:
                stream = Unpacked(raw, self.path.stat().st_size)
                yield from self._blocks(stream, raw)
                self.complete = self.complete and not stream.cut
                self.damaged = stream.damaged
        except OSError as error:
            raise UnreadableFileError(say("reason.unreadable", error=error.strerror or error)) from error

    def _blocks(self, stream: Unpacked, raw: IO[bytes]) -> Iterator[Block]:
        buffer, ended = self._head(stream)
        offset = self.size - len(buffer)
        while not ended:
            cut = self._cut(buffer) if len(buffer) >= self.block else None
            if cut:
                yield Block(b"".join((b"[", memoryview(buffer)[: cut.start() + 1], b"]")), offset)
                offset += cut.end() - 1
                buffer = buffer[cut.end() - 1 :]
            self._tell(raw)
            # An event longer than a block doubles the step, so that searching it again stays cheap.
            more, ended = self._read(stream, max(self.block, len(buffer) if not cut else 0))
            buffer += more
            if len(buffer) > LONGEST:
                raise UnreadableFileError(say("reason.endless_event", mib=LONGEST >> 20))
        data = self._closed(buffer)
        self._tell(raw)
        if data:
            yield Block(b"[%b]" % data, offset, cut=not self.complete)

    @property
    def extent(self) -> Extent:
        """How far the file goes."""
        return Extent(self.complete, self.damaged, self.size)

    def _tell(self, raw: IO[bytes]) -> None:
        self.position = raw.tell()
        if self.progress:
            self.progress(self.position)

    def _cut(self, buffer: bytes) -> re.Match[bytes] | None:
        """The last seam between events; what an object holds behind its events may have seams of its own."""
        end = _BEHIND.search(buffer) if self._wrapped else None
        before = last_seam(buffer[: end.start() + 1]) if end else None
        return before or last_seam(buffer)

    def _read(self, stream: Unpacked, size: int) -> tuple[bytes, bool]:
        data = stream.read(size)
        self.size += len(data)
        return data, not data

    def _head(self, stream: Unpacked) -> tuple[bytes, bool]:
        """What follows the bracket that opens the events, as far as read, and whether the file has ended."""
        buffer, ended = self._read(stream, self.block)
        text = buffer.removeprefix(MARK).lstrip(PADDING)
        if not text:
            raise UnreadableFileError(say("reason.empty_file"))
        if text[:1] == b"[":
            return text[1:], ended
        if text[:1] != b"{":
            raise UnreadableFileError(say("reason.not_a_trace"))
        self._wrapped = True
        found = _EVENTS.search(text)
        while not found and not ended and len(text) < LONGEST:
            more, ended = self._read(stream, max(self.block, len(text)))
            text += more
            found = _EVENTS.search(text)
        if not found:
            raise UnreadableFileError(say("reason.not_a_trace"))
        self._note_root(text[: found.start()] + b'"_":0}')
        return text[found.end() :], ended

    def _closed(self, buffer: bytes) -> bytes:
        """The last events without the end of the file's own brackets; notes when those are missing."""
        data = buffer.rstrip(PADDING)
        end = _array_end(data) if self._wrapped else len(data) - 1 if data.endswith(b"]") else -1
        if end < 0:
            self.complete = False
        else:
            if self._wrapped:
                self._note_root(b'{"_":0' + data[end + 1 :])
            data = data[:end]
        return data.rstrip(PADDING + b",").lstrip(PADDING + b",")

    def _note_root(self, text: bytes) -> None:
        try:
            loaded = json.loads(text)
        except (ValueError, RecursionError):
            return
        self.root.update({key: value for key, value in loaded.items() if key != "_"})


def _array_end(data: bytes) -> int:
    """Position of the ``]`` that closes the events of an object, -1 when the object is cut."""
    if data.startswith(b"]"):
        return 0
    for found in _BEHIND.finditer(data):
        end = data.index(b"]", found.start())
        try:
            json.loads(b'{"_":0' + data[end + 1 :])
        except (ValueError, RecursionError):
            continue
        return end
    return -1


def trace_form(path: Path) -> Literal["trace", "kineto"] | None:
    """What ``path`` begins as: an array of events or an object that names ``traceEvents``, by Kineto or not; or none.

    A Kineto file that gives itself away only later is told when it is read.
    """
    text = head_of(path).removeprefix(MARK).lstrip(PADDING)
    if text[:1] == b"[":
        if not re.match(rb'\[\s*(\]|\{\s*"(?:name|ph|pid|tid|ts|dur|cat|id|args|bp)"\s*:)', text):
            return None
    elif not (text[:1] == b"{" and (_EVENTS.search(text) or b'"deviceProperties"' in text)):
        return None
    return "kineto" if _KINETO.search(text) else "trace"
