"""``npu-advisor rules``: list, explain, lint and test."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npu_advisor.base.errors import AdvisorError, ConfigError, RuleError
from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.cli.choices import chosen_rules, did_you_mean
from npu_advisor.cli.output import width_of, write_report
from npu_advisor.report.options import MAX_WIDTH
from npu_advisor.report.text import clean, one_line, pad, wrap
from npu_advisor.rules.loader import display_name, load_rules, plugin_dirs, shipped_dir
from npu_advisor.rules.spec import Rule

if TYPE_CHECKING:
    from npu_advisor.engine.run import RuleResult
    from npu_advisor.engine.testing import CaseResult
    from npu_advisor.findings import Finding
    from npu_advisor.model.profile import Profile

_LABEL = 13
_INDENT = 2


def every_rule(dirs: Sequence[str]) -> list[Rule]:
    """Every rule there is, chosen or not, with the project's parameters."""
    chosen = chosen_rules(dirs)
    return load_rules(chosen.dirs, chosen.params)


def list_rules(dirs: Sequence[str], lang: Lang) -> int:
    """Print every rule's id and title, grouped by category."""
    rules = chosen_rules(dirs).load()
    width = max((len(rule.id) for rule in rules), default=0)
    lines = [f"{pad(rule.id, width)}  {one_line(rule.title.pick(lang))}" for rule in rules]
    counted = say("rules.counted_one") if len(rules) == 1 else say("rules.counted", n=len(rules))
    _print([*lines, "", counted.pick(lang)])
    return 0


def explain(rule_id: str, dirs: Sequence[str], lang: Lang) -> int:
    """Print what one rule sees, its parameters, what it says and what to do. ConfigError for an unknown id."""
    rules = {rule.id: rule for rule in every_rule(dirs)}
    if rule_id not in rules:
        unknown = say("error.unknown_rule", rule=rule_id)
        raise ConfigError(unknown, did_you_mean(rule_id, rules), say("error.unknown_rule_do"))
    _print(_explained(rules[rule_id], lang))
    return 0


def lint(dirs: Sequence[str], lang: Lang) -> int:
    """Check the shipped rules and those of ``dirs`` with their cases. RuleError with every problem."""
    from npu_advisor.engine.lint import lint_dirs

    problems = lint_dirs([shipped_dir(), *plugin_dirs(), *map(Path, chosen_rules(dirs).dirs)])
    if problems:
        raise RuleError(problems)
    _print([say("rules.lint_ok", n=len(every_rule(dirs))).pick(lang)])
    return 0


def test(dirs: Sequence[str], select: Sequence[str], ignore: Sequence[str], lang: Lang) -> int:
    """Run the cases beside the rules: each failure with what differs, then the counts; 2 when one failed."""
    results = list(_case_results(chosen_rules(dirs, select, ignore).load()))
    failed = [result for result in results if result.status == "failed"]
    skipped = [result for result in results if result.status == "skipped"]
    lines = [f"{result.rule_id}: {result.name}: {result.message}" for result in (*skipped, *failed)]
    if failed:
        counts = [say("rules.test_failed", failed=len(failed), n=len(results))]
    else:
        counts = [say("rules.test_ok", n=len(results) - len(skipped)) if results else say("rules.test_none")]
    if skipped:
        counts.append(say("rules.test_skipped", n=len(skipped)))
    _print([*lines, ("，" if lang == "zh" else ", ").join(count.pick(lang) for count in counts)])
    return AdvisorError.exit_code if failed else 0


def _case_results(rules: Sequence[Rule]) -> Iterator[CaseResult]:
    from npu_advisor.api import finish, load_profile
    from npu_advisor.engine.places import Roots
    from npu_advisor.engine.pricing import price
    from npu_advisor.engine.testing import run_case
    from npu_advisor.rules.cases import read_cases

    def priced(profile: Profile, result: RuleResult) -> Sequence[Finding]:
        return price([(profile, [result])], Roots()).findings

    for rule in rules:
        file, problems = read_cases(rule)
        if file is None or problems:
            raise RuleError(problems)
        for case in file.cases:
            yield run_case(rule, case, load_profile, finish, priced)


def _explained(rule: Rule, lang: Lang) -> list[str]:
    width = min(MAX_WIDTH, width_of(sys.stdout)) - _INDENT
    lines = [f"{rule.id}   {one_line(rule.title.pick(lang))}", ""]
    lines += [" " * _INDENT + line for line in wrap(rule.docs.pick(lang), width)]
    lines.append("")
    lines += _rows("rules.needs", _needs(rule), width, lang)
    lines += _rows("rules.parameters", [_parameter(rule, name) for name in rule.params], width, lang)
    lines += _rows("rules.example", [rule.emit.message.pick(lang)], width, lang)
    lines += _advice(rule, width, lang)
    known = rule.known_references
    lines += _rows("rules.references", [known[name].url for name in rule.references if name in known], width, lang)
    return lines + _rows("rules.file", [display_name(rule.path)], width, lang)


def _advice(rule: Rule, width: int, lang: Lang) -> list[str]:
    """Each suggestion once, with its effort in a column and its code below; conditions are left out."""
    lines: dict[str, None] = {}
    for item in rule.suggest:
        effort = pad(say(f"ui.effort.{item.effort.value}").pick(lang), _LABEL)
        text = item.zh if lang == "zh" else item.en
        for index, line in enumerate(wrap(text, width - 2 * _LABEL)):
            lines[(effort if index == 0 else " " * _LABEL) + line] = None
        for sign, code in (("-", item.before), ("+" if item.before else " ", item.after)):
            lines |= {f"{' ' * _LABEL}{sign} {line}": None for line in (code or "").splitlines()}
    label = say("rules.suggest").pick(lang)
    heads = [pad(label, _LABEL), *[" " * _LABEL] * len(lines)]
    return [f"{' ' * _INDENT}{head}{line}" for head, line in zip(heads, lines, strict=False)]


def _needs(rule: Rule) -> list[str]:
    """The tables and columns a profile must hold for the rule to be checked, and the switch that records each."""
    from npu_advisor.engine.compile import compile_rule
    from npu_advisor.model.schema import SCHEMA

    needs: dict[str, None] = {}
    for requirement in compile_rule(rule).requirements:
        tables = " or ".join(requirement.tables)
        specs = [SCHEMA[name] for name in requirement.tables]
        column = specs[0].column(requirement.column) if requirement.column else None
        switch = column.needs if column is not None else specs[0].needs
        if column is None:
            needs[f"{tables}: {specs[0].files}{f'; {switch}' if switch else ''}"] = None
        elif switch and switch != specs[0].needs:
            needs[f"{tables}.{column.name}: {switch}"] = None
    return list(needs)


def _parameter(rule: Rule, name: str) -> str:
    param = rule.params[name]
    value = rule.values[name]
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name} = {shown}{f' {param.unit}' if param.unit else ''}: {param.doc}"


def _rows(key: str, texts: Sequence[str], width: int, lang: Lang) -> list[str]:
    """A label and texts beside it, wrapped; nothing when there are no texts. A URL or a path is for copying: whole."""
    lines: list[str] = []
    for text in texts:
        for line in wrap(text, width - _LABEL) if " " in text else [text]:
            label = say(key).pick(lang) if not lines else ""
            lines.append(f"{' ' * _INDENT}{pad(label, _LABEL)}{line}")
    return lines


def _print(lines: Sequence[str]) -> None:
    write_report(clean("\n".join(lines)) + "\n", None)
