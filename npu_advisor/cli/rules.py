"""``npu-advisor rules``: list, explain, lint, test and new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import npu_advisor
from npu_advisor.base.errors import AdvisorError, ConfigError, RuleError, RuleProblem
from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.cli.choices import choice, did_you_mean
from npu_advisor.cli.explained import explained, reference
from npu_advisor.cli.output import write_report
from npu_advisor.report.text import clean, one_line, pad
from npu_advisor.rules.choice import chosen_rules
from npu_advisor.rules.loader import display_name, load_rules, plugin_dirs, shipped_dir
from npu_advisor.rules.scaffold import new_rule
from npu_advisor.rules.spec import Rule

if TYPE_CHECKING:
    from npu_advisor.engine.run import RuleResult
    from npu_advisor.engine.testing import CaseResult
    from npu_advisor.findings import Finding
    from npu_advisor.model.profile import Profile

UNNOTICED = 1
# The pages of docs/ that --how prints.
TOPICS = {"language": "rule-language", "savings": "savings"}


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
    _print(explained(rules[rule_id], lang))
    return 0


def explain_all(dirs: Sequence[str], lang: Lang, form: str) -> int:
    """Print every rule, as text or as the markdown of the rule reference."""
    choice("--format", form, ("text", "markdown"))
    rules = every_rule(dirs)
    if form == "markdown":
        write_report(reference(rules, lang), None)
    else:
        _print([line for rule in rules for line in [*explained(rule, lang), ""]])
    return 0


def explain_how(topic: str, lang: Lang) -> int:
    """Print the page on how something works. ConfigError for a topic without one."""
    name = TOPICS[choice("--how", topic, tuple(TOPICS))]
    page = docs_dir() / f"{name}{'.zh' if lang == 'zh' else ''}.md"
    if not page.is_file():
        page = docs_dir() / f"{name}.md"
    write_report(clean(page.read_text(encoding="utf-8")), None)
    return 0


def docs_dir() -> Path:
    """The folder of the pages: inside a wheel, beside the package in a checkout."""
    package = Path(npu_advisor.__file__).parent
    inside = package / "_docs"
    return inside if inside.is_dir() else package.parent / "docs"


def new(rule_id: str, dirs: Sequence[str], lang: Lang) -> int:
    """Write a rule to start from and its cases, into the first folder of one's own rules or ``rules``."""
    own = [*dirs, *chosen_rules().dirs, "rules"]
    known = [] if dirs and not Path(dirs[0]).is_dir() else [rule.id for rule in every_rule(dirs)]
    files = new_rule(rule_id, Path(own[0]), known)
    _print([*map(display_name, files), say("rules.new_done", id=rule_id, folder=own[0]).pick(lang)])
    return 0


def lint(dirs: Sequence[str], lang: Lang) -> int:
    """Check the shipped rules and those of ``dirs`` with their cases. RuleError with every problem."""
    from npu_advisor.engine.lint import lint_dirs

    problems = lint_dirs([shipped_dir(), *plugin_dirs(), *map(Path, chosen_rules(dirs).dirs)])
    if problems:
        raise RuleError(problems)
    _print([say("rules.lint_ok", n=len(every_rule(dirs))).pick(lang)])
    return 0


def test(dirs: Sequence[str], select: Sequence[str], ignore: Sequence[str], lang: Lang, *, mutate: bool = False) -> int:
    """Run the cases beside the rules: each failure with what differs, then the counts; 2 when one failed.

    With ``mutate``, once they pass, also each small change of a rule that no case notices; 1 when there is one.
    """
    chosen = chosen_rules(dirs, select, ignore)
    # Cases are written for the parameters in the file, not for those of somebody's project.
    rules = load_rules(chosen.dirs, select=chosen.select, ignore=chosen.ignore)
    results = list(_case_results(rules))
    failed = [result for result in results if result.status == "failed"]
    skipped = [result for result in results if result.status == "skipped"]
    lines = [f"{result.rule_id}: {result.name}: {result.message}" for result in (*skipped, *failed)]
    if failed:
        counts = [say("rules.test_failed", failed=len(failed), n=len(results))]
    else:
        counts = [say("rules.test_ok", n=len(results) - len(skipped)) if results else say("rules.test_none")]
    if skipped:
        counts.append(say("rules.test_skipped", n=len(skipped)))
    left, made = _mutated(rules) if mutate and not failed else ([], 0)
    lines += map(str, left)
    if made:
        counts.append(say("rules.mutants", noticed=made - len(left), n=made))
    _print([*lines, ("，" if lang == "zh" else ", ").join(count.pick(lang) for count in counts)])
    return AdvisorError.exit_code if failed else UNNOTICED if left else 0


def _mutated(rules: Sequence[Rule]) -> tuple[list[RuleProblem], int]:
    """What no case notices, and how many changes were tried."""
    from npu_advisor.api import finish
    from npu_advisor.engine.mutate import unnoticed
    from npu_advisor.rules.cases import read_cases

    problems, tried = [], 0
    for rule in rules:
        file, _ = read_cases(rule)
        left, made = unnoticed(rule, file.cases if file else (), finish)
        problems += [mutant.problem() for mutant in left]
        tried += made
    return problems, tried


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


def _print(lines: Sequence[str]) -> None:
    write_report(clean("\n".join(lines)) + "\n", None)
