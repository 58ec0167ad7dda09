"""A listing for the terminal, and as JSON or CSV for scripts."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from io import StringIO

from rich.cells import cell_len

from npu_advisor.base.messages import say
from npu_advisor.base.units import format_bytes, format_count, format_field, format_pct, format_us
from npu_advisor.report.options import Options
from npu_advisor.report.text import clean, one_line, pad, short_line, shorten, wrap
from npu_advisor.views import Cell, TableView, Unit, ViewColumn

# Absolute times are for scripts; people read those from the start of the recording.
_HIDDEN = ("start_ns", "release_ns")
# Between columns, and the least that a shortened name takes.
_GAP, _LEAST = 2, 12
_TEXT: tuple[Unit, ...] = ("text", "line", "stack")


def render_listing(table: TableView, options: Options) -> str:
    """The rows as columns of at most ``options.columns`` cells. Numbers stay whole: long names are shortened, and the
    last columns left out where there is no room."""
    columns = [
        _Column(column, [row[index] for row in table.rows])
        for index, column in enumerate(table.columns)
        if column.key not in _HIDDEN
    ]
    width = max(options.width, options.columns)
    shown = _that_fit(columns, width)
    lines = [_line([column.head for column in shown], shown)]
    lines += [_line([column.cells[row] for column in shown], shown) for row in range(len(table.rows))]
    notes = []
    if len(table.rows) < table.total:
        notes.append(say("show.more", n=len(table.rows), total=format_count(table.total)).pick(options.lang))
    if len(shown) < len(columns):
        left = ", ".join(column.head for column in columns[len(shown) :])
        notes += wrap(say("show.columns", names=left).pick(options.lang), width - 1)
    return "\n".join(f" {line}" if line else "" for line in [*lines, *([""] if notes else []), *notes]) + "\n"


class _Column:
    """One column as text: its cells, and how wide it is now."""

    def __init__(self, column: ViewColumn, values: Sequence[Cell]) -> None:
        self.head, self.words = clean(column.key), column.unit in _TEXT
        self.cells = [_figure(value, column.unit) for value in values]
        self.width = max([cell_len(self.head), *map(cell_len, self.cells)])


def _that_fit(columns: list[_Column], width: int) -> list[_Column]:
    """The first columns that fit into ``width`` when words are shortened to no less than their least width."""
    shown: list[_Column] = []
    room = width - 1
    for column in columns:
        least = min(column.width, max(_LEAST, cell_len(column.head))) if column.words else column.width
        if shown and least + _GAP > room:
            break
        shown.append(column)
        room -= least + _GAP
    free = room + _GAP
    for column in shown:
        if column.words:
            least = min(column.width, max(_LEAST, cell_len(column.head)))
            taken = min(column.width - least, max(free, 0))
            column.width = least + taken
            free -= taken
    return shown


def _line(cells: Sequence[str], columns: Sequence[_Column]) -> str:
    parts = [
        pad(shorten(cell, column.width), column.width, right=not column.words)
        for cell, column in zip(cells, columns, strict=True)
    ]
    return (" " * _GAP).join(parts).rstrip()


def _figure(value: Cell, unit: Unit) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, str):
        return one_line(clean(short_line(value) if unit == "line" else value))
    if isinstance(value, bool):
        return format_field(value)
    formats = {"us": format_us, "bytes": format_bytes, "share": format_pct, "count": format_count}
    return formats[unit](value) if unit in formats else format_field(value)


def listing_json(table: TableView) -> str:
    """Columns with their units, how many rows there are, and the rows as objects; strict JSON."""
    names = [column.key for column in table.columns]
    data = {
        "table": table.name,
        "columns": [{"name": column.key, "unit": column.unit} for column in table.columns],
        "total": table.total,
        "rows": [dict(zip(names, row, strict=True)) for row in table.rows],
    }
    return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def listing_csv(table: TableView) -> str:
    """A header and the rows; a missing value is an empty field."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.key for column in table.columns])
    writer.writerows(table.rows)
    return out.getvalue()
