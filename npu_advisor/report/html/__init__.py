"""The report as one HTML file that needs nothing else: no network, no server, no fonts.

Everything but zooming and sorting works without JavaScript. Both languages are in the file. A content security policy
names the one style and the one script of the file by their hashes, so that nothing that comes out of a profile can run.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from npu_advisor.base.units import format_pct, format_us
from npu_advisor.findings import Report
from npu_advisor.report.cards import saved_range
from npu_advisor.report.html.answers import answers
from npu_advisor.report.html.cards import cards, folded, waterfall
from npu_advisor.report.html.distributed import distributed
from npu_advisor.report.html.markup import bar, both, by_reason, say_both
from npu_advisor.report.html.memory import chart
from npu_advisor.report.html.overview import critical, overview
from npu_advisor.report.html.tables import grids
from npu_advisor.report.html.timelines import timelines_json
from npu_advisor.report.options import Options
from npu_advisor.report.text import inert

SCRIPTS = ("report.js", "trace.js")


def render_html(report: Report, options: Options) -> str:
    """The report as a complete HTML document; views that ``report.views`` does not hold are left out."""
    views = report.views
    report = inert(report)
    style, script = _stripped(_environment().get_template("style.css").render()), _script()
    shown = cards(report, views, options)
    return (
        _environment()
        .get_template("report.html")
        .render(
            lang=options.lang,
            policy=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
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
            timelines=timelines_json(views, shown) if views and views.timelines else None,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("npu_advisor.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(t=say_both)
    environment.filters.update(both=both, by_reason=by_reason, us=format_us, pct=format_pct)
    return environment


def _script() -> str:
    """The script, as it stands in the file. Kept out of the template language: it holds no data."""
    loader = _environment().loader
    assert loader is not None
    sources = [loader.get_source(_environment(), name)[0] for name in SCRIPTS]
    return "(function () {\n'use strict';\n" + _stripped("\n".join(sources)) + "})();\n"


def _stripped(text: str) -> str:
    """Lines without indentation, comment lines left out: a tenth of the bytes, and still readable."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def _policy(style: str, script: str) -> str:
    """The content security policy: this style, this script, and nothing from anywhere."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
