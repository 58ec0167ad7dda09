"""Lines of a terminal page: styled pieces with a right-hand part, and how they become text."""

from __future__ import annotations

import re
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text as Line

from npu_advisor.base.messages import say
from npu_advisor.report.options import Options
from npu_advisor.report.theme import MUTED, STRONG, plain

# rich numbers its links at random; the report must be the same each time.
_LINK_ID = re.compile(r"\x1b]8;id=[^;]*;")


Part = tuple[str, str | Style]


class Page:
    """The lines so far, and what every part needs to know to write one."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.width = options.columns
        self.lines: list[Line] = []

    def say(self, key: str, **fields: object) -> str:
        """The fixed text ``key`` in the language of the page."""
        return self.mark(say(key, **fields).pick(self.options.lang))

    def mark(self, text: str) -> str:
        """Our own text with punctuation that the output can carry."""
        return text if self.options.utf8 else plain(text)

    def most(self, lines: int) -> int | None:
        """How many lines a text may take: ``lines``, without end when everything is asked for."""
        return None if self.options.show_all else lines

    @property
    def gap(self) -> str:
        """What parts two sentences: Chinese full stops bring their own."""
        return "" if self.options.lang == "zh" else " "

    @property
    def ellipsis(self) -> str:
        """What stands for left-out text."""
        return self.mark("…")

    def add(self, *parts: Part, right: tuple[str, str] | None = None) -> None:
        """Append a line of (text, style) parts; ``right`` is set flush right when it fits, else on its own line."""
        line = Line()
        for text, style in parts:
            line.append(text, style=style)
        if right is not None:
            gap = self.width - line.cell_len - cell_len(right[0])
            if gap < 2:
                self.lines.append(line)
                line = Line()
                gap = self.width - cell_len(right[0])
            line.append(" " * max(0, gap)).append(right[0], style=right[1])
        line.rstrip()
        self.lines.append(line)

    def heading(self, head: str, note: str) -> None:
        """The head of a section and a muted note beside it, or below where the page is too narrow."""
        if cell_len(head) + cell_len(note) + 3 <= self.width:
            self.add((f" {head}", STRONG), (f"  {note}", MUTED))
        else:
            self.add((f" {head}", STRONG))
            self.add((f" {note}", MUTED))

    def blank(self) -> None:
        """One empty line; never two in a row, none at the top."""
        if self.lines and self.lines[-1].plain:
            self.lines.append(Line())

    def text(self) -> str:
        """The page as text, with colours and links when the options ask for them."""
        console = Console(
            file=StringIO(),
            force_terminal=self.options.color,
            color_system="standard" if self.options.color else None,
            no_color=not self.options.color,
            width=self.width,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )
        with console.capture() as capture:
            for line in self.lines:
                console.print(line, soft_wrap=True)
        return _LINK_ID.sub("\x1b]8;;", capture.get()).rstrip("\n") + "\n"
