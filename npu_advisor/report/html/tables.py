"""Tables of the views as text: one scale per column, its unit in the header, the exact figure beside each cell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from npu_advisor.base.frame import split_stack
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import MIB, format_field
from npu_advisor.findings import Report
from npu_advisor.report.text import clean, short_line
from npu_advisor.views import Cell, TableView, Unit, ViewColumn, Views

# The folder that installed packages lie in tells nothing.
_LIBRARY = re.compile(r"^.*[/\\](?=(?:site|dist)-packages[/\\])")
SHOWN_ROWS = 12
# Longer texts may wrap.
_SHORT_CHARS = 28
ABSENT = "–"
# More than any clock tells apart.
_EXACT_DIGITS = 9
NUMBERS = ("us", "bytes", "count", "share", "percent", "gbs", "id")
# Which column the bar behind the first cell shows.
_BARS = ("share", "total_us", "host_self_us", "size_bytes", "elapse_us", "dur_us", "peak_bytes", "bytes")


@dataclass(frozen=True)
class Head:
    """The header of a column; ``order`` is how the table is sorted at first."""

    label: Text
    unit: str
    number: bool
    order: str


@dataclass(frozen=True)
class Field:
    """One cell: its text; of a number the exact value (empty: it is the text, or there is none); of a line the full
    place, of a call stack the frames. ``tone`` is better, worse or noise."""

    text: str
    exact: str = ""
    hint: str = ""
    line: bool = False
    long: bool = False
    frames: str = ""
    both: Text | None = None
    tone: str = ""


@dataclass(frozen=True)
class Grid:
    """One table as text. ``bars`` are lengths (0 to 100) under the first column."""

    name: str
    heads: list[Head]
    rows: list[list[Field]]
    bars: list[int]
    total: int
    shown: int
    file: str


def grids(report: Report, views: Views | None) -> dict[str, Grid]:
    """Every table of the views, what each line costs, and the ledger of all ranks and steps, by name."""
    tables = list(views.tables.values()) if views else []
    made = {table.name: grid(table) for table in [*tables, _steps(report)] if table.rows}
    if report.lines:
        # Whatever a line does counts, as it does for the order.
        weights = [cost.device_us_per_step + cost.communication_us_per_step for cost in report.lines]
        made["lines"] = replace(grid(_lines(report)), bars=_bars(weights[:MAX_LINES]))
    return made


def grid(table: TableView) -> Grid:
    """One table as text."""
    columns = [_Scaled(column, [row[index] for row in table.rows]) for index, column in enumerate(table.columns)]
    keys = [column.key for column in table.columns]
    weight = next((key for key in _BARS if key in keys), None)
    order = _ordered_by(table)
    return Grid(
        name=table.name,
        heads=[column.head("descending" if column.column.key == order else "none") for column in columns],
        rows=[list(fields) for fields in zip(*(_told_once(column.fields()) for column in columns), strict=True)],
        bars=_bars(table.values(weight)) if weight else [],
        total=table.total,
        shown=SHOWN_ROWS,
        file=table.file,
    )


def _told_once(cells: list[Field]) -> list[Field]:
    """Full places only at the first of equal short ones, unless these stand for several: the script tells the rest."""
    places: dict[str, list[str]] = {}
    for cell in cells:
        if cell.hint and cell.hint not in places.setdefault(cell.text, []):
            places[cell.text].append(cell.hint)
    told: set[str] = set()
    made = []
    for cell in cells:
        again = cell.text in told and len(places.get(cell.text, ())) == 1
        told.add(cell.text)
        made.append(replace(cell, hint="") if cell.hint and again else cell)
    return made


def _ordered_by(table: TableView) -> str | None:
    """The column that the rows are sorted by, largest first."""
    for column in table.columns:
        values = [value for value in table.values(column.key) if isinstance(value, int | float)]
        if column.unit in NUMBERS[:-1] and values == sorted(values, reverse=True) and len(set(values)) > 1:
            return column.key
    return None


def _bars(values: Sequence[Cell]) -> list[int]:
    numbers = [float(value) if isinstance(value, int | float) else 0.0 for value in values]
    top = max(numbers, default=0.0)
    return [ceil(100 * max(number, 0.0) / top) if top > 0 else 0 for number in numbers]


class _Scaled:
    """A column with the scale that its largest value asks for."""

    def __init__(self, column: ViewColumn, values: Sequence[Cell]) -> None:
        self.column, self.values = column, values
        numbers = [abs(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        self.divisor, self.unit = scale(column.unit, max(numbers, default=0.0))

    def head(self, order: str) -> Head:
        return Head(say(f"col.{self.column.key}"), self.unit, self.column.unit in NUMBERS, order)

    def fields(self) -> list[Field]:
        return [self._field(value) for value in self.values]

    def _field(self, value: Cell) -> Field:
        if value is None:
            return Field(ABSENT)
        if isinstance(value, str):
            return self._words(clean(value))
        return number(value, self.column.unit, self.divisor)

    def _words(self, text: str) -> Field:
        if self.column.unit == "line":
            return Field(short_line(text), hint=text, line=True)
        if self.column.unit == "stack":
            frames = [short_frame(part) for part in split_stack(text)]
            return Field(short_line(frames[0]) if frames else "", frames="\n".join(frames))
        return Field(text, long=len(text) > _SHORT_CHARS)


def short_frame(frame: str) -> str:
    """A frame of a call stack without the folder that installed packages lie in."""
    return _LIBRARY.sub("…/", frame)


def number(value: float, unit: Unit, divisor: float) -> Field:
    """The cell of a number in a column whose unit is ``divisor`` times that of the value."""
    if unit == "id":
        return Field(str(value))
    whole = unit == "count" and float(value).is_integer()
    text = f"{value:,.0f}" if whole else _short(float(value) / divisor)
    exact = f"{value:.{_EXACT_DIGITS}g}"
    return Field(text, "" if text.replace(",", "") == exact else exact)


def _short(value: float) -> str:
    """Three significant digits, but no more than three decimals: the cells of a column are of one unit."""
    if 0 < abs(value) < 0.0005:
        return "<0.001"
    return format_field(value) if abs(value) >= 1 or value == 0 else f"{value:.3f}"


def scale(unit: Unit, largest: float) -> tuple[float, str]:
    """What the numbers of a column are divided by, and the unit that makes: so that its largest can be read."""
    if unit == "us":
        return (1000.0, "ms") if largest >= 1000 else (1.0, "us")
    if unit == "bytes":
        return MIB, "MB"
    if unit == "share":
        return 0.01, "%"
    return 1.0, {"gbs": "GB/s", "percent": "%"}.get(unit, "")


def _lines(report: Report) -> TableView:
    """What each line of the user's code costs per step, as the JSON report holds it."""
    many = len(report.profile.ranks) > 1
    rows: list[list[Cell]] = [
        [
            f"{cost.path}({cost.line}): {cost.function}",
            cost.text.strip() if cost.text else None,
            cost.device_us_per_step,
            cost.share,
            cost.communication_us_per_step,
            cost.kernels,
            *([cost.rank] if many else []),
        ]
        for cost in report.lines
    ]
    known = any(cost.text for cost in report.lines)
    columns = [
        ViewColumn("source", "line"),
        ViewColumn("code", "text"),
        ViewColumn("device_us", "us"),
        ViewColumn("step_share", "share"),
        ViewColumn("communication_us", "us"),
        ViewColumn("kernels", "count"),
        *([ViewColumn("rank", "id")] if many else []),
    ]
    if not known:
        del columns[1]
        rows = [[first, *rest] for first, _, *rest in rows]
    return TableView("lines", tuple(columns), rows[:MAX_LINES], len(rows))


_LEDGER: tuple[tuple[str, str], ...] = (
    ("duration_us", "duration_us"),
    ("compute_us", "compute_us"),
    ("communication_us", "communication_us"),
    ("overlapped_us", ""),
    ("exposed_us", "exposed_communication_us"),
    ("free_us", "free_us"),
    ("prepare_us", "prepare_us"),
    ("after_us", "after_last_kernel_us"),
)
MAX_STEPS, MAX_LINES = 500, 400


def _steps(report: Report) -> TableView:
    """The ledger of every rank and step, as the JSON report holds it."""
    rows: list[list[Cell]] = []
    for step in sorted(report.steps, key=lambda each: -each.duration_us)[:MAX_STEPS]:
        overlapped = step.communication_us - step.exposed_communication_us
        figures = [round(getattr(step, source) if source else overlapped, 3) for _, source in _LEDGER]
        rows.append([step.rank, step.step, *figures])
    columns = (ViewColumn("rank", "id"), ViewColumn("step", "id"), *(ViewColumn(key, "us") for key, _ in _LEDGER))
    return TableView("steps", columns, rows, len(report.steps), "step_trace_time.csv")
