"""Files that may be gzipped, read as a stream of bounded size: what a cut or damaged one still holds is given out."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import IO

from npu_advisor.base.messages import say
from npu_advisor.readers.notes import UnreadableFileError
from npu_advisor.readers.trace_seams import ZIPPED

# Traces shrink some 10 to 60 times; gzip ends at 1030. Beyond both limits a file is a bomb, not a recording.
MAX_RATIO = 200
SUSPICIOUS = 256 << 20
_CHUNK = 1 << 14
_CRUMB = 64


class Unpacked:
    """The bytes of ``raw``, unzipped where they are gzip.

    After the end, ``cut`` says that the last member breaks off or cannot be unpacked further, ``damaged`` that it is
    whole but its checksum does not match. Several members in one file are one stream.
    """

    def __init__(self, raw: IO[bytes], size: int) -> None:
        self.cut, self.damaged = False, False
        self._raw, self._size = raw, max(size, 1)
        self.zipped = raw.read(2) == ZIPPED
        raw.seek(0)
        self._member = zlib.decompressobj(wbits=31)
        self._given, self._ended, self._inside = 0, False, False
        self._ready = bytearray()

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the end. Raises UnreadableFileError for a bomb, OSError as the file."""
        if not self.zipped:
            return self._raw.read(size)
        while len(self._ready) < size and not self._ended:
            self._take()
        data = bytes(memoryview(self._ready)[:size])
        del self._ready[:size]
        self._given += len(data)
        if self._given > max(SUSPICIOUS, MAX_RATIO * self._size):
            raise UnreadableFileError(say("reason.bomb", mib=self._given >> 20, ratio=self._given // self._size))
        return data

    def _take(self) -> None:
        packed = self._raw.read(_CHUNK)
        if not packed:
            self._ended, self.cut = True, self.cut or self._inside
        while packed and not self._ended:
            packed = self._feed(packed)

    def _feed(self, packed: bytes) -> bytes:
        """Unpack ``packed``; what follows the end of a member is given back."""
        before = self._member.copy()
        self._inside = True
        try:
            self._ready += self._member.decompress(packed)
        except zlib.error:
            self._salvage(before, packed)
            return b""
        if not self._member.eof:
            return b""
        rest, self._inside = self._member.unused_data, False
        self._member = zlib.decompressobj(wbits=31)
        if rest[:2] != ZIPPED[: len(rest[:2])]:
            # Padding or other bytes behind the last member, which gzip itself ignores.
            self._ended = True
        return rest

    def _salvage(self, member: zlib._Decompress, packed: bytes) -> None:
        """Everything before the fault; a fault in the last bytes, after all data, is that of the checksum."""
        self._ended = True
        try:
            for at in range(0, len(packed), _CRUMB):
                self._ready += member.decompress(packed[at : at + _CRUMB])
        except zlib.error as error:
            self.damaged = "incorrect data check" in str(error) or "incorrect length check" in str(error)
            self.cut = not self.damaged


def head_of(path: Path, size: int = 1 << 16) -> bytes:
    """The first ``size`` bytes of a file, unzipped; empty where it cannot be opened."""
    try:
        with path.open("rb") as raw:
            return Unpacked(raw, path.stat().st_size).read(size)
    except (OSError, UnreadableFileError):
        return b""
