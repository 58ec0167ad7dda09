"""Everything that can be said of rule files without a profile, all of it at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from npu_advisor.base.errors import RuleError, RuleProblem
from npu_advisor.engine.applies import version_fault
from npu_advisor.engine.compile import check_rule
from npu_advisor.engine.plan import Plan
from npu_advisor.rules.loader import read_rules
from npu_advisor.rules.spec import Rule


def lint_dirs(dirs: Sequence[Path], *, tests: bool = True) -> list[RuleProblem]:
    """Every problem of every rule file in ``dirs``: form, meaning and (with ``tests``) cases."""
    rules, problems = read_rules(dirs)
    return _in_order([*problems, *lint_rules(rules, tests=tests)])


def lint_rules(rules: Iterable[Rule], *, tests: bool = True) -> list[RuleProblem]:
    """What is wrong with rules whose form is right, in order of file and line."""
    problems: list[RuleProblem] = []
    for rule in rules:
        problems += _checked(rule)[1]
        if tests:
            from npu_advisor.rules.cases import read_cases

            problems += read_cases(rule)[1]
    return _in_order(problems)


def checked_plans(rules: Iterable[Rule]) -> list[Plan]:
    """The plans of rules whose form is right. RuleError with every problem of every one."""
    checked = [_checked(rule) for rule in rules]
    problems = _in_order(problem for _, found in checked for problem in found)
    if problems:
        raise RuleError(problems)
    return [plan for plan, _ in checked if plan is not None]


def _checked(rule: Rule) -> tuple[Plan | None, list[RuleProblem]]:
    plan, problems = check_rule(rule)
    return plan, [*problems, *_applies(rule)]


def _applies(rule: Rule) -> list[RuleProblem]:
    applies, problems = rule.applies, []
    for name in ("cann", "torch", "torch_npu"):
        wanted = getattr(applies, name) if applies else None
        fault = version_fault(wanted) if wanted else None
        if fault:
            problems.append(rule.origin.span(("applies", name)).problem(fault))
    return problems


def _in_order(problems: Iterable[RuleProblem]) -> list[RuleProblem]:
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.file, problem.line, problem.column))
