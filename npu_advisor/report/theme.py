"""Glyphs and colours. A glyph always goes with its word; colour never carries meaning alone.

Colours are the sixteen of the terminal, so that they follow the reader's own theme.
"""

from __future__ import annotations

from typing import NamedTuple

from npu_advisor.base.terms import Severity

MUTED = "dim"
STRONG = "bold"
GOOD = "green"


class Mark(NamedTuple):
    """A glyph, what stands for it without UTF-8, and its style."""

    glyph: str
    ascii: str
    style: str

    def show(self, utf8: bool) -> str:
        """The glyph that the output can carry."""
        return self.glyph if utf8 else self.ascii


SEVERITY = {
    Severity.HIGH: Mark("▲", "!!", "bold red"),
    Severity.MEDIUM: Mark("◆", "!", "bold yellow"),
    Severity.LOW: Mark("●", "-", "bold cyan"),
    Severity.INFO: Mark("○", "o", "dim"),
}
OK = Mark("✔", "+", "green")
PARTLY = Mark("◐", "~", "yellow")
MISSING = Mark("✘", "x", "red")

# One piece of the step ledger each; a cause has the same fill wherever it is drawn.
PIECES = {
    "compute": Mark("█", "#", "green"),
    "waiting": Mark("▓", "=", "magenta"),
    "waiting_other": Mark("▟", "w", "bright_magenta"),
    "communication": Mark("▞", "~", "blue"),
    "dispatch": Mark("▒", "-", "red"),
    "sync": Mark("▚", "s", "yellow"),
    "compile": Mark("▙", "c", "bright_yellow"),
    "data": Mark("░", "d", "cyan"),
    "alloc": Mark("▛", "m", "white"),
    "gc": Mark("▜", "g", "bright_blue"),
    "other": Mark("▖", "o", "bright_black"),
    "free": Mark("▒", "-", "red"),
    "prepare": Mark("░", ":", "bright_black"),
    "after_last": Mark("·", ".", "bright_black"),
    "unaccounted": Mark("?", "?", "bright_black"),
}

PLAIN = str.maketrans({"·": "|", "│": "|", "─": "-", "━": "=", "…": "~", "→": ">", "±": "+", "–": "-"})


def plain(text: str) -> str:
    """Fixed punctuation of ours without UTF-8."""
    return text.translate(PLAIN)
