"""Calls of one kind at one line, on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from npu_advisor.compare.inner import Launched, inner_changes
from npu_advisor.compare.match import Group, Site
from npu_advisor.compare.noise import change
from npu_advisor.compare.tally import Key, Tally
from npu_advisor.comparison import OpChange
from npu_advisor.findings import Location

PlacePair = Callable[[Site], tuple[Location | None, Location | None]]
Status = Literal["matched", "reshaped", "gone", "added"]


class Counted(NamedTuple):
    """What was counted on one side: what was done, what holds the step, kernel types by group, and which ops inside
    the calls of each group launch."""

    work: Tally
    holding: Tally
    types: dict[int, dict[str, float]]
    inner: Launched


def op_changes(base: Counted, new: Counted, groups: list[Group], places: PlacePair) -> list[tuple[Group, OpChange]]:
    """Every group with its row, the one that changes most of the step first."""
    figures = [(_figures(side.work), side.holding.mean("group")) for side in (base, new)]
    sides = (base, new)
    rows = [(group, _row(number, group, figures, sides, places)) for number, group in enumerate(groups)]
    return sorted(rows, key=lambda row: (-abs(row[1].path_us.change or 0.0), -abs(row[1].kernel_us.change or 0.0)))


_Figures = dict[str, dict[Key, float]]
_COUNTED = (
    ("calls", "call", "count"),
    ("kernels", "kernel", "count"),
    ("kernel_us", "kernel", "us"),
    ("host_us", "call", "us"),
)


def _figures(work: Tally) -> _Figures:
    """By figure: its mean per step by (part, group)."""
    tables = {value: work.mean("part", "group", value=value) for value in ("us", "count")}
    return {key: {at: amount for at, amount in tables[value].items() if at[0] == part} for key, part, value in _COUNTED}


def _row(
    number: int,
    group: Group,
    figures: list[tuple[_Figures, dict[Key, float]]],
    sides: tuple[Counted, Counted],
    places: PlacePair,
) -> OpChange:
    shown = {
        key: change(key, [figure[key].get((part, number), 0.0) for figure, _ in figures]) for key, part, _ in _COUNTED
    }
    launched = [side.types.get(number, {}) for side in sides]
    base, new = places(group.site)
    kind = group.new or group.base
    return OpChange(
        name=kind.name if kind else "",
        base_name=group.base.name if group.base else None,
        base_dtypes=group.base.dtypes or None if group.base else None,
        new_dtypes=group.new.dtypes or None if group.new else None,
        base_module=group.base.module or None if group.base else None,
        new_module=group.new.module or None if group.new else None,
        status=_status(group),
        base_shapes=group.base.shapes if group.base else None,
        new_shapes=group.new.shapes if group.new else None,
        base_location=base,
        new_location=new,
        path_us=change("path_us", [holding.get((number,), 0.0) for _, holding in figures]),
        only_base_kernels={name: count for name, count in launched[0].items() if name not in launched[1]},
        only_new_kernels={name: count for name, count in launched[1].items() if name not in launched[0]},
        inner=inner_changes(*(side.inner.get(number, {}) for side in sides)) if None not in group[1:] else [],
        **shown,
    )


def _status(group: Group) -> Status:
    if group.base is None:
        return "added"
    if group.new is None:
        return "gone"
    unlike = group.base.shapes and group.new.shapes and group.base.shapes != group.new.shapes
    return "reshaped" if unlike else "matched"
