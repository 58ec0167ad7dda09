"""The tables of many summaries one below the other, column by column as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.intervals import Ints
from npu_advisor.model.schema import SCHEMA, Column
from npu_advisor.model.table import Table

# How a kind of column is held, and what stands where it has no value; the others are whole numbers.
_STORED: dict[str, tuple[Any, Any]] = {
    "float": (np.float64, np.nan),
    "bool": (np.bool_, False),
    "text": (np.int32, -1),
}


class Gathered:
    """One table of all ranks; batches of summaries are added, and :meth:`table` uses them up."""

    def __init__(self, name: str) -> None:
        self.spec = SCHEMA[name]
        self._columns = {column.name: _Growing(column) for column in self.spec.columns}

    def add(self, batch: Any, rows: Ints) -> None:
        """Take ``rows`` of a pyarrow table of one chunk a column."""
        for name, column in self._columns.items():
            column.add(batch.column(name).chunk(0).take(rows))

    def table(self) -> Table:
        """The rows by rank, within a rank as they were; column by column, so that not all is held twice. Columns that
        no rank has stay absent, so that rules on them are skipped."""
        order = np.argsort(self._columns["rank"].values, kind="stable")
        names = [name for name, column in self._columns.items() if column.known]
        return Table(self.spec, {name: self._columns.pop(name).taken(order) for name in names}, len(order))


class _Growing:
    """A column that is added to: a few large arrays in place of many small ones, whose memory would not come back."""

    def __init__(self, column: Column) -> None:
        self.known = False
        self._kind = column.kind
        kind, self._empty = _STORED.get(column.kind, (np.int64, column.missing))
        self._room: Any = np.empty(0, kind)
        self._numbers: dict[str, int] = {}
        self._length = 0

    @property
    def values(self) -> Any:
        """What was added; of texts their numbers."""
        return self._room[: self._length]

    def add(self, stored: Any) -> None:
        """Append a pyarrow array."""
        until = self._length + len(stored)
        if until > len(self._room):
            room = np.empty(2 * until, self._room.dtype)  # what is not used takes no memory
            room[: self._length] = self.values
            self._room = room
        self._room[self._length : until] = self._empty if stored.null_count == len(stored) else self._read(stored)
        self.known |= stored.null_count < len(stored)
        self._length = until

    def _read(self, stored: Any) -> Any:
        if self._kind == "text":
            return _codes(stored, self._numbers)
        return (stored if self._kind == "float" else stored.fill_null(self._empty)).to_numpy(zero_copy_only=False)

    def taken(self, order: Ints) -> Any:
        """The values in ``order`` as a table keeps them."""
        values = self._room[order]
        if self._kind != "text":
            return values
        return Categorical(values, self._numbers)


def _codes(stored: Any, numbers: dict[str, int]) -> Any:
    """The numbers of texts (-1: none); texts that are new get the next ones."""
    encoded = stored.dictionary_encode()
    known = [numbers.setdefault(text, len(numbers)) for text in encoded.dictionary.to_pylist()]
    return np.array([*known, -1], dtype=np.int32)[encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)]


def rows_of(counts: Sequence[Sequence[int]], place: int) -> Ints:
    """The rows of the ``place``-th table of summaries that lie one below the other, each with one row of its own and
    then ``counts`` of rows for each table."""
    sizes = np.array(counts, dtype=np.int64)
    ends = np.cumsum(sizes.sum(axis=1) + 1)
    first = ends - sizes[:, place:].sum(axis=1)
    number = sizes[:, place]
    found: Ints = np.repeat(first - (np.cumsum(number) - number), number) + np.arange(number.sum())
    return found
