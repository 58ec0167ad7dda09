"""Text as terminal cells: making foreign text inert, measuring, wrapping and shortening it.

A CJK character takes two cells, so nothing here counts characters.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel
from rich.cells import cell_len, set_cell_size

from npu_advisor.base.frame import parse_frame
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text

# Control characters, and format characters such as the ones that turn the direction of writing.
_ACTIVE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# A number and its unit stay on one line; the blank between them is this character of private use meanwhile.
_QUANTITY = re.compile(r"(?<=\d) (?=(?:[numk]?s|%|[KMG]?B)(?![A-Za-z]))")
_GLUE = "\ue000"
_NO_LINE_START = "，。、；：？！）】》”’%…,.;:!?)]}"
_NO_LINE_END = "（【《“‘([{"
_WIDE = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_TOKEN = re.compile(rf"\s+|[^\s{_WIDE}]+|[{_WIDE}]")
_WIDE_LINE_END = re.compile(rf"(?<=[{_WIDE}])\s*\n\s*(?=[{_WIDE}])")


def clean(text: str) -> str:
    """``text`` with everything a terminal could act on spelled out (``\\x1b``); line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(map(_spelled, text))


def _spelled(char: str) -> str:
    if char in "\n\t" or unicodedata.category(char) not in _ACTIVE:
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


_Data = TypeVar("_Data", bound=BaseModel)


def inert(report: _Data) -> _Data:
    """The same report with every string cleaned, so that no place that prints one can forget to."""
    return type(report).model_validate(_cleaned(report.model_dump()))


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, str) and not isinstance(value, Enum):
        return clean(value)
    return value


def one_line(text: str) -> str:
    """``text`` with every run of white space as one blank; a line end inside Chinese is none."""
    return " ".join(_WIDE_LINE_END.sub("", text).split())


def pad(text: str, width: int, right: bool = False) -> str:
    """``text`` filled with blanks to ``width`` cells; longer text is kept whole."""
    fill = " " * max(0, width - cell_len(text))
    return fill + text if right else text + fill


def shorten(text: str, width: int, mark: str = "…") -> str:
    """``text`` in at most ``width`` cells. The middle is left out: names differ at both of their ends."""
    text = one_line(text)
    if cell_len(text) <= width:
        return text
    room = max(0, width - cell_len(mark))
    head = set_cell_size(text, room - room // 2).rstrip()
    tail, cells = "", 0
    for char in reversed(text):
        cells += cell_len(char)
        if cells > room // 2:
            break
        tail = char + tail
    return head + mark + tail


def crop(text: str, width: int, mark: str = "…") -> str:
    """``text`` in at most ``width`` cells, its end left out."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - cell_len(mark))).rstrip() + mark


def wrap(text: str, width: int, most: int | None = None, mark: str = "…") -> list[str]:
    """``text`` in lines of at most ``width`` cells, at most ``most`` lines; never an empty list.

    Latin words stay whole where they fit. Chinese may break after any character, except that closing punctuation
    never starts a line and opening punctuation never ends one.
    """
    lines, line = [], ""
    for unit in _units(_QUANTITY.sub(_GLUE, one_line(text)), width):
        if line and cell_len(line) + cell_len(unit.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line = (line + unit) if line else unit.lstrip()
    lines = [each.replace(_GLUE, " ") for each in (*lines, line.rstrip())]
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], crop(lines[most - 1] + " " + mark, width, mark)]
    return lines


def _units(text: str, width: int) -> list[str]:
    """The pieces between which a line may break, none wider than ``width``."""
    units: list[str] = []
    for token in _TOKEN.findall(text):
        before = units[-1][-1] if units else " "
        glued = not before.isspace() and (token[0] in _NO_LINE_START or before in _NO_LINE_END)
        if units and (token.isspace() or glued):
            units[-1] += token
        else:
            units.append(token)
    return [part for unit in units for part in _folded(unit, width)]


def _folded(unit: str, width: int) -> list[str]:
    if cell_len(unit.rstrip()) <= width:
        return [unit]
    parts, part = [], ""
    for char in unit:
        if part and cell_len(part) + cell_len(char) > width:
            parts.append(part)
            part = ""
        part += char
    return [*parts, part]


def compose(key: str, **fields: Text | str | int | None) -> Text:
    """As ``say``, for fields that are themselves a text in both languages."""
    return Text(
        en=say(key, **{name: value.en if isinstance(value, Text) else value for name, value in fields.items()}).en,
        zh=say(key, **{name: value.zh if isinstance(value, Text) else value for name, value in fields.items()}).zh,
    )


def short_line(source: str) -> str:
    """``train.py:41`` for ``/long/path/train.py(41): epoch``; anything else as it is."""
    frame = parse_frame(source)
    return f"{frame.path.replace(chr(92), '/').rpartition('/')[2]}:{frame.line}" if frame else source
