"""Figures of two sides as text: base, new and change in one unit, and bars on one scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_bytes, format_us
from npu_advisor.comparison import Change
from npu_advisor.report.comparison import Say, percent, signed
from npu_advisor.report.comparison_work import both
from npu_advisor.report.html.cells import ABSENT, Field, exact_text, scale, short_number
from npu_advisor.views import Unit

# Of a box of 1000; what is shorter would not be seen.
_LEAST_BAR = 2.0


def told(write: Callable[[Say], str]) -> Text:
    """What ``write`` says in both languages."""
    return Text(en=write(lambda key, **fields: say(key, **fields).en), zh=write(lambda key, **f: say(key, **f).zh))


def each_told(write: Callable[[Say], list[str]]) -> list[Text]:
    """As :func:`told`, for several texts."""
    pairs = zip(
        write(lambda key, **fields: say(key, **fields).en), write(lambda key, **f: say(key, **f).zh), strict=True
    )
    return [Text(en=en, zh=zh) for en, zh in pairs]


def minus(text: str) -> str:
    """``text`` of a signed number with a real minus sign, as wide as the plus."""
    return "−" + text[1:] if text.startswith("-") and len(text) > 1 else text


def tone_of(change: Change, more_is_worse: bool = True) -> str:
    """Whether a change is for the better or the worse, or within noise; empty where it is neither."""
    if change.judgement is not None and change.judgement.verdict in ("within_noise", "same"):
        return "noise"
    if not change.change or not more_is_worse:
        return ""
    return "worse" if change.change > 0 else "better"


@dataclass(frozen=True)
class Bar:
    """A bar in a box of width 1000: from ``left`` over ``width``."""

    left: float
    width: float


@dataclass(frozen=True)
class SideRow:
    """One figure on both sides as text; ``exact`` are base, new and change as numbers. ``bar`` is the change, on the
    scale of its table."""

    key: str
    label: Text
    base: str
    new: str
    change: str
    share: str
    exact: tuple[str, str, str]
    tone: str
    bar: Bar | None = None


def side_row(change: Change, label: Text, bar: Bar | None = None) -> SideRow:
    """One figure, with its unit in every cell: tables of few rows mix units."""
    form = format_bytes if change.key.endswith("bytes") else format_us
    figures = (change.base, change.new, change.change)
    return SideRow(
        key=change.key,
        label=label,
        base=form(change.base),
        new=form(change.new),
        change=minus(signed(change.change, form)),
        share=minus(percent(change.share)) if change.share else "",
        exact=(exact_text(figures[0]), exact_text(figures[1]), exact_text(figures[2])),
        tone=tone_of(change),
        bar=bar,
    )


@dataclass(frozen=True)
class Axis:
    """A scale that holds ``values`` and zero in a box of width 1000."""

    unit: float
    zero: float

    @classmethod
    def over(cls, values: Sequence[float]) -> Axis:
        """The axis from the least to the largest of ``values``."""
        low, high = min([0.0, *values]), max([0.0, *values])
        unit = 1000.0 / (high - low) if high > low else 0.0
        return cls(unit, -low * unit)

    def bar(self, start: float, end: float) -> Bar:
        """From one value to another; wide enough to be seen unless they are the same."""
        width = max(abs(end - start) * self.unit, _LEAST_BAR if start != end else 0.0)
        return Bar(min(self.zero + min(start, end) * self.unit, 1000.0 - width), width)


@dataclass(frozen=True)
class PlotRow:
    """One row of a plot of two sides: a bar each, and the stretch of the two running totals that it adds."""

    name: Text
    base: Bar
    new: Bar
    base_total: tuple[float, float]
    new_total: tuple[float, float]


def plot(names: Sequence[Text], changes: Sequence[Change]) -> list[PlotRow]:
    """Rows on the scale of the larger total, which both the bars and the running totals are drawn on."""
    sides = [[change.base or 0.0 for change in changes], [change.new or 0.0 for change in changes]]
    unit = 1000.0 / (max(map(sum, sides)) or 1.0)
    rows, before = [], [0.0, 0.0]
    for name, *figures in zip(names, *sides, strict=True):
        after = [total + us for total, us in zip(before, figures, strict=True)]
        bars = [Bar(0.0, us * unit) for us in figures]
        totals = [(low * unit, high * unit) for low, high in zip(before, after, strict=True)]
        rows.append(PlotRow(name, bars[0], bars[1], totals[0], totals[1]))
        before = after
    return rows


def pair_fields(changes: Sequence[Change], unit: Unit) -> tuple[str, list[tuple[Field, Field]]]:
    """A figure of many rows as two columns in one unit: base and new, and the change. Sorts by new, and by change."""
    largest = max((abs(each) for change in changes for each in (change.base, change.new) if each), default=0.0)
    divisor, shown = scale(unit, largest)

    def text(value: float | None) -> str:
        return ABSENT if value is None else short_number(value / divisor)

    fields = []
    for each in changes:
        sides = Field(both(each, text), exact_text(each.new))
        moved = each.change or 0.0
        sign = "+" if moved > 0 else "−" if moved < 0 else ""
        size = text(abs(moved))
        change = Field(size if size.startswith("<") else sign + size, exact_text(each.change), tone=tone_of(each))
        fields.append((sides, change))
    return shown, fields
