"""Cells, columns and grids as text: one scale per column, its unit in the header, the exact figure beside each cell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from npu_advisor.base.frame import split_stack
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import MIB, format_field
from npu_advisor.report.text import clean, short_line
from npu_advisor.views import Cell, Unit, ViewColumn

# The folder that installed packages lie in tells nothing.
_LIBRARY = re.compile(r"^.*[/\\](?=(?:site|dist)-packages[/\\])")
SHOWN_ROWS = 12
# Longer texts may wrap.
_SHORT_CHARS = 28
_LONGEST_NAME = 120
ABSENT = "–"
# More than any clock tells apart.
_EXACT_DIGITS = 9
NUMBERS = ("us", "bytes", "count", "share", "percent", "gbs", "id")


@dataclass(frozen=True)
class Head:
    """The header of a column; ``order`` is how the table is sorted at first."""

    label: Text
    unit: str = ""
    number: bool = False
    order: str = "none"


@dataclass(frozen=True)
class Field:
    """One cell: its text (or ``both``, in both languages); of a number the exact value (empty: it is the text, or there
    is none); of a line the full place, of a call stack the frames. ``tone`` is better, worse or noise; ``note`` stands
    below the text."""

    text: str
    exact: str = ""
    hint: str = ""
    line: bool = False
    long: bool = False
    frames: str = ""
    both: Text | None = None
    tone: str = ""
    note: str = ""


@dataclass(frozen=True)
class Grid:
    """One table as text. ``bars`` are lengths (0 to 100) under the first column."""

    name: str
    heads: list[Head]
    rows: list[list[Field]]
    bars: list[int]
    total: int
    file: str
    shown: int = SHOWN_ROWS


Column = tuple[Head, list[Field]]


def grid_of(name: str, columns: Sequence[Column], total: int, file: str, weights: Sequence[Cell] = ()) -> Grid:
    """A table of columns; ``weights`` are what the bars show."""
    rows = [list(fields) for fields in zip(*(_told_once(fields) for _, fields in columns), strict=True)]
    return Grid(name, [head for head, _ in columns], rows, _bars(weights), total, file)


def column(spec: ViewColumn, values: Sequence[Cell], order: str = "none", beside: Sequence[Cell] = ()) -> Column:
    """A column with the unit that its largest value asks for, or one of the column ``beside`` it."""
    every = (*values, *beside)
    numbers = [abs(value) for value in every if isinstance(value, int | float) and not isinstance(value, bool)]
    divisor, unit = scale(spec.unit, max(numbers, default=0.0))
    head = Head(say(f"col.{spec.key}"), unit, spec.unit in NUMBERS, order)
    return head, [_field(value, spec.unit, divisor) for value in values]


def _field(value: Cell, unit: Unit, divisor: float) -> Field:
    if value is None:
        return Field(ABSENT)
    if isinstance(value, str):
        return words(clean(value), unit)
    if unit == "id":
        return Field(str(value))
    text = short_number(value / divisor, unit).replace("-", "−")
    exact = exact_text(value)
    return Field(text, "" if text.replace(",", "") == exact else exact)


def words(text: str, unit: Unit = "text") -> Field:
    """The cell of a text, a line or a call stack."""
    if unit == "line":
        return Field(short_line(text), hint=text, line=True)
    if unit == "stack":
        frames = [short_frame(part) for part in split_stack(text)]
        return Field(short_line(frames[0]) if frames else "", frames="\n".join(frames))
    return Field(text, long=len(text) > _SHORT_CHARS)


def short_name(text: str) -> str:
    """A name that may be as long as anybody likes, its middle left out."""
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME // 2]}…{text[-_LONGEST_NAME // 2 :]}"


def short_frame(frame: str) -> str:
    """A frame of a call stack without the folder that installed packages lie in."""
    return _LIBRARY.sub("…/", frame)


def exact_text(value: float | None) -> str:
    """A number for programs; empty for none."""
    return "" if value is None else f"{value:.{_EXACT_DIGITS}g}"


def short_number(value: float, unit: Unit = "us") -> str:
    """Three significant digits, but no more than three decimals: the cells of a column are of one unit. Counts that are
    whole are whole."""
    if unit == "count" and float(value).is_integer():
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.0005:
        return "<0.001"
    return format_field(float(value)) if abs(value) >= 1 or value == 0 else f"{value:.3f}"


def scale(unit: Unit, largest: float) -> tuple[float, str]:
    """What the numbers of a column are divided by so that the largest can be read, and the unit that makes."""
    if unit == "us":
        return (1000.0, "ms") if largest >= 1000 else (1.0, "us")
    if unit == "bytes":
        return MIB, "MB"
    if unit == "share":
        return 0.01, "%"
    return 1.0, {"gbs": "GB/s", "percent": "%"}.get(unit, "")


def _told_once(cells: list[Field]) -> list[Field]:
    """Full places only at the first of equal short ones, unless these stand for several: the script tells the rest."""
    places: dict[str, set[str]] = {}
    for cell in cells:
        if cell.hint:
            places.setdefault(cell.text, set()).add(cell.hint)
    told: set[str] = set()
    made = []
    for cell in cells:
        again = cell.text in told and len(places.get(cell.text, ())) == 1
        told.add(cell.text)
        made.append(replace(cell, hint="") if cell.hint and again else cell)
    return made


def _bars(values: Sequence[Cell]) -> list[int]:
    numbers = [float(value) if isinstance(value, int | float) else 0.0 for value in values]
    top = max(numbers, default=0.0)
    return [ceil(100 * max(number, 0.0) / top) if top > 0 else 0 for number in numbers]
