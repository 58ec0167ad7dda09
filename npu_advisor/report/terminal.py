"""The terminal report: the verdict first, then the step, the findings, what is not the cause, what was not checked.

A pure function of the report: the same report and options always give the same text.
"""

from __future__ import annotations

from npu_advisor.base.terms import Basis, Severity
from npu_advisor.base.units import format_pct, format_us
from npu_advisor.findings import Finding, Report
from npu_advisor.report.budget import add_budgets
from npu_advisor.report.cards import Places, add_card, saved_range
from npu_advisor.report.closing import add_footer, add_not_the_cause, add_rules, add_trust
from npu_advisor.report.ledger import ledgers
from npu_advisor.report.options import Options
from npu_advisor.report.page import Page
from npu_advisor.report.steps import add_ranks, add_step, add_top_kernels
from npu_advisor.report.text import inert, wrap
from npu_advisor.report.theme import GOOD, MUTED, OK, STRONG
from npu_advisor.report.verdict import is_calm, is_host_only, verdict

_SHOWN_FINDINGS = 10
_SHOWN_FRAMES = 3
# From this ratio of the joint saving to the sum of the single ones the report says why it is more.
_MORE_TOGETHER = 1.05


def render_terminal(report: Report, options: Options) -> str:
    """The report as text for a terminal of ``options.width`` cells, with colour codes when ``options.color``."""
    report = inert(report)
    page = Page(options)
    ranks = ledgers(report.steps)
    calm = is_calm(report, ranks)
    _add_verdict(page, report, calm)
    if ranks and not is_host_only(report):
        add_step(page, ranks[0], note=not calm)
        add_ranks(page, ranks)
    if calm or not ranks:
        add_top_kernels(page, report, ranks[0] if ranks else None, calm)
    add_trust(page, report)
    located = [finding.location for finding in report.findings] + [item.location for item in report.not_the_cause]
    places = Places([place for place in located if place is not None], options.base)
    scope = _scope(report)
    _add_findings(page, report, places, scope, calm)
    add_not_the_cause(page, report.not_the_cause, places, scope)
    add_budgets(page, report.budgets)
    add_rules(page, report, fold=calm)
    add_footer(page, report, calm)
    return page.text()


def _add_verdict(page: Page, report: Report, calm: bool) -> None:
    for sentence in verdict(report, ledgers(report.steps)):
        lines = wrap(sentence.pick(page.options.lang), page.width - (4 if calm else 2))
        for index, line in enumerate(lines):
            mark = f"{OK.show(page.options.utf8)} " if calm and index == 0 else "  " if calm else ""
            page.add((f" {mark}{line}", f"{STRONG} {GOOD}" if calm else STRONG))
    page.blank()


def _add_findings(page: Page, report: Report, places: Places, scope: set[str], calm: bool) -> None:
    worth = [finding for finding in report.findings if finding.severity is not Severity.INFO]
    shown = report.findings if page.options.show_all else worth[:_SHOWN_FINDINGS]
    if worth:
        _add_count(page, report, len(worth))
    elif not calm and any(rule.outcome == "clean" for rule in report.rules):
        page.add((" " + page.say("ui.count.none"), STRONG))
        page.blank()
    others = {finding.fingerprint: finding for finding in report.findings}
    for index, finding in enumerate(shown):
        steps = sum(step.rank == finding.rank for step in report.steps)
        add_card(page, finding, places, scope, frame=index < _SHOWN_FRAMES, steps=steps, others=others)
    _add_folded(page, report.findings, worth, len(shown))


def _add_count(page: Page, report: Report, count: int) -> None:
    priced = report.saving.joint_us_per_step > 0
    bound = report.saving.basis is Basis.UPPER_BOUND
    kind = "" if not priced else "joint_" if bound else "replayed_small_" if _small_counts(report) else "replayed_"
    saving = report.saving
    us = format_us(saving.joint_us_per_step) if bound else saved_range(saving)
    unit = page.say(f"ui.unit.{saving.per}")
    fields = {"n": count, "us": us, "share": format_pct(saving.share), "unit": unit}
    text = page.say(f"ui.count.{kind}{'one' if count == 1 else 'many'}", **fields)
    if priced and not bound and report.saving.joint_us_per_step > _MORE_TOGETHER * _one_by_one(report):
        text += page.gap + page.say("ui.count.more_together")
    for line in wrap(text, page.width - 2):
        page.add((" " + line, STRONG))
    page.blank()


def _small_counts(report: Report) -> bool:
    """Whether a finding without a severity of its own has a part in the joint saving."""
    small = (finding.saving for finding in report.findings if finding.severity is Severity.INFO)
    return any(saving is not None and saving.joint_us_per_step > 0 for saving in small)


def _one_by_one(report: Report) -> float:
    """What the findings save each alone, in us per step, added up."""
    return sum(max(0.0, finding.saving.us_per_step) for finding in report.findings if finding.saving is not None)


def _add_folded(page: Page, findings: list[Finding], worth: list[Finding], shown: int) -> None:
    if page.options.show_all:
        return
    folded, small = len(worth) - shown, len(findings) - len(worth)
    notes = [page.say("ui.count.folded", n=folded)] if folded > 0 else []
    notes += [page.say("ui.count.folded_small", n=small)] if small > 0 else []
    if notes:
        page.add((" " + "  ".join(notes), MUTED))
        page.blank()


def _scope(report: Report) -> set[str]:
    """What a finding must name because there is more than one of it."""
    ranks = {info.rank for info in report.profile.ranks} | {step.rank for step in report.steps}
    steps = {step.step for step in report.steps}
    return {name for name, members in (("rank", ranks), ("step", steps)) if len(members) > 1}
