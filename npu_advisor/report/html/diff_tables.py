"""Tables that set two profiles side by side: findings, ops, kernels, phases, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_count
from npu_advisor.comparison import Change, Comparison, FindingChange, ModuleChange, OneSided, OpChange, RankPair
from npu_advisor.findings import Location
from npu_advisor.report.cards import Places
from npu_advisor.report.comparison import only_lines
from npu_advisor.report.comparison_work import both_counts, both_us, inner_modules, module_name, ratio_told
from npu_advisor.report.html.cells import (
    ABSENT,
    Column,
    Field,
    Grid,
    Head,
    column,
    exact_text,
    grid_of,
    short_name,
    words,
)
from npu_advisor.report.html.sides import PlotRow, SideRow, pair_fields, plot, side_row
from npu_advisor.views import Unit, ViewColumn

MOST_ROWS = 400
_SHOWN_MODULES = 2
_TONES = {"fixed": "better", "better": "better", "new": "worse", "worse": "worse", "gone": "better", "added": "worse"}


def diff_grids(comparison: Comparison, pair: RankPair, places: Places) -> dict[str, Grid]:
    """The tables of the page that hold anything, by name."""
    made = [
        _finding_grid(comparison.findings, places),
        _one_sided_grid(pair.one_sided, places),
        op_grid("diff_ops", pair.ops, places),
        _module_grid(inner_modules(pair)),
        _rank_grid(comparison) if len(comparison.pairs) > 1 else None,
    ]
    return {grid.name: grid for grid in made if grid is not None and grid.rows}


def op_grid(name: str, ops: Sequence[OpChange], places: Places, alone: bool = True) -> Grid:
    """Calls with what they launch: counts, and what they hold of the step and of the device; ``alone`` also where they
    are, and what they hold of the host."""
    shown = ops[:MOST_ROWS]
    columns: list[Column] = [
        (_head("diff_op"), [_op_field(op) for op in shown]),
        *([(_head("source"), [_line_field(op, places) for op in shown])] if alone else []),
        (_head("diff_status"), [_status_field(op.status) for op in shown]),
        (_head("calls", number=True), [_counts(op.calls) for op in shown]),
        (_head("kernels", number=True), [_counts(op.kernels) for op in shown]),
        *_pair("path_us", [op.path_us for op in shown]),
        *_pair("kernel_us", [op.kernel_us for op in shown]),
        *(_pair("host_us", [op.host_us for op in shown]) if alone else ()),
    ]
    weights = [abs(op.path_us.change or 0.0) for op in shown]
    return _grid(name, columns, len(ops), weights if any(weights) else [])


def _finding_grid(findings: Sequence[FindingChange], places: Places) -> Grid:
    order = ["new", "worse", "fixed", "better", "not_checked", "same"]
    rows = sorted(findings, key=lambda each: order.index(each.status))[:MOST_ROWS]
    lines = [each.new_location or each.base_location for each in rows]
    columns: list[Column] = [
        (_head("diff_status"), [_status_field(each.status) for each in rows]),
        (_head("diff_finding"), [Field("", both=each.title, long=True) for each in rows]),
        column(ViewColumn("base_us", "us"), [each.base_us for each in rows], beside=[each.new_us for each in rows]),
        column(ViewColumn("new_us", "us"), [each.new_us for each in rows], beside=[each.base_us for each in rows]),
        (_head("source"), [_place_field(line, places) for line in lines]),
    ]
    return _grid("diff_findings", columns, len(findings))


def _module_grid(modules: Sequence[ModuleChange]) -> Grid:
    rows = modules[:MOST_ROWS]
    columns: list[Column] = [
        (_head("diff_module"), [words(module_name(each)) for each in rows]),
        (_head("calls", number=True), [_counts(each.calls) for each in rows]),
        (_head("kernels", number=True), [_counts(each.kernels) for each in rows]),
        *_pair("kernel_us", [each.kernel_us for each in rows]),
        *_pair("host_us", [each.host_us for each in rows]),
    ]
    return _grid(
        "diff_modules",
        columns,
        len(modules),
        [max(each.kernel_us.base or 0.0, each.kernel_us.new or 0.0) for each in rows],
    )


def _one_sided_grid(kernels: Sequence[OneSided], places: Places) -> Grid:
    rows = kernels[:MOST_ROWS]
    columns: list[Column] = [
        (_head("type"), [words(short_name(each.type)) for each in rows]),
        (_head("diff_side"), [Field("", both=say(f"ui.compare.only.{each.side}")) for each in rows]),
        (_head("diff_class"), [words(each.kernel_class) for each in rows]),
        _column("kernels", "count", [each.kernels for each in rows]),
        _column("total_us", "us", [each.us for each in rows]),
        (_head("source"), [words(short_name(only_lines(each, places)) or ABSENT) for each in rows]),
        (_head("diff_op"), [words(", ".join(map(short_name, each.ops)) or ABSENT) for each in rows]),
    ]
    return _grid("diff_one_sided", columns, len(kernels), [each.us for each in rows])


def _rank_grid(comparison: Comparison) -> Grid:
    rows = sorted(comparison.pairs, key=lambda pair: -abs(pair.step.change or 0.0))[:MOST_ROWS]
    columns: list[Column] = [
        _column("rank", "id", [pair.base_rank for pair in rows]),
        _column("new_rank", "id", [pair.new_rank for pair in rows]),
        *_pair("duration_us", [pair.step for pair in rows]),
        _column("diff_share", "share", [pair.step.share for pair in rows]),
        *_pair("compute_us", [_part(pair, "compute") for pair in rows]),
        *_pair("exposed_us", [_part(pair, "communication") for pair in rows]),
    ]
    return _grid("diff_ranks", columns, len(comparison.pairs))


def _part(pair: RankPair, key: str) -> Change:
    nothing = Change(key=key, base=0.0, new=0.0, change=0.0)
    return next((each for each in pair.ledger if each.key == key), nothing)


# --- plots with their figures ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plotted:
    """A row of a plot and its figures; ``further`` is a second figure of the row."""

    bars: PlotRow
    counts: str
    figures: SideRow
    further: SideRow | None = None
    ratio: str = ""


def class_table(pair: RankPair) -> list[Plotted]:
    """Kernels by class: launches and time of both sides."""
    names = [Text(en=each.name, zh=each.name) for each in pair.classes]
    rows = plot(names, [each.us for each in pair.classes])
    return [
        Plotted(row, both_counts(each.kernels), side_row(each.us, row.name), ratio=ratio_told(each))
        for row, each in zip(rows, pair.classes, strict=True)
    ]


def phase_table(pair: RankPair) -> list[Plotted]:
    """The parts of the program: host time, and the kernels that each launches."""
    names = [say(f"html.phase.{each.name}") for each in pair.phases]
    rows = plot(names, [each.host_us for each in pair.phases])
    return [
        Plotted(
            row,
            both_counts(each.kernels),
            side_row(each.host_us, row.name),
            side_row(each.kernel_us, row.name),
        )
        for row, each in zip(rows, pair.phases, strict=True)
    ]


# --- cells ----------------------------------------------------------------------------------------------------------


def _grid(name: str, columns: Sequence[Column], total: int, weights: Sequence[float] = ()) -> Grid:
    return grid_of(name, columns, total, "-f json", weights)


def _head(key: str, unit: str = "", number: bool = False) -> Head:
    return Head(say(f"col.{key}"), unit, number)


def _column(key: str, unit: Unit, values: Sequence[float | None]) -> Column:
    return column(ViewColumn(key, unit), values)


def _pair(key: str, changes: Sequence[Change]) -> tuple[Column, Column]:
    """One figure as two columns: both sides, and the change."""
    unit, fields = pair_fields(changes, "us")
    both, moved = [each for each, _ in fields], [each for _, each in fields]
    return (_head(key, unit, number=True), both), (_head("diff_change", unit, number=True), moved)


def _counts(change: Change) -> Field:
    return Field(both_counts(change), exact_text(change.new))


def _both(base: str | None, new: str | None) -> str:
    return " → ".join(dict.fromkeys(text for text in (base, new) if text))


def _inmost(module: str | None) -> str | None:
    """The end of a module's path: the table of modules has all of it."""
    parts = module.split("/") if module else []
    return module if len(parts) <= _SHOWN_MODULES else "…/" + "/".join(parts[-_SHOWN_MODULES:])


def _op_field(op: OpChange) -> Field:
    """The call, its module, shapes and types; unfolded, the kernels that only one side launches for it, and what
    differs inside."""
    sides = (("−", op.only_base_kernels), ("+", op.only_new_kernels))
    lines = [
        f"{sign} {short_name(name)} x {format_count(count)}"
        for sign, kernels in sides
        for name, count in kernels.items()
    ]
    lines += [
        f"{short_name(each.path or op.name)}: {both_counts(each.kernels)}, {both_us(each.kernel_us)}"
        for each in op.inner
    ]
    about = [_both(_inmost(op.base_module), _inmost(op.new_module)), _both(op.base_shapes, op.new_shapes)]
    about += [_both(op.base_dtypes, op.new_dtypes)] if op.base_dtypes != op.new_dtypes else []
    note = " · ".join(short_name(text) for text in about if text)
    return replace(words(short_name(_both(op.base_name, op.name))), frames="\n".join(lines), note=note)


def _status_field(status: str) -> Field:
    return Field("", both=say(f"ui.compare.status.{status}"), tone=_TONES.get(status, ""))


def _line_field(op: OpChange, places: Places) -> Field:
    base, new = (places.show(place) if place else None for place in (op.base_location, op.new_location))
    return Field(_both(base, new), line=True) if base or new else Field(ABSENT)


def _place_field(place: Location | None, places: Places) -> Field:
    return Field(places.show(place), line=True) if place is not None else Field(ABSENT)
