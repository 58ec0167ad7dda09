"""Budgets: a table of what was kept and what is over, and by how much."""

from __future__ import annotations

from collections.abc import Sequence

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_bytes, format_count, format_pct, format_us
from npu_advisor.findings import BudgetResult
from npu_advisor.report.page import Page
from npu_advisor.report.text import pad, shorten
from npu_advisor.report.theme import MISSING, MUTED, OK, PARTLY

_CELLS = 13
_FORMATS = {"us": format_us, "share": format_pct, "bytes": format_bytes, "": format_count}
_ORDER = ("violated", "not_checked", "kept")


def add_budgets(page: Page, budgets: Sequence[BudgetResult]) -> None:
    """The table, violated budgets first; nothing without budgets."""
    if not budgets:
        return
    page.heading(page.say("ui.budget.head"), page.say("ui.budget.note"))
    for each in sorted(budgets, key=order):
        _add(page, each)
    page.blank()


def order(each: BudgetResult) -> tuple[int, str]:
    """Violated errors first, then violated warnings, what could not be checked, what was kept."""
    return _ORDER.index(each.outcome), each.level


def outcome_text(each: BudgetResult) -> Text:
    """How a budget ended."""
    warned = each.outcome == "violated" and each.level == "warning"
    return say("ui.budget.warned" if warned else f"ui.budget.{each.outcome}")


def budget_name(each: BudgetResult) -> Text:
    """The metric, with the rank and the step it is of, and what it was before."""
    names = {}
    for lang in ("en", "zh"):
        parts = [each.metric]
        if each.rank is not None:
            parts.append(say("ui.budget.rank", rank=each.rank).pick(lang))
        if each.step is not None:
            parts.append(say("ui.budget.step", step=each.step).pick(lang))
        if each.baseline is not None:
            parts.append(say("ui.budget.was", value=budget_figure(each.baseline, each)).pick(lang))
        names[lang] = " ".join(parts)
    return Text(**names)


def budget_figure(value: float | None, each: BudgetResult) -> str:
    """A figure in the unit of its metric."""
    return _FORMATS[each.unit](value)


def _add(page: Page, each: BudgetResult) -> None:
    lang = page.options.lang
    mark = {"kept": OK, "not_checked": PARTLY}.get(each.outcome, MISSING if each.level == "error" else PARTLY)
    figures = [budget_figure(value, each) for value in (each.value, each.limit, each.over or None)]
    name = shorten(budget_name(each).pick(lang), page.width - 3 * _CELLS - 22, page.ellipsis)
    right = "".join(pad(text, _CELLS, right=True) for text in figures)
    word = pad(outcome_text(each).pick(lang), _CELLS + 2)
    page.add((f"   {mark.show(page.options.utf8)} ", mark.style), (word + name, ""), right=(right, mark.style))
    if each.reason is not None:
        page.add((f"     {' ' * (_CELLS + 2)}{each.reason.pick(lang)}", MUTED))
