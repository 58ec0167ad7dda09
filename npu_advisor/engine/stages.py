"""The stages of a rule: each one pure function from rows to rows, on whole columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu_advisor.base.intervals import union
from npu_advisor.base.numbering import firsts, paired
from npu_advisor.engine.aggregates import aggregate
from npu_advisor.engine.expr import Environment, Expression
from npu_advisor.engine.intervals import overlap
from npu_advisor.engine.lanes import chain, gaps, times
from npu_advisor.engine.plan import (
    AggregateCall,
    Chain,
    Climb,
    Cover,
    Gaps,
    Group,
    Let,
    Limit,
    Sort,
    Stage,
    Under,
    Where,
)
from npu_advisor.engine.rows import Covered, Ragged, Rows, ranges
from npu_advisor.engine.values import Array, Value, column_value, number
from npu_advisor.model.profile import Profile


def apply(rows: Rows, stage: Stage) -> Rows:
    """``rows`` after ``stage``."""
    if isinstance(stage, Where):
        return where(rows, stage)
    if isinstance(stage, Let):
        return let(rows, stage)
    if isinstance(stage, Gaps):
        return gaps(rows, stage)
    if isinstance(stage, Chain):
        return chain(rows, stage)
    if isinstance(stage, Cover):
        return cover(rows, stage)
    if isinstance(stage, Under):
        return under(rows, stage)
    if isinstance(stage, Climb):
        return climb(rows, stage)
    if isinstance(stage, Group):
        return group(rows, stage)
    if isinstance(stage, Sort):
        return sort(rows, stage)
    assert isinstance(stage, Limit)
    return rows.take(np.arange(min(stage.count, len(rows))))


def mask(rows: Rows, condition: Expression) -> Array:
    """Where the condition holds."""
    return condition.evaluate(rows).spread(len(rows)).data


def where(rows: Rows, stage: Where) -> Rows:
    """Keep the rows where the condition holds."""
    return rows.take(mask(rows, stage.condition))


def let(rows: Rows, stage: Let) -> Rows:
    """Add columns."""
    for name, expression in stage.columns:
        rows = rows.with_columns({name: expression.evaluate(rows)})
    return rows


def cover(rows: Rows, stage: Cover) -> Rows:
    """Add, for each column, the us of every row that other intervals of this rank cover, and remember where."""
    start, end, _ = times(rows)
    for column in stage.columns:
        other = Rows.start(rows.profile, column.tables)
        if column.condition is not None:
            other = other.take(mask(other, column.condition))
        begin, finish, known = times(other)
        offsets, first, last = overlap(start, end, *union(begin[known], finish[known]))
        sums = np.concatenate([[0], np.cumsum(last - first)])
        covered = {**rows.covered, column.name: Covered(offsets, first, last)}
        total = (sums[offsets[1:]] - sums[offsets[:-1]]) / 1000.0
        rows = replace(rows.with_columns({column.name: number(total)}), covered=covered)
    return rows


def ops_of(rows: Rows) -> Array:
    """Each row's op as a position in ``ops``: itself for rows of ``ops``, else its key ``op``."""
    if rows.position is not None and rows.tables == ("ops",):
        return rows.position
    return rows.column("op").data


def subtree(profile: Profile, ops: Array) -> tuple[Array, Array]:
    """First and last pre-order number of everything below each op and itself; an empty range for -1."""
    table = profile.table("ops")
    pre, last = (np.append(table[name], -1) for name in ("pre", "last"))
    first, final = pre[ops], last[ops]
    unknown = first < 0
    return np.where(unknown, 0, first), np.where(unknown, -1, final)


class _Below:
    """Rows of one table sorted by the pre-order number of their op."""

    def __init__(self, profile: Profile, table: str) -> None:
        ops = ops_of(Rows.all_of(profile, table))
        number_of = np.append(profile.table("ops")["pre"], -1)[ops]
        order = np.argsort(number_of, kind="stable")
        self.order = order[number_of[order] >= 0]
        self.numbers = number_of[self.order]

    def ranges(self, first: Array, last: Array) -> tuple[Array, Array]:
        """Slices of ``order`` with an op numbered first .. last (inclusive)."""
        return np.searchsorted(self.numbers, first, side="left"), np.searchsorted(self.numbers, last, side="right")


def below(profile: Profile, table: str, ops: Array) -> Ragged:
    """Positions in ``table`` of everything at or below each op."""
    index = _Below(profile, table)
    at, offsets = ranges(*index.ranges(*subtree(profile, ops)))
    return Ragged(offsets, index.order[at])


def under(rows: Rows, stage: Under) -> Rows:
    """Aggregate everything at or below each row's op, table by table."""
    ops, columns = ops_of(rows), {}
    for table in dict.fromkeys(call.table for call in stage.columns):
        found = below(rows.profile, table, ops)
        ids = np.repeat(np.arange(len(rows)), np.diff(found.offsets))
        whole = Rows.all_of(rows.profile, table)
        for call in stage.columns:
            if call.table == table:
                environment = _Prefixed(whole, table)
                values = [value.take(found.items) for value in _arguments(call, whole, environment)]
                columns[call.column] = aggregate(call.name, ids, len(rows), values)
    return rows.with_columns(columns)


class _Prefixed:
    """Rows whose columns are written ``table.column``."""

    def __init__(self, rows: Rows, table: str) -> None:
        self.rows, self.skip = rows, len(table) + 1

    def column(self, path: str) -> Value:
        return self.rows.column(path[self.skip :])

    def recorded(self, path: str) -> bool:
        return self.rows.recorded(path[self.skip :])


def _arguments(call: AggregateCall, rows: Rows, environment: Environment) -> list[Value]:
    if call.name == "busy":
        return [rows.column("start_ns"), rows.column("dur_ns")]
    return [argument.evaluate(environment).spread(len(rows)) for argument in call.arguments]


def climb(rows: Rows, stage: Climb) -> Rows:
    """The nearest op that satisfies the condition: of an op row among its ancestors, else from the row's op upwards."""
    ops = Rows.all_of(rows.profile, "ops")
    parent = np.append(ops.column("parent").data, -1)
    fits = np.append(mask(ops, stage.condition), True)
    own = rows.position is not None and rows.tables == ("ops",)
    found = parent[ops_of(rows)] if own else ops_of(rows).copy()
    further = np.flatnonzero(~fits[found])
    while len(further):
        found[further] = up = parent[found[further]]
        further = further[~fits[up]]
    return rows.with_columns({stage.column: Value("key", found, target="ops")})


def group_ids(rows: Rows, by: tuple[str, ...]) -> tuple[Array, Array]:
    """Each row's group, numbered in order of first appearance, and each group's first row."""
    ids = np.zeros(len(rows), dtype=np.int64)
    for path in by:
        codes = rows.column(path).spread(len(rows)).codes()
        ids = paired(ids, codes)
    return ids, firsts(ids)


def aggregate_columns(
    rows: Rows, ids: Array, first: Array, by: tuple[str, ...], calls: tuple[AggregateCall, ...]
) -> dict[str, Value]:
    """The columns of grouped rows: what they agree on, then the aggregates."""
    columns = {path: rows.column(path).spread(len(rows)).take(first) for path in by}
    for call in calls:
        columns[call.column] = aggregate(call.name, ids, len(first), _arguments(call, rows, rows))
    return columns


def group(rows: Rows, stage: Group) -> Rows:
    """Collapse the rows that agree on ``by``; members and covered intervals are united."""
    ids, first = group_ids(rows, stage.by)
    order = np.argsort(ids, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=len(first)))]).astype(np.int64)
    return Rows(
        profile=rows.profile,
        tables=rows.tables,
        length=len(first),
        position=None,
        columns=aggregate_columns(rows, ids, first, stage.by, stage.columns),
        covered={name: covered.united(ids, len(first)) for name, covered in rows.covered.items()},
        detail=rows.detail or rows,
        members=rows.behind(offsets, order),
    )


def sort(rows: Rows, stage: Sort) -> Rows:
    """Stable order by columns, the first one weighing most; missing values last."""
    keys: list[Array] = []
    for path, descending in stage.by:
        value = rows.column(path).spread(len(rows))
        data = _ordered(value)
        keys += [value.is_missing, np.where(value.is_missing, 0, -data if descending else data)]
    return rows.take(np.lexsort(keys[::-1])) if len(rows) else rows


def _ordered(value: Value) -> Array:
    """Numbers in the order of the values."""
    if value.kind == "text":
        assert value.categories is not None
        texts = [str(text) for text in value.categories]
        rank = np.full(len(texts) + 1, -1, dtype=np.int64)
        rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return rank[value.data]
    if value.kind == "bool":
        return value.data.astype(np.int64)
    if value.kind == "num" and value.data.dtype.kind == "f":
        return np.where(value.is_missing, 0.0, value.data)
    return value.data


def step_number(rows: Rows) -> Value:
    """The number of each row's step; ``step`` is a key or, once a rule has computed it, a number."""
    step = rows.column("step")
    if step.kind == "key":
        return column_value(rows.profile.table("steps"), "number", step.data)
    return step
