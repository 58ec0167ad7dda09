"""The report, and the comparison of two profiles, as HTML files that need nothing else.

Everything but zooming and sorting works without JavaScript.
"""

from __future__ import annotations

import shlex

from npu_advisor.findings import Report
from npu_advisor.report.cards import saved_range
from npu_advisor.report.html.answers import answers
from npu_advisor.report.html.cards import cards, folded, waterfall
from npu_advisor.report.html.distributed import distributed
from npu_advisor.report.html.document import document
from npu_advisor.report.html.markup import bar
from npu_advisor.report.html.memory import chart
from npu_advisor.report.html.overview import critical, overview
from npu_advisor.report.html.tables import grids
from npu_advisor.report.html.timelines import timelines_packed
from npu_advisor.report.options import Options
from npu_advisor.report.text import inert


def render_html(report: Report, options: Options) -> str:
    """The report as a complete HTML document; views that ``report.views`` does not hold are left out."""
    views = report.views
    report = inert(report)
    shown = cards(report, views, options)
    timed = views is not None and any(each.lanes for each in views.timelines)
    timelines = timelines_packed(views, shown) if views and timed else None
    return document(
        "report.html",
        options,
        scripts=("trace.js",) if timelines else (),
        overview=overview(report, options),
        path=critical(report),
        path_bar=bar([(f"c-{piece.key}", piece.width) for piece in critical(report)]),
        cards=[card for card in shown if not card.small],
        small=[card for card in shown if card.small],
        folded=folded(shown),
        waterfall=waterfall(report, shown),
        joint=saved_range(report.saving),
        report=report,
        answers=answers(report, views),
        grids=grids(report, views),
        distributed=distributed(report),
        memory=chart(views.memory) if views and views.memory else None,
        views=views,
        timelines=timelines,
        compare_call=f"npu-advisor compare {shlex.quote(report.profile.path)} NEW -f html -o diff.html",
    )
