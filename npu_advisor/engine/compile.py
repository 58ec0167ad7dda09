"""A rule checked against the schema and made ready to run; every fault is collected with its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from npu_advisor.base.errors import RuleError, RuleProblem
from npu_advisor.codemods import CODEMODS
from npu_advisor.engine import plan as p
from npu_advisor.engine.calls import checked_aggregate
from npu_advisor.engine.checking import Checker
from npu_advisor.engine.expr import Fault
from npu_advisor.engine.reach import route
from npu_advisor.engine.scope import Reads, StaticScope
from npu_advisor.engine.stage_checks import check_stages
from npu_advisor.engine.texts import fields_of
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


class _Compiler(Checker):
    """Checks a whole rule."""

    def plan(self) -> p.Plan:
        """The plan; only to be used when there were no problems."""
        names: dict[str, Any] = {name: entry.values for name, entry in self.rule.lists.items()}
        start = StaticScope((), names | self.rule.values, self.reads, broken=True)
        return self._emit(*check_stages(self, self.rule.find, start, ("find",)))

    def _emit(self, stages: tuple[p.Stage, ...], scope: StaticScope, detail: StaticScope) -> p.Plan:
        emit = self.rule.emit
        via = ""
        if emit.at is not None:
            kind = self.path(emit.at, self._quiet(scope), ("emit", "at"))
            if kind.kind not in ("text", "any"):
                self.report(("emit", "at"), f"'{emit.at}' is not a column of source lines")
            via = kind.via
        if emit.recorded is not None:
            self._recorded(emit.recorded, scope, "recorded")
        if emit.saves is not None:
            self._recorded(emit.saves, self._quiet(scope), "saves")
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
            saves=emit.saves,
            fix=fix,
            evidence=self._evidence(self._quiet(detail)),
            suggestions=self._suggestions(self._quiet(scope)),
        )

    def _quiet(self, scope: StaticScope) -> StaticScope:
        """The scope for what a finding prints: reading a column there does not make the profile need it."""
        return replace(scope, reads=Reads())

    def _recorded(self, name: str, scope: StaticScope, key: str) -> None:
        kind = self.path(name, scope, ("emit", key))
        memory = self.rule.emit.fix is not None and self.rule.emit.fix.memory is not None
        if kind.kind not in ("num", "any") or kind.unit not in ("", "us", *(["bytes"] if memory else [])):
            what = f"in {kind.unit}" if kind.kind == "num" else "not a number"
            self.report(("emit", key), f"'{key}' is a time in us, '{name}' is {what}")

    def _texts(self, scope: StaticScope) -> None:
        """Every ``{field}`` of title, message and advice exists and fits its format."""
        places: list[Place] = [("title", lang) for lang in ("en", "zh")]
        places += [("emit", "message", lang) for lang in ("en", "zh")]
        for index, suggestion in enumerate(self.rule.suggest):
            given = [key for key in ("en", "zh", "before", "after") if getattr(suggestion, key) is not None]
            places += [("suggest", index, key) for key in given]
        for place in places:
            text = self._text_at(place)
            fields, found_faults = fields_of(text)
            faults = list(found_faults)
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
        inner = StaticScope((fix.table,), scope.names, self.reads)
        where = None if fix.where is None else self.expression(fix.where, inner, (*place, "where"), "bool")
        if fix.memory is not None:
            return p.FixPlan(fix, self.expression(fix.memory, scope, (*place, "memory"), "num"), where)
        if fix.per_parameter is not None:
            place = (*place, "per_parameter")
            # It chooses between two prices of one cure: what a profile without its columns shows is the usual one.
            return p.FixPlan(fix, self.expression(fix.per_parameter, self._quiet(scope), place, "bool"), where)
        if fix.expression is None:
            return p.FixPlan(fix, where=where)
        part = "by" if fix.by is not None else "us"
        return p.FixPlan(fix, self.expression(fix.expression, inner, (*place, part), "num"), where)

    def _evidence(self, detail: StaticScope) -> p.EvidencePlan | None:
        evidence, place = self.rule.emit.evidence, ("emit", "evidence")
        if evidence is None:
            return None
        for index, path in enumerate(evidence.by):
            self.path(path, detail, (*place, "by", index))
        made = [
            checked_aggregate(self, name, text, detail, (*place, "agg", name))[0] for name, text in evidence.agg.items()
        ]
        return p.EvidencePlan(tuple(evidence.by), tuple(call for call in made if call), evidence.top)

    def _suggestions(self, scope: StaticScope) -> tuple[p.SuggestionPlan, ...]:
        made = []
        for index, suggestion in enumerate(self.rule.suggest):
            when = None
            if suggestion.when is not None:
                when = self.expression(suggestion.when, scope, ("suggest", index, "when"), "bool")
            if suggestion.codemod is not None:
                self._codemod(suggestion.codemod, scope, ("suggest", index, "codemod"))
            made.append(p.SuggestionPlan(suggestion, when))
        return tuple(made)

    def _codemod(self, name: str, scope: StaticScope, place: Place) -> None:
        """It exists, the finding has a line for it to work on, and the values that it reads."""
        known = CODEMODS.get(name)
        if known is None:
            self.report(place, f"unknown codemod '{name}'{nearest(name, CODEMODS)}")
            return
        if self.rule.emit.at is None:
            self.report(place, "a codemod changes the line of the finding: 'emit' needs 'at'")
        for column in known.reads:
            if column not in scope.columns:
                self.report(place, f"codemod '{name}' reads the finding's column '{column}'")
