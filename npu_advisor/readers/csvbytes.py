"""The cells of a plain CSV found among its bytes, a block of rows at a time; what is not plain is refused.

Plain is what a CSV writer makes: quotes around a cell and doubled inside it, lines that end in LF or CRLF.  Lines may
be blank or have too few or too many cells.  Whatever it takes the state of a parser to read is left to ``csv``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_advisor.base.categorical import objects

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]

_COMMA, _QUOTE, _LF, _CR = b',"\n\r'
# Bytes in a block: rows enough for numpy to pay, few enough to stay in the processor's cache.
_SIZE = 1 << 20
# The longest cells that are taken as bytes of one width; a multiple of the eight that are masked and hashed at a time.
WIDEST = 128


class NotPlainError(Exception):
    """The file, or this stretch of it, needs a parser."""


class Block:
    """Rows of ``width`` cells: where each cell ends, and where its line begins."""

    def __init__(self, raw: Bytes, begins: Places, ends: npt.NDArray[Any]) -> None:
        self._raw, self._begins, self._ends = raw, begins, ends

    def __len__(self) -> int:
        return len(self._begins)

    def cells(self, place: int) -> npt.NDArray[Any]:
        """The cells of a column as they are written, quotes and all: ``S`` of a multiple of 8, or bytes objects where
        one is longer than ``WIDEST``.
        """
        begin = self._ends[:, place - 1] + 1 if place else self._begins
        length = np.maximum(self._ends[:, place] - begin, 0)
        longest = int(length.max(initial=0))
        if longest > WIDEST:
            pairs = zip(begin.tolist(), (begin + length).tolist(), strict=True)
            return objects([self._raw[low:high].tobytes() for low, high in pairs])
        width = width_of(longest)
        # One look-up for all bytes of a cell, from windows that overlap; what lies behind its end is masked.
        windows: npt.NDArray[Any] = np.ndarray((len(self._raw) - width + 1,), f"V{width}", self._raw.data, strides=(1,))
        words = windows[begin].view(np.uint64)
        words &= _masks(width)[length].view(np.uint64)
        cells: npt.NDArray[Any] = words.view(f"S{width}")
        return cells


def width_of(longest: int) -> int:
    """The bytes that cells of up to ``longest`` are given: whole words of eight, one at least."""
    return max(8, -(-longest // 8) * 8)


def unquoted(cell: bytes) -> bytes:
    """What a cell says that is written so."""
    return cell[1:-1].replace(b'""', b'"') if cell.startswith(b'"') else cell


@cache
def _masks(width: int) -> npt.NDArray[Any]:
    """For each length up to ``width`` as many bytes of ones, then zeros."""
    masks = np.tri(width + 1, width, -1, dtype=np.uint8) * np.uint8(255)
    return masks.view(f"V{width}").reshape(-1)


def blocks(file: io.RawIOBase, width: int) -> Iterator[Block]:
    """The rows of ``file`` from where it stands, blank lines left out; a row that lacks cells has blank ones, and of
    one that has more the first ``width`` count.  A block is valid until the next.

    Raises NotPlainError, maybe after some blocks.
    """
    room, filled = np.zeros(_SIZE + WIDEST, np.uint8), 0
    while read := file.readinto(room[filled:_SIZE].data):
        filled += read
        block, used = _rows(room, filled, width)
        if block is not None:
            yield block
        filled -= used
        room[:filled] = room[used : used + filled].copy()
    if filled:
        raise NotPlainError  # no line end after the last row, or a row that is longer than any should be


def _rows(room: Bytes, filled: int, width: int) -> tuple[Block | None, int]:
    """The whole rows at the beginning of ``room``, and how many bytes they are."""
    raw = room[:filled]
    returns = _returns(raw)
    at = np.flatnonzero((raw == _COMMA) | (raw == _LF) | (raw == _QUOTE))
    kind = raw[at]
    quotes = kind == _QUOTE
    if quotes.any():
        _check(raw, at[quotes])
        outside = ~quotes & (np.add.accumulate(quotes, dtype=np.uint8) & 1 == 0)
        at, kind = at[outside], kind[outside]
    lines = np.flatnonzero(kind == _LF)
    if not len(lines):
        return None, 0
    last = int(at[lines[-1]])
    begins = np.append(0, at[lines[:-1]] + 1)
    first = np.append(0, lines[:-1] + 1)
    if width > 1 and (lines - first == width - 1).all():
        ends = at[: lines[-1] + 1].reshape(-1, width)
    else:
        kept = lines > first
        for row in np.flatnonzero(~kept):
            line = raw[begins[row] : at[lines[row]]].tobytes().removesuffix(b"\r")
            kept[row] = unquoted(line).strip() != b""
        first, lines, begins = first[kept], lines[kept], begins[kept]
        # A cell that a row lacks ends where the line does, before it begins.
        ends = at[np.minimum(first[:, None] + np.arange(width), lines[:, None])]
    if returns:
        ends = ends - ((raw[ends] == _LF) & (raw[ends - 1] == _CR) & (ends > 0))
    return Block(room, begins, ends), last + 1


def _returns(raw: Bytes) -> bool:
    """Whether there are carriage returns, all of them before line feeds. Raises NotPlainError."""
    if not raw.min():
        raise NotPlainError
    at = np.flatnonzero(raw[:-1] == _CR)
    if (raw[at + 1] != _LF).any():
        raise NotPlainError
    return bool(len(at))


def _check(raw: Bytes, quotes: Places) -> None:
    """Refuse quotes (every second one closes) that do not stand at the ends of a cell. Raises NotPlainError."""
    opening, closing = quotes[::2], quotes[1::2]
    before = raw[opening - 1]
    opens = (before == _COMMA) | (before == _LF) | (before == _QUOTE) | (opening == 0)
    closing = closing[closing < len(raw) - 1]
    after = raw[closing + 1]
    closes = (after == _COMMA) | (after == _LF) | (after == _QUOTE) | (after == _CR)
    if not (opens.all() and closes.all()):
        raise NotPlainError
