"""Events of one kind, asked column by column: what the tables want to know of them, whoever decoded them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npu_advisor.readers.columns import Codes, Pool, floats, ids, starts
from npu_advisor.readers.numbers import Bool, Float, Int
from npu_advisor.readers.trace_decode import Args, Event

if TYPE_CHECKING:
    from npu_advisor.readers.trace_events import Tracks

_NO_ARGS = Args()
# The interpreter looks a name up faster that stands in its code.
_READ: dict[str, Callable[[list[Any]], list[Any]]] = {
    field: eval(f"lambda structs: [each.{field} for each in structs]")
    for field in (*Args.__struct_fields__, *Event.__struct_fields__)
}


class Batch(Protocol):
    """Events in the order of the file; a field is named as in ``Event``, else as in ``Args``."""

    def __len__(self) -> int: ...

    def codes(self, field: str, pool: Pool) -> Codes:
        """Texts as codes into ``pool``, which takes in what it lacks."""

    def tests(self, field: str, test: Callable[[str], bool]) -> Bool:
        """What ``test`` says of each text; a missing one is empty."""

    def equal(self, field: str, text: str) -> Bool:
        """Which texts are that."""

    def given(self, field: str) -> Bool:
        """Which events have the field."""

    def ids(self, field: str, missing: int = -1) -> Int:
        """Whole numbers; ``missing`` where there is none."""

    def floats(self, field: str) -> Float:
        """Numbers; NaN where there is none."""

    def starts(self) -> Int:
        """``ts`` in ns, -1 where unreadable."""

    def values(self, field: str) -> list[Any]:
        """Values, whole or text."""

    def lanes(self, tracks: Tracks) -> Int:
        """The lane of each event."""


class Decoded:
    """The batch of some decoded events."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    @cached_property
    def _args(self) -> list[Args]:
        return [event.args or _NO_ARGS for event in self._events]

    def values(self, field: str) -> list[Any]:
        """As in ``Batch``."""
        return _READ[field](self._events if field in Event.__struct_fields__ else self._args)

    def codes(self, field: str, pool: Pool) -> Codes:
        """As in ``Batch``."""
        return pool.codes(self.values(field))

    def tests(self, field: str, test: Callable[[str], bool]) -> Bool:
        """As in ``Batch``."""
        values = self.values(field)
        told = {value: test(value or "") for value in {*values}}
        return np.fromiter(map(told.__getitem__, values), bool, len(values))

    def equal(self, field: str, text: str) -> Bool:
        """As in ``Batch``."""
        return np.fromiter([value == text for value in self.values(field)], bool, len(self))

    def given(self, field: str) -> Bool:
        """As in ``Batch``."""
        return np.fromiter([value is not None for value in self.values(field)], bool, len(self))

    def ids(self, field: str, missing: int = -1) -> Int:
        """As in ``Batch``."""
        return ids(self.values(field), missing)

    def floats(self, field: str) -> Float:
        """As in ``Batch``."""
        return floats(self.values(field))

    def starts(self) -> Int:
        """As in ``Batch``."""
        return starts(self.values("ts"))

    def lanes(self, tracks: Tracks) -> Int:
        """As in ``Batch``."""
        return tracks.of(self._events)
