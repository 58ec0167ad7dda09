"""Tables of the views, and those that the report itself holds."""

from __future__ import annotations

from collections.abc import Sequence

from npu_advisor.findings import Report
from npu_advisor.report.html.cells import NUMBERS, Grid, column, grid_of
from npu_advisor.views import Cell, TableView, ViewColumn, Views

# Which column the bar behind the first cell shows.
_BARS = ("share", "total_us", "host_self_us", "size_bytes", "elapse_us", "dur_us", "peak_bytes", "bytes")


def grids(report: Report, views: Views | None) -> dict[str, Grid]:
    """Every table of the views, what each line costs, and the ledger of all ranks and steps, by name."""
    tables = list(views.tables.values()) if views else []
    made = [*(_grid(table) for table in [*tables, _steps(report)]), _lines(report)]
    return {grid.name: grid for grid in made if grid.rows}


def _grid(table: TableView, weights: Sequence[Cell] | None = None) -> Grid:
    """One table as text; the bars are those of its heaviest column unless ``weights`` are given."""
    order, keys = _ordered_by(table), [each.key for each in table.columns]
    columns = [
        column(each, [row[index] for row in table.rows], "descending" if each.key == order else "none")
        for index, each in enumerate(table.columns)
    ]
    if weights is None:
        weight = next((key for key in _BARS if key in keys), None)
        weights = table.values(weight) if weight else ()
    return grid_of(table.name, columns, table.total, table.file, weights)


def _ordered_by(table: TableView) -> str | None:
    """The column that the rows are sorted by, largest first."""
    for each in table.columns:
        values = [value for value in table.values(each.key) if isinstance(value, int | float)]
        if each.unit in NUMBERS[:-1] and values == sorted(values, reverse=True) and len(set(values)) > 1:
            return each.key
    return None


def _lines(report: Report) -> Grid:
    """What each line of the user's code costs per step, as the JSON report holds it."""
    many = len(report.profile.ranks) > 1
    rows: list[list[Cell]] = [
        [
            f"{cost.path}({cost.line}): {cost.function}",
            cost.text.strip() if cost.text else None,
            cost.device_us_per_step,
            cost.communication_us_per_step,
            cost.share,
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
        ViewColumn("communication_us", "us"),
        ViewColumn("step_share", "share"),
        ViewColumn("kernels", "count"),
        *([ViewColumn("rank", "id")] if many else []),
    ]
    if not known:
        del columns[1]
        rows = [[first, *rest] for first, _, *rest in rows]
    # Whatever a line does counts, as it does for the order.
    weights = [cost.device_us_per_step + cost.communication_us_per_step for cost in report.lines[:MAX_LINES]]
    return _grid(TableView("lines", tuple(columns), rows[:MAX_LINES], len(rows)), weights)


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
        rows.append([step.rank if step.rank >= 0 else None, step.step, *figures])
    columns = (ViewColumn("rank", "id"), ViewColumn("step", "id"), *(ViewColumn(key, "us") for key, _ in _LEDGER))
    return TableView("steps", columns, rows, len(report.steps), "step_trace_time.csv")
