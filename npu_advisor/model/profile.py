"""One rank's profile: its tables, what it knows about itself, and what is missing and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

from npu_advisor.base.aside import Aside
from npu_advisor.base.terms import Text
from npu_advisor.model.schema import SCHEMA
from npu_advisor.model.table import Table, put_aside

if TYPE_CHECKING:
    import pandas as pd

DeviceKind = Literal["npu", "gpu", "cpu"]
Form = Literal["text", "db", "trace", "csv", "msprof", "kineto"]

# The code of the remark that rows are missing from the kernels.
KERNELS_LOST = "kernels_lost"
# They are when they hold less of the computing that the profiler summed up than this.
WHOLE_KERNELS = 0.9


@dataclass(frozen=True)
class Diagnostic:
    """A remark on the quality of the input. ``code`` is stable (``trace_truncated``, ``bad_duration``, ...)."""

    code: str
    severity: Literal["error", "warning", "info"]
    file: str
    message: Text


@dataclass(frozen=True)
class ProfileInfo:
    """What a profile says about itself; None where it does not say. ``rank`` is -1 when unknown."""

    path: str
    rank: int = -1
    form: Form = "text"
    level: str | None = None
    device: str | None = None
    device_kind: DeviceKind = "npu"
    torch_npu: str | None = None
    cann: str | None = None
    with_stack: bool | None = None
    record_shapes: bool | None = None
    profile_memory: bool | None = None
    aic_metrics: str | None = None
    activities: tuple[str, ...] = ()
    schedule: Mapping[str, int] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """Why a table or column is not there, and the profiler switch that yields it."""

    name: str
    reason: Text
    enable: str


class Profile:
    """Tables by name; some come from readers, some from providers that compute them on first use.

    ``absent`` maps a table (or ``table.column``) to the reason it could not be read or filled; a table that is
    neither there nor explained was simply not recorded.
    """

    def __init__(
        self, info: ProfileInfo, tables: Mapping[str, Table], diagnostics: list[Diagnostic] | None = None
    ) -> None:
        self.info = info
        self.diagnostics: list[Diagnostic] = list(diagnostics or [])
        self.absent: dict[str, Text] = {}
        self._tables = dict(tables)
        self._providers: dict[str, Callable[[Profile], Table]] = {}
        self.cache: dict[str, Any] = {}
        # Set when only some steps are asked for: rules then pass over rows that belong to no step.
        self.focused = False
        # The other ranks of the same run that were read, in rank order.
        self.peers: list[Profile] = []
        # The same rank in the other runs that were read.
        self.runs: list[Profile] = []

    @property
    def rank(self) -> int:
        """The rank, -1 when unknown."""
        return self.info.rank

    @property
    def stored(self) -> Mapping[str, Table]:
        """The tables that are there, by name, without what only a provider could give."""
        return self._tables

    def register(self, providers: Mapping[str, Callable[[Profile], Table]]) -> None:
        """Add providers of derived tables; a table that is already there wins over its provider."""
        self._providers.update(providers)

    def put(self, table: Table) -> None:
        """Set or replace a table."""
        self._tables[table.spec.name] = table

    def put_aside(self, aside: Aside) -> None:
        """Have the columns of all tables that are there by now in ``aside`` instead of in memory."""
        put_aside(list(self._tables.values()), aside)

    def has(self, name: str) -> bool:
        """Whether ``name`` was recorded (a provider's table counts when it has rows to give)."""
        return self.table(name) is not _EMPTY.get(name) and bool(self.table(name).present - {"rank"})

    def table(self, name: str) -> Table:
        """The table called ``name``; an empty one when it was not recorded. KeyError for a name outside the schema."""
        if name not in self._tables and name in self._providers:
            with _COMPUTING:
                if name not in self._tables:
                    self._tables[name] = self._providers[name](self)
        if name in self._tables:
            return self._tables[name]
        return _EMPTY[name]

    def frame(self, name: str) -> pd.DataFrame:
        """The table as a pandas DataFrame (a copy)."""
        return self.table(name).frame

    def missing(self, table: str, column: str = "") -> Missing | None:
        """None when the table (and column) is there; otherwise why it is not and how to record it."""
        spec = SCHEMA[table]
        entry = spec.column(column) if column else None
        if table in self.absent:
            return Missing(table, self.absent[table], spec.needs)
        if f"{table}.{column}" in self.absent:
            enable = (entry.needs if entry else "") or spec.needs
            return Missing(f"{table}.{column}", self.absent[f"{table}.{column}"], enable)
        if not self.has(table):
            never = Text(
                en=f"this profile has no {spec.called[0]} (from {spec.files})",
                zh=f"该 profile 中没有{spec.called[1]}（来自 {spec.files}）",
            )
            # Asking for the table may be what found out that it cannot be had.
            return Missing(table, self.absent.get(table, never), spec.needs)
        if entry is None or entry.optional or column in self.table(table).present:
            return None
        reason = Text(en=f"column {table}.{column} is not in this profile", zh=f"该 profile 中没有列 {table}.{column}")
        return Missing(f"{table}.{column}", reason, entry.needs or spec.needs)

    def __getattr__(self, name: str) -> pd.DataFrame:
        """``profile.kernels`` is ``profile.frame("kernels")``."""
        if name in SCHEMA:
            return self.frame(name)
        raise AttributeError(name)


# One for all profiles, as a table may be computed from those of other ranks: whichever thread asks first computes it.
_COMPUTING = RLock()
_EMPTY = {name: Table(spec, {}, 0) for name, spec in SCHEMA.items()}


class ProfileSet(list[Profile]):
    """Every rank found under one path, ordered by rank."""

    @property
    def ranks(self) -> list[int]:
        """Ranks present, in order; -1 where unknown."""
        return [profile.rank for profile in self]
