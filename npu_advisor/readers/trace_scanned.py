"""Events of which compiled code has found where every value lies, as columns."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from npu_advisor.readers.columns import Codes, Pool
from npu_advisor.readers.numbers import NO_ID, Bool, Float, Int
from npu_advisor.readers.trace_decode import ASCEND, Args, Event
from npu_advisor.readers.trace_events import Tracks
from npu_advisor.readers.trace_seams import PADDING

_BETWEEN = PADDING + b","
_OF_EVENT, _OF_ARGS = (msgspec.structs.fields(struct) for struct in (Event, Args))
_FIELDS = [*_OF_EVENT, *_OF_ARGS]
# Both have a name; that of the args is only asked of events that are decoded.
_NUMBER_OF = {field.name: number for number, field in reversed([*enumerate(_FIELDS)])}
# All exact.
_POWERS = 10.0 ** np.arange(21)
# Microseconds that are no overflow in ns.
_LATEST = 2**63 // 1000 - 1
# More processes times threads than any program has.
_MOST_PAIRS = 1 << 20
# Of longer texts only these first bytes tell where to look for an equal one.
_HASHED = 1024
# Bytes that an event takes at least, on average.
_SHORTEST = 48
_strings = msgspec.json.Decoder(list[str])


class NotPlainError(Exception):
    """Something is written in a way that only the decoder knows."""


class Grammar:
    """The compiled functions and the fields they look for, taken from ``Event`` and ``Args``."""

    def __init__(self) -> None:
        from npu_advisor.readers import trace_tokens as compiled

        self.compiled, self.compiler = compiled, compiled.COMPILER
        keys = [field.encode_name.encode() for field in _FIELDS]
        self.names = np.array([[len(key), *key.ljust(max(map(len, keys)))] for key in keys], np.uint8)
        self.slots = np.full((2, compiled.SLOTS), -1, np.int8)
        for number, key in enumerate(keys):
            slots = self.slots[int(number >= len(_OF_EVENT))]
            place = int(compiled.key_slot(*map(np.uintp, (len(key), key[0], key[-1]))))
            while slots[place] >= 0:
                place = (place + 1) % compiled.SLOTS
            slots[place] = number
        self.allowed = np.array([self._allowed(field.type) for field in _FIELDS], np.uint8)
        mixed = np.arange(1, _HASHED + 1, dtype=np.uint32) * np.uint32(0x9E3779B1)
        self.weights = (mixed ^ mixed >> np.uint32(15)) * np.uint32(0x85EBCA77)

    def _allowed(self, kind: Any) -> int:
        code, kinds = self.compiled, typing.get_args(kind) or (kind,)
        number = code.DECIMAL | code.WHOLE if float in kinds else code.WHOLE if int in kinds else 0
        return number | (code.TEXT if str in kinds else 0)


class Tokens:
    """Where every value of ``data`` lies from ``low`` to ``high``. Raises NotPlainError."""

    def __init__(self, grammar: Grammar, data: bytes, low: int, high: int) -> None:
        while low < high and data[low] in _BETWEEN:
            low += 1
        while low < high and data[high - 1] in _BETWEEN:
            high -= 1
        if data[high - 1 : high] != b"}":
            raise NotPlainError
        self.grammar, self.data, self.low = grammar, data, low
        self.text = np.frombuffer(data, np.uint8)[low:high]
        shape = len(_FIELDS) + 1, 1 + (high - low) // _SHORTEST
        self.begins, self.ends = np.empty(shape, np.int32), np.empty(shape, np.int32)
        self.kinds = np.zeros(shape, np.uint8)
        code, args = grammar.compiled, _NUMBER_OF["args"]
        self._count = code.tokenize(
            self.text, grammar.slots, grammar.names, grammar.allowed, args, self.begins, self.ends, self.kinds
        )
        if not self._count:
            raise NotPlainError

    def __len__(self) -> int:
        return int(self._count)


class Scanned:
    """The batch of the events in some rows of the tokens; every method may raise NotPlainError."""

    def __init__(self, tokens: Tokens, rows: Int) -> None:
        self.rows, self._tokens, self._code = rows, tokens, tokens.grammar.compiled
        self._distinct: dict[str, tuple[Int, Codes]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: Bool) -> Scanned:
        """Some of them."""
        return Scanned(self._tokens, self.rows[chosen])

    def letters(self, field: str) -> npt.NDArray[np.uint8]:
        """Texts of one letter each."""
        text, rows, begins, ends, _ = self._places(field)
        if not self.given(field).all() or (ends[rows] - begins[rows] != 1).any():
            raise NotPlainError
        letters: npt.NDArray[np.uint8] = text[begins[rows]]
        return letters

    def decoded(self) -> list[Event]:
        """The events themselves."""
        return [*map(ASCEND.one.decode, self._raw(len(_FIELDS), self.rows))]

    def _raw(self, field: int, rows: Int) -> list[bytes]:
        """The bytes of values; texts without their quotes."""
        data, low = self._tokens.data, self._tokens.low
        begins, ends = (places[field][rows] + low for places in (self._tokens.begins, self._tokens.ends))
        return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]

    def _places(self, field: str) -> tuple[Any, ...]:
        tokens, number = self._tokens, _NUMBER_OF[field]
        return tokens.text, self.rows, tokens.begins[number], tokens.ends[number], tokens.kinds[number]

    def _kinds(self, field: str) -> npt.NDArray[np.uint8]:
        kinds: npt.NDArray[np.uint8] = self._tokens.kinds[_NUMBER_OF[field]][self.rows]
        return kinds

    def _factorized(self, field: str) -> tuple[Int, Codes]:
        """The row where each distinct value is first met, and the number of each event's value, -1 for none."""
        if field not in self._distinct:
            rows = len(self.rows)
            codes, firsts = np.empty(rows, np.int32), np.empty(rows, np.int64)
            slots = np.full(1 << (2 * rows + 1).bit_length(), -1, np.int32)
            weights = self._tokens.grammar.weights
            count = self._code.factorize(*self._places(field), weights, slots, codes, firsts)
            self._distinct[field] = firsts[:count], codes
        return self._distinct[field]

    def _texts(self, field: str, rows: Int) -> list[str]:
        raw = self._raw(_NUMBER_OF[field], rows)
        return _strings.decode(b'["' + b'","'.join(raw) + b'"]') if raw else []

    def _values(self, field: str, rows: Int) -> list[Any]:
        """The values in ``rows``, all of them text or all of them whole numbers."""
        kinds = {*np.unique(self._kinds(field)).tolist()}
        if kinds == {self._code.TEXT}:
            return self._texts(field, rows)
        if kinds != {self._code.WHOLE}:
            raise NotPlainError
        values: list[int] = Scanned(self._tokens, rows)._parsed(field, self._code.WHOLE, 0, 0)[0].tolist()
        return values

    def _parsed(self, field: str, allowed: int, missing: int, decimals: int) -> tuple[Int, Int]:
        values, digits = np.full(len(self), missing, np.int64), np.full(len(self), decimals, np.int64)
        if not self._code.parse(*self._places(field), allowed, values, digits):
            raise NotPlainError
        return values, digits

    def codes(self, field: str, pool: Pool) -> Codes:
        """As in ``Batch``."""
        firsts, codes = self._factorized(field)
        return np.append(pool.codes([*self._texts(field, firsts)]), np.int32(-1))[codes]

    def tests(self, field: str, test: Callable[[str], bool]) -> Bool:
        """As in ``Batch``."""
        firsts, codes = self._factorized(field)
        return np.array([*map(test, self._texts(field, firsts)), test("")], bool)[codes]

    def equal(self, field: str, text: str) -> Bool:
        """As in ``Batch``."""
        return self.tests(field, text.__eq__)

    def given(self, field: str) -> Bool:
        """As in ``Batch``."""
        given: Bool = self._kinds(field) != self._code.ABSENT
        return given

    def ids(self, field: str, missing: int = -1) -> Int:
        """As in ``Batch``."""
        values, _ = self._parsed(field, self._code.WHOLE, missing, 0)
        return np.where(values == NO_ID, missing, values)

    def floats(self, field: str) -> Float:
        """As in ``Batch``: the quotient of two exact numbers is the one that is nearest to the decimals."""
        values, decimals = self._parsed(field, self._code.WHOLE | self._code.DECIMAL, 0, 0)
        numbers = np.where(self.given(field), values / _POWERS[decimals], np.nan)
        inexact = np.flatnonzero(decimals == self._code.INEXACT)
        numbers[inexact] = [*map(float, self._raw(_NUMBER_OF[field], self.rows[inexact]))]
        return numbers

    def starts(self) -> Int:
        """As in ``Batch``."""
        values, decimals = self._parsed("ts", self._code.TEXT, -1, 3)
        short = decimals < 3
        if (decimals > 3).any() or (np.abs(values[short]) > _LATEST).any():
            raise NotPlainError
        values[short] *= 10 ** (3 - decimals[short])
        return values

    def values(self, field: str) -> list[Any]:
        """As in ``Batch``."""
        return self._values(field, self.rows)

    def lanes(self, tracks: Tracks) -> Int:
        """As in ``Batch``."""
        (pid_rows, pids), (tid_rows, tids) = self._factorized("pid"), self._factorized("tid")
        pairs = len(pid_rows) * len(tid_rows)
        if pairs > _MOST_PAIRS or not (self.given("pid") & self.given("tid")).all():
            raise NotPlainError
        pair = pids.astype(np.int64) * len(tid_rows) + tids
        # Lanes are numbered in the order met. Of several writes to one place the last stays, that of the first row.
        first = np.full(pairs, len(pair))
        first[pair[::-1]] = np.arange(len(pair))[::-1]
        met = np.argsort(first, kind="stable")[: int((first < len(pair)).sum())]
        by_pid, by_tid = self._values("pid", pid_rows), self._values("tid", tid_rows)
        lanes = np.zeros(pairs, np.int64)
        for place in met:
            process, thread = divmod(int(place), len(tid_rows))
            lanes[place] = tracks[by_pid[process], by_tid[thread]]
        of_each: Int = lanes[pair]
        return of_each
