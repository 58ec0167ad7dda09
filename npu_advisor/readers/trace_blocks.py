"""A trace file as blocks of whole events, so that memory holds a few megabytes of JSON text at a time.

A trace is an array of events, bare or under ``"traceEvents"``, plain or gzipped (told by the magic bytes).  Blocks
end at a *seam*: ``}, {`` followed by the first key of an event.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from npu_advisor.base.errors import ProfileError
from npu_advisor.base.messages import say
from npu_advisor.readers.notes import UnreadableFileError

# Measured: larger blocks leave the processor's cache, smaller ones gain nothing.
BLOCK = 1 << 20
# The keys an event may begin with: a bare "}, {" may also part the members of a list inside one event.
SEAM = re.compile(rb'\}(\s*,\s*)\{(?=\s*"(?:name|ph|pid|tid|ts|dur|cat|id|args|bp)"\s*:)')
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_GPU = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\{')
_PADDING = b"\0 \t\r\n"


@dataclass(frozen=True)
class Block:
    """Comma-separated events as JSON text, and where they begin in the (unzipped) file, in bytes."""

    data: bytes
    offset: int
    last: bool = False


class EventBlocks:
    """Iterate over the blocks of the trace at ``path``.

    After the iteration ``complete`` says whether the array was closed and ``size`` how many bytes there were.
    ``progress`` gets the number of bytes of the file read so far.  Raises UnreadableFileError when this is no trace and
    ProfileError when it is a GPU trace.
    """

    def __init__(self, path: Path, progress: Callable[[int], None] | None = None, block: int = BLOCK) -> None:
        self.path, self.progress, self.block = path, progress, block
        self.complete, self.size = True, 0
        self._wrapped = False

    def __iter__(self) -> Iterator[Block]:
        try:
            with self.path.open("rb") as raw:
                zipped = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
                yield from self._blocks(stream, raw)
        except OSError as error:
            raise UnreadableFileError(say("reason.unreadable", error=error.strerror or error)) from error

    def _blocks(self, stream: IO[bytes], raw: IO[bytes]) -> Iterator[Block]:
        buffer, ended = self._head(stream)
        offset = self.size - len(buffer)
        while not ended:
            cut = _last_seam(buffer) if len(buffer) >= self.block else None
            if cut:
                yield Block(buffer[: cut.start() + 1], offset)
                offset += cut.end() - 1
                buffer = buffer[cut.end() - 1 :]
            if self.progress:
                self.progress(raw.tell())
            # An event longer than a block doubles the step, so that searching it again stays cheap.
            more, ended = self._read(stream, max(self.block, len(buffer) if not cut else 0))
            buffer += more
        data = self._closed(buffer)
        if data:
            yield Block(data, offset, last=True)
        if self.progress:
            self.progress(raw.tell())

    def _read(self, stream: IO[bytes], size: int) -> tuple[bytes, bool]:
        try:
            data = stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.complete = False
            return b"", True
        self.size += len(data)
        return data, not data

    def _head(self, stream: IO[bytes]) -> tuple[bytes, bool]:
        """What follows the bracket that opens the events, as far as read, and whether the file has ended."""
        buffer, ended = self._read(stream, self.block)
        text = buffer.removeprefix(b"\xef\xbb\xbf").lstrip(_PADDING)
        if not text:
            raise UnreadableFileError(say("reason.empty_file"))
        if text[:1] == b"[":
            return text[1:], ended
        if text[:1] != b"{":
            raise UnreadableFileError(say("reason.not_a_trace"))
        self._wrapped = True
        found = _EVENTS.search(text)
        while not found and not ended:
            more, ended = self._read(stream, max(self.block, len(text)))
            text += more
            found = _EVENTS.search(text)
        if not found:
            raise UnreadableFileError(say("reason.not_a_trace"))
        if _GPU.search(text, 0, found.start()):
            raise gpu_trace(self.path)
        return text[found.end() :], ended

    def _closed(self, buffer: bytes) -> bytes:
        """The last events without the end of the file's own brackets; notes when those are missing."""
        data = buffer.rstrip(_PADDING)
        end = _array_end(data) if self._wrapped else len(data) - 1 if data.endswith(b"]") else -1
        if end < 0:
            self.complete = False
        else:
            data = data[:end]
        return data.rstrip(_PADDING + b",").lstrip(_PADDING + b",")


def gpu_trace(path: Path) -> ProfileError:
    """The error for a trace recorded on a GPU."""
    return ProfileError(path, say("error.gpu_trace", path=path), do=say("do.gpu_trace"), code="gpu_trace")


def _last_seam(buffer: bytes) -> re.Match[bytes] | None:
    for reach in (1 << 16, 1 << 20, len(buffer)):
        last = deque(SEAM.finditer(buffer, max(0, len(buffer) - reach)), maxlen=1)
        if last:
            return last[0]
    return None


def _array_end(data: bytes) -> int:
    """Position of the ``]`` that closes the events of an object, -1 when the object is cut."""
    end = len(data)
    for _ in range(64):
        end = data.rfind(b"]", 0, end)
        if end < 0:
            return -1
        try:
            json.loads(b'{"_":0' + data[end + 1 :])
        except ValueError:
            continue
        return end
    return -1


def looks_like_trace(path: Path) -> bool:
    """Whether ``path`` begins as a Chrome trace: an array of objects, or an object that names ``traceEvents``."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
            head = stream.read(1 << 16)
    except (OSError, EOFError, zlib.error):
        return False
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(_PADDING)
    if text[:1] == b"[":
        return bool(re.match(rb'\[\s*(\]|\{\s*"(?:name|ph|pid|tid|ts|dur|cat|id|args|bp)"\s*:)', text))
    return text[:1] == b"{" and (bool(_EVENTS.search(text)) or bool(_GPU.search(text)))
