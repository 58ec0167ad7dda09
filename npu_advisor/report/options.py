"""What a reader may choose about a report: language, width, colour, how much of it."""

from __future__ import annotations

from dataclasses import dataclass

from npu_advisor.base.lang import Lang
from npu_advisor.findings import Report

# In the name of every report that is written beside a profile: it is none itself.
MARK = ".advisor"
MIN_WIDTH, MAX_WIDTH, DEFAULT_WIDTH = 60, 120, 100


@dataclass(frozen=True)
class Options:
    """How to render a report.

    ``width`` is in terminal cells and is kept within 60 to 120; ``utf8`` False replaces glyphs by ASCII; ``show_all``
    unfolds everything; ``base`` is the directory that local paths are shown relative to; ``baseline`` is an earlier
    report to compare with.
    """

    lang: Lang = "en"
    width: int = DEFAULT_WIDTH
    color: bool = False
    utf8: bool = True
    show_all: bool = False
    base: str = ""
    baseline: Report | None = None

    @property
    def columns(self) -> int:
        """The width that is used."""
        return max(MIN_WIDTH, min(MAX_WIDTH, self.width))
