"""Run rules on a profile: each ends as fired, clean, skipped or failed, and none stops another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from npu_advisor.base.errors import RuleError
from npu_advisor.base.intervals import Spans, union
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.engine.applies import not_for
from npu_advisor.engine.compile import compile_rule
from npu_advisor.engine.pipeline import run_stages
from npu_advisor.engine.plan import EvidencePlan, Group, Plan
from npu_advisor.engine.reach import carry
from npu_advisor.engine.rows import Rows
from npu_advisor.engine.stages import aggregate_columns, group_ids, mask, step_number
from npu_advisor.engine.texts import fields_of, filled, render
from npu_advisor.engine.values import Array, Requirement, Value, tidy
from npu_advisor.findings import Evidence, JsonValue, Reference, Suggestion
from npu_advisor.model.profile import Missing, Profile
from npu_advisor.model.schema import SCHEMA
from npu_advisor.rules.spec import Fix, FixKind, Rule

MAX_FINDINGS = 2000


@dataclass(frozen=True)
class RawFix:
    """The edit of a finding's cure.

    ``rows`` are the positions in ``table`` that the members stand for, ascending; ``values`` the evaluated ``by`` or
    ``us`` of each (None for edits without a number), for ``fuse`` whether it is ``per_parameter``. ``memory`` has no
    rows; ``freed_bytes`` is what it and ``avoid`` free at the peak.
    """

    kind: FixKind
    table: str
    rows: Array
    values: Array | None
    spec: Fix
    freed_bytes: float | None = None


@dataclass(frozen=True)
class RawFinding:
    """One final row of a rule, not priced yet.

    ``members`` is a table and the ascending positions of the rows behind the finding (of the table with most of them,
    where several were stacked); ``covered`` the time that ``cover`` found under them;
    ``group_key`` what the row was grouped by, without step and line; ``saves_us`` what the row itself says of its cure.
    """

    rule: Rule
    values: dict[str, JsonValue]
    title: Text
    message: Text
    recorded_us: float | None
    rank: int
    step: int | None
    source: str | None
    how: str | None
    members: tuple[str, Array]
    covered: Spans
    covered_by: dict[str, Spans]
    fix: RawFix | None
    evidence: Evidence
    suggestions: list[Suggestion]
    references: list[Reference]
    group_key: str
    saves_us: float | None = None


@dataclass(frozen=True)
class RuleResult:
    """How one rule ended on one profile; ``reason`` and ``enable`` say why it was skipped and how to avoid that."""

    rule: Rule
    outcome: Literal["fired", "clean", "skipped", "failed"]
    reason: Text | None = None
    enable: str | None = None
    raw_findings: list[RawFinding] = field(default_factory=list)


def run_rules(rules: Sequence[Plan | Rule], profile: Profile) -> list[RuleResult]:
    """The result of every rule, in the order given."""
    return [run_rule(rule, profile) for rule in rules]


def guarded(work: Callable[[], object]) -> str | None:
    """Run ``work``; the text of the error when it fails. A fault of ours costs one figure, not the report."""
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def run_rule(wanted: Plan | Rule, profile: Profile) -> RuleResult:
    """One rule's result; whatever goes wrong inside becomes ``failed``."""
    rule, plan = (wanted.rule, wanted) if isinstance(wanted, Plan) else (wanted, None)
    try:
        return _run(plan or compile_rule(rule), profile)
    except RuleError as error:
        return RuleResult(rule, "failed", say("engine.rule_wrong", error=str(error)))
    except Exception as error:
        return RuleResult(rule, "failed", say("engine.rule_failed", error=f"{type(error).__name__}: {error}"))


def _run(plan: Plan, profile: Profile) -> RuleResult:
    reason = not_for(plan.rule.applies, profile)
    if reason is not None:
        return RuleResult(plan.rule, "skipped", reason)
    absent = missing(plan.requirements, profile)
    if absent is not None:
        npu = profile.info.device_kind == "npu"
        enable = absent.enable if npu else absent.enable.replace("torch_npu.", "torch.")
        return RuleResult(plan.rule, "skipped", absent.reason, enable or None)
    peers = comparable(plan, profile)
    if plan.across and not peers:
        return RuleResult(plan.rule, "skipped", say(f"engine.no_other_{plan.across}"))
    rows = run_stages(profile, plan.stages, peers)
    if len(rows) > MAX_FINDINGS:
        return RuleResult(plan.rule, "failed", say("engine.too_many", found=len(rows), limit=MAX_FINDINGS))
    findings = _Findings(plan, rows).all()
    return RuleResult(plan.rule, "fired" if findings else "clean", raw_findings=findings)


def missing(requirements: Iterable[Requirement], profile: Profile) -> Missing | None:
    """The first requirement that the profile does not meet, None when it meets all."""
    for requirement in requirements:
        found = [profile.missing(table, requirement.column) for table in requirement.tables]
        if found and all(found):
            return found[0]
    return None


def comparable(plan: Plan, profile: Profile) -> list[Profile]:
    """The profiles that a plan with ``compare`` measures this one against: those that recorded what it needs."""
    known = {"rank": profile.peers, "run": profile.runs}.get(plan.across, [])
    return [other for other in known if missing(plan.requirements, other) is None]


class _Findings:
    """Turns the final rows of one plan into findings."""

    def __init__(self, plan: Plan, rows: Rows) -> None:
        self.plan, self.rows, self.profile = plan, rows, rows.profile
        self.detail = rows.detail or rows
        self.known = plan.scope.known()
        self.columns = {path: self._scalars(path) for path in self._paths()}
        self.numbers = self._steps()
        count = len(rows)
        self.chosen = [np.ones(count, bool) if s.when is None else mask(rows, s.when) for s in plan.suggestions]

    def all(self) -> list[RawFinding]:
        return [self._finding(row) for row in range(len(self.rows))]

    def _paths(self) -> list[str]:
        """What a finding shows: its own columns, those its texts name, and the table's where rows were not grouped."""
        rule, rows = self.plan.rule, self.rows
        code = [code for suggestion in rule.suggest for code in (suggestion.before, suggestion.after) if code]
        texts = [rule.title.en, rule.emit.message.en, *(suggestion.en for suggestion in rule.suggest), *code]
        named = [one.path for text in texts for one in fields_of(text)[0]]
        own = [*rows.columns, *([] if rows.position is None else filter(rows.recorded, self.known))]
        known = [path for path in named if path not in rule.params or not isinstance(self.plan.scope.lookup(path), str)]
        return list(dict.fromkeys([*own, *known]))

    def _scalars(self, path: str) -> list[JsonValue]:
        return self.rows.column(path).spread(len(self.rows)).scalars(self.profile)

    def _steps(self) -> list[JsonValue]:
        if "step" not in self.known:
            return [None] * len(self.rows)
        return step_number(self.rows).scalars(self.profile)

    def _finding(self, row: int) -> RawFinding:
        rule, step = self.plan.rule, self.numbers[row]
        values = {path: column[row] for path, column in self.columns.items()}
        shown = {**rule.values, **values}.__getitem__
        by_table = self.rows.base_members(row)
        covered_by = {name: Spans(*covered.of(row)) for name, covered in self.rows.covered.items()}
        source = self._source(row)
        return RawFinding(
            rule=rule,
            values=values,
            title=render(rule.title, shown),
            message=render(rule.emit.message, shown),
            recorded_us=self._recorded(row),
            rank=self._rank(row),
            step=None if step is None else int(step),
            source=source,
            how=None if source is None else self._how(row, source),
            members=max(by_table.items(), key=lambda item: len(item[1])),
            covered=self._claimed(covered_by),
            covered_by=covered_by,
            fix=self._fix(row, by_table),
            evidence=self._evidence(row),
            suggestions=[
                Suggestion(
                    effort=suggestion.spec.effort,
                    text=render(Text(en=suggestion.spec.en, zh=suggestion.spec.zh), shown),
                    before=filled(suggestion.spec.before, shown),
                    after=filled(suggestion.spec.after, shown),
                    codemod=suggestion.spec.codemod,
                )
                for suggestion, chosen in zip(self.plan.suggestions, self.chosen, strict=True)
                if chosen[row]
            ],
            references=[
                Reference(title=rule.known_references[name].title, url=rule.known_references[name].url)
                for name in rule.references
            ],
            group_key=self._group_key(row),
            saves_us=self._number(self.plan.saves, row),
        )

    def _rank(self, row: int) -> int:
        """The profile's rank, or the row's own in a table of several."""
        value = self._at("rank", row) if "rank" in self.known else None
        return self.profile.rank if value is None else int(value)

    def _number(self, path: str | None, row: int) -> float | None:
        value = None if path is None else self._at(path, row)
        return None if value is None else float(value)

    def _recorded(self, row: int) -> float | None:
        """The rule's own figure, else the summed duration of the rows behind the finding."""
        if self.plan.recorded is not None:
            return self._number(self.plan.recorded, row)
        if isinstance(self.plan.detail.lookup("dur_us"), str):
            return None
        return float(tidy(float(np.nansum(self.detail.column("dur_us").data[self.rows.detail_rows(row)]))))

    def _at(self, path: str, row: int) -> JsonValue:
        if path not in self.columns:
            self.columns[path] = self._scalars(path)
        return self.columns[path][row]

    def _source(self, row: int) -> str | None:
        value = None if self.plan.at is None else self._at(self.plan.at, row)
        return None if value is None else str(value)

    def _how(self, row: int, source: str) -> str | None:
        """How most of the rows at this line were attributed to it."""
        if not self.plan.via:
            return None
        lines, ways = self._attributed
        assert lines.categories is not None and ways.categories is not None
        rows = self.rows.detail_rows(row)
        here = np.isin(lines.data[rows], np.flatnonzero(lines.categories == source))
        found = ways.data[rows[here]]
        found = found[found >= 0]
        return str(ways.categories[found[np.argmax(np.bincount(found)[found])]]) if len(found) else None

    @cached_property
    def _attributed(self) -> tuple[Value, Value]:
        """Of all rows behind the findings the line, and how it was found."""
        lines, ways = (self.detail.column(path) for path in (self.plan.via, f"{self.plan.via}_how"))
        return lines.spread(len(self.detail)), ways.spread(len(self.detail))

    def _claimed(self, covered_by: dict[str, Spans]) -> Spans:
        claim = self.plan.rule.emit.claim
        chosen = [spans for name, spans in covered_by.items() if claim in (None, name)]
        nothing = np.zeros(0, dtype=np.int64)
        start = np.concatenate([nothing, *(spans.start for spans in chosen)])
        return union(start, np.concatenate([nothing, *(spans.end for spans in chosen)]))

    def _fix(self, row: int, members: dict[str, Array]) -> RawFix | None:
        fix = self.plan.fix
        if fix is None:
            return None
        spec, expression = fix.spec, fix.expression
        freed = None
        if spec.memory is not None:
            assert expression is not None
            value = expression.evaluate(self.rows).spread(len(self.rows))
            freed, expression = float(value.data[row]), None
        if spec.kind == "memory":
            return RawFix("memory", "", np.zeros(0, dtype=np.int64), None, spec, freed)
        rows = carry(self.profile, members, spec.table)
        edited, values = Rows.all_of(self.profile, spec.table).take(rows), None
        if fix.where is not None:
            kept = mask(edited, fix.where)
            edited, rows = edited.take(kept), rows[kept]
        if spec.per_parameter is not None:
            assert expression is not None
            flag = expression.evaluate(self.rows).spread(len(self.rows))
            values = np.full(len(rows), float(flag.data[row]))
        elif expression is not None:
            values = expression.evaluate(edited).spread(len(edited)).data
        kernel = SCHEMA[spec.table].column("kernel")
        if kernel is not None:  # a table that describes kernels one by one: the graph knows them
            return RawFix(spec.kind, kernel.target, self.profile.table(spec.table)["kernel"][rows], values, spec, freed)
        return RawFix(spec.kind, spec.table, rows, values, spec, freed)

    def _evidence(self, row: int) -> Evidence:
        plan = self.plan.evidence
        if plan is None:
            return Evidence()
        return evidence_of(self.detail.take(self.rows.detail_rows(row)), plan)

    def _group_key(self, row: int) -> str:
        groups = [stage for stage in self.plan.stages if isinstance(stage, Group)]
        if not groups:
            rank = self._rank(row)
            return "" if rank == self.profile.rank else f"rank={rank}"
        parts = []
        for path in groups[-1].by:
            kind = self.plan.scope.lookup(path)
            is_step = not isinstance(kind, str) and kind.target == "steps"
            if not is_step and not (not isinstance(kind, str) and kind.via):
                parts.append(f"{path}={self._at(path, row)}")
        return "|".join(parts)


def evidence_of(rows: Rows, plan: EvidencePlan) -> Evidence:
    """``rows`` grouped as the plan says, heaviest (by its first aggregate) first."""
    ids, first = group_ids(rows, plan.by)
    columns = aggregate_columns(rows, ids, first, plan.by, plan.columns)
    order = np.arange(len(first))
    weight = columns[plan.columns[0].column] if plan.columns else None
    if weight is not None and weight.kind == "num":
        order = np.lexsort((np.where(weight.is_missing, 0, -weight.data), weight.is_missing))
    order = order[: plan.top]
    cells = [value.take(order).scalars(rows.profile) for value in columns.values()]
    return Evidence(columns=list(columns), rows=[list(line) for line in zip(*cells, strict=True)])
