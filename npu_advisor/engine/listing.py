"""The tables of the views for a terminal or a script: filtered by the rule language, grouped, sorted and cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npu_advisor.base.errors import ConfigError, ProfileError, RuleError, RuleProblem
from npu_advisor.base.messages import say
from npu_advisor.engine.expr import Expression, compile_expression
from npu_advisor.engine.grammar import Fault
from npu_advisor.engine.rows import Rows
from npu_advisor.engine.run import missing
from npu_advisor.engine.scope import Reads, StaticScope
from npu_advisor.engine.stages import mask
from npu_advisor.engine.values import Array, Requirement, Type, Value, column_value, number
from npu_advisor.engine.views.operators import TIMES, op_times
from npu_advisor.engine.views.timeline import epoch
from npu_advisor.model.profile import Missing, Profile
from npu_advisor.model.schema import PIPE_METRICS, SCHEMA, resolve
from npu_advisor.rules.source import nearest
from npu_advisor.views import Unit


@dataclass(frozen=True)
class Listing:
    """What one kind of listing is made of: the stacked ``tables``, the ``columns`` of a row, what rows are grouped
    ``by`` unless asked otherwise, and what is ``summed`` when they are."""

    tables: tuple[str, ...]
    columns: tuple[str, ...]
    by: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


_WHEN = ("step.number", "start_us", "start_ns", "dur_us")
LISTINGS = {
    "kernels": Listing(
        ("kernels",),
        (
            *("name", "type", "core", "stream", *_WHEN, "wait_us", "launch_delay_us", "block_dim", "input_shapes"),
            *(column.name for column in PIPE_METRICS),
            *("op.name", "source"),
        ),
        ("type", "core"),
        ("dur_us",),
        ("start_us",),
    ),
    "operators": Listing(
        ("ops",),
        ("name", "step.number", "start_us", "start_ns", "shapes", *TIMES, "depth", "source"),
        ("name",),
        TIMES,
        ("start_us", *TIMES),
    ),
    "memory": Listing(
        ("allocs",),
        ("name", "component", "step.number", "start_us", "start_ns", "dur_us", "size_bytes", "release_ns", "source"),
        ("name",),
        ("size_bytes",),
        ("start_us",),
    ),
    "steps": Listing(
        ("steps",),
        (
            *("number", "start_us", "start_ns", "dur_us", "host_us", "compute_us", "comm_us", "exposed_comm_us"),
            *("free_us", "prepare_us", "after_us", "complete"),
        ),
        extra=("start_us",),
    ),
    "communication": Listing(
        ("comms",),
        (
            *("name", "type", "group", *_WHEN, "bytes", "transit_us", "wait_us", "sync_us", "idle_us"),
            *("op.name", "source"),
        ),
        ("type",),
        ("dur_us", "bytes", "transit_us", "wait_us", "sync_us", "idle_us"),
        ("start_us",),
    ),
    "timeline": Listing(
        ("ops", "enqueues", "dequeues", "apis", "kernels", "tasks", "comms"),
        ("table", "name", "track", *_WHEN, "source"),
        (),
        ("dur_us",),
        ("start_us", "table"),
    ),
}
# The group that is none: every row by itself.
ROWS = "none"


@dataclass(frozen=True)
class Query:
    """What to list. ``by`` None groups as usual for ``what``, ``(ROWS,)`` not at all; ``sort`` names columns, largest
    first after a ``-``; ``top`` None keeps every row."""

    what: str
    where: str | None = None
    by: tuple[str, ...] | None = None
    sort: tuple[str, ...] = ()
    top: int | None = None


@dataclass(frozen=True)
class Listed:
    """The answer: ``frame`` with at most ``top`` of ``total`` rows, and the unit of each column."""

    frame: pd.DataFrame
    units: dict[str, Unit]
    total: int


def checked(query: Query) -> Expression | None:
    """The compiled condition of ``query``. ConfigError and RuleError for what no profile can answer."""
    listing, scope = LISTINGS[query.what], _scope(LISTINGS[query.what])
    for path in _by(query):
        if isinstance(found := scope.lookup(path, required=False), str):
            raise _unknown("--group-by", path, scope.known(), found)
    if query.where is None:
        return None
    faults: list[Fault] = []
    made = compile_expression(query.where, scope, faults, "bool")
    if faults or made is None:
        raise RuleError([RuleProblem("--where", 1, f.offset + 1, f.message, query.where, f.width) for f in faults])
    assert listing.tables
    return made


def listed(profiles: Sequence[Profile], query: Query) -> Listed:
    """The rows of every profile that was read, as the query asks.

    ProfileError where no profile holds the table or a column of the condition, with the switch that records it.
    """
    listing, condition = LISTINGS[query.what], checked(query)
    scope = _scope(listing)
    if condition is not None:
        compile_expression(query.where or "", scope, [], "bool")
    requirements = (Requirement(listing.tables), *scope.reads.requirements())
    lacking = [missing(requirements, profile) for profile in profiles]
    if all(lacking):
        raise _not_recorded(profiles[0], next(filter(None, lacking)))
    by = _by(query)
    paths = tuple(dict.fromkeys([*listing.columns, *by]))
    readable = [profile for profile, lack in zip(profiles, lacking, strict=True) if lack is None]
    frame = pd.concat([_rows(profile, listing, condition, paths) for profile in readable], ignore_index=True)
    if len(readable) < 2:
        frame = frame.drop(columns="rank", errors="ignore") if "rank" not in by else frame
    if by:
        frame = _grouped(frame, by, listing.summed)
    else:
        frame = frame[[name for name in frame if frame[name].notna().any() or frame.empty]]
    frame = _sorted(frame, query.sort or _usual(listing, by))
    kept = frame if query.top is None else frame.head(query.top)
    return Listed(kept.reset_index(drop=True), {name: _unit(name, listing) for name in map(str, frame)}, len(frame))


def _by(query: Query) -> tuple[str, ...]:
    by = LISTINGS[query.what].by if query.by is None else query.by
    return () if by == (ROWS,) else by


def _scope(listing: Listing) -> StaticScope:
    kinds = {name: Type("text" if name == "table" else "num") for name in listing.extra}
    return StaticScope(listing.tables, {}, Reads(), columns=kinds)


def _unknown(option: str, name: str, known: Sequence[str], why: str = "") -> ConfigError:
    wrong = say("error.bad_choice", option=option, value=name)
    return ConfigError(wrong, say("show.reason", reason=why or f"no column '{name}'{nearest(name, known)}"))


def _not_recorded(profile: Profile, lack: Missing) -> ProfileError:
    do = say("show.record", enable=lack.enable) if lack.enable else None
    return ProfileError(profile.info.path, lack.reason, None, do, code="not_recorded")


def _rows(profile: Profile, listing: Listing, condition: Expression | None, paths: Sequence[str]) -> pd.DataFrame:
    rows = Rows.start(profile, listing.tables)
    rows = rows.with_columns(_extra(profile, listing, rows))
    if condition is not None:
        rows = rows.take(mask(rows, condition))
    columns = {path: _series(rows.column(path).spread(len(rows)), profile) for path in ("rank", *paths)}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))


def _extra(profile: Profile, listing: Listing, rows: Rows) -> dict[str, Value]:
    """The columns that no table stores: times from the start of the recording, times of ops, the table itself."""
    made = {}
    if "start_us" in listing.extra:
        made["start_us"] = number((rows.column("start_ns").data - epoch(profile)) / 1000.0)
    assert rows.position is not None
    if TIMES[0] in listing.extra:
        made |= {name: number(values[rows.position]) for name, values in op_times(profile).items()}
    if "table" in listing.extra:
        ends = np.cumsum([len(profile.table(name)) for name in listing.tables])
        codes = np.searchsorted(ends, rows.position, side="right")
        made["table"] = Value("text", codes, categories=np.array(listing.tables, dtype=object))
    return made


def _series(value: Value, profile: Profile) -> Any:
    if value.kind == "key":
        label = SCHEMA[value.target].label
        if not label:
            return pd.array(np.where(value.data >= 0, value.data, 0), dtype="Int64")
        return _series(column_value(profile.table(value.target), label, value.data), profile)
    if value.kind == "text":
        texts = np.array([*(value.categories if value.categories is not None else ()), None], dtype=object)
        return pd.Series(texts[value.data], dtype=object)
    if value.kind == "num" and value.data.dtype.kind == "i":
        return pd.arrays.IntegerArray(value.data.astype(np.int64), _absent(value))
    return value.data


def _absent(value: Value) -> Array:
    return np.array(value.is_missing, dtype=bool)


def _grouped(frame: pd.DataFrame, by: tuple[str, ...], summed: tuple[str, ...]) -> pd.DataFrame:
    """Calls, sums, and of the first summed column mean, largest and share."""
    keys = list(dict.fromkeys([*(["rank"] if "rank" in frame else []), *by]))
    grouped = frame.groupby(keys, dropna=False, sort=False)
    made = grouped[list(summed)].sum(min_count=1) if summed else grouped.size().to_frame("calls")
    made["calls"] = grouped.size()
    if summed:
        first = summed[0]
        made[f"mean_{first}"] = grouped[first].mean()
        made[f"max_{first}"] = grouped[first].max()
        made = made.reset_index()
        whole = made.groupby("rank")[first].transform("sum") if "rank" in made else made[first].sum()
        made["share"] = made[first] / whole
    else:
        made = made.reset_index()
    first_sum = [summed[0], "share"] if summed else []
    order = list(dict.fromkeys([*keys, "calls", *first_sum, *made]))
    return made[[column for column in order if made[column].notna().any() or column in keys]]


def _usual(listing: Listing, by: tuple[str, ...]) -> tuple[str, ...]:
    if by:
        return (f"-{listing.summed[0]}",) if listing.summed else ("-calls",)
    return ("start_ns",)


def _sorted(frame: pd.DataFrame, sort: tuple[str, ...]) -> pd.DataFrame:
    names = [text.removeprefix("-").strip() for text in sort]
    for name in names:
        if name not in frame:
            raise _unknown("--sort", name, [str(column) for column in frame])
    ascending = [not text.startswith("-") for text in sort]
    return frame.sort_values(names, ascending=ascending, kind="stable", na_position="last")


def _unit(name: str, listing: Listing) -> Unit:
    base = name.removeprefix("mean_").removeprefix("max_")
    if base == "calls":
        return "count"
    if base == "source" or base.endswith(".source"):
        return "line"
    if base in listing.extra:
        return "text" if base == "table" else "us"
    found = [resolved for table in listing.tables if (resolved := resolve(table, base)) is not None]
    column = found[0][1] if found else None
    if column is None:
        return "share" if base == "share" else "text"
    if column.kind in ("text", "bool", "key"):
        return "text"
    units: dict[str, Unit] = {"us": "us", "bytes": "bytes", "share": "share", "percent": "percent"}
    return units.get(column.unit, "id")


class Tables(Mapping[str, pd.DataFrame]):
    """The listings of a run as DataFrames, every row of them: ``report.tables["kernels"]``."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._profiles = profiles

    def __getitem__(self, name: str) -> pd.DataFrame:
        """One row per event; KeyError for a name that is none of ``LISTINGS``, ProfileError when not recorded."""
        if name not in LISTINGS:
            raise KeyError(name)
        return listed(self._profiles, Query(name, by=(ROWS,))).frame

    def __iter__(self) -> Iterator[str]:
        return iter(LISTINGS)

    def __len__(self) -> int:
        return len(LISTINGS)
