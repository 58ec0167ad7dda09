"""The answer to a what-if question: the new step, what each edit does, and what costs time then."""

from __future__ import annotations

from rich.cells import cell_len

from npu_advisor.base.terms import Basis
from npu_advisor.base.units import format_count, format_pct, format_us, format_us_range
from npu_advisor.findings import EditedRun, EditEffect, Finding, WhatIf
from npu_advisor.report.cards import Places
from npu_advisor.report.options import Options
from npu_advisor.report.page import Page
from npu_advisor.report.text import inert, pad, shorten, wrap
from npu_advisor.report.theme import MUTED, SEVERITY, STRONG

_SHOWN = 10
_FIGURE_CELLS = 12
# Below this share of the step a change is none.
_VISIBLE = 0.0005


def render_whatif(answer: WhatIf, options: Options) -> str:
    """The answer as text for a terminal of ``options.width`` cells, with colour codes when ``options.color``."""
    answer = inert(answer)
    page = Page(options)
    found = [finding.location for run in answer.runs for finding in run.findings]
    places = Places([place for place in found if place is not None], options.base)
    for run in answer.runs:
        if len(answer.runs) > 1:
            page.heading(page.say("ui.whatif.ranks", ranks=", ".join(map(str, run.ranks))), "")
        _add_step(page, run)
        _add_edits(page, run)
        if run.new_step_us is not None:
            _add_next(page, run, places)
    return page.text()


def _add_step(page: Page, run: EditedRun) -> None:
    for line in wrap(_sentence(page, run), page.width - 2):
        page.add((" " + line, STRONG))
    notes = []
    if run.replay:
        error = max(abs(step.error) for step in run.replay)
        total = sum(step.recorded_us for step in run.replay)
        held = sum(step.recorded_us * step.anchored_share for step in run.replay) / total if total else 0.0
        notes.append(page.say("ui.whatif.trust", error=format_pct(error), anchored=format_pct(held)))
    if run.saving is not None and run.saving.assumes is not None:
        notes.append(page.say("ui.whatif.assumes", assumes=run.saving.assumes.pick(page.options.lang)))
    for line in wrap(page.gap.join(notes), page.width - 2) if notes else []:
        page.add((" " + line, MUTED))
    page.blank()


def _sentence(page: Page, run: EditedRun) -> str:
    old = format_us(run.step_us)
    if run.new_step_us is None or run.saving is None:
        reason = run.reason.pick(page.options.lang) if run.reason else ""
        return page.say("ui.whatif.unknown", old=old, reason=reason)
    low, high = run.low_new_step_us or 0.0, run.high_new_step_us or 0.0
    wide = high - low > _VISIBLE * run.step_us
    if not wide and abs(run.saving.share) < _VISIBLE:
        return page.say("ui.whatif.same", old=old)
    if format_us(run.new_step_us) == old:
        less = f"{format_us(-run.saving.us_per_step)}, {format_pct(-run.saving.share)}"
        return page.say("ui.whatif.little", old=old, change=less)
    between = page.say("ui.whatif.range", range=format_us_range(low, high)) if wide else ""
    return page.say(
        "ui.whatif.step" if run.saving.us_per_step >= 0 else "ui.whatif.longer",
        new=format_us(run.new_step_us),
        old=old,
        range=between,
        saved=format_us(abs(run.saving.us_per_step)),
        share=format_pct(abs(run.saving.share)),
    )


def _add_edits(page: Page, run: EditedRun) -> None:
    page.heading(page.say("ui.whatif.edits"), page.say("ui.whatif.edits_note"))
    for effect in run.edits:
        rows = format_count(sum(effect.rows.values()))
        figures = _figures(effect) if effect.reason is None else []
        tail = "".join(pad(text, _FIGURE_CELLS, right=True) for text in (rows, *figures))
        first, *rest = wrap(effect.edit, page.width - 3 - (cell_len(tail) if figures else _FIGURE_CELLS) - 2)
        page.add((f"   {first}", ""), right=(tail, STRONG))
        for line in rest:
            page.add((f"     {line}", ""))
        if effect.reason is not None:
            told = effect.reason.pick(page.options.lang) + (f"; {effect.enable}" if effect.enable else "")
            for line in wrap(told, page.width - 5):
                page.add((f"     {line}", "yellow"))
    page.blank()


def _figures(effect: EditEffect) -> list[str]:
    if effect.saving is None:
        return []
    return [format_us(effect.saving.us_per_step), format_us(effect.saving.joint_us_per_step)]


def _add_next(page: Page, run: EditedRun, places: Places) -> None:
    """The findings that still save time, the largest first, with what they saved before the edits."""
    worth = sorted((each for each in run.findings if _us(each) > 0), key=lambda each: -_us(each))
    if not worth:
        page.add((" " + page.say("ui.whatif.nothing_next"), ""))
        page.blank()
        return
    page.heading(page.say("ui.whatif.next"), page.say("ui.whatif.next_note"))
    shown = worth if page.options.show_all else worth[:_SHOWN]
    for finding in shown:
        _add_finding(page, finding, run, places)
    if len(shown) < len(worth):
        page.add(("   " + page.say("ui.count.folded", n=len(worth) - len(shown)), MUTED))
    page.blank()


def _add_finding(page: Page, finding: Finding, run: EditedRun, places: Places) -> None:
    now, before = format_us(_us(finding)), format_us(run.unedited_us_per_step.get(finding.fingerprint))
    if finding.saving is not None and finding.saving.basis is Basis.UPPER_BOUND:
        now = page.say("ui.whatif.bound", us=now)
    share = format_pct(finding.saving.share if finding.saving else 0.0)
    tail = "".join(pad(text, _FIGURE_CELLS, right=True) for text in (now, share, before))
    mark = SEVERITY[finding.severity]
    room = page.width - 6 - cell_len(tail) - 2
    title = finding.title.pick(page.options.lang)
    if len(run.ranks) > 1:
        title += f"  {page.say('ui.whatif.rank', rank=finding.rank)}"
    first, *rest = wrap(title, room, 2, page.ellipsis)
    page.add((f"   {pad(mark.show(page.options.utf8), 2)} ", mark.style), (first, ""), right=(tail, STRONG))
    for line in rest:
        page.add((f"      {line}", ""))
    if finding.location is not None:
        page.add((f"      {shorten(places.show(finding.location), page.width - 8, page.ellipsis)}", "cyan"))


def _us(finding: Finding) -> float:
    return finding.saving.us_per_step if finding.saving else 0.0
