"""Growing columns: blocks of rows appended as numpy arrays, texts as codes into a pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.numbering import Numbering
from npu_advisor.base.whole import narrow
from npu_advisor.readers.numbers import NO_ID, Float, Int, from_digits, ns_from_any

Codes = npt.NDArray[np.int32]


class Pool:
    """Distinct texts, numbered in the order met; -1 is "no text", as are those of ``none``."""

    def __init__(self, *none: str) -> None:
        self._numbers = Numbering(dict.fromkeys((None, "", *none), -1))

    def codes(self, values: list[str | None]) -> Codes:
        """The number of each text."""
        return self._numbers.of(values)

    def renumbered(self, codes: Codes, texts: list[str]) -> Codes:
        """``codes`` into a list of other ``texts`` as codes into this pool, which takes in what it lacks."""
        return np.append(self.codes(list[str | None](texts)), np.int32(-1))[codes]

    @property
    def texts(self) -> list[str]:
        """The texts by number."""
        return self._numbers.new

    def categorical(self, codes: Codes, texts: Iterable[str] | None = None) -> Categorical:
        """``codes`` as a column of the texts in use; ``texts`` may replace the pool's (equal ones are merged)."""
        labels = self.texts if texts is None else list(texts)
        used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(labels)))
        places = np.full(len(labels) + 1, -1, np.int32)
        places[used] = np.arange(len(used))
        return Categorical.merged(places[codes], [labels[number] for number in used])


def relabel(values: Categorical, labels: Iterable[str]) -> Categorical:
    """``values`` with ``labels`` in place of its categories; equal labels are merged, "" is missing."""
    return Categorical.merged(values.codes, labels)


class Ids:
    """Ids of any kind as two int64 each: numbers and their texts by value, ``others`` by one that no number has."""

    def __init__(self) -> None:
        self._numbers = Numbering()

    def of(self, given: list[Any]) -> Int:
        """The two numbers of each id, in rows."""
        found = _plain(given)
        return np.array([self._one(key) for key in given], np.int64).reshape(-1, 2) if found is None else found

    def _one(self, key: Any) -> Sequence[int] | Int:
        found = _plain([key])
        return (_OTHERS + self._numbers[key], 0) if found is None else found[0]

    @property
    def others(self) -> list[Any]:
        """Those that are no numbers and no texts of such, by number."""
        return self._numbers.new

    def renumbered(self, numbers: Int, others: list[Any]) -> Int:
        """The first ``numbers`` of ids into a list of ``others`` as those that these ids give."""
        if not others:
            return numbers
        result, theirs = numbers.astype(np.int64), numbers >= _OTHERS
        result[theirs] = _OTHERS + self._numbers.of(others).astype(np.int64)[result[theirs] - _OTHERS]
        return result


def _plain(given: list[Any]) -> Int | None:
    """Ids as two numbers each, where that goes by their values."""
    kinds = {*map(type, given)}
    if kinds == {int} and min(given) > -_TEXTS and max(given) < _TEXTS:
        return np.array([given, [0] * len(given)], np.int64).T
    if kinds != {str}:
        return None
    lengths = np.fromiter(map(len, given), np.int64, len(given))
    digits = _digits([key.zfill(2 * _HALF) for key in given])
    if digits is None or digits.shape[1] > 2 * _HALF or (digits > 9).any() or not lengths.all():
        return None
    if (digits[np.arange(len(given)), -lengths] == 0)[lengths > 1].any():
        # The zero in front makes another text.
        return None
    return np.stack((from_digits(digits[:, _HALF:]) + _TEXTS, from_digits(digits[:, :_HALF])), axis=1)


# Where texts and others begin, and how many digits of a text go into one number.
_TEXTS, _OTHERS, _HALF = 2**61, 2**62, 18


class Rows:
    """Columns of one kind of event, filled block by block, whole numbers in as few bytes as hold them."""

    def __init__(self) -> None:
        self._columns: dict[str, _Growing] = {}

    def extend(self, **columns: npt.NDArray[Any]) -> None:
        """Append one block; every call names the same columns."""
        for name, values in columns.items():
            # Times are reckoned with before a table keeps them.
            kept = values if name == "start_ns" else narrow(values)
            if name not in self._columns:
                self._columns[name] = _Growing(kept.dtype)
            self._columns[name].append(kept)

    def __len__(self) -> int:
        return max((column.length for column in self._columns.values()), default=0)

    def take(self) -> dict[str, npt.NDArray[Any]]:
        """The columns, and empty these rows; nothing when nothing was appended."""
        columns, self._columns = self._columns, {}
        return {name: column.values for name, column in columns.items()}


class _Growing:
    """One array with room behind its end. Many small ones, and a long one made of them, would be twice the memory, and
    leave holes in it."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._room: npt.NDArray[Any] = np.empty(0, dtype)
        self.length = 0

    @property
    def values(self) -> npt.NDArray[Any]:
        return self._room[: self.length]

    def append(self, values: npt.NDArray[Any]) -> None:
        length, dtype = self.length + len(values), np.promote_types(self._room.dtype, values.dtype)
        if length > len(self._room) or dtype != self._room.dtype:
            grown = np.empty(max(length, self.length * 3 // 2), dtype)
            grown[: self.length] = self.values
            self._room = grown
        self._room[self.length : length] = values
        self.length = length


def starts(values: list[Any]) -> Int:
    """``ts`` values (us) as ns, -1 where unreadable."""
    whole = _uniform(values)
    if whole is not None:
        return whole
    try:
        return np.array([int(ts[:-4] + ts[-3:]) if ts[-4:-3] == "." else _start(ts) for ts in values], np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_start(ts) for ts in values], np.int64)


def _uniform(values: list[Any]) -> Int | None:
    """The usual case, every ``ts`` of the form 1736408883704643.212, in one sweep; None for anything else."""
    digits = _digits(values)
    if digits is None or not 5 <= digits.shape[1] <= 20 or (digits[:, -4] != np.uint8(254)).any():  # "." less "0"
        return None
    whole, thousandths = digits[:, :-4], digits[:, -3:]
    if (whole > 9).any() or (thousandths > 9).any() or (digits.shape[1] == 20 and (digits[:, 0] == 9).any()):
        return None
    return from_digits(whole) * 1000 + from_digits(thousandths)


def _digits(values: list[Any]) -> npt.NDArray[np.uint8] | None:
    """The characters of texts of one length (at least, on average), less "0", in rows; None for anything else."""
    try:
        joined = "".join(values).encode("ascii")
    except (TypeError, UnicodeEncodeError):
        return None
    width = len(values[0])
    if not width or len(joined) != width * len(values):
        return None
    return np.frombuffer(joined, np.uint8).reshape(len(values), width) - np.uint8(48)


def _start(ts: Any) -> int:
    value = ns_from_any(ts)
    return -1 if value is None else value


def durations(values: list[Any]) -> Float:
    """``dur`` values (us) as float ns, rounded; NaN where there is none."""
    return to_ns(floats(values))


def to_ns(microseconds: Float) -> Float:
    """Microseconds as ns, rounded."""
    with np.errstate(over="ignore"):
        return np.rint(microseconds * 1000.0)


def floats(values: list[Any]) -> Float:
    """Numbers as float64; NaN where there is none."""
    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_float(value) for value in values], np.float64)


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def ids(values: list[Any], missing: int = -1) -> Int:
    """Whole numbers as int64; ``missing`` where there is none (4294967295 included) or it does not fit."""
    try:
        given = values if None not in values else [missing if value is None else value for value in values]
        numbers = np.fromiter(given, np.int64, len(values))
    except (OverflowError, TypeError, ValueError):
        numbers = np.array([_id(value, missing) for value in values], np.int64)
    numbers[numbers == NO_ID] = missing
    return numbers


def _id(value: Any, missing: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return missing
    return number if -(2**63) <= number < 2**63 else missing
