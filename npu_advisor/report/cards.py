"""One finding on the page: what happens, what it costs, where, why, and what to type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from rich.cells import cell_len
from rich.style import Style

from npu_advisor.base.terms import Basis, Severity
from npu_advisor.base.units import format_bytes, format_pct, format_us, format_us_range
from npu_advisor.findings import Finding, JointSaving, Location, Saving, Suggestion
from npu_advisor.report.page import Page, Part
from npu_advisor.report.text import crop, pad, shorten, wrap
from npu_advisor.report.theme import MUTED, SEVERITY, STRONG

_INDENT = 10
_SHARE_CELLS = 9
_SHOWN_FIXES = 2
_WHY_LINES = 4
# A saving range narrower than this share of the figure would print as no range.
_VISIBLE_RANGE = 0.01


class Places:
    """How locations are shown: local files relative to the working directory, others without the folder they share."""

    def __init__(self, locations: list[Location], base: str) -> None:
        self._base = base
        folders = [PurePath(place.path.replace("\\", "/")).parent.parts for place in locations if not place.local_path]
        agrees = [len(set(level)) == 1 for level in zip(*folders, strict=False)]
        self._shared = [*agrees, False].index(False)

    def show(self, place: Location) -> str:
        """``path:line`` as a terminal makes it clickable."""
        if place.local_path:
            path = Path(place.local_path)
            inside = self._base and path.is_absolute() and path.is_relative_to(self._base)
            return f"{path.relative_to(self._base).as_posix() if inside else path.as_posix()}:{place.line}"
        parts = PurePath(place.path.replace("\\", "/")).parts[self._shared :]
        return f"{PurePath(*parts).as_posix()}:{place.line}"


def place_style(page: Page, place: Location, style: str = "") -> Style:
    """The style of a location: with colours on and the file readable here, a link to it."""
    base = Style.parse(style)
    if not page.options.color or not place.local_path:
        return base
    path = Path(page.options.base) / place.local_path
    return base + Style(link=path.as_uri()) if path.is_absolute() else base


def add_card(
    page: Page,
    finding: Finding,
    places: Places,
    scope: set[str],
    frame: bool,
    steps: int,
    others: Mapping[str, Finding],
) -> None:
    """Append one finding.

    ``scope`` holds ``rank`` and ``step`` when those must be named; ``frame`` asks for code; ``steps`` is how many
    steps of its rank were recorded; ``others`` are all findings by fingerprint.
    """
    _headline(page, finding)
    _where(page, finding, places, scope)
    if frame:
        _frame(page, finding)
    _labelled(page, page.say("ui.finding.why"), _why(page, finding, steps), "")
    _after(page, finding, places, others)
    shown = finding.suggestions if page.options.show_all else finding.suggestions[:_SHOWN_FIXES]
    for index, suggestion in enumerate(shown):
        _fix(page, suggestion, first=index == 0)
    made = [fix.applicability for fix in finding.fixes if fix.applicability != "display-only"]
    if made:
        options = "--diff" if "safe" in made else "--diff --unsafe"
        for line in wrap(page.say("ui.finding.made", options=options), page.width - _INDENT):
            page.add((" " * _INDENT + line, MUTED))
    page.blank()


def _why(page: Page, finding: Finding, steps: int) -> str:
    """The evidence; its times are sums over the finding's scope, the price beside the title is per step."""
    message = finding.message.pick(page.options.lang)
    if steps < 2 or finding.step is not None or finding.saving is None:
        return message
    return page.say("ui.finding.over_steps", steps=steps, message=message)


def _after(page: Page, finding: Finding, places: Places, others: Mapping[str, Finding]) -> None:
    """For a fix that saves nothing now: what must be fixed first, and what it saves then."""
    if finding.saving is None or not finding.saving.after:
        return
    first = finding.saving.after[0]
    us = format_us(first.us_per_step)
    if len(first.fingerprints) > 1:
        text = page.say("ui.saving.after_all", us=us, n=len(first.fingerprints))
    else:
        other = others.get(first.fingerprints[0])
        name = other.rule_id if other is not None else first.fingerprints[0]
        if other is not None and other.location is not None:
            name = page.say("ui.saving.at", rule=name, place=places.show(other.location))
        text = page.say("ui.saving.after", us=us, other=name)
    _labelled(page, page.say("ui.saving.then"), text, "")


def saving_text(page: Page, finding: Finding) -> str:
    """The price, for the right edge: what the fix saves and its share of the step; else the finding's own figure."""
    saving = finding.saving
    if saving is None:
        return figure(finding)
    us = format_us(max(0.0, saving.us_per_step))
    if saving.basis is Basis.UPPER_BOUND:
        amount = page.say("ui.saving.bound", us=us)
    elif saving.us_per_step <= 0:
        return page.say("ui.saving.nothing")
    else:
        amount = page.say("ui.saving.saves", us=saved_range(saving))
    return amount + pad(format_pct(max(0.0, saving.share)), _SHARE_CELLS, right=True)


def saved_range(saving: Saving | JointSaving) -> str:
    """What a fix, or all of them, may save: low to high, or the one figure where these hardly differ."""
    expected = saving.us_per_step if isinstance(saving, Saving) else saving.joint_us_per_step
    low, high = max(0.0, saving.low_us_per_step), saving.high_us_per_step
    if high - low > _VISIBLE_RANGE * expected:
        return format_us_range(low, high)
    return format_us(max(0.0, expected))


def figure(finding: Finding) -> str:
    """What a finding without a price measures: bytes or a time; empty where it measures neither."""
    if finding.category == "profile":  # its values are settings and totals of the whole recording
        return ""
    for name, value in finding.values.items():
        if name.endswith("_bytes") and isinstance(value, (int, float)) and not isinstance(value, bool):
            return format_bytes(value)
    return format_us(finding.recorded_us) if finding.recorded_us else ""


def _headline(page: Page, finding: Finding) -> None:
    mark = SEVERITY[finding.severity]
    word = page.say(f"ui.severity.{finding.severity.value}")
    head = pad(f"{pad(mark.show(page.options.utf8), 2 if page.options.utf8 else 3)}{word}", _INDENT)
    price = saving_text(page, finding)
    room = page.width - _INDENT - (cell_len(price) + 2 if price else 0)
    first, *rest = wrap(finding.title.pick(page.options.lang), room, 3, page.ellipsis)
    style = STRONG if finding.severity is not Severity.INFO else ""
    page.add((head, mark.style), (first, style), right=(price, STRONG) if price else None)
    for line in rest:
        page.add((" " * _INDENT + line, style))


def _where(page: Page, finding: Finding, places: Places, scope: set[str]) -> None:
    notes = [finding.location.function] if finding.location is not None and finding.location.function else []
    if "rank" in scope:
        notes.append(page.say("ui.finding.rank", rank=finding.rank))
    if "step" in scope and finding.step is not None:
        notes.append(page.say("ui.finding.step", step=finding.step))
    rule = shorten(finding.rule_id, page.width - _INDENT, page.ellipsis)
    if finding.location is None:
        reason = finding.location_missing.pick(page.options.lang) if finding.location_missing else ""
        why = page.say("ui.finding.no_line", reason=reason) if reason else page.say("ui.finding.no_line_unknown")
        lines = wrap(page.mark(" · ").join([why, *notes]), page.width - _INDENT, page.most(_WHY_LINES), page.ellipsis)
        for line in lines[:-1]:
            page.add((" " * _INDENT + line, MUTED))
        page.add((" " * _INDENT + lines[-1], MUTED), right=(rule, MUTED))
        return
    shown = places.show(finding.location)
    room = page.width - _INDENT - cell_len(shown) - 2
    note = shorten(page.mark(" · ").join(notes), max(12, room), page.ellipsis)
    parts: list[Part] = [(" " * _INDENT, ""), (shown, place_style(page, finding.location, "cyan"))]
    if cell_len(note) <= room:
        page.add(*parts, ("  " + note, ""), right=(rule, MUTED))
    else:
        page.add(*parts)
        page.add((" " * _INDENT + note, ""), right=(rule, MUTED))


def _frame(page: Page, finding: Finding) -> None:
    """The line of source (with ``--all`` those around it too), underlined with the op and kernel that lead here."""
    place = finding.location
    if place is None or place.code is None or not (place.text or "").strip():
        return
    if not place.code.fits:
        for line in wrap(page.say("ui.code.changed", file=PurePath(place.path).name), page.width - _INDENT):
            page.add((" " * _INDENT + line, MUTED))
        return
    first = place.code.first_line
    shown = [(first + index, line.expandtabs(4)) for index, line in enumerate(place.code.lines)]
    if not page.options.show_all:
        shown = [(number, line) for number, line in shown if number == place.line]
    margin = min(len(line) - len(line.lstrip()) for _, line in shown if line.strip())
    for number, line in shown:
        gutter = pad(str(number), _INDENT - 1, right=True)
        code = crop(line[margin:].rstrip(), page.width - _INDENT - 2, page.ellipsis)
        page.add((f"{gutter} {page.mark('│')} ", MUTED), (code, "" if number == place.line else MUTED))
        if number == place.line:
            _underline(page, finding, code)


def _underline(page: Page, finding: Finding, code: str) -> None:
    hops = {hop.kind: hop.name for hop in reversed(finding.chain)}
    trail = [hops[kind] for kind in ("op", "kernel") if kind in hops]
    if not trail:
        return
    inset = len(code) - len(code.lstrip())
    line = " " * inset + page.mark("─") * (cell_len(code) - inset)
    room = page.width - _INDENT - 4 - cell_len(line)
    note = page.mark(" → ").join(trail)
    note = f"  {note}" if cell_len(note) <= room else ""
    page.add((f"{' ' * _INDENT}{page.mark('│')} ", MUTED), (line, "red"), (note, MUTED))


def _labelled(page: Page, label: str, text: str, right: str) -> None:
    """``label`` in the margin, wrapped text beside it, and a word flush right on the first line."""
    head = pad("    " + label, _INDENT)
    room = page.width - _INDENT - (cell_len(right) + 2 if right else 0)
    first, *rest = wrap(text, room, page.most(_WHY_LINES), page.ellipsis)
    page.add((head, MUTED), (first, ""), right=(right, MUTED) if right else None)
    for line in rest:
        page.add((" " * _INDENT + line, ""))


def _fix(page: Page, suggestion: Suggestion, first: bool) -> None:
    label = page.say("ui.finding.fix") if first else ""
    _labelled(page, label, suggestion.text.pick(page.options.lang), page.say(f"ui.effort.{suggestion.effort.value}"))
    # Code that replaces nothing is there to be typed: no sign before it.
    typed = ("+ ", "green") if suggestion.before else ("  ", "cyan")
    for (sign, style), code in ((("- ", "red"), suggestion.before), (typed, suggestion.after)):
        for line in (code or "").rstrip("\n").splitlines():
            page.add((" " * _INDENT + sign + line.expandtabs(4), style))
