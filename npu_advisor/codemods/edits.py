"""Edits of a text by line and column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from npu_advisor.findings import TextEdit

_LINE_END = re.compile(r"\r\n|\r|\n")


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """``text`` with the edits made; what they insert takes the line ends of the text. They must not overlap."""
    starts = [0, *(found.end() for found in _LINE_END.finditer(text))]
    first = _LINE_END.search(text)
    newline = first[0] if first else "\n"
    for edit in sorted(edits, key=_place, reverse=True):
        begin = starts[edit.start_line - 1] + edit.start_column - 1
        end = starts[edit.end_line - 1] + edit.end_column - 1
        text = text[:begin] + edit.text.replace("\n", newline) + text[end:]
    return text


def overlap(one: Sequence[TextEdit], other: Sequence[TextEdit]) -> bool:
    """Whether any edit of ``one`` touches what one of ``other`` replaces, or inserts at the same place."""
    return any(_place(a) <= _end(b) and _place(b) <= _end(a) for a in one for b in other)


def _place(edit: TextEdit) -> tuple[int, int]:
    return edit.start_line, edit.start_column


def _end(edit: TextEdit) -> tuple[int, int]:
    return edit.end_line, edit.end_column
