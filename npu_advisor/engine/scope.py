"""What names mean at one point of a rule, before there is any profile: columns, parameters, lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from npu_advisor.engine.values import Requirement, Type, column_type
from npu_advisor.model.schema import SCHEMA, Column, resolve
from npu_advisor.rules.source import nearest

_DIGITS = "0123456789"


@dataclass
class Reads:
    """Collects what a rule reads; columns that it asks ``has(...)`` about are not required."""

    required: dict[Requirement, None] = field(default_factory=dict)
    guarded: set[tuple[str, str]] = field(default_factory=set)

    def need(self, tables: Iterable[str], column: str = "") -> None:
        """Note a column (or table) that is read."""
        self.required[Requirement(tuple(tables), column)] = None

    def apart(self) -> Reads:
        """For a column of its own: what it reads is required only once the column is used."""
        return Reads(guarded=self.guarded)

    def use(self, found: Type) -> Type:
        """Note that a column made by a stage is used."""
        self.required |= dict.fromkeys(found.reads)
        return found

    def requirements(self) -> tuple[Requirement, ...]:
        """What must be there, tables before their columns."""
        kept = [r for r in self.required if not any((table, r.column) in self.guarded for table in r.tables)]
        return tuple(sorted(kept, key=lambda r: bool(r.column)))


@dataclass(frozen=True)
class StaticScope:
    """The columns of rows at one stage, and the rule's names.

    ``tables`` are the stacked tables whose schema columns are visible, empty once the rows were grouped; ``columns``
    were added by stages and hide schema columns; ``picked`` are the events of a match (``T1``) and what can be read of
    them; ``unique`` are columns of which no two rows have the same values; ``prefix`` is written before each path
    (``under`` names its table).
    """

    tables: tuple[str, ...]
    names: Mapping[str, Any]
    reads: Reads
    columns: Mapping[str, Type] = field(default_factory=dict)
    covers: frozenset[str] = frozenset()
    picked: Mapping[str, StaticScope] = field(default_factory=dict)
    unique: frozenset[str] | None = None
    broken: bool = False
    prefix: str = ""

    def with_columns(self, columns: Mapping[str, Type]) -> StaticScope:
        """This scope with columns added or replaced."""
        unique = None if self.unique is None or self.unique & set(columns) else self.unique
        return replace(self, columns={**self.columns, **columns}, unique=unique)

    @property
    def timed(self) -> bool:
        """Whether rows are intervals (``start_ns`` and ``dur_ns`` can be read)."""
        return self.broken or all(not isinstance(self._own(name), str) for name in ("start_ns", "dur_ns"))

    def known(self) -> list[str]:
        """Every column name that can be written without a dot."""
        schema = [name for table in self.tables for name in SCHEMA[table].names]
        return list(dict.fromkeys([*self.columns, *schema]))

    def lookup(self, path: str, *, required: bool = True) -> Type | str:
        """The type of a column path, or the text of the error; what is read is noted."""
        if self.prefix:
            head, _, path = path.partition(".")
            if head != self.prefix or not path:
                return f"'{self.prefix}.<column>' is needed here"
        if path in self.columns:
            return self.reads.use(self.columns[path])
        head, _, rest = path.partition(".")
        if head in self.picked:
            inner = replace(self.picked[head], reads=self.reads)
            wanted = f"'{head}' is an event; name a column of it, such as {head}.dur_us"
            return inner.lookup(rest, required=required) if rest else wanted
        alike = [name for name in self.picked if name.rstrip(_DIGITS) == head.rstrip(_DIGITS) != head]
        if alike:
            return f"no match has a '{head}', only {_listing(alike)}"
        added = self._longest(path)
        if added:
            return self._hop(added, self.reads.use(self.columns[added]), path[len(added) + 1 :], required)
        if head == "profile" and rest:
            return self._read(("profile",), rest, required)
        if self.broken:
            return Type("any")
        if not self.tables:
            known = _listing(self.columns)
            return f"no column '{head}' here; after 'group' there are only {known}{nearest(head, self.columns)}"
        return self._read(self.tables, path, required)

    def _own(self, name: str) -> Type | str:
        if name in self.columns:
            return self.columns[name]
        known = self.tables and all(SCHEMA[table].column(name) for table in self.tables)
        return Type("num") if known else f"no column '{name}'"

    def _longest(self, path: str) -> str:
        """The longest added column that ``path`` goes on from."""
        parts = path.split(".")
        for size in range(len(parts) - 1, 0, -1):
            if ".".join(parts[:size]) in self.columns:
                return ".".join(parts[:size])
        return ""

    def _hop(self, name: str, found: Type, rest: str, required: bool) -> Type | str:
        if found.kind == "any":
            return found
        if found.kind != "key":
            return f"'{name}' is not a key, '.{rest}' cannot follow it"
        return self._read((found.target,), rest, required, prefix=f"{name}.")

    def _read(self, tables: tuple[str, ...], path: str, required: bool, prefix: str = "") -> Type | str:
        """Resolve ``path`` in stacked tables: those that have it must agree on what it is."""
        found: dict[str, tuple[list[Column], Column]] = {}
        for table in tables:
            resolved = resolve(table, path)
            if resolved is not None:
                found[table] = resolved
        if not found:
            return _no_column(tables, path, [] if prefix else [*self.columns, *self.picked])
        types = {column_type(last) for _, last in found.values()}
        kinds = {(kind.kind, kind.target) for kind in types}
        if len(kinds) > 1:
            return f"'{path}' is not the same kind of column in {_listing(found)}"
        self._note(found, required)
        kind = types.pop()
        return replace(kind, via=prefix + path) if _has_how(found) else kind

    def _note(self, found: Mapping[str, tuple[list[Column], Column]], required: bool) -> None:
        hops: dict[str, None] = {}
        for table, (keys, last) in found.items():
            for key in keys:
                if required:
                    self.reads.need((table,), key.name)
                table = key.target
            if not required:
                self.reads.guarded.add((table, last.name))
            hops[table] = None
        if required:
            self.reads.need(hops, next(iter(found.values()))[1].name)

    def named(self, name: str) -> Type | str:
        """The type of ``$name``: a parameter of the rule or a shared list."""
        if name not in self.names:
            return f"unknown parameter or list '${name}'{_dollar(nearest(name, self.names))}"
        value = self.names[name]
        if isinstance(value, list | tuple):
            items = {"text" if isinstance(item, str) else "num" for item in value}
            if len(items) > 1:
                return f"list '${name}' mixes texts and numbers"
            return Type("list", item="text" if items == {"text"} else "num" if items else "any")
        if isinstance(value, bool):
            return Type("bool")
        return Type("text" if isinstance(value, str) else "num")

    def literal(self, name: str) -> Any:
        """The value of ``$name``, None when there is no such name."""
        return self.names.get(name)


def _has_how(found: Mapping[str, tuple[list[Column], Column]]) -> bool:
    return all(last.name == "source" for _, last in found.values())


def _listing(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _dollar(hint: str) -> str:
    return hint.replace("mean '", "mean '$")


def _no_column(tables: tuple[str, ...], path: str, added: Iterable[str]) -> str:
    """Why ``path`` cannot be followed: which part of it is unknown, in which table."""
    spec, parts = SCHEMA[tables[0]], path.split(".")
    for part in parts[:-1]:
        column = spec.column(part)
        if column is None:
            break
        if column.kind != "key":
            return f"'{part}' of table '{spec.name}' is not a key, '.{parts[parts.index(part) + 1]}' cannot follow it"
        spec = SCHEMA[column.target]
    else:
        part = parts[-1]
    if len(tables) == 1 or spec.name != tables[0]:
        names = [*spec.names, *added] if spec.name == tables[0] else list(spec.names)
        return f"table '{spec.name}' has no column '{part}'{nearest(part, names)}"
    names = [*(name for table in tables for name in SCHEMA[table].names), *added]
    return f"none of the tables {_listing(tables)} has a column '{part}'{nearest(part, names)}"
