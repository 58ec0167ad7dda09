"""A table: typed columns that follow the schema, filled once by a reader and then only added to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from npu_advisor.base.aside import Aside
from npu_advisor.base.categorical import Categorical
from npu_advisor.base.whole import narrow, widened
from npu_advisor.model.schema import SCHEMA, Column, TableSpec

if TYPE_CHECKING:
    import pandas as pd


def _missing(column: Column, length: int) -> Any:
    if column.kind == "float":
        return np.full(length, np.nan)
    if column.kind == "bool":
        return np.zeros(length, dtype=bool)
    if column.kind == "text":
        return Categorical(np.full(length, -1, dtype=np.int8), [])
    return np.full(length, column.missing, dtype=np.int64)


def _cast(column: Column, values: Any) -> Any:
    if column.kind == "text":
        return Categorical.of(values)
    array = np.asarray(values)
    if column.kind == "float":
        return array.astype(np.float64, copy=False)
    if column.kind == "bool":
        return array.astype(bool, copy=False)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"column {column.name} holds a value that is not a whole number")
    return narrow(array if array.dtype.kind == "i" else array.astype(np.int64))


class Table:
    """Columns of one schema table, kept as small as their values allow and given out as the schema says.

    ``present`` are the stored columns; asking for any other schema column gives its missing value, so that rules
    and renderers need no special case.  Rows are addressed by position, never by label.
    """

    def __init__(self, spec: TableSpec, columns: dict[str, Any], length: int, rank: int = -1) -> None:
        self.spec, self.length, self.rank = spec, length, rank
        self._columns = columns

    @classmethod
    def build(cls, name: str, columns: Mapping[str, Any], rank: int = -1) -> Table:
        """A table from array-likes of one length; unknown columns and ragged lengths raise ValueError."""
        spec = SCHEMA[name]
        stored: dict[str, Any] = {}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of {name} differ in length: {sorted(lengths)}")
        for key, values in columns.items():
            column = spec.column(key)
            if column is None and not (name == "profile" and key.startswith("env.")):
                raise ValueError(f"table {name} has no column {key}")
            stored[key] = _cast(column or Column(key, "text", ""), values)
        return cls(spec, stored, lengths.pop() if lengths else 0, rank)

    def __len__(self) -> int:
        return self.length

    @property
    def stored(self) -> tuple[str, ...]:
        """Names of the columns that hold data, in the order in which they came, without computed ones."""
        return tuple(self._columns)

    @property
    def present(self) -> frozenset[str]:
        """Names of the columns that hold data, computed ones included."""
        computed = {"rank"} | ({"end_ns", "dur_us"} if "dur_ns" in self._columns else set())
        return frozenset(self._columns) | computed

    def __getitem__(self, name: str) -> Any:
        """The column as a numpy array (text: a Categorical), or its missing values when absent."""
        if name in self._columns:
            values = self._columns[name]
            return widened(values) if isinstance(values, np.ndarray) else values
        if name == "end_ns":
            return self["start_ns"] + self["dur_ns"]
        if name == "dur_us":
            return self["dur_ns"] / 1000.0
        if name == "rank":
            return np.full(self.length, self.rank, dtype=np.int64)
        column = self.spec.column(name)
        if column is None and self.spec.name == "profile" and name.startswith("env."):
            column = Column(name, "text", "")
        if column is None:
            raise KeyError(f"table {self.spec.name} has no column {name}")
        return _missing(column, self.length)

    def at(self, name: str, rows: Any) -> Any:
        """``self[name][rows]`` (positions or a mask), of which only these rows are read."""
        if name not in self._columns:
            if name == "end_ns":
                return self.at("start_ns", rows) + self.at("dur_ns", rows)
            return self.at("dur_ns", rows) / 1000.0 if name == "dur_us" else self[name][rows]
        values = self._columns[name][rows]
        return widened(values) if isinstance(values, np.ndarray) else values

    def with_columns(self, **columns: Any) -> Table:
        """This table and more columns; a column that is already there is replaced."""
        added = Table.build(self.spec.name, columns)
        if columns and len(added) != self.length:
            raise ValueError(f"{self.spec.name} has {self.length} rows, not {len(added)}")
        return Table(self.spec, {**self._columns, **added._columns}, self.length, self.rank)

    def rows(self, positions: Any) -> Table:
        """Only the rows at ``positions``, in that order."""
        columns = {name: values[positions] for name, values in self._columns.items()}
        return Table(self.spec, columns, len(positions), self.rank)

    def text(self, name: str, row: int) -> str | None:
        """One cell of a text column, None where missing."""
        found: str | None = self[name][row]
        return found

    def strings(self, name: str) -> np.ndarray[Any, np.dtype[np.object_]]:
        """A text column as an object array of str, None where missing."""
        return np.asarray(self[name])

    @property
    def frame(self) -> pd.DataFrame:
        """The stored columns, and ``end_ns``/``dur_us`` where they exist, as a DataFrame (a copy); texts are pandas'
        categoricals."""
        import pandas as pd

        names = list(self._columns)
        if "dur_ns" in self._columns:
            names.insert(names.index("dur_ns") + 1, "dur_us")
        columns = {name: self[name] for name in names}
        given = {key: each.to_pandas() if isinstance(each, Categorical) else each for key, each in columns.items()}
        return pd.DataFrame(given, index=pd.RangeIndex(self.length), copy=True)


def put_aside(tables: Iterable[Table], aside: Aside) -> None:
    """Have what the columns of ``tables`` store in ``aside`` instead of in memory; it can only be read from there."""
    columns = [(table._columns, name) for table in tables for name in table._columns]
    stored = aside.put([_array(own[name]) for own, name in columns])
    for (own, name), array in zip(columns, stored, strict=True):
        values = own[name]
        own[name] = values.with_codes(array) if isinstance(values, Categorical) else array


def _array(values: Any) -> Any:
    return values.codes if isinstance(values, Categorical) else values
