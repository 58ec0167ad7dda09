"""Markdown: the report for a job summary, a pull request or a chat."""

from __future__ import annotations

import re

from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Basis, Severity
from npu_advisor.base.units import format_pct, format_us
from npu_advisor.findings import Finding, JsonValue, Report
from npu_advisor.report.budget import budget_figure, budget_name, order, outcome_text
from npu_advisor.report.cards import Places
from npu_advisor.report.ledger import ledgers
from npu_advisor.report.options import Options
from npu_advisor.report.price import price
from npu_advisor.report.text import inert, one_line
from npu_advisor.report.verdict import verdict

# Characters that would start markup in a table cell or a sentence.
_SPECIAL = re.compile(r"([\\`*_\[\]|<>~])")
_CELL_CHARS = 200
_FENCE = re.compile(r"`{3,}")


def render_markdown(report: Report, options: Options) -> str:
    """The verdict, a table of findings, one folded section each, and what is not the cause."""
    report, lang = inert(report), options.lang
    worth = [found for found in report.findings if found.severity is not Severity.INFO or options.show_all]
    places = Places([found.location for found in report.findings if found.location], options.base)
    parts = ["## npu-advisor", " ".join(escape(text.pick(lang)) for text in verdict(report, ledgers(report.steps)))]
    parts.append(_together(report, worth, lang))
    if worth:
        parts.append(_table(worth, places, lang))
        parts += [_section(found, places, lang) for found in worth]
    if folded := len(report.findings) - len(worth):
        parts.append(say("md.more", n=folded).pick(lang))
    if report.budgets:
        parts += [f"### {say('ui.budget.head').pick(lang)}", _budgets(report, lang)]
    if report.not_the_cause:
        parts.append(f"### {say('md.not_cause').pick(lang)}")
        parts.append(
            "\n".join(
                f"- **{escape(item.name)}** ({format_us(item.duration_us)}): {escape(item.reason.pick(lang))}"
                for item in report.not_the_cause
            )
        )
    if skipped := sum(rule.outcome == "skipped" for rule in report.rules):
        parts.append(say("md.not_checked", n=skipped).pick(lang) + ".")
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """``text`` on one line, with nothing in it that markdown or HTML would act on."""
    return _SPECIAL.sub(r"\\\1", one_line(text)).replace("&", "&amp;")


def evidence_table(found: Finding) -> str:
    """The finding's evidence as a markdown table; empty without any."""
    if not found.evidence.rows:
        return ""
    head = [escape(name) for name in found.evidence.columns]
    rows = [[_cell(value) for value in row] for row in found.evidence.rows]
    return grid(head, rows)


def suggestion_list(found: Finding, lang: Lang) -> str:
    """What to do, as a markdown list with its code."""
    lines = []
    for suggestion in found.suggestions:
        effort = say(f"ui.effort.{suggestion.effort.value}").pick(lang)
        lines.append(f"- {escape(suggestion.text.pick(lang))} *({effort})*")
        removed = [f"-{line}" for line in (suggestion.before or "").rstrip("\n").splitlines()]
        added = [f"+{line}" for line in (suggestion.after or "").rstrip("\n").splitlines()]
        if removed and added:
            lines += _fenced("diff", [*removed, *added])
        elif added:
            lines += _fenced("python", [line[1:] for line in added])
    return "\n".join(lines)


def _fenced(kind: str, code: list[str]) -> list[str]:
    # Foreign code must not close the block it stands in.
    return [f"  ```{kind}", *(f"  {_FENCE.sub('``', line)}" for line in code), "  ```"]


def _together(report: Report, worth: list[Finding], lang: Lang) -> str:
    if not worth:
        return say("md.none").pick(lang)
    key = "md.together" if report.saving.basis is Basis.REPLAYED else "md.together_bound"
    saving = report.saving
    return say(key, n=len(worth), us=format_us(saving.joint_us_per_step), share=format_pct(saving.share)).pick(lang)


def _table(findings: list[Finding], places: Places, lang: Lang) -> str:
    head = [say(f"md.{name}").pick(lang) for name in ("what", "where", "saves", "of_step")]
    rows = []
    for found in findings:
        saving = found.saving
        amount = format_us(max(0.0, saving.us_per_step)) if saving else ""
        if saving is not None and saving.basis is Basis.UPPER_BOUND:
            amount = f"≤ {amount}"
        share = format_pct(max(0.0, saving.share)) if saving else ""
        rows.append([escape(found.title.pick(lang)), _place(found, places, lang), amount, share])
    return grid(head, rows)


def _budgets(report: Report, lang: Lang) -> str:
    head = [say(f"md.budget.{name}").pick(lang) for name in ("metric", "outcome", "value", "limit", "over")]
    rows = []
    for each in sorted(report.budgets, key=order):
        outcome, name = (text.pick(lang) for text in (outcome_text(each), budget_name(each)))
        figures = [budget_figure(value, each) for value in (each.value, each.limit, each.over)]
        rows.append([escape(name), f"**{outcome}**" if each.outcome == "violated" else outcome, *figures])
    return grid(head, rows)


def _section(found: Finding, places: Places, lang: Lang) -> str:
    cost = price(found)
    summary = f"{found.title.pick(lang)} · {found.rule_id}" + (f" · {cost.pick(lang)}" if cost else "")
    body = [escape(found.message.pick(lang)), _place(found, places, lang)]
    if found.location is not None and found.location.text:
        body.append("\n".join(_fenced("python", [found.location.text.strip()])))
    if table := evidence_table(found):
        body += [f"**{say('md.evidence').pick(lang)}**", table]
    if advice := suggestion_list(found, lang):
        body += [f"**{say('md.fix').pick(lang)}**", advice]
    if found.references:
        links = "\n".join(f"- [{escape(item.title)}]({item.url})" for item in found.references)
        body += [f"**{say('md.references').pick(lang)}**", links]
    return "<details><summary>" + _html(summary) + "</summary>\n\n" + "\n\n".join(body) + "\n\n</details>"


def _place(found: Finding, places: Places, lang: Lang) -> str:
    if found.location is None:
        return say("md.no_line").pick(lang)
    return "`" + places.show(found.location).replace("`", "'").replace("|", "\\|") + "`"


def _html(text: str) -> str:
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cell(value: JsonValue) -> str:
    if value is None:
        return ""
    text = f"{value:,.6g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…")


def grid(head: list[str], rows: list[list[str]]) -> str:
    """A markdown table; cells are markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
