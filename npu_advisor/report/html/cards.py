"""Findings as cards, and what is left when they are fixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Basis, Severity, Text
from npu_advisor.base.units import format_field, format_pct, format_us
from npu_advisor.findings import Finding, JsonValue, Report
from npu_advisor.report.cards import Places, figure, saved_range
from npu_advisor.report.html.cells import short_frame
from npu_advisor.report.ledger import ledgers
from npu_advisor.report.options import Options
from npu_advisor.report.text import compose, short_line
from npu_advisor.report.theme import SEVERITY
from npu_advisor.views import Views

# Of the recorded step; less would be no bar.
_VISIBLE_SHARE = 0.0005
_OPEN = 2
_SHOWN_BARS = 8
_CELL_CHARS = 120


@dataclass(frozen=True)
class CodeLine:
    """One line of the code frame."""

    number: int
    text: str
    hot: bool


@dataclass(frozen=True)
class Card:
    """One finding with its figures as text. ``window`` is its fingerprint where a timeline shows it."""

    anchor: str
    finding: Finding
    glyph: str
    place: str | None
    note: list[Text]
    price: Text
    share: str
    message: Text
    after: Text | None
    made: Text | None
    code: list[CodeLine]
    evidence: list[list[tuple[str, bool]]]
    stack: str
    window: str | None
    small: bool
    open: bool


def cards(report: Report, views: Views | None, options: Options) -> list[Card]:
    """Every finding, in the order of the report; the first two are open."""
    places = Places([found.location for found in report.findings if found.location], options.base)
    windows = {window.fingerprint for each in (views.timelines if views else ()) for window in each.windows}
    seen: Counter[str] = Counter()
    made = []
    for index, finding in enumerate(report.findings):
        seen[finding.rule_id] += 1
        suffix = f"-{seen[finding.rule_id]}" if seen[finding.rule_id] > 1 else ""
        made.append(_card(report, finding, f"f-{finding.rule_id}{suffix}", index < _OPEN, places, windows))
    return made


def folded(shown: Sequence[Card]) -> Text | None:
    """How many findings are folded because they are small."""
    small = sum(card.small for card in shown)
    return say("html.folded_small", n=small) if small else None


def _card(report: Report, finding: Finding, anchor: str, is_open: bool, places: Places, windows: set[str]) -> Card:
    steps = sum(step.rank == finding.rank for step in report.steps)
    small = finding.severity is Severity.INFO
    price, share = _price(finding)
    return Card(
        anchor=anchor,
        finding=finding,
        glyph=SEVERITY[finding.severity].glyph,
        place=places.show(finding.location) if finding.location else None,
        note=_note(report, finding),
        price=price,
        share=share,
        message=_message(finding, steps),
        after=_after(finding, places, {other.fingerprint: other for other in report.findings}),
        made=_made(finding),
        code=_code(finding),
        evidence=[[_cell(value) for value in row] for row in finding.evidence.rows],
        stack="\n".join(map(short_frame, finding.stack)),
        window=finding.fingerprint if finding.fingerprint in windows else None,
        small=small,
        open=is_open and not small,
    )


def _note(report: Report, finding: Finding) -> list[Text]:
    made = []
    if finding.location is not None and finding.location.function:
        made.append(Text(en=finding.location.function, zh=finding.location.function))
    if len(report.profile.ranks) > 1:
        made.append(say("ui.finding.rank", rank=finding.rank))
    if finding.step is not None and len({step.step for step in report.steps}) > 1:
        made.append(say("ui.finding.step", step=finding.step))
    return made


def _price(finding: Finding) -> tuple[Text, str]:
    """The saving per step and its share; without a price what the finding measures."""
    saving = finding.saving
    if saving is None:
        measured = figure(finding)
        return Text(en=measured, zh=measured), ""
    us, share = format_us(max(0.0, saving.us_per_step)), format_pct(max(0.0, saving.share))
    if saving.basis is Basis.UPPER_BOUND:
        return say("ui.saving.bound", us=us), share
    if saving.us_per_step <= 0:
        return say("ui.saving.nothing"), ""
    return say("ui.saving.saves", us=saved_range(saving)), share


def _after(finding: Finding, places: Places, others: Mapping[str, Finding]) -> Text | None:
    """For a fix that saves nothing now: what must be fixed first, and what it saves then."""
    if finding.saving is None or not finding.saving.after:
        return None
    first = finding.saving.after[0]
    us = format_us(first.us_per_step)
    if len(first.fingerprints) > 1:
        return say("ui.saving.after_all", us=us, n=len(first.fingerprints))
    other = others.get(first.fingerprints[0])
    name: Text | str = other.rule_id if other is not None else first.fingerprints[0]
    if other is not None and other.location is not None:
        name = say("ui.saving.at", rule=name, place=places.show(other.location))
    return compose("ui.saving.after", us=us, other=name)


def _made(finding: Finding) -> Text | None:
    """That a program can make the change, and how to see it."""
    made = [fix.applicability for fix in finding.fixes if fix.applicability != "display-only"]
    if not made:
        return None
    return say("ui.finding.made", options="--diff" if "safe" in made else "--diff --unsafe")


def _message(finding: Finding, steps: int) -> Text:
    """The evidence; its times are sums over the finding's scope, the price is per step."""
    if steps < 2 or finding.step is not None or finding.saving is None:
        return finding.message
    en, zh = finding.message.en, finding.message.zh
    return Text(
        en=say("ui.finding.over_steps", steps=steps, message=en).en,
        zh=say("ui.finding.over_steps", steps=steps, message=zh).zh,
    )


def _code(finding: Finding) -> list[CodeLine]:
    place = finding.location
    if place is None or place.code is None or not place.code.fits:
        return []
    first = place.code.first_line
    lines = [(first + index, line.expandtabs(4)) for index, line in enumerate(place.code.lines)]
    margin = min((len(line) - len(line.lstrip()) for _, line in lines if line.strip()), default=0)
    return [CodeLine(number, line[margin:].rstrip(), number == place.line) for number, line in lines]


def _cell(value: JsonValue) -> tuple[str, bool]:
    """A cell of evidence as text (a line of source in short), and whether it is a number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = short_line(value) if isinstance(value, str) else format_field(value)
    return (text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"), number


@dataclass(frozen=True)
class Fall:
    """One bar of the waterfall: from ``left`` over ``width`` (shares of the recorded step)."""

    label: Text
    kind: str
    left: float
    width: float
    value: str
    anchor: str = ""


@dataclass(frozen=True)
class Waterfall:
    """The recorded step, what each finding takes away when all are fixed, and what is left."""

    bars: list[Fall] = field(default_factory=list)
    bound: bool = False


def waterfall(report: Report, shown: Sequence[Card]) -> Waterfall | None:
    """None where no finding has a price, or no step is known."""
    ranks = ledgers(report.steps)
    if not ranks or report.saving.joint_us_per_step <= 0:
        return None
    whole = ranks[0].duration_us
    priced = [card for card in shown if _joint(card) >= _VISIBLE_SHARE * whole]
    if not priced:
        return None
    bars = [Fall(say("html.recorded"), "whole", 0.0, 1.0, format_us(whole))]
    top, taken = min(report.saving.joint_us_per_step, whole), 0.0
    priced.sort(key=lambda card: -_joint(card))
    for card in priced[:_SHOWN_BARS]:
        us = min(_joint(card), top - taken)
        if us < _VISIBLE_SHARE * whole:
            break
        taken += us
        title = card.finding.title
        kind = card.finding.severity.value
        bars.append(Fall(title, kind, 1 - taken / whole, us / whole, f"−{format_us(us)}", card.anchor))
    rest = top - taken
    if rest >= _VISIBLE_SHARE * whole:
        bars.append(Fall(say("html.others"), "info", 1 - top / whole, rest / whole, f"−{format_us(rest)}"))
    bars.append(Fall(say("html.left"), "left", 0.0, 1 - top / whole, format_us(whole - top)))
    return Waterfall(bars, report.saving.basis is Basis.UPPER_BOUND)


def _joint(card: Card) -> float:
    return card.finding.saving.joint_us_per_step if card.finding.saving else 0.0
