"""Where a trace may be cut: between the end of one event and the first key of the next."""

from __future__ import annotations

import itertools
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

# The keys an event may begin with: a bare "}, {" may also part the members of a list inside one event.
SEAM = re.compile(rb'\}(\s*,\s*)\{(?=\s*"(?:name|ph|pid|tid|ts|dur|cat|id|args|bp)"\s*:)')
PADDING = b"\0 \t\r\n"
ZIPPED = b"\x1f\x8b"
MARK = b"\xef\xbb\xbf"
# Measured: larger blocks leave the processor's cache, smaller ones gain nothing.
BLOCK = 1 << 20
# The longest event, and the longest text before the first, that a block may have to hold at once.
LONGEST = 64 << 20
# Spans are small enough for all processes to end together, and to be held by them beside a trace that is not large;
# and large enough for joining them to cost little.
SPAN, SHORTEST, MANY = 8 << 20, 2 << 20, 32
# How many spans at the end are cut into so many each.
LAST = 4


@dataclass(frozen=True)
class Block:
    """An array of events as JSON text, where its first event begins in the (unzipped) file, in bytes, and whether the
    file breaks off in the last one."""

    text: bytes | memoryview
    offset: int
    cut: bool = False


class Extent(NamedTuple):
    """Whether the array of events was closed, whether a gzip checksum failed, and the (unzipped) size in bytes."""

    complete: bool
    damaged: bool
    size: int


class Span(NamedTuple):
    """A stretch of whole events of a plain file of ``size`` bytes."""

    path: Path
    begin: int
    end: int
    size: int

    @property
    def weight(self) -> int:
        """Bytes of the file."""
        return self.end - self.begin


class Turn(NamedTuple):
    """The stretch with this ``number`` of a file that has to be read from its beginning, a zipped one say, in stretches
    of whole events of about ``block`` bytes of text."""

    path: Path
    block: int
    number: int


def last_seam(buffer: bytes | bytearray, start: int = 0, end: int | None = None) -> re.Match[bytes] | None:
    """The last seam of ``buffer`` from ``start`` to ``end``."""
    end = len(buffer) if end is None else end
    for reach in (1 << 13, 1 << 17, end - start):
        last = deque(SEAM.finditer(buffer, max(start, end - reach), end), maxlen=1)
        if last:
            return last[0]
    return None


def spans_of(path: Path, span: int = SPAN) -> list[tuple[int, int]]:
    """The (begin, end) of stretches of whole events of about ``span`` bytes at most; none where there is no bare array.

    Raises OSError.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(1 << 16).removeprefix(MARK).lstrip(PADDING)[:1] != b"[":
            return []
        cuts, span = [0], min(span, max(SHORTEST, size // MANY))
        # The last ones are short: whoever scans one of them, nobody waits long for it.
        long = max(0, size // span - LAST)
        short = range(long * span + span // LAST, size - span // (2 * LAST), span // LAST)
        for target in (*range(span, long * span + 1, span), *short):
            if target > cuts[-1] and (cut := _seam_behind(file, target)):
                cuts.append(cut)
    cuts.append(size)
    spans = list(itertools.pairwise(cuts))
    return spans if all(end - begin <= LONGEST for begin, end in spans) else []


def is_zipped(path: Path) -> bool:
    """Whether a file is gzip, by its first bytes. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(ZIPPED)) == ZIPPED


def _seam_behind(file: IO[bytes], target: int) -> int | None:
    """Where the first event behind ``target`` begins; None when that is not near."""
    for reach in (1 << 16, BLOCK):
        file.seek(target)
        found = SEAM.search(file.read(reach))
        if found:
            return target + found.end() - 1
    return None
