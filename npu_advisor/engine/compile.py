"""A rule checked against the schema and made ready to run; every fault is collected with its place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from npu_advisor.base.errors import RuleError, RuleProblem
from npu_advisor.engine import plan as p
from npu_advisor.engine.aggregates import AGGREGATES, Aggregate
from npu_advisor.engine.expr import ExprError, Expression, Fault, compile_expression, compile_tree, parse, path_of
from npu_advisor.engine.reach import route
from npu_advisor.engine.scope import Reads, StaticScope
from npu_advisor.engine.texts import fields_of
from npu_advisor.engine.values import Type
from npu_advisor.model.schema import SCHEMA
from npu_advisor.rules import spec as s
from npu_advisor.rules.source import Place, nearest


def compile_rule(rule: s.Rule) -> p.Plan:
    """The plan of ``rule``. RuleError with all its problems."""
    plan, problems = check_rule(rule)
    if plan is None:
        raise RuleError(problems)
    return plan


def check_rule(rule: s.Rule) -> tuple[p.Plan | None, list[RuleProblem]]:
    """The plan of ``rule``, None when it has problems; and the problems."""
    compiler = _Compiler(rule)
    made = compiler.plan()
    return (None if compiler.problems else made), compiler.problems


@dataclass
class _Compiler:
    rule: s.Rule
    problems: list[RuleProblem] = field(default_factory=list)
    reads: Reads = field(default_factory=Reads)

    def plan(self) -> p.Plan:
        """Check the whole rule."""
        names: dict[str, Any] = {name: entry.values for name, entry in self.rule.lists.items()}
        names |= self.rule.values
        scope = StaticScope((), names, self.reads, broken=True)
        stages, detail = [], None
        for index, stage in enumerate(self.rule.find):
            place: Place = ("find", index, stage.name)
            if (stage.name == "from") != (index == 0):
                self.report(place, "'from' is the first stage, and only the first", key=True)
                continue
            if stage.name == "group" and detail is None:
                detail = scope
            made, scope = self._stage(stage, scope, place)
            if made is not None:
                stages.append(made)
        return self._emit(tuple(stages), scope, detail or scope)

    # -- reporting -------------------------------------------------------------------------------------------------

    def report(self, place: Place, message: str, *, key: bool = False) -> None:
        self.problems.append(self.rule.origin.span(place, key=key).problem(message))

    def report_in(self, place: Place, text: str, fault: Fault) -> None:
        span = self.rule.origin.span(place)
        self.problems.append(span.problem(fault.message, fault.offset, fault.width, text))

    def expression(self, text: str, scope: StaticScope, place: Place, want: str = "") -> Expression | None:
        faults: list[Fault] = []
        made = compile_expression(text, scope, faults, want)
        for fault in faults:
            self.report_in(place, text, fault)
        return made

    def path(self, text: str, scope: StaticScope, place: Place) -> Type:
        """The type of a column named in ``by``, ``sort``, ``lane``, ...; kind ``any`` after a fault."""
        try:
            path: str | None = path_of(parse(text))
        except ExprError:
            path = None
        found = scope.lookup(path) if path else f"'{text}' is not the name of a column"
        if isinstance(found, str):
            self.report(place, found)
            return Type("any")
        return found

    def table(self, name: str, place: Place) -> bool:
        if name in SCHEMA:
            return True
        self.report(place, f"unknown table '{name}'{nearest(name, SCHEMA)}")
        return False

    def tables(self, names: list[str], place: Place) -> tuple[str, ...]:
        """The known ones of ``names``; noted as required."""
        spread = [(*place, index) for index in range(len(names))]
        known = tuple(name for name, at in zip(names, spread, strict=True) if self.table(name, at))
        if known:
            self.reads.need(known)
        return known

    # -- stages ----------------------------------------------------------------------------------------------------

    def _stage(self, stage: s.Stage, scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        makers: dict[str, Callable[[Any, StaticScope, Place], tuple[p.Stage | None, StaticScope]]] = {
            "from": self._from,
            "where": self._where,
            "let": self._let,
            "gaps": self._gaps,
            "cover": self._cover,
            "under": self._under,
            "climb": self._climb,
            "group": self._group,
            "sort": self._sort,
        }
        if stage.limit is not None:
            return p.Limit(stage.limit), scope
        content = stage.from_ if stage.name == "from" else getattr(stage, stage.name)
        return makers[stage.name](content, scope, place)

    def _from(self, names: list[str], scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        known = self.tables(names, place)
        return p.From(known), replace(scope, tables=known, broken=len(known) < len(names))

    def _where(self, text: str, scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        made = self.expression(text, scope, place, "bool")
        return (p.Where(made) if made else None), scope

    def _let(self, columns: dict[str, str], scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        made = []
        for name, text in columns.items():
            reads = self.reads.apart()
            expression = self.expression(text, replace(scope, reads=reads), (*place, name))
            found = expression.type if expression else Type("any")
            if found.kind == "list":
                self.report((*place, name), "a column cannot be a list")
                found = Type("any")
            scope = scope.with_columns({name: replace(found, reads=frozenset(reads.required))})
            if expression:
                made.append((name, expression))
        return p.Let(tuple(made)), scope

    def _gaps(self, content: s.Gaps, scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        self._need_times(scope, place, "gaps")
        self.path(content.lane, scope, (*place, "lane"))
        if content.within is not None:
            self.path(content.within, scope, (*place, "within"))
        columns = {
            name: Type("num", "us" if name == "dur_us" else "ns") for name in ("start_ns", "dur_ns", "end_ns", "dur_us")
        }
        return p.Gaps(content.lane, content.within), scope.with_columns(columns)

    def _need_times(self, scope: StaticScope, place: Place, what: str) -> None:
        if not scope.timed:
            self.report(place, f"'{what}' needs rows with start_ns and dur_ns", key=True)
        elif not scope.broken:
            for name in ("start_ns", "dur_ns"):
                scope.lookup(name)

    def _cover(
        self, content: dict[str, s.Cover], scope: StaticScope, place: Place
    ) -> tuple[p.Stage | None, StaticScope]:
        self._need_times(scope, place, "cover")
        made = []
        for name, column in content.items():
            at = (*place, name)
            known = self.tables(column.from_, (*at, "from"))
            for table in known:
                if not SCHEMA[table].timed:
                    self.report((*at, "from"), f"rows of table '{table}' are not intervals")
            inner = StaticScope(known, scope.names, self.reads, broken=len(known) < len(column.from_))
            condition = None
            if column.where is not None:
                condition = self.expression(column.where, inner, (*at, "where"), "bool")
            made.append(p.CoverColumn(name, known, condition))
        scope = scope.with_columns({name: Type("num", "us") for name in content})
        return p.Cover(tuple(made)), replace(scope, covers=scope.covers | set(content))

    def _need_op(self, scope: StaticScope, place: Place, what: str) -> None:
        self.reads.need(("ops",))
        if scope.tables == ("ops",) or scope.broken:
            return
        found = scope.lookup("op")
        if isinstance(found, str) or (found.kind, found.target) not in (("key", "ops"), ("any", "")):
            self.report(place, f"'{what}' needs rows of 'ops' or rows with a key 'op'", key=True)

    def _under(self, content: dict[str, str], scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        self._need_op(scope, place, "under")
        made = [self._call(name, text, scope, (*place, name), under=True) for name, text in content.items()]
        types = {name: kind for name, (_, kind) in zip(content, made, strict=True)}
        return p.Under(tuple(call for call, _ in made if call)), scope.with_columns(types)

    def _climb(self, content: s.Climb, scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        self._need_op(scope, place, "climb")
        ops = StaticScope(("ops",), scope.names, self.reads)
        made = self.expression(content.to, ops, (*place, "to"), "bool")
        scope = scope.with_columns({content.as_: Type("key", target="ops")})
        return (p.Climb(made, content.as_) if made else None), scope

    def _group(self, content: s.Group, scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        columns = {path: self.path(path, scope, (*place, "by", index)) for index, path in enumerate(content.by)}
        made = [self._call(name, text, scope, (*place, "agg", name)) for name, text in content.agg.items()]
        columns |= {name: kind for name, (_, kind) in zip(content.agg, made, strict=True)}
        calls = tuple(call for call, _ in made if call)
        # Covered intervals go on with the group although the us column may not.
        return p.Group(tuple(content.by), calls), replace(scope, tables=(), columns=columns, broken=False)

    def _sort(self, content: list[str], scope: StaticScope, place: Place) -> tuple[p.Stage | None, StaticScope]:
        by = []
        for index, text in enumerate(content):
            name = text.removeprefix("-").strip()
            kind = self.path(name, scope, (*place, index))
            if kind.kind == "key":
                self.report((*place, index), f"cannot sort by the key '{name}'; name a column of it")
            by.append((name, text.startswith("-")))
        return p.Sort(tuple(by)), scope

    # -- aggregates ------------------------------------------------------------------------------------------------

    def _call(
        self, column: str, text: str, scope: StaticScope, place: Place, *, under: bool = False
    ) -> tuple[p.AggregateCall | None, Type]:
        """``sum(dur_us)`` checked, with its type."""
        scope = replace(scope, reads=self.reads.apart())
        try:
            tree = parse(text)
            call, definition = _aggregate_call(tree)
        except ExprError as error:
            self.report_in(place, text, error.fault)
            return None, Type("any")
        table = ""
        arguments = call.args
        if under:
            found = self._under_table(call, text, place)
            if found is None:
                return None, Type("any")
            table, arguments = found
            scope = StaticScope((table,), scope.names, scope.reads, prefix=table)
            scope.reads.need((table,))
        return self._checked_call(column, call, definition, arguments, text, scope, place, table)

    def _checked_call(
        self,
        column: str,
        call: ast.Call,
        definition: Aggregate,
        arguments: list[ast.expr],
        text: str,
        scope: StaticScope,
        place: Place,
        table: str,
    ) -> tuple[p.AggregateCall | None, Type]:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        wanted = len(definition.arguments)
        if len(arguments) != wanted and not (definition.optional and not arguments):
            fault = Fault(f"'{name}' takes {wanted} arguments, not {len(arguments)}", call.col_offset, len(name))
            self.report_in(place, text, fault)
            return None, Type("any")
        if name == "busy":
            inner = replace(scope, prefix="")
            self._need_times(inner, place, "busy")
        faults: list[Fault] = []
        made = [compile_tree(argument, text, scope, faults) for argument in arguments]
        for argument, expression, kind in zip(arguments, made, definition.arguments, strict=False):
            if expression and expression.type.kind not in ("any", *kind.split("|")) and kind != "any":
                width = (argument.end_col_offset or 0) - argument.col_offset
                faults.append(Fault(f"'{name}' needs a number here", argument.col_offset, width))
        for fault in faults:
            self.report_in(place, text, fault)
        checked = tuple(expression for expression in made if expression)
        if faults or len(checked) < len(arguments):
            return None, Type("any")
        result = definition.type([expression.type for expression in checked], name)
        return p.AggregateCall(column, name, checked, table), replace(result, reads=frozenset(scope.reads.required))

    def _under_table(self, call: ast.Call, text: str, place: Place) -> tuple[str, list[ast.expr]] | None:
        """The table that an aggregate of ``under`` is about, and its arguments without a bare table name."""
        heads = dict.fromkeys(
            path.partition(".")[0]
            for argument in call.args
            for node in ast.walk(argument)
            if isinstance(node, ast.Name | ast.Attribute)
            and (path := path_of(node))
            and not _is_function(node, argument)
        )
        names = [name for name in heads if name not in ("true", "false")]
        if len(names) != 1:
            message = (
                "name one table: count(kernels) or sum(kernels.dur_us)"
                if not names
                else "an aggregate looks at one table only"
            )
            self.report_in(place, text, Fault(message, call.col_offset, len(text)))
            return None
        table = names[0]
        at = next(n.col_offset for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name) and n.id == table)
        if table not in SCHEMA:
            self.report_in(place, text, Fault(f"unknown table '{table}'{nearest(table, SCHEMA)}", at, len(table)))
            return None
        if table != "ops":
            self.reads.need((table,), "op")
        key = SCHEMA[table].column("op")
        if table != "ops" and (key is None or key.kind != "key"):
            self.report_in(place, text, Fault(f"rows of table '{table}' have no op to be under", at, len(table)))
            return None
        bare = len(call.args) == 1 and path_of(call.args[0]) == table
        return table, [] if bare else call.args

    # -- emit ------------------------------------------------------------------------------------------------------

    def _emit(self, stages: tuple[p.Stage, ...], scope: StaticScope, detail: StaticScope) -> p.Plan:
        emit = self.rule.emit
        via = ""
        if emit.at is not None:
            kind = self.path(emit.at, self._quiet(scope), ("emit", "at"))
            if kind.kind not in ("text", "any"):
                self.report(("emit", "at"), f"'{emit.at}' is not a column of source lines")
            via = kind.via
        if emit.recorded is not None:
            self._recorded(emit.recorded, scope)
        self._texts(self._quiet(scope))
        fix = self._fix(scope, stages)
        if emit.claim is not None and emit.claim not in scope.covers | detail.covers:
            known = sorted(scope.covers | detail.covers)
            self.report(("emit", "claim"), f"'{emit.claim}' is not a column of 'cover'{nearest(emit.claim, known)}")
        return p.Plan(
            rule=self.rule,
            stages=stages,
            requirements=self.reads.requirements(),
            scope=scope,
            detail=detail,
            at=emit.at,
            via=via,
            recorded=emit.recorded,
            fix=fix,
            evidence=self._evidence(self._quiet(detail)),
            suggestions=self._suggestions(self._quiet(scope)),
        )

    def _quiet(self, scope: StaticScope) -> StaticScope:
        """The scope for what a finding prints: reading a column there does not make the profile need it."""
        return replace(scope, reads=Reads())

    def _recorded(self, name: str, scope: StaticScope) -> None:
        kind = self.path(name, scope, ("emit", "recorded"))
        memory = self.rule.emit.fix is not None and self.rule.emit.fix.memory is not None
        if kind.kind not in ("num", "any") or kind.unit not in ("", "us", *(["bytes"] if memory else [])):
            what = f"in {kind.unit}" if kind.kind == "num" else "not a number"
            self.report(("emit", "recorded"), f"'recorded' is a time in us, '{name}' is {what}")

    def _texts(self, scope: StaticScope) -> None:
        """Every ``{field}`` of title, message and advice exists and fits its format."""
        places: list[Place] = [("title", lang) for lang in ("en", "zh")]
        places += [("emit", "message", lang) for lang in ("en", "zh")]
        for index, suggestion in enumerate(self.rule.suggest):
            given = [key for key in ("en", "zh", "before", "after") if getattr(suggestion, key) is not None]
            places += [("suggest", index, key) for key in given]
        for place in places:
            text = self._text_at(place)
            fields, faults = fields_of(text)
            for one in fields:
                found = scope.lookup(one.path)
                if isinstance(found, str) and one.path in self.rule.params:
                    found = scope.named(one.path)
                if isinstance(found, str):
                    faults.append(Fault(found, one.offset, one.width))
                elif one.format and found.kind not in ("num", "any"):
                    faults.append(Fault(f"format '{one.format}' needs a number", one.offset, one.width))
            for fault in faults:
                self.report_in(place, text, fault)
        for head, pair in self._pairs():
            self._same_fields(head, pair)

    def _text_at(self, place: Place) -> str:
        if place[0] == "suggest":
            return str(getattr(self.rule.suggest[int(place[1])], str(place[2])))
        text = self.rule.title if place[0] == "title" else self.rule.emit.message
        return text.pick(str(place[-1]))

    def _pairs(self) -> Iterable[tuple[Place, tuple[str, str]]]:
        yield ("title",), (self.rule.title.en, self.rule.title.zh)
        yield ("emit", "message"), (self.rule.emit.message.en, self.rule.emit.message.zh)
        for index, suggestion in enumerate(self.rule.suggest):
            yield ("suggest", index), (suggestion.en, suggestion.zh)

    def _same_fields(self, place: Place, pair: tuple[str, str]) -> None:
        english, chinese = ({(one.path, one.format) for one in fields_of(text)[0]} for text in pair)
        if english != chinese:
            odd = sorted(":".join(filter(None, field)) for field in english ^ chinese)
            self.report((*place, "zh"), f"'zh' and 'en' use different fields: {odd}")

    def _fix(self, scope: StaticScope, stages: tuple[p.Stage, ...]) -> p.FixPlan | None:
        fix = self.rule.emit.fix
        if fix is None:
            return None
        place: Place = ("emit", "fix")
        if fix.kind == "memory":
            assert fix.memory is not None
            return p.FixPlan(fix, self.expression(fix.memory, scope, (*place, "memory"), "num"))
        good = self.table(fix.table, (*place, fix.kind))
        if fix.with_ is not None:
            good = self.table(fix.with_, (*place, "with")) and good
        if not good:
            return None
        for start in stages:
            for name in start.tables if isinstance(start, p.From) else ():
                if route(name, fix.table) is None:
                    message = f"fix table '{fix.table}' cannot be reached from rows of '{name}'"
                    self.report((*place, fix.kind), message)
        if fix.memory is not None:
            return p.FixPlan(fix, self.expression(fix.memory, scope, (*place, "memory"), "num"))
        if fix.per_parameter is not None:
            place = (*place, "per_parameter")
            return p.FixPlan(fix, self.expression(fix.per_parameter, scope, place, "bool"))
        if fix.expression is None:
            return p.FixPlan(fix)
        part = "by" if fix.by is not None else "us"
        inner = StaticScope((fix.table,), scope.names, self.reads)
        return p.FixPlan(fix, self.expression(fix.expression, inner, (*place, part), "num"))

    def _evidence(self, detail: StaticScope) -> p.EvidencePlan | None:
        evidence, place = self.rule.emit.evidence, ("emit", "evidence")
        if evidence is None:
            return None
        for index, path in enumerate(evidence.by):
            self.path(path, detail, (*place, "by", index))
        made = [self._call(name, text, detail, (*place, "agg", name))[0] for name, text in evidence.agg.items()]
        return p.EvidencePlan(tuple(evidence.by), tuple(call for call in made if call), evidence.top)

    def _suggestions(self, scope: StaticScope) -> tuple[p.SuggestionPlan, ...]:
        made = []
        for index, suggestion in enumerate(self.rule.suggest):
            when = None
            if suggestion.when is not None:
                when = self.expression(suggestion.when, scope, ("suggest", index, "when"), "bool")
            made.append(p.SuggestionPlan(suggestion, when))
        return tuple(made)


def _aggregate_call(tree: ast.expr) -> tuple[ast.Call, Aggregate]:
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)):
        names = ", ".join(AGGREGATES)
        raise ExprError(Fault(f"an aggregate is needed: one of {names}", tree.col_offset, _width(tree)))
    definition = AGGREGATES.get(tree.func.id)
    if definition is None:
        message = f"unknown aggregate '{tree.func.id}'{nearest(tree.func.id, AGGREGATES)}"
        raise ExprError(Fault(message, tree.col_offset, len(tree.func.id)))
    if tree.keywords or any(isinstance(argument, ast.Starred) for argument in tree.args):
        raise ExprError(Fault(f"'{tree.func.id}' takes plain arguments only", tree.col_offset, _width(tree)))
    return tree, definition


def _width(node: ast.expr) -> int:
    return (node.end_col_offset or node.col_offset + 1) - node.col_offset


def _is_function(node: ast.expr, root: ast.expr) -> bool:
    return any(isinstance(call, ast.Call) and call.func is node for call in ast.walk(root))
