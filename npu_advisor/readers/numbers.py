"""Text to numbers without loss: microseconds as int64 ns by their digits, plain numbers, and ids.

A time such as ``1736408883704643.212`` has more digits than a float64 holds, so it is never taken through one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

DAY_NS = 86_400 * 10**9
NO_ID = 4294967295
_LARGEST = 2**63 - 1
_LIMIT = np.uint64(_LARGEST)
_WIDTH = 48


def ns_from_text(values: Sequence[Any] | npt.NDArray[Any]) -> tuple[Int, Bool]:
    """Microseconds as decimal text -> int64 ns, and which values could be read (others are 0).

    Blanks and tabs around the number are ignored; more than three decimals are rounded, half to even.  ``N/A``, an
    empty cell and scientific notation (a spreadsheet has rounded it: the digits are gone) are not read.
    """
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, bool)
    chars = characters(_packed(values))
    value, ok = np.zeros(len(chars), np.int64), np.zeros(len(chars), bool)
    for rows, digits, decimals in _plain(chars):
        if decimals <= 3:
            power = 10 ** (3 - decimals)
            ok[rows] = fits = digits <= _LARGEST // power
            value[rows] = np.where(fits, digits, 0) * power
    rest = np.flatnonzero(~ok)
    if len(rest):
        value[rest], ok[rest] = _digits_to_ns(chars[rest])
    return value, ok


def _is_bytes(values: Any) -> TypeGuard[npt.NDArray[np.bytes_]]:
    return isinstance(values, np.ndarray) and values.dtype.kind == "S"


def _packed(values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.bytes_]:
    """Texts as bytes of one width."""
    if _is_bytes(values):
        return values
    text = np.asarray(values, dtype=object)
    if max(map(len, text)) > _WIDTH:
        # Fixed-width text takes the room of its longest cell in every row.
        text = np.array([value.strip()[:_WIDTH] for value in text], dtype=object)
    try:
        return text.astype("S")
    except UnicodeEncodeError:
        return np.array([str(value).encode("ascii", "replace") for value in text])


def characters(texts: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint8]:
    """Texts of one width as rows of characters."""
    texts = np.ascontiguousarray(texts)
    return texts.view(np.uint8).reshape(len(texts), texts.dtype.itemsize)


def from_digits(digits: npt.NDArray[np.uint8]) -> Int:
    """The whole number that each row of digits says, of at most 19 that an int64 holds."""
    number: Int = digits.astype(np.int64) @ 10 ** np.arange(digits.shape[1], dtype=np.int64)[::-1]
    return number


def _plain(chars: npt.NDArray[np.uint8]) -> Iterator[tuple[Int, Int, int]]:
    """The rows of the usual shape, ``digits.ddd`` and blanks, by the place of the dot: (rows, all their digits as one
    whole number, how many of those are decimals).
    """
    columns = np.ascontiguousarray(chars.T)
    lengths = (columns > 32).sum(axis=0, dtype=np.uint8)
    dotted = columns == 46
    dots = np.where(dotted.any(axis=0), dotted.argmax(axis=0), lengths).astype(np.uint16)
    layout = lengths * np.uint16(256) + dots
    for key in np.flatnonzero(np.bincount(layout)):
        length, dot = divmod(int(key), 256)
        places = [*range(dot), *range(dot + 1, length)]
        if not 0 < len(places) <= 19:
            continue
        rows = np.flatnonzero(layout == key)
        digits = (columns if len(rows) == len(chars) else columns[:, rows])[places] - np.uint8(48)
        sound = (digits <= 9).all(axis=0)
        if len(places) == 19:
            sound &= digits[0] < 9  # it may not be an int64
        number = np.zeros(len(rows), np.int64)
        for column in digits:
            number *= 10
            number += column
        yield rows[sound], number[sound], max(0, length - dot - 1)


def _digits_to_ns(chars: npt.NDArray[np.uint8]) -> tuple[Int, Bool]:
    """Any spelling, a column of characters at a time."""
    rows = len(chars)
    value = np.zeros(rows, np.uint64)
    digits, decimals = np.zeros(rows, np.int8), np.zeros(rows, np.int8)
    negative, dotted, ended, bad, beyond, started, seen = (np.zeros(rows, bool) for _ in range(7))
    cut = np.zeros(rows, np.uint8)
    for position in range(chars.shape[1]):
        char = chars[:, position]
        digit = (char >= 48) & (char <= 57)
        blank = (char == 32) | (char == 9) | (char == 13) | (char == 10) | (char == 0)
        dot = char == 46
        sign = ((char == 45) | (char == 43)) & ~started
        bad |= ~(digit | blank | dot | sign) | (dot & dotted) | (ended & ~blank)
        negative |= sign & (char == 45)
        used = digit & (decimals < 3)
        value = np.where(used, value * np.uint64(10) + (char - 48).astype(np.uint64), value)
        digits += used & (value > 0)
        seen |= digit
        cut = np.where(digit & (decimals == 3), char - 48, cut)
        beyond |= digit & (decimals == 4) & (char > 48)
        decimals += digit & dotted & (decimals < 4)
        dotted |= dot
        ended |= blank & started
        started |= ~blank
    places = np.minimum(decimals, 3)
    ok = ~bad & seen & (digits + 3 - places <= 19)
    value = value * np.array([1000, 100, 10, 1], np.uint64)[places]
    ok &= value <= _LIMIT
    half = (cut == 5) & ~beyond
    up = np.where(half, value % np.uint64(2) == 1, cut >= 5) & ok & (value < _LIMIT)
    result = np.where(ok, value, np.uint64(0)).astype(np.int64) + up
    return np.where(negative, -result, result), ok


def ns_from_any(value: object) -> int | None:
    """One trace ``ts`` (text, int or float, in us) as ns; None when it is no time."""
    if isinstance(value, str):
        parsed, ok = ns_from_text([value])
        return int(parsed[0]) if ok[0] else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2**63 / 1000:
        return None
    whole = int(value)
    return whole * 1000 + round((value - whole) * 1000)


def floats(values: Sequence[Any] | npt.NDArray[Any], scale: float = 1.0) -> Float:
    """Text to float64 times ``scale``; what is no finite number, before or after, is NaN."""
    if _is_bytes(values):
        result = _floats(values)
    else:
        result = np.array([*map(_float, np.asarray(values, dtype=object).tolist())], np.float64)
    with np.errstate(over="ignore"):
        result = result * scale
    return np.where(np.isfinite(result), result, np.nan)


def _floats(texts: npt.NDArray[np.bytes_]) -> Float:
    result, rest = np.zeros(len(texts)), np.ones(len(texts), bool)
    for rows, digits, decimals in _plain(characters(texts)):
        # The nearest number to the quotient of two that are exact.
        exact = rows[digits < 2**53]
        result[exact] = digits[digits < 2**53] / 10.0**decimals
        rest[exact] = False
    given = texts[rest].tolist()
    numbers = {text: _float(text.decode("ascii", "replace")) for text in {*given}}
    result[rest] = [numbers[text] for text in given]
    return result


def _float(value: Any) -> float:
    # Python takes 1_000 and the digits of any script, too.
    if isinstance(value, str) and ("_" in value or not value.strip().isascii()):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def integers(values: Sequence[Any] | npt.NDArray[Any], missing: int = -1) -> Int:
    """Text or numbers to int64; blanks, ``N/A``, fractions and 4294967295 (the writer's "none") are ``missing``."""
    numbers = floats(values)
    known = np.isfinite(numbers) & (np.abs(numbers) < 2**53) & (numbers != NO_ID)
    known &= numbers == np.trunc(np.where(known, numbers, 0))
    return np.where(known, np.where(known, numbers, 0).astype(np.int64), missing)


def sound_durations(nanoseconds: Int, ok: Bool) -> tuple[Int, Bool]:
    """Durations with the impossible ones (unread, negative, over a day) set to 0, and which those were."""
    bad = ~ok | (nanoseconds < 0) | (nanoseconds > DAY_NS)
    return np.where(bad, 0, nanoseconds), bad
