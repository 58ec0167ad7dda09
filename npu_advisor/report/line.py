"""One line: what a log, a hook or a chat shows."""

from __future__ import annotations

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Severity
from npu_advisor.base.units import format_us
from npu_advisor.findings import Report
from npu_advisor.report.cards import Places
from npu_advisor.report.ledger import ledgers
from npu_advisor.report.options import Options
from npu_advisor.report.price import price
from npu_advisor.report.text import inert, one_line
from npu_advisor.report.verdict import verdict


def render_line(report: Report, options: Options) -> str:
    """The verdict's first sentence, how many findings there are, and the first of them with its line and saving."""
    report, lang = inert(report), options.lang
    parts = [text.pick(lang) for text in verdict(report, ledgers(report.steps))[:1]]
    worth = [found for found in report.findings if found.severity is not Severity.INFO]
    if worth:
        first = worth[0]
        places = Places([found.location for found in worth if found.location], options.base)
        where = f" ({places.show(first.location)})" if first.location else ""
        cost = price(first)
        parts.append(
            say(
                "line.findings" if cost is None else "line.findings_priced",
                n=len(worth),
                title=first.title.pick(lang) + where,
                cost=cost.pick(lang) if cost else "",
                us=format_us(report.saving.joint_us_per_step),
            ).pick(lang)
        )
    return one_line(" ".join(parts)) + "\n"
