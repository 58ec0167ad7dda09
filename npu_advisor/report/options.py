"""What a reader may choose about a report: language, width, colour, how much of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from npu_advisor.base.lang import Lang

MIN_WIDTH, MAX_WIDTH, DEFAULT_WIDTH = 60, 120, 100


def read_source_line(path: str, line: int) -> str | None:
    """Line ``line`` (from 1) of a local file without its end, None when there is no such file or line."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as lines:
            return next(islice(lines, line - 1, line), "").rstrip("\r\n") or None
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Options:
    """How to render a report.

    ``width`` is in terminal cells and is kept within 60 to 120; ``utf8`` False replaces glyphs by ASCII; ``show_all``
    unfolds everything; ``read_line`` gives a line of a local source file; ``base`` is the directory that local paths
    are shown relative to.
    """

    lang: Lang = "en"
    width: int = DEFAULT_WIDTH
    color: bool = False
    utf8: bool = True
    show_all: bool = False
    read_line: Callable[[str, int], str | None] = read_source_line
    base: str = ""

    @property
    def columns(self) -> int:
        """The width that is used."""
        return max(MIN_WIDTH, min(MAX_WIDTH, self.width))
