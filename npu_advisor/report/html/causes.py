"""What explains the change of the step: a card for each cause, and how they add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_pct
from npu_advisor.comparison import Attribution, Cause, RankPair
from npu_advisor.report.cards import Places
from npu_advisor.report.comparison import TINY_US, felt, matters, place_of, signed, work_told
from npu_advisor.report.html.cells import Grid, short_name
from npu_advisor.report.html.diff_tables import op_grid
from npu_advisor.report.html.sides import Axis, Bar, minus, told

MOST_CAUSES = 100
_SHOWN_BARS = 10


@dataclass(frozen=True)
class CauseCard:
    """One cause with its figures as text; ``tone`` is worse, better or noise (the step does not feel it)."""

    anchor: str
    place: Text
    us: float
    change: str
    share: str
    tone: str
    work: Text
    note: Text | None
    parts: list[tuple[Text, str]]
    ops: Grid | None
    matters: bool


def causes_of(pair: RankPair, places: Places) -> list[CauseCard]:
    """Every cause, in the order of the comparison."""
    causes = pair.attribution.causes[:MOST_CAUSES]
    return [_card(f"cause-{number}", cause, pair, places) for number, cause in enumerate(causes, 1)]


def _card(anchor: str, cause: Cause, pair: RankPair, places: Places) -> CauseCard:
    hidden = felt(cause) == "hidden"
    share = cause.share_of_change
    return CauseCard(
        anchor=anchor,
        place=told(lambda words: short_name(place_of(words, cause, places))),
        us=cause.us,
        change="0" if hidden else minus(signed(cause.us)),
        share="" if hidden or share is None else format_pct(share),
        tone="noise" if hidden else "worse" if cause.us > 0 else "better",
        work=told(lambda words: words("ui.compare.comma").join(work_told(words, cause))),
        note=None if felt(cause) == "here" else say(f"html.diff.{felt(cause)}", us=minus(signed(cause.knock_on_us))),
        parts=_parts(cause, pair.attribution.basis),
        ops=op_grid(f"{anchor}-ops", cause.ops, places, alone=False) if cause.ops else None,
        matters=matters(cause, pair),
    )


def _parts(cause: Cause, basis: str) -> list[tuple[Text, str]]:
    """What the step has more or less of because of a cause, the largest first."""
    key = "ui.path" if basis == "critical_path" else "ui.compare.part"
    worth = {part: us for part, us in cause.parts.items() if abs(us) >= TINY_US}
    return [
        (say(f"{key}.{part}"), minus(signed(us))) for part, us in sorted(worth.items(), key=lambda each: -abs(each[1]))
    ]


@dataclass(frozen=True)
class Step:
    """One bar of the waterfall, on a scale of 1000, and what it adds."""

    label: Text
    tone: str
    bar: Bar
    value: str
    anchor: str = ""


@dataclass(frozen=True)
class Falls:
    """How the causes add up to the change; ``zero`` is where no change is."""

    steps: list[Step]
    zero: float


def falls(told_by: Attribution, causes: Sequence[CauseCard]) -> Falls | None:
    """Each cause from where the ones before it end, the rest, the remainder, and the whole change from zero."""
    shown = [cause for cause in causes if cause.tone != "noise"][:_SHOWN_BARS]
    if not shown:
        return None
    rest = told_by.change_us - told_by.remainder_us - sum(cause.us for cause in shown)
    parts = [(cause.place, cause.us, cause.anchor) for cause in shown]
    parts += [(say("html.others"), rest, "")] if abs(rest) >= TINY_US else []
    parts += [(say("html.diff.remainder"), told_by.remainder_us, "")] if abs(told_by.remainder_us) >= TINY_US else []
    ends = list(accumulate((us for _, us, _ in parts), initial=0.0))
    axis = Axis.over([*ends, told_by.change_us])
    steps = [
        Step(label, _tone(us), axis.bar(low, high), minus(signed(us)), anchor)
        for (label, us, anchor), (low, high) in zip(parts, pairwise(ends), strict=True)
    ]
    whole = axis.bar(0.0, told_by.change_us)
    steps.append(Step(say("html.diff.whole"), "whole", whole, minus(signed(told_by.change_us))))
    return Falls(steps, axis.zero)


def _tone(us: float) -> str:
    return "worse" if us > 0 else "better"
