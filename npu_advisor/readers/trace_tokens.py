"""Where the values of events lie in JSON text: loops over bytes, compiled when first called and kept on disk.

Only the plain grammar of the writers is read; anything else is refused, never guessed.  Positions are unsigned, which
spares a test for negative ones; no value ends at 0, so that this says "refused".  Importing this needs numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Position = np.uintp
Function = TypeVar("Function", bound=Callable[..., Any])

# Its own types, where it is installed, say less than it does.
runtime: Any = numba
if runtime.config.DISABLE_JIT:
    raise ImportError("numba is told not to compile")
COMPILER = f"numba {runtime.__version__}"
compiled: Callable[[Function], Function] = runtime.njit(cache=True, nogil=True)

REFUSED, ONE, TWO, FIVE = np.uintp(0), np.uintp(1), np.uintp(2), np.uintp(5)
# Kinds of values, as bits.
ABSENT, TEXT, WHOLE, DECIMAL = 0, 1, 2, 4
# Digits that an int64 holds, and those of a number that is no overflow as a float64.
MOST, MOST_OF_FLOAT = 19, 300
# In place of the number of decimals: the float64 that is nearest is not found by dividing.
INEXACT = -1
NOBODY = -1
EXACT = 2**53
SLOTS = 128
QUOTE, BACKSLASH, OPEN, CLOSE, COMMA, COLON, MINUS, DOT, ZERO, NINE, SPACE = b'"\\{},:-.09 '
U, SEVEN, D = b"u7d"


def _among(characters: bytes) -> Array:
    return np.isin(np.arange(256), list(characters))


BLANK, ESCAPED, HEXADECIMAL = _among(b" \t\n\r"), _among(b'"\\/bfnrt'), _among(b"0123456789abcdefABCDEF")
# What a text may hold as it is.
PLAIN = ~_among(bytes(range(32)) + b'"\\')


@compiled
def _skip_blanks(text: Array, at: Position) -> Position:
    while text[at] <= SPACE and BLANK[text[at]]:
        at += ONE
    return at


@compiled
def _text_end(text: Array, at: Position, escapes: bool) -> Position:
    """Where the closing quote of the text that begins at ``at`` is."""
    end = np.uintp(len(text))
    while at < end:
        if PLAIN[text[at]]:
            at += ONE
        elif text[at] == QUOTE:
            return at
        elif escapes and text[at] == BACKSLASH and _is_escape(text, at + ONE):
            at += TWO
        else:
            return REFUSED
    return REFUSED


@compiled
def _is_escape(text: Array, at: Position) -> bool:
    """Whether a backslash may stand before ``at``."""
    if text[at] != U:
        return bool(ESCAPED[text[at]])
    for digit in range(ONE, FIVE):
        if at + digit >= np.uintp(len(text)) or not HEXADECIMAL[text[at + digit]]:
            return False
    # Halves of a pair belong together: somebody else joins them.
    return not (text[at + ONE] | SPACE == D and text[at + TWO] > SEVEN)


@compiled
def _digits_end(text: Array, begin: Position) -> Position:
    at = begin
    while ZERO <= text[at] <= NINE:
        at += ONE
    return at if at > begin else REFUSED


@compiled
def _number_end(text: Array, begin: Position) -> tuple[Position, int]:
    """Where the number at ``begin`` ends, and of which kind it is."""
    first = begin + ONE if text[begin] == MINUS else begin
    at, kind, most = _digits_end(text, first), WHOLE, MOST
    if at == REFUSED or (text[first] == ZERO and at > first + ONE):
        return REFUSED, kind
    if text[at] == DOT:
        at, kind, most = _digits_end(text, at + ONE), DECIMAL, MOST_OF_FLOAT
    return (at if at <= first + np.uintp(most) else REFUSED), kind


@compiled
def _field(text: Array, begin: Position, end: Position, depth: int, slots: Array, names: Array) -> int:
    """The number of the field with this key; negative for one that nobody wants."""
    length = end - begin
    place = key_slot(length, np.uintp(text[begin]), np.uintp(text[end - ONE]))
    while slots[depth, place] >= 0:
        field = slots[depth, place]
        if names[field, 0] == length:
            position = ONE
            while position <= length and names[field, position] == text[begin + position - ONE]:
                position += ONE
            if position > length:
                return int(field)
        place = (place + ONE) % np.uintp(SLOTS)
    return NOBODY


@compiled
def key_slot(length: Position, first: Position, last: Position) -> Position:
    """Where to look for a key."""
    return (length + np.uintp(7) * first + np.uintp(13) * last) % np.uintp(SLOTS)


@compiled
def tokenize(
    text: Array, slots: Array, names: Array, allowed: Array, args: int, begins: Array, ends: Array, kinds: Array
) -> int:
    """Fill in, for all events of ``text``, where the value of each field begins and ends and of which kind it is.

    ``slots[depth]`` are the keys of an event and of its args, ``names`` their lengths and bytes, ``allowed`` the kinds
    each may have, ``args`` is the field with the others; the row behind the last field is for whole events.  Returns
    the number of events, 0 when they are refused.  The last byte of ``text`` has to be a brace.
    """
    # One function: a call that stays a call counts references to its arrays, which takes longer than all the rest.
    at, row, whole, end = np.uintp(0), 0, len(allowed), np.uintp(len(text))
    while row < kinds.shape[1]:
        at = _skip_blanks(text, at)
        if text[at] != OPEN:
            return 0
        begins[whole, row], depth = at, 0
        at = _skip_blanks(text, at + ONE)
        while True:
            begin = at + ONE
            at = _text_end(text, begin, False) if text[at] == QUOTE else REFUSED
            if at <= begin:
                return 0
            field = _field(text, begin, at, depth, slots, names)
            at = _skip_blanks(text, at + ONE)
            if text[at] != COLON:
                return 0
            begin = _skip_blanks(text, at + ONE)
            if text[begin] == OPEN:
                if field != args or kinds[args, row] != ABSENT:
                    return 0
                kinds[args, row], depth = TEXT, 1
                at = _skip_blanks(text, begin + ONE)
                if text[at] != CLOSE:
                    continue
            else:
                if text[begin] == QUOTE:
                    begin, kind = begin + ONE, TEXT
                    stop = _text_end(text, begin, True)
                    at = stop + ONE
                else:
                    stop, kind = _number_end(text, begin)
                    at = stop
                if stop == REFUSED or (field >= 0 and not allowed[field] & kind):
                    return 0
                if field >= 0:
                    begins[field, row], ends[field, row], kinds[field, row] = begin, stop, kind
            at = _skip_blanks(text, at)
            if depth == 1 and text[at] == CLOSE and at + ONE < end:
                depth = 0
                at = _skip_blanks(text, at + ONE)
            if text[at] != COMMA:
                break
            at = _skip_blanks(text, at + ONE)
        if depth == 1 or text[at] != CLOSE:
            return 0
        at += ONE
        ends[whole, row] = at
        row += 1
        if at == end:
            return row
        at = _skip_blanks(text, at)
        if text[at] != COMMA:
            return 0
        at += ONE
    return 0


@compiled
def factorize(
    text: Array,
    rows: Array,
    begins: Array,
    ends: Array,
    kinds: Array,
    weights: Array,
    slots: Array,
    codes: Array,
    firsts: Array,
) -> int:
    """Number the distinct values of one field in ``rows``, in the order met; -1 for an absent one.

    ``firsts`` gets the row of each, ``slots`` is an open-addressed table, empty at first.  Returns how many there are.
    """
    count, code, mask = 0, 0, len(slots) - 1
    for number in range(len(rows)):
        row = rows[number]
        if kinds[row] == ABSENT:
            codes[number] = -1
            continue
        begin, length, place = np.uintp(begins[row]), np.uintp(ends[row] - begins[row]), -1
        while True:
            # Values come in runs: the first guess is the one before.
            if code < count:
                other = np.uintp(begins[firsts[code]])
                differ = np.uint8(np.uintp(ends[firsts[code]]) - other != length)
                if not differ:
                    for position in range(length):
                        differ |= text[begin + position] ^ text[other + position]
                if not differ:
                    break
            if place < 0:
                mixed = np.uint32(length)
                for position in range(min(length, np.uintp(len(weights)))):
                    mixed = np.uint32(mixed + weights[position] * np.uint32(text[begin + position]))
                place = int(mixed ^ (mixed >> np.uint32(15))) & mask
            else:
                place = (place + 1) & mask
            code = slots[place]
            if code < 0:
                code = slots[place] = count
                firsts[count] = row
                count += 1
                break
        codes[number] = code
    return count


@compiled
def parse(
    text: Array,
    rows: Array,
    begins: Array,
    ends: Array,
    kinds: Array,
    allowed: int,
    values: Array,
    decimals: Array,
) -> bool:
    """Decimal numbers of one field in ``rows`` as whole ``values`` and how many of their digits are decimals.

    What is absent stays as it was.  Returns whether all are of the kinds ``allowed`` and fit.
    """
    for number in range(len(rows)):
        row = rows[number]
        if kinds[row] == ABSENT:
            continue
        at, end = np.uintp(begins[row]), np.uintp(ends[row])
        negative = text[at] == MINUS
        if negative:
            at += ONE
        value, digits, places = 0, 0, 0
        dotted = False
        while at < end:
            if ZERO <= text[at] <= NINE:
                value = value * 10 + (text[at] - ZERO)
                digits += 1
                places += dotted
            elif text[at] == DOT and not dotted:
                dotted = True
            else:
                return False
            at += ONE
        overflow = digits > MOST or value < 0
        if kinds[row] == DECIMAL and (overflow or value >= EXACT):
            value, places, overflow = 0, INEXACT, False
        if not allowed & kinds[row] or overflow or digits == 0 or (negative and value == 0 and places >= 0):
            return False
        values[number], decimals[number] = -value if negative else value, places
    return True
