"""Aggregates over groups of rows; missing values are skipped, ties go to the earliest row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from npu_advisor.base.numbering import firsts, paired
from npu_advisor.engine.intervals import total_per_owner
from npu_advisor.engine.values import Array, Kind, Type, Value, number


@dataclass(frozen=True)
class Aggregate:
    """An aggregate: kinds of its arguments, its result (``same`` as the first argument, or a kind)."""

    arguments: tuple[str, ...]
    result: Kind | str
    call: Callable[[Array, int, Sequence[Value]], Value]
    doc: str
    optional: bool = False

    def type(self, arguments: Sequence[Type], name: str) -> Type:
        """The result's type for arguments of these types."""
        if self.result == "same":
            return arguments[0]
        unit = arguments[0].unit if arguments and name not in ("count", "nunique") else ""
        return Type("num", "us" if name == "busy" else unit)


def _known(ids: Array, value: Value) -> tuple[Array, Array]:
    """Groups and numbers of the rows that have a value."""
    present = ~value.is_missing
    return ids[present], value.data[present]


def _sum(ids: Array, groups: int, values: Sequence[Value]) -> Value:
    owners, data = _known(ids, values[0])
    if data.dtype.kind in "ib":
        out = np.zeros(groups, dtype=np.int64)
        np.add.at(out, owners, data.astype(np.int64))
        return number(out)
    return number(np.bincount(owners, weights=data, minlength=groups))


def _count(ids: Array, groups: int, values: Sequence[Value]) -> Value:
    if values:
        wanted = values[0].data if values[0].kind == "bool" else ~values[0].is_missing
        ids = ids[wanted]
    return number(np.bincount(ids, minlength=groups).astype(np.int64))


def _sorted_runs(ids: Array, groups: int, value: Value) -> tuple[Array, Array, Array]:
    """Known numbers sorted within their group, with each group's first index and length."""
    owners, data = _known(ids, value)
    order = np.lexsort((data, owners))
    counts = np.bincount(owners, minlength=groups)
    return data[order], np.cumsum(counts) - counts, counts


def _extreme(pick: np.ufunc) -> Callable[[Array, int, Sequence[Value]], Value]:
    def apply(ids: Array, groups: int, values: Sequence[Value]) -> Value:
        owners, data = _known(ids, values[0])
        out, unknown = np.zeros(groups, dtype=data.dtype), np.ones(groups, dtype=bool)
        # Whichever is there to begin with.
        out[owners], unknown[owners] = data, False
        pick.at(out, owners, data)
        return number(out, unknown)

    return apply


def _quantile(share: float) -> Callable[[Array, int, Sequence[Value]], Value]:
    def apply(ids: Array, groups: int, values: Sequence[Value]) -> Value:
        data, first, counts = _sorted_runs(ids, groups, values[0])
        known = counts > 0
        at = (first + share * (counts - 1))[known]
        low, high = np.floor(at).astype(np.int64), np.ceil(at).astype(np.int64)
        result = np.full(groups, np.nan)
        result[known] = data[low] + (data[high] - data[low]) * (at - low)
        return number(result)

    return apply


def _mean(ids: Array, groups: int, values: Sequence[Value]) -> Value:
    owners, data = _known(ids, values[0])
    counts = np.bincount(owners, minlength=groups)
    with np.errstate(invalid="ignore"):
        return number(np.bincount(owners, weights=data, minlength=groups) / counts)


def _pairs(ids: Array, value: Value) -> tuple[Array, Array, Array, Array]:
    """Distinct (group, value) pairs: owner, first row, and for each known row its pair; with the known rows."""
    present = np.flatnonzero(~value.is_missing)
    codes = value.codes()[present]
    pair = paired(ids[present], codes)
    first = present[firsts(pair)]
    return ids[first], first, pair, present


def _nunique(ids: Array, groups: int, values: Sequence[Value]) -> Value:
    owner, *_ = _pairs(ids, values[0])
    return number(np.bincount(owner, minlength=groups).astype(np.int64))


def _pick(groups: int, owner: Array, first: Array, weight: Array, value: Value) -> Value:
    """Of each group's distinct values the heaviest, the earliest among equals."""
    order = np.lexsort((first, -weight, owner))
    heads = order[np.unique(owner[order], return_index=True)[1]] if len(order) else order
    rows = np.full(groups, -1, dtype=np.int64)
    rows[owner[heads]] = first[heads]
    return value.take(rows)


def _mode(ids: Array, groups: int, values: Sequence[Value]) -> Value:
    owner, first, pair, _ = _pairs(ids, values[0])
    return _pick(groups, owner, first, np.bincount(pair, minlength=len(owner)), values[0])


def _first(ids: Array, groups: int, values: Sequence[Value]) -> Value:
    owner, first, _, _ = _pairs(ids, values[0])
    return _pick(groups, owner, first, np.zeros(len(owner)), values[0])


def _heaviest(ids: Array, groups: int, values: Sequence[Value]) -> Value:
    owner, first, pair, present = _pairs(ids, values[0])
    weights = np.where(values[1].is_missing, 0, values[1].data).astype(np.float64)[present]
    return _pick(groups, owner, first, np.bincount(pair, weights=weights, minlength=len(owner)), values[0])


def _busy(ids: Array, groups: int, values: Sequence[Value]) -> Value:
    start, duration = values
    known = ~(start.is_missing | duration.is_missing)
    begin, length = start.data[known], duration.data[known]
    return number(total_per_owner(ids[known], begin, begin + length, groups) / 1000.0)


AGGREGATES: dict[str, Aggregate] = {
    "sum": Aggregate(("num|bool",), "num", _sum, "sum; of a condition, how often it holds"),
    "count": Aggregate(
        ("any",), "num", _count, "rows; with an argument, rows that have it (a condition: where it holds)", True
    ),
    "min": Aggregate(("num",), "num", _extreme(np.minimum), "smallest"),
    "max": Aggregate(("num",), "num", _extreme(np.maximum), "largest"),
    "mean": Aggregate(("num",), "num", _mean, "mean"),
    "median": Aggregate(("num",), "num", _quantile(0.5), "median"),
    "p95": Aggregate(("num",), "num", _quantile(0.95), "95th percentile, interpolated"),
    "nunique": Aggregate(("any",), "num", _nunique, "how many different values"),
    "mode": Aggregate(("any",), "same", _mode, "the most frequent value"),
    "first": Aggregate(("any",), "same", _first, "the first value"),
    "heaviest": Aggregate(
        ("any", "num"), "same", _heaviest, "the value whose rows have the largest sum of the second argument"
    ),
    "busy": Aggregate((), "num", _busy, "us in which at least one row was running (union, not sum)"),
}


def aggregate(name: str, ids: Array, groups: int, arguments: Sequence[Value]) -> Value:
    """Aggregate ``name`` over rows whose group is ``ids`` (0 .. groups-1). ``busy`` takes start_ns and dur_ns."""
    return AGGREGATES[name].call(ids, groups, arguments)
