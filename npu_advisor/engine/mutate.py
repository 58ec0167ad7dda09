"""Change a rule in small ways and see whether its cases notice: what no case notices is not tested."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

from npu_advisor.base.errors import RuleProblem
from npu_advisor.engine.grammar import parse, plain
from npu_advisor.engine.testing import Finish, case_profile, differences
from npu_advisor.rules.cases import Case
from npu_advisor.rules.source import Place
from npu_advisor.rules.spec import Rule, Stage

FACTORS = {0.5: "halved", 2.0: "doubled"}


@dataclass(frozen=True)
class Part:
    """A condition inside an expression."""

    whole: str
    offset: int
    text: str


@dataclass(frozen=True)
class Mutant:
    """A rule with one change: ``what`` was done at ``place`` of its file, to ``part`` of the expression there."""

    rule: Rule
    what: str
    place: Place
    part: Part | None = None

    def problem(self) -> RuleProblem:
        """That no case notices, with the place."""
        span, message = self.rule.origin.span(self.place), f"no case notices when {self.what}"
        if self.part is None:
            return span.problem(message)
        return span.problem(message, self.part.offset, len(self.part.text), self.part.whole)


def mutants(rule: Rule) -> list[Mutant]:
    """Every numeric parameter of ``find`` halved and doubled, and ``find`` without each condition of its ``where``."""
    return [*_thresholds(rule), *_conditions(rule)]


def unnoticed(rule: Rule, cases: Sequence[Case], finish: Finish) -> tuple[list[Mutant], int]:
    """The mutants that pass every case with given tables, and how many mutants there are.

    Cases on recorded profiles are left out: whether a rule is tested must not depend on who has them.
    """
    profiles = [(case, case_profile(rule, case, finish)) for case in cases if case.profile is None]
    made = mutants(rule)
    left = [one for one in made if not any(differences(one.rule, case, profile) for case, profile in profiles)]
    return left, len(made)


def _thresholds(rule: Rule) -> Iterator[Mutant]:
    used = set(re.findall(r"\$(\w+)", "\n".join(stage.model_dump_json() for stage in rule.find)))
    for name, param in rule.params.items():
        default = param.default
        if name not in used or isinstance(default, bool) or not isinstance(default, int | float) or default == 0:
            continue
        for factor, word in FACTORS.items():
            changed = param.model_copy(update={"default": default * factor})
            mutant = rule.model_copy(update={"params": {**rule.params, name: changed}})
            yield Mutant(mutant, f"{name} is {word}", ("params", name, "default"))


def _conditions(rule: Rule) -> Iterator[Mutant]:
    for place, dropped, stages in _pipelines(rule.find, ("find",)):
        mutant = rule.model_copy(update={"find": stages})
        yield Mutant(mutant, f"'{dropped.text}' is dropped", place, dropped)


def _pipelines(stages: list[Stage], place: Place) -> Iterator[tuple[Place, Part, list[Stage]]]:
    """The stages without one condition: where it stood, and what is left."""
    for index, stage in enumerate(stages):
        for at, dropped, changed in _stages(stage, (*place, index, stage.name)):
            kept = [] if changed is None else [changed]
            yield at, dropped, [*stages[:index], *kept, *stages[index + 1 :]]


def _stages(stage: Stage, place: Place) -> Iterator[tuple[Place, Part, Stage | None]]:
    if stage.where is not None:
        for dropped, rest in without_one(stage.where):
            yield place, dropped, stage.model_copy(update={"where": rest}) if rest else None
    for name, column in (stage.cover or {}).items():
        for dropped, rest in without_one(column.where) if column.where else ():
            cover = {**(stage.cover or {}), name: column.model_copy(update={"where": rest})}
            yield (*place, name, "where"), dropped, stage.model_copy(update={"cover": cover})
    if stage.join is not None:
        for at, dropped, inner in _pipelines(stage.join.from_, (*place, "from")):
            yield at, dropped, stage.model_copy(update={"join": stage.join.model_copy(update={"from_": inner})})


def without_one(text: str) -> Iterator[tuple[Part, str | None]]:
    """Each condition that ``and`` and ``or`` join in ``text``, and the text without it (None when nothing is left)."""
    for dropped, rest in _without(parse(text)):
        part = Part(text, dropped.col_offset, text[dropped.col_offset : dropped.end_col_offset])
        yield part, None if rest is None else plain(ast.unparse(rest))


def _without(node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(node.operand, ast.BoolOp):
        for dropped, rest in _without(node.operand):
            yield dropped, None if rest is None else ast.UnaryOp(ast.Not(), rest)
    elif isinstance(node, ast.BoolOp):
        for index, part in enumerate(node.values):
            for dropped, rest in _without(part):
                values = [*node.values[:index], *([] if rest is None else [rest]), *node.values[index + 1 :]]
                changed = copy(node)
                changed.values = values
                yield dropped, values[0] if len(values) == 1 else changed
    else:
        yield node, None
