"""Errors and warnings as people read them: what happened, what was found, what to do, the exit code."""

from __future__ import annotations

from itertools import groupby
from pathlib import PurePath

from npu_advisor.base.errors import AdvisorError, RuleError, RuleProblem
from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.findings import Remark

_LABEL = 8


def error_text(error: AdvisorError, lang: Lang) -> str:
    """The error as lines for stderr; a rule error lists every problem of every file."""
    if isinstance(error, RuleError):
        lines = _rule_error(error, lang)
    else:
        lines = _block("error", error.what.pick(lang), lang)
        lines += _labelled("found", error.found.pick(lang), lang) if error.found else []
        lines += _labelled("do", error.do.pick(lang), lang) if error.do else []
    lines.append("  " + say("ui.error.exit", code=error.exit_code).pick(lang))
    return _inert("\n".join(lines)) + "\n"


def usage_text(message: str, lang: Lang) -> str:
    """A fault of the command line as lines for stderr."""
    lines = _block("error", message, lang)
    lines += _labelled("do", say("error.usage_help").pick(lang), lang)
    lines.append("  " + say("ui.error.exit", code=2).pick(lang))
    return _inert("\n".join(lines)) + "\n"


def remarks_text(remarks: list[Remark], lang: Lang) -> str:
    """Errors and warnings about the input, one block each; empty when there are none."""
    lines = []
    for remark in remarks:
        if remark.severity == "info":
            continue
        message = remark.message.pick(lang)
        lines += _block(remark.severity, message, lang)
        if remark.file and PurePath(remark.file).name not in message:
            lines += _labelled("file", remark.file, lang)
    return _inert("\n".join(lines)) + "\n" if lines else ""


def _block(word: str, message: str, lang: Lang) -> list[str]:
    first, *rest = message.splitlines() or [""]
    colon = "：" if lang == "zh" else ": "
    return [f"{say(f'ui.{word}').pick(lang)}{colon}{first}", *(f"  {line}" for line in rest)]


def _labelled(label: str, text: str, lang: Lang) -> list[str]:
    from npu_advisor.report.text import pad

    head = pad(say(f"ui.error.{label}").pick(lang), _LABEL)
    first, *rest = text.splitlines() or [""]
    return [f"  {head}{first}", *(f"  {' ' * _LABEL}{line}" for line in rest)]


def _rule_error(error: RuleError, lang: Lang) -> list[str]:
    lines = []
    for file, problems in groupby(sorted(error.problems, key=lambda each: each.file), key=lambda each: each.file):
        own = sorted(problems, key=lambda each: (each.line, each.column))
        key = "ui.rule_problems_one" if len(own) == 1 else "ui.rule_problems"
        lines += _block("error", say(key, n=len(own), file=file).pick(lang), lang)
        for problem in own:
            lines += _problem(problem)
    return lines


def _problem(problem: RuleProblem) -> list[str]:
    from rich.cells import cell_len

    place = f"{PurePath(problem.file).name}:{problem.line}:{problem.column}"
    lines = [f"  {place}  {problem.message}"]
    code = problem.text.strip()
    if code:
        indent = len(problem.text) - len(problem.text.lstrip())
        before = cell_len(problem.text[indent : max(indent, problem.column - 1)])
        lines.append(f"  {problem.line:>6} │ {code}")
        lines.append(f"  {' ' * 6} │ {' ' * before}{'^' * max(1, problem.width)}")
    return lines


def _inert(text: str) -> str:
    from npu_advisor.report.text import clean

    return clean(text)
