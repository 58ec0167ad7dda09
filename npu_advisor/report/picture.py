"""The terminal report as a picture."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

from rich.console import Console
from rich.text import Text as Line

from npu_advisor.findings import Report
from npu_advisor.report.options import Options
from npu_advisor.report.terminal import render_terminal

# Rich loads its font from the network; the picture must show without one.
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def render_svg(report: Report, options: Options, title: str = "npu-advisor") -> str:
    """The terminal report, in colour, as one self-contained SVG. Rich measures CJK by character: use English."""
    text = render_terminal(report, replace(options, color=True))
    console = Console(
        file=StringIO(),
        record=True,
        width=options.columns,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
    )
    console.print(Line.from_ansi(text.rstrip("\n")), soft_wrap=True)
    return _FONT_FACE.sub("", console.export_svg(title=title, unique_id="report"))
