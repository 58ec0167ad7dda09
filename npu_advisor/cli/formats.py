"""The kinds of report, and what is written where: ``-f KIND``, ``-o FILE``, ``-o KIND=FILE``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from npu_advisor.base.lang import Lang
from npu_advisor.cli.output import can_show_glyphs, use_color, width_of, write_report
from npu_advisor.findings import Report
from npu_advisor.report.options import Options

FORMATS = ("terminal", "html", "json", "sarif", "markdown", "github", "trace")
# These show tables and timelines beside the findings.
VIEWED = ("html", "trace")
# Written in UTF-8 whatever the terminal speaks, and also when there is nothing to report: programs read them.
DATA = ("json", "sarif")


def targets(form: str, outputs: Sequence[str], kinds: Sequence[str] = FORMATS) -> list[tuple[str, str | None]]:
    """What to write: (kind, file) each, a None file being stdout; ``kinds`` are those that may be named.

    A plain file takes the place of stdout; ``KIND=FILE`` is written beside it.
    """
    named = [_target(form, output, kinds) for output in outputs]
    replaced = any(path == output for output, (_, path) in zip(outputs, named, strict=True))
    return named if replaced else [(form, None), *named]


def _target(form: str, output: str, kinds: Sequence[str]) -> tuple[str, str | None]:
    kind, equals, path = output.partition("=")
    return (kind, path) if equals and kind in kinds else (form, output)


def write(
    report: Report,
    form: str,
    path: str | None,
    lang: Lang,
    *,
    show_all: bool,
    baseline: Report | None,
    merge_with: Mapping[int, Path] | None = None,
) -> None:
    """Render ``report`` as ``form`` to ``path`` (None or ``-``: stdout). ConfigError when it cannot be written.

    An overlay goes into a copy of the traces ``merge_with``.
    """
    stream = sys.stdout if path in (None, "-") else None
    options = Options(
        lang=lang,
        width=width_of(stream),
        color=use_color(stream, os.environ),
        utf8=can_show_glyphs(stream),
        show_all=show_all,
        base=str(Path.cwd()),
        baseline=baseline,
    )
    text = render(report, form, options)
    if form == "trace" and path not in (None, "-"):
        from npu_advisor.cli.merge import write_overlay

        write_overlay(text, str(path), merge_with)
        return
    write_report(text, path, utf8=form in (*DATA, *VIEWED))


def render(report: Report, form: str, options: Options) -> str:
    """The report as text of the kind ``form`` (one of FORMATS)."""
    if form == "html":
        from npu_advisor.report.html import render_html

        return render_html(report, options)
    if form == "json":
        from npu_advisor.report.json import render_json

        return render_json(report)
    if form == "sarif":
        from npu_advisor.report.sarif import render_sarif

        return render_sarif(report, options)
    if form == "markdown":
        from npu_advisor.report.markdown import render_markdown

        return render_markdown(report, options)
    if form == "github":
        from npu_advisor.report.github import render_github

        return render_github(report, options)
    if form == "trace":
        from npu_advisor.report.trace import render_trace

        return render_trace(report, report.tracks, options)
    from npu_advisor.report.terminal import render_terminal

    return render_terminal(report, options)
