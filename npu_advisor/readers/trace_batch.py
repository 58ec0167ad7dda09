"""Events of one kind, asked column by column: what the tables want to know of them, whoever decoded them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npu_advisor.base.numbering import Numbering
from npu_advisor.readers.columns import Codes, Pool, floats, ids, starts
from npu_advisor.readers.numbers import Bool, Float, Int
from npu_advisor.readers.trace_decode import Args, Event

if TYPE_CHECKING:
    from npu_advisor.readers.trace_events import Tracks

_NO_ARGS = Args()


class Batch(Protocol):
    """Events in the order of the file; a field is named as in ``Event``, else as in ``Args``."""

    def __len__(self) -> int: ...

    def codes(self, field: str, pool: Pool, none: str = "") -> Codes:
        """Texts as codes into ``pool``, which takes in what it lacks; ``none`` stands for no text."""

    def tests(self, field: str, test: Callable[[str], bool]) -> Bool:
        """What ``test`` says of each text; a missing one is empty."""

    def given(self, field: str) -> Bool:
        """Which events have the field."""

    def ids(self, field: str, missing: int = -1) -> Int:
        """Whole numbers; ``missing`` where there is none."""

    def floats(self, field: str) -> Float:
        """Numbers; NaN where there is none."""

    def starts(self) -> Int:
        """``ts`` in ns, -1 where unreadable."""

    def numbers(self, field: str, numbering: Numbering) -> Codes:
        """Values, whole or text, as numbered by ``numbering``."""

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

    def _values(self, field: str) -> list[Any]:
        return [*map(attrgetter(field), self._events if field in Event.__struct_fields__ else self._args)]

    def codes(self, field: str, pool: Pool, none: str = "") -> Codes:
        """As in ``Batch``."""
        values = self._values(field)
        return pool.codes([None if value == none else value for value in values] if none else values)

    def tests(self, field: str, test: Callable[[str], bool]) -> Bool:
        """As in ``Batch``."""
        return np.array([test(value or "") for value in self._values(field)], bool)

    def given(self, field: str) -> Bool:
        """As in ``Batch``."""
        return np.array([value is not None for value in self._values(field)], bool)

    def ids(self, field: str, missing: int = -1) -> Int:
        """As in ``Batch``."""
        return ids(self._values(field), missing)

    def floats(self, field: str) -> Float:
        """As in ``Batch``."""
        return floats(self._values(field))

    def starts(self) -> Int:
        """As in ``Batch``."""
        return starts(self._values("ts"))

    def numbers(self, field: str, numbering: Numbering) -> Codes:
        """As in ``Batch``."""
        return numbering.of(self._values(field))

    def lanes(self, tracks: Tracks) -> Int:
        """As in ``Batch``."""
        return tracks.of(self._events)
