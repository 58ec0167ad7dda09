"""Predicted savings beside realised ones as text for a terminal."""

from __future__ import annotations

from npu_advisor.base.units import format_pct, format_us, format_us_range
from npu_advisor.comparison import Accuracy, Verification, Verified
from npu_advisor.report.options import Options
from npu_advisor.report.page import Page
from npu_advisor.report.text import inert, pad, shorten, wrap
from npu_advisor.report.theme import MUTED, OK, PARTLY, STRONG

_CELLS = 13


def render_verification(found: Verification, options: Options) -> str:
    """The predictions as text for a terminal of ``options.width`` cells, with colour codes when ``options.color``."""
    found, page = inert(found), Page(options)
    if not found.verified:
        page.add((" " + page.say("ui.verify.none"), STRONG))
    else:
        page.heading(page.say("ui.verify.head"), page.say("ui.verify.note"))
        for each in found.verified:
            _add(page, each)
        page.blank()
        if found.joint_predicted_us is not None:
            together = {
                "predicted": format_us(found.joint_predicted_us),
                "realised": format_us(found.joint_realised_us),
            }
            _wrapped(page, page.say("ui.verify.joint", **together), STRONG)
        _wrapped(page, summary(page, found.summary), "")
    if found.record is not None:
        _wrapped(page, page.say("ui.verify.record") + summary(page, found.record), MUTED)
    return page.text()


def summary(page: Page, accuracy: Accuracy) -> str:
    """How well predictions fared, as a sentence."""
    return page.say(
        "ui.verify.summary",
        n=accuracy.predictions,
        counted=accuracy.counted,
        least=format_pct(accuracy.smallest_share),
        median=format_pct(accuracy.median_error),
        p90=format_pct(accuracy.p90_error),
        max=format_pct(accuracy.max_error),
        inside=accuracy.inside,
    )


def _add(page: Page, each: Verified) -> None:
    mark = OK if each.inside else PARTLY
    figures = "".join(
        pad(text, _CELLS, right=True)
        for text in (
            format_us(each.predicted_us),
            format_us_range(each.low_us, each.high_us),
            format_us(each.realised_us),
            format_pct(each.error) if each.counts else "",
        )
    )
    room = page.width - 4 * _CELLS - 8
    page.add(
        (f"   {mark.show(page.options.utf8)} ", mark.style),
        (shorten(each.rule_id, room, page.ellipsis), ""),
        right=(figures, STRONG),
    )
    if each.location is not None:
        page.add((f"     {shorten(each.location, page.width - 8, page.ellipsis)}", "cyan"))
    if each.how == "line":
        page.add((f"     {page.say('ui.verify.how.line')}", MUTED))


def _wrapped(page: Page, text: str, style: str) -> None:
    for line in wrap(text, page.width - 2):
        page.add((" " + line, style))
