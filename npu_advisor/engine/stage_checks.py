"""The static checks of the stages: from what a rule says, and what it can see there, to a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from npu_advisor.engine import plan as p
from npu_advisor.engine.calls import checked_aggregate
from npu_advisor.engine.checking import Checker
from npu_advisor.engine.expr import ExprError, Expression
from npu_advisor.engine.pattern import Pattern, compile_pattern
from npu_advisor.engine.scope import StaticScope
from npu_advisor.engine.values import Type
from npu_advisor.model.schema import SCHEMA
from npu_advisor.rules import spec as s
from npu_advisor.rules.source import Place

MAX_SYMBOLS = 30
TIMES = {name: Type("num", "us" if name == "dur_us" else "ns") for name in ("start_ns", "dur_ns", "end_ns", "dur_us")}
Made = tuple[p.Stage | None, StaticScope]


def check_stages(
    checker: Checker, stages: Sequence[s.Stage], scope: StaticScope, place: Place
) -> tuple[tuple[p.Stage, ...], StaticScope, StaticScope]:
    """The plan of a pipeline written at ``place``, what is visible after it, and before its rows were first united."""
    made: list[p.Stage] = []
    detail: StaticScope | None = None
    for index, stage in enumerate(stages):
        at: Place = (*place, index, stage.name)
        if (stage.name == "from") != (index == 0):
            checker.report(at, "'from' is the first stage, and only the first", key=True)
            continue
        if stage.name in ("group", "chain") and detail is None:
            detail = scope
        if stage.name == "compare" and any(isinstance(one, p.Compare) for one in made):
            checker.report(at, "a rule compares once", key=True)
            continue
        one, scope = _check_stage(checker, stage, scope, at)
        if one is not None:
            made.append(one)
    return tuple(made), scope, detail or scope


def _check_stage(checker: Checker, stage: s.Stage, scope: StaticScope, place: Place) -> Made:
    makers: dict[str, Callable[[Checker, Any, StaticScope, Place], Made]] = {
        "from": _from,
        "where": _where,
        "let": _let,
        "gaps": _gaps,
        "cover": _cover,
        "chain": _chain,
        "climb": _climb,
        "under": _under,
        "group": _group,
        "compare": _compare,
        "join": _join,
        "sort": _sort,
    }
    if stage.limit is not None:
        return p.Limit(stage.limit), scope
    content = stage.from_ if stage.name == "from" else getattr(stage, stage.name)
    return makers[stage.name](checker, content, scope, place)


def _from(checker: Checker, names: list[str], scope: StaticScope, place: Place) -> Made:
    known = checker.tables(names, place)
    return p.From(known), replace(scope, tables=known, broken=len(known) < len(names))


def _where(checker: Checker, text: str, scope: StaticScope, place: Place) -> Made:
    made = checker.expression(text, scope, place, "bool")
    return (p.Where(made) if made else None), scope


def _let(checker: Checker, columns: dict[str, str], scope: StaticScope, place: Place) -> Made:
    made = []
    for name, text in columns.items():
        reads = checker.reads.apart()
        expression = checker.expression(text, replace(scope, reads=reads), (*place, name))
        found = expression.type if expression else Type("any")
        if found.kind == "list":
            checker.report((*place, name), "a column cannot be a list")
            found = Type("any")
        scope = scope.with_columns({name: replace(found, reads=frozenset(reads.required))})
        if expression:
            made.append((name, expression))
    return p.Let(tuple(made)), scope


def _gaps(checker: Checker, content: s.Gaps, scope: StaticScope, place: Place) -> Made:
    checker.need_times(scope, place, "gaps")
    checker.path(content.lane, scope, (*place, "lane"))
    if content.within is not None:
        checker.path(content.within, scope, (*place, "within"))
    return p.Gaps(content.lane, content.within), scope.with_columns(TIMES)


def _cover(checker: Checker, content: dict[str, s.Cover], scope: StaticScope, place: Place) -> Made:
    checker.need_times(scope, place, "cover")
    made = []
    for name, column in content.items():
        at = (*place, name)
        known = checker.tables(column.from_, (*at, "from"))
        for table in known:
            if not SCHEMA[table].timed:
                checker.report((*at, "from"), f"rows of table '{table}' are not intervals")
        inner = StaticScope(known, scope.names, checker.reads, broken=len(known) < len(column.from_))
        condition = None
        if column.where is not None:
            condition = checker.expression(column.where, inner, (*at, "where"), "bool")
        made.append(p.CoverColumn(name, known, condition))
    scope = scope.with_columns({name: Type("num", "us") for name in content})
    return p.Cover(tuple(made)), replace(scope, covers=scope.covers | set(content))


def _under(checker: Checker, content: dict[str, str], scope: StaticScope, place: Place) -> Made:
    checker.need_op(scope, place, "under")
    made = [checked_aggregate(checker, name, text, scope, (*place, name), under=True) for name, text in content.items()]
    types = {name: kind for name, (_, kind) in zip(content, made, strict=True)}
    return p.Under(tuple(call for call, _ in made if call)), scope.with_columns(types)


def _climb(checker: Checker, content: s.Climb, scope: StaticScope, place: Place) -> Made:
    checker.need_op(scope, place, "climb")
    ops = StaticScope(("ops",), scope.names, checker.reads)
    made = checker.expression(content.to, ops, (*place, "to"), "bool")
    scope = scope.with_columns({content.as_: Type("key", target="ops")})
    return (p.Climb(made, content.as_) if made else None), scope


def _group(checker: Checker, content: s.Group, scope: StaticScope, place: Place) -> Made:
    columns = {path: checker.path(path, scope, (*place, "by", index)) for index, path in enumerate(content.by)}
    made = [checked_aggregate(checker, name, text, scope, (*place, "agg", name)) for name, text in content.agg.items()]
    columns |= {name: kind for name, (_, kind) in zip(content.agg, made, strict=True)}
    calls = tuple(call for call, _ in made if call)
    # Covered intervals go on with the group although the us column may not.
    return p.Group(tuple(content.by), calls), replace(
        scope, tables=(), columns=columns, picked={}, unique=frozenset(content.by), broken=False
    )


def _chain(checker: Checker, content: s.Chain, scope: StaticScope, place: Place) -> Made:
    checker.need_times(scope, place, "chain")
    checker.path(content.lane, scope, (*place, "lane"))
    if content.within is not None:
        checker.path(content.within, scope, (*place, "within"))
    symbols: list[tuple[str, Expression]] = []
    for name, text in content.symbols.items():
        condition = checker.expression(text, scope, (*place, "symbols", name), "bool")
        if condition is not None:
            symbols.append((name, condition))
    pattern = _pattern(checker, content, (*place, "pattern"))
    after = scope.with_columns(TIMES)
    if pattern is None:
        return None, replace(after, broken=True)
    picks = {f"{name}{number + 1}": scope for name, most in pattern.most.items() for number in range(most)}
    after = replace(after, picked=picks)
    if len(symbols) < len(content.symbols):
        return None, after
    return p.Chain(content.lane, content.within, tuple(symbols), pattern), after


def _pattern(checker: Checker, content: s.Chain, place: Place) -> Pattern | None:
    if len(content.symbols) > MAX_SYMBOLS:
        checker.report(place, f"'chain' has at most {MAX_SYMBOLS} symbols")
        return None
    try:
        return compile_pattern(content.pattern, tuple(content.symbols))
    except ExprError as error:
        checker.report_in(place, content.pattern, error.fault)
        return None


def _compare(checker: Checker, content: s.Compare, scope: StaticScope, place: Place) -> Made:
    for index, path in enumerate(content.within):
        at = (*place, "within", index)
        kind = checker.path(path, scope, at)
        if kind.kind == "key" and not SCHEMA[kind.target].label:
            checker.report(at, f"'{path}' is a key that means nothing in another profile; name a column of it")
    value = checker.expression(content.value, scope, (*place, "value"), "num")
    _need_unique(checker, scope, {*content.within, "rank"}, place, "compare", "within")
    unit = value.type.unit if value else ""
    figures = {"median": unit, "ratio": "share", "excess": unit, "peers": ""}
    _need_new(checker, scope, figures, place, "compare")
    after = scope.with_columns({name: Type("num", unit) for name, unit in figures.items()})
    if place[:-1] != place[:2]:
        checker.report(place, "'compare' stands in 'find' itself, not in a 'join'", key=True)
    if value is None:
        return None, after
    return p.Compare(content.across, tuple(content.within), value, checker.rule), after


def _need_unique(checker: Checker, scope: StaticScope, columns: set[str], place: Place, stage: str, key: str) -> None:
    """Report rows of which two could agree on all of ``columns``."""
    if not scope.broken and (scope.unique is None or not scope.unique <= columns):
        checker.report(place, f"'{stage}' needs one row for each '{key}'; group by nothing else before it", key=True)


def _need_new(checker: Checker, scope: StaticScope, names: Iterable[str], place: Place, stage: str) -> None:
    """Report columns that are there already and would be hidden."""
    for name in names:
        if name in scope.columns:
            checker.report(
                place, f"'{stage}' adds a column '{name}', and there is one already; call that otherwise", key=True
            )


def _join(checker: Checker, content: s.Join, scope: StaticScope, place: Place) -> Made:
    if len(place) > 3:
        checker.report(place, "a 'join' holds no other 'join'", key=True)
        return None, replace(scope, broken=True)
    start = StaticScope((), scope.names, checker.reads, broken=True)
    stages, other, _ = check_stages(checker, content.from_, start, (*place, "from"))
    for index, path in enumerate(content.on):
        mine, theirs = (checker.path(path, side, (*place, "on", index)) for side in (scope, other))
        if "any" not in (mine.kind, theirs.kind) and (mine.kind, mine.target) != (theirs.kind, theirs.target):
            checker.report((*place, "on", index), f"'{path}' is not the same kind of column on both sides")
    _need_unique(checker, other, set(content.on), (*place, "from"), "join", "on")
    added = {name: kind for name, kind in other.columns.items() if name not in content.on}
    _need_new(checker, scope, added, place, "join")
    made = p.Join(stages, tuple(content.on), tuple(added)) if len(stages) == len(content.from_) else None
    return made, scope.with_columns(added)


def _sort(checker: Checker, content: list[str], scope: StaticScope, place: Place) -> Made:
    by = []
    for index, text in enumerate(content):
        name = text.removeprefix("-").strip()
        kind = checker.path(name, scope, (*place, index))
        if kind.kind == "key":
            checker.report((*place, index), f"cannot sort by the key '{name}'; name a column of it")
        by.append((name, text.startswith("-")))
    return p.Sort(tuple(by)), scope
