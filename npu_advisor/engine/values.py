"""Columns as the rule language sees them: typed, with missing values, text as codes into categories.

``num``   int64 or float64; missing where ``missing`` says so (int) or NaN (float)
``text``  integer codes into ``categories``, missing = -1
``bool``  never missing
``key``   int64 row positions in table ``target``, missing = -1

A constant is a 0-d array and broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from npu_advisor.base.numbering import Numbering, factorize
from npu_advisor.model.profile import Profile
from npu_advisor.model.schema import SCHEMA, Column
from npu_advisor.model.table import Table

Array = npt.NDArray[Any]
Kind = Literal["num", "text", "bool", "key", "list", "any"]


@dataclass(frozen=True)
class Requirement:
    """A column that must be recorded in one of ``tables`` at least; an empty ``column`` asks for the table only."""

    tables: tuple[str, ...]
    column: str = ""


@dataclass(frozen=True)
class Type:
    """The static type of an expression.

    ``target`` is the table of a key; ``item`` the kind inside a list; ``via`` the column path that a source line was
    taken from, so that the way it was found can be told. ``reads`` is what a column made by a stage was made from:
    required only where that column decides something. Kind ``any`` stands for what already failed to check.
    """

    kind: Kind
    unit: str = ""
    target: str = ""
    item: Kind = "any"
    via: str = ""
    reads: frozenset[Requirement] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class Value:
    """The values of one column or expression, one per row (0-d for a constant)."""

    kind: Kind
    data: Array
    categories: Array | None = None
    missing: Array | None = None
    target: str = ""

    def __len__(self) -> int:
        return len(self.data)

    @property
    def is_missing(self) -> Array:
        """Where there is no value."""
        if self.kind in ("text", "key"):
            return np.asarray(self.data < 0)
        if self.kind == "num" and self.data.dtype.kind == "f":
            return np.isnan(self.data)
        return np.zeros(self.data.shape, dtype=bool) if self.missing is None else self.missing

    def take(self, positions: Array) -> Value:
        """Rows at ``positions``; -1 gives a missing value."""
        if len(self.data) == 0:
            return self.nothing(len(positions))
        missing = None if self.missing is None else self.missing[positions]
        taken = Value(self.kind, self.data[positions], self.categories, missing, self.target)
        return _without(taken, positions < 0)

    def nothing(self, length: int) -> Value:
        """``length`` missing values of this kind."""
        if self.kind in ("text", "key"):
            return replace(self, data=np.full(length, -1, dtype=np.int64), missing=None)
        if self.kind == "bool":
            return replace(self, data=np.zeros(length, dtype=bool), missing=None)
        return replace(self, data=np.full(length, np.nan), missing=None)

    def spread(self, length: int) -> Value:
        """A constant repeated ``length`` times; columns as they are."""
        if self.data.ndim:
            return self
        missing = None if self.missing is None else np.broadcast_to(self.missing, (length,)).copy()
        return replace(self, data=np.broadcast_to(self.data, (length,)).copy(), missing=missing)

    def codes(self) -> Array:
        """One int64 per row, equal where the values are equal; -1 where missing. For grouping."""
        if self.kind in ("text", "key"):
            return np.asarray(self.data, dtype=np.int64)
        if self.kind == "bool":
            return self.data.astype(np.int64)
        known = ~self.is_missing
        codes = np.full(len(self.data), -1, dtype=np.int64)
        codes[known] = factorize(self.data[known])[0]
        return codes

    def scalars(self, profile: Profile) -> list[str | int | float | bool | None]:
        """Python scalars for people, None where missing; a key reads as its row's label."""
        if self.kind == "key":
            label = SCHEMA[self.target].label
            if label:
                return column_value(profile.table(self.target), label, self.data).scalars(profile)
        absent = self.is_missing
        if self.kind == "text":
            assert self.categories is not None
            return [None if gone else str(self.categories[code]) for code, gone in zip(self.data, absent, strict=True)]
        return [None if gone else tidy(item) for item, gone in zip(self.data.tolist(), absent, strict=True)]


def _without(value: Value, absent: Array) -> Value:
    """``value``, which nobody else has, missing also where ``absent``."""
    if not absent.any():
        return value
    data = value.data
    if value.kind == "num" and data.dtype.kind != "f":
        return replace(value, missing=absent if value.missing is None else value.missing | absent)
    data[absent] = -1 if value.kind in ("text", "key") else False if value.kind == "bool" else np.nan
    return value


def tidy(item: Any) -> Any:
    """A float without the noise of summing: 12 digits are far more than any clock gives."""
    return float(f"{item:.12g}") if isinstance(item, float) else item


def number(data: Any, missing: Array | None = None) -> Value:
    """A numeric value; infinity becomes missing, bool becomes 0 or 1."""
    array = np.asarray(data)
    if array.dtype.kind == "f":
        if missing is not None:
            array = np.where(missing, np.nan, array)
        endless = np.isinf(array)
        return Value("num", np.where(endless, np.nan, array) if endless.any() else array)
    if missing is not None and not missing.any():
        missing = None
    return Value("num", array.astype(np.int64, copy=False), missing=missing)


def boolean(data: Any) -> Value:
    """A truth value per row."""
    return Value("bool", np.asarray(data, dtype=bool))


def constant(value: str | int | float | bool) -> Value:
    """A literal."""
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, str):
        return Value("text", np.asarray(0), categories=np.array([value], dtype=object))
    return number(value)


def column_type(column: Column) -> Type:
    """The type of a schema column."""
    if column.kind in ("int", "float"):
        return Type("num", column.unit)
    if column.kind == "key":
        return Type("key", target=column.target)
    return Type("text" if column.kind == "text" else "bool")


def column_value(table: Table, name: str, rows: Array | None = None) -> Value:
    """A stored or computed column of ``table``: all of it, or only ``rows`` (positions; -1 gives a missing value)."""
    if rows is None:
        return _as_value(table, name, table[name])
    if not len(table):
        return _as_value(table, name, table[name]).nothing(len(rows))
    return _without(_as_value(table, name, table.at(name, rows)), rows < 0)


def _as_value(table: Table, name: str, data: Any) -> Value:
    column = table.spec.column(name)
    if column is None or column.kind == "text":
        return Value("text", data.codes, categories=data.categories)
    if column.kind == "key":
        return Value("key", data, target=column.target)
    if column.kind == "bool":
        return Value("bool", data)
    if column.kind == "float":
        return number(data)
    # A fill value of 0 (a duration) is as good as any other number.
    return number(data, data == column.missing if column.missing < 0 else None)


def concat(values: Sequence[Value]) -> Value:
    """Values of one kind, one after the other."""
    if len(values) == 1:
        return values[0]
    first = values[0]
    if first.kind == "text":
        numbers = Numbering()
        parts = []
        for value in values:
            assert value.categories is not None
            parts.append(np.append(numbers.of([*value.categories]), -1)[value.data])
        return Value("text", np.concatenate(parts), categories=np.array([*numbers], dtype=object))
    data = np.concatenate([value.data for value in values])
    missing = np.concatenate([value.is_missing for value in values])
    if first.kind == "num":
        return number(data, missing)
    return replace(first, data=data)


def same_text(left: Value, right: Value) -> Array:
    """Where two texts are equal; false where either is missing."""
    assert left.categories is not None and right.categories is not None
    codes = {text: code for code, text in enumerate(left.categories)}
    translated = np.array([*(codes.get(text, -1) for text in right.categories), -1])[right.data]
    return np.asarray((left.data == translated) & (left.data >= 0))
