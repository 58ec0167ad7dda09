"""The rows that flow through a rule's stages, and the profile rows behind each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from npu_advisor.engine.intervals import union_per_owner
from npu_advisor.engine.values import Array, Value, column_value, concat
from npu_advisor.model.profile import Profile
from npu_advisor.model.schema import SCHEMA, resolve
from npu_advisor.model.table import Table


@dataclass(frozen=True)
class Ragged:
    """A list of row positions for each row: those of row i are ``items[offsets[i]:offsets[i + 1]]``."""

    offsets: Array
    items: Array

    def of(self, row: int) -> Array:
        """The positions of one row."""
        return self.items[self.offsets[row] : self.offsets[row + 1]]

    def take(self, rows: Array) -> Ragged:
        """The lists of ``rows``, in that order."""
        at, offsets = ranges(self.offsets[rows], self.offsets[rows + 1])
        return Ragged(offsets, self.items[at])


def ranges(first: Array, last: Array) -> tuple[Array, Array]:
    """All numbers of the half-open ranges one after the other, and the offsets where each range begins."""
    counts = np.maximum(last - first, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - first, counts)
    return at, offsets


@dataclass(frozen=True)
class Covered:
    """The intervals under each row, as a ``cover`` stage found them: ``offsets`` into clipped starts and ends (ns)."""

    offsets: Array
    start_ns: Array
    end_ns: Array

    def of(self, row: int) -> tuple[Array, Array]:
        """Starts and ends of one row."""
        part = slice(self.offsets[row], self.offsets[row + 1])
        return self.start_ns[part], self.end_ns[part]

    def take(self, rows: Array) -> Covered:
        """The intervals of ``rows``, in that order."""
        at, offsets = ranges(self.offsets[rows], self.offsets[rows + 1])
        return Covered(offsets, self.start_ns[at], self.end_ns[at])

    def united(self, ids: Array, groups: int) -> Covered:
        """The intervals of rows whose group is ``ids`` (0 .. groups-1), united in each group."""
        owner = np.repeat(ids, np.diff(self.offsets))
        owner, start, end = union_per_owner(owner, self.start_ns, self.end_ns)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=groups))]).astype(np.int64)
        return Covered(offsets, start, end)


@dataclass(frozen=True)
class Picked:
    """Of each row one of the ``rows`` it was made from (-1: none), as ``chain`` names them: ``T1``."""

    rows: Rows
    at: Array

    def column(self, path: str) -> Value:
        """A column of the picked rows."""
        return self.rows.column(path).spread(len(self.rows)).take(self.at)


@dataclass(frozen=True)
class Rows:
    """Rows of the stacked ``tables``, or groups of them.

    ``position`` is each row's place in the stack (None once grouped), ``whole`` when these are all places in order;
    ``columns`` were added by stages; ``detail`` are the rows just before the first ``group`` or ``chain`` and
    ``members`` says which of them each row holds.
    """

    profile: Profile
    tables: tuple[str, ...]
    length: int
    position: Array | None
    columns: Mapping[str, Value] = field(default_factory=dict)
    covered: Mapping[str, Covered] = field(default_factory=dict)
    picked: Mapping[str, Picked] = field(default_factory=dict)
    detail: Rows | None = None
    members: Ragged | None = None
    whole: bool = False

    @classmethod
    def start(cls, profile: Profile, tables: tuple[str, ...]) -> Rows:
        """The rows of the tables, stacked in the order given."""
        if not profile.focused:
            return cls._all(profile, tables)
        position = np.flatnonzero(np.concatenate([_in_a_step(profile.table(name)) for name in tables]))
        return cls(profile, tables, len(position), position)

    @classmethod
    def all_of(cls, profile: Profile, table: str) -> Rows:
        """Every row of one table, whatever its step: what keys point into."""
        return cls._all(profile, (table,))

    @classmethod
    def _all(cls, profile: Profile, tables: tuple[str, ...]) -> Rows:
        length = sum(len(profile.table(name)) for name in tables)
        return cls(profile, tables, length, np.arange(length), whole=True)

    def __len__(self) -> int:
        return self.length

    def take(self, rows: Array) -> Rows:
        """Only ``rows`` (positions or a mask), in that order."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return replace(
            self,
            length=len(rows),
            position=None if self.position is None else self.position[rows],
            columns={name: value.take(rows) for name, value in self.columns.items()},
            covered={name: covered.take(rows) for name, covered in self.covered.items()},
            picked={name: replace(picked, at=picked.at[rows]) for name, picked in self.picked.items()},
            members=None if self.members is None else self.members.take(rows),
            whole=False,
        )

    def with_columns(self, columns: Mapping[str, Value]) -> Rows:
        """These rows with columns added or replaced."""
        spread = {name: value.spread(self.length) for name, value in columns.items()}
        return replace(self, columns={**self.columns, **spread})

    def column(self, path: str) -> Value:
        """The values of a column path."""
        if path in self.columns:
            return self.columns[path]
        parts = path.split(".")
        if parts[0] in self.picked:
            return self.picked[parts[0]].column(path.partition(".")[2])
        for size in range(len(parts) - 1, 0, -1):
            name = ".".join(parts[:size])
            if name in self.columns:
                return hop(self.profile, self.columns[name], parts[size:])
        if parts[0] == "profile" and len(parts) > 1:
            return _profile_column(self.profile, path.partition(".")[2])
        if self.position is None:
            raise KeyError(path)
        return self._base(parts)

    def _base(self, parts: list[str]) -> Value:
        assert self.position is not None
        tables = [self.profile.table(name) for name in self.tables]
        position = None if self.whole else self.position
        if len(tables) == 1:
            return _follow(self.profile, tables[0], parts, position)
        lengths = [len(table) for table in tables]
        values, model = [], None
        for name, table in zip(self.tables, tables, strict=True):
            known = resolve(name, ".".join(parts)) is not None
            value = _follow(self.profile, table, parts) if known else None
            model = model or value
            values.append(value)
        assert model is not None
        whole = [
            model.nothing(length) if value is None else value for value, length in zip(values, lengths, strict=True)
        ]
        found = concat(whole)
        return found if position is None else found.take(position)

    def recorded(self, path: str) -> bool:
        """Whether the profile holds this column (of one of the tables, when several are stacked)."""
        if path in self.columns:
            return True
        tables, rest = self.tables, path
        head, _, inner = path.partition(".")
        if head in self.picked:
            return self.picked[head].rows.recorded(inner)
        if path.startswith("profile."):
            tables, rest = ("profile",), path.partition(".")[2]
        for table in tables:
            resolved = resolve(table, rest)
            if resolved is None:
                continue
            keys, last = resolved
            owner = keys[-1].target if keys else table
            if last.name in self.profile.table(owner).present:
                return True
        return False

    def base_members(self, row: int) -> dict[str, Array]:
        """Positions of the profile rows behind one row, by table, ascending."""
        detail = self.detail or self
        assert detail.position is not None
        stacked = np.unique(detail.position[self.detail_rows(row)])
        out, offset = {}, 0
        for name in self.tables:
            size = len(self.profile.table(name))
            here = stacked[(stacked >= offset) & (stacked < offset + size)] - offset
            if len(here):
                out[name] = here
            offset += size
        return out

    def behind(self, offsets: Array, items: Array) -> Ragged:
        """What stands behind lists of these rows: the rows, or, where they stand for others, those."""
        if self.members is None:
            return Ragged(offsets, items)
        inner = self.members.take(items)
        return Ragged(inner.offsets[offsets], inner.items)

    def detail_rows(self, row: int) -> Array:
        """Which rows of ``detail`` (of these rows, when never grouped) one row holds."""
        return np.array([row]) if self.members is None else self.members.of(row)


def _in_a_step(table: Table) -> Array:
    """Which rows a rule looks at when only some steps are asked for: those of some step."""
    if "step" in table.present:
        return np.asarray(table["step"] >= 0)
    return np.ones(len(table), dtype=bool)


def hop(profile: Profile, key: Value, parts: list[str]) -> Value:
    """Follow ``parts`` from a key column."""
    return _follow(profile, profile.table(key.target), parts, key.data)


def _follow(profile: Profile, table: Table, parts: list[str], position: Array | None = None) -> Value:
    """The column at the end of a path, of the rows at ``position`` (-1: missing), or of all rows."""
    for index, part in enumerate(parts[:-1]):
        if SCHEMA[table.spec.name].column(part) is None:
            return column_value(table, ".".join(parts[index:]), position)
        key = column_value(table, part, position)
        table, position = profile.table(key.target), key.data
    return column_value(table, parts[-1], position)


def _profile_column(profile: Profile, name: str) -> Value:
    """A column of the one-row table ``profile`` as a constant."""
    table = profile.table("profile")
    value = column_value(table, name, np.zeros(1, dtype=np.int64))
    missing = None if value.missing is None else value.missing[0]
    return replace(value, data=value.data[0], missing=missing)
