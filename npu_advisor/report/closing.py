"""What follows the findings: what is not the cause, what can be trusted, what was not checked, and the footer."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style

from npu_advisor.base.units import format_count, format_pct, format_us
from npu_advisor.findings import NotTheCause, Outcome, Report
from npu_advisor.report.cards import Places, place_style
from npu_advisor.report.damage import LOST, is_damaged
from npu_advisor.report.page import Page, Part
from npu_advisor.report.text import one_line, pad, shorten, wrap
from npu_advisor.report.theme import GOOD, MISSING, MUTED, OK, PARTLY, Mark

_SHOWN_RULES = 8
_NAME_CELLS = 32
_REASON_LINES = 3
_FIGURE_CELLS = 13


def add_not_the_cause(page: Page, items: list[NotTheCause], places: Places, scope: set[str]) -> None:
    """Things that are long in the trace although changing them alone would not shorten the step."""
    if not items:
        return
    if "rank" in scope and not page.options.show_all:
        items = _longest_of_each(items)
    page.heading(page.say("ui.not_cause.head"), page.say("ui.not_cause.note"))
    shown = [places.show(item.location) if item.location is not None else "" for item in items]
    # Place and name share what the figure leaves.
    cells = min(_NAME_CELLS, (page.width - _FIGURE_CELLS - 16) // 2)
    shown = [shorten(place, cells, page.ellipsis) for place in shown]
    names = [shorten(item.name, cells, page.ellipsis) for item in items]
    if "rank" in scope:
        names = [
            f"{name}  {page.say('ui.finding.rank', rank=item.rank)}" for item, name in zip(items, names, strict=True)
        ]
    left, middle = max(map(cell_len, shown)), max(map(cell_len, names))
    for item, place, name in zip(items, shown, names, strict=True):
        figure = page.say(f"ui.not_cause.{item.where}", us=format_us(item.duration_us))
        parts = _place_parts(page, item, place, left)
        head = f"{pad(name, middle)}  {pad(figure, _FIGURE_CELLS, right=True)}"
        used = 3 + sum(cell_len(text) for text, _ in parts) + cell_len(head) + 2
        reason = item.reason.pick(page.options.lang)
        if page.width - used >= max(24, min(cell_len(reason), page.width // 3)):
            first, *rest = wrap(reason, page.width - used, page.most(_REASON_LINES), page.ellipsis)
            page.add(("   ", ""), *parts, (head + "  ", ""), (first, MUTED))
            indent = used
        else:
            page.add(("   ", ""), *parts, (head, ""))
            rest, indent = wrap(reason, page.width - 5, page.most(_REASON_LINES), page.ellipsis), 5
        for line in rest:
            page.add((" " * indent + line, MUTED))
    page.blank()


def _longest_of_each(items: list[NotTheCause]) -> list[NotTheCause]:
    """Of what is long on several ranks, the rank where it is longest."""
    longest: dict[tuple[str, str], NotTheCause] = {}
    for item in sorted(items, key=lambda each: -each.duration_us):
        place = f"{item.location.path}:{item.location.line}" if item.location is not None else ""
        longest.setdefault((item.name, place), item)
    return list(longest.values())


def _place_parts(page: Page, item: NotTheCause, place: str, width: int) -> list[Part]:
    if not width:
        return []
    style = place_style(page, item.location, "cyan") if item.location is not None else Style()
    return [(place, style), (" " * (width - cell_len(place) + 2), "")]


def add_trust(page: Page, report: Report) -> None:
    """With a damaged input: which parts of the report stand on whole files and which do not."""
    if not is_damaged(report):
        return
    kernels = sum(fact.kernels or 0 for fact in report.facts)
    linked = sum(fact.kernels_linked_to_line or 0 for fact in report.facts)
    owners = any(any(step.idle_owners.values()) for step in report.steps)
    rows: dict[Mark, list[str]] = {OK: [], PARTLY: [], MISSING: []}
    # Each stands on files of its own; one that was read in part makes what rests on it partial too.
    lost = " ".join(Path(remark.file).name for remark in report.diagnostics if remark.code in LOST)
    for key, there, stem in (
        ("ui.trust.kernels", bool(kernels), "kernel_details"),
        ("ui.trust.steps", bool(report.steps), "kernel_details"),
        ("ui.trust.memory", any(fact.peak_allocated_bytes for fact in report.facts), "memory"),
    ):
        if there or stem != "memory":
            rows[MISSING if not there else PARTLY if stem in lost else OK].append(page.say(key))
    if linked:
        rows[PARTLY].append(page.say("ui.trust.lines", linked=format_count(linked), kernels=format_count(kernels)))
    else:
        rows[MISSING].append(page.say("ui.trust.no_lines"))
    rows[PARTLY if owners else MISSING].append(page.say("ui.trust.owners"))
    page.heading(page.say("ui.trust.head"), page.say("ui.trust.of_read"))
    for mark, names in rows.items():
        separator = "，" if page.options.lang == "zh" else ", "
        lines = wrap(separator.join(names), page.width - 6) if names else []
        for index, line in enumerate(lines):
            page.add((f"   {mark.show(page.options.utf8) if index == 0 else ' '} ", mark.style), (line, ""))
    page.blank()


def add_rules(page: Page, report: Report, fold: bool) -> None:
    """Rules that could not be checked, with the switch that records what they need; failed rules before them."""
    failed = [rule for rule in report.rules if rule.outcome == "failed"]
    if failed:
        page.add((" " + page.say("ui.failed.head", n=len(failed), rules=len(report.rules)), "bold red"))
        _rule_rows(page, _rows_of(page, failed))
        page.blank()
    skipped = [rule for rule in report.rules if rule.outcome == "skipped"]
    if not skipped or (fold and not page.options.show_all):
        return
    key = "ui.skipped.head_one" if len(skipped) == 1 else "ui.skipped.head"
    page.heading(page.say(key, n=len(skipped), rules=len(report.rules)), page.say("ui.skipped.note"))
    rows = _rows_of(page, skipped) if page.options.show_all else _grouped(page, _actionable_first(skipped))
    shown = rows if page.options.show_all else rows[:_SHOWN_RULES]
    _rule_rows(page, shown)
    if len(shown) < len(rows):
        page.add(("   " + page.say("ui.count.folded", n=len(rows) - len(shown)), MUTED))
    if report.profiler_call:
        page.add(("   " + page.say("ui.skipped.call"), ""))
        for line in report.profiler_call.rstrip("\n").splitlines():
            page.add((f"   {page.mark('│')} ", MUTED), (line.expandtabs(4), "cyan"))
    page.blank()


def _actionable_first(rules: list[Outcome]) -> list[Outcome]:
    """Rules that a switch of the profiler would enable, then the others, those on the recording itself last."""
    return sorted(rules, key=lambda rule: (not rule.enable, rule.id.startswith("profile-")))


class _Row(NamedTuple):
    """A rule (or how many rules), why it was not checked, and the switch that would enable it."""

    name: str
    reason: str
    switch: str


def _rows_of(page: Page, rules: list[Outcome]) -> list[_Row]:
    return [
        _Row(
            shorten(rule.id, _NAME_CELLS, page.ellipsis),
            one_line(rule.reason.pick(page.options.lang)) if rule.reason else "",
            one_line(rule.enable or ""),
        )
        for rule in rules
    ]


def _grouped(page: Page, rules: list[Outcome]) -> list[_Row]:
    """One row for all rules that were skipped for the same reason."""
    rows = _rows_of(page, rules)
    alike: dict[tuple[str, str], list[_Row]] = {}
    for row in rows:
        alike.setdefault((row.reason, row.switch), []).append(row)
    return [
        group[0] if len(group) == 1 else group[0]._replace(name=page.say("ui.skipped.rules", n=len(group)))
        for group in alike.values()
    ]


def _rule_rows(page: Page, rows: list[_Row]) -> None:
    """Id, reason and switch in three columns; on a narrow page, or where they do not fit, one below the other."""
    left, middle, right = (max(map(cell_len, column)) for column in zip(*rows, strict=True))
    if 3 + left + 2 + middle + 2 + right <= page.width:
        for name, reason, switch in rows:
            page.add((f"   {pad(name, left)}  {pad(reason, middle)}  ", ""), (switch, "cyan"))
        return
    for name, reason, switch in rows:
        first, *rest = wrap(reason, page.width - 3 - left - 2, page.most(_REASON_LINES), page.ellipsis)
        page.add((f"   {pad(name, left)}  {first}", ""))
        for line in rest:
            page.add((" " * (left + 5) + line, ""))
        for line in wrap(switch, page.width - left - 5) if switch else []:
            page.add((" " * (left + 5) + line, "cyan"))


def add_footer(page: Page, report: Report, calm: bool) -> None:
    """One line on what stands behind the report, and one on what to type next."""
    clean = sum(rule.outcome == "clean" for rule in report.rules)
    skipped = sum(rule.outcome == "skipped" for rule in report.rules)
    kernels = sum(fact.kernels or 0 for fact in report.facts if fact.kernels_linked_to_line is not None)
    linked = sum(fact.kernels_linked_to_line or 0 for fact in report.facts)
    checked = sum(rule.outcome in ("clean", "fired") for rule in report.rules)
    counts = {"n": checked, "rules": len(report.rules), "clean": clean}
    parts = [page.say("ui.footer.checked", **counts)] if report.rules else []
    if calm and skipped and not page.options.show_all:
        parts.append(page.say("ui.footer.unchecked", n=skipped))
    if kernels:
        parts.append(page.say("ui.footer.lines", linked=format_count(linked), kernels=format_count(kernels)))
    if report.replay:
        worst = max((abs(replay.error) for replay in report.replay), default=0.0)
        parts.append(page.say("ui.footer.replay", share=format_pct(worst)))
        if page.options.show_all:
            parts += _replay_details(page, report)
    for line in _flow(parts, page.mark("  ·  "), page.width - 2):
        page.add((" " + line, GOOD if calm else MUTED))
    if report.findings:
        rule = shorten(report.findings[0].rule_id, _NAME_CELLS, page.ellipsis)
        hints = [f"rules explain {rule}", "-f json -o report.json", *([] if page.options.show_all else ["--all"])]
        for index, line in enumerate(_flow(hints, page.mark("  ·  "), page.width - 10)):
            page.add((f" {pad(page.say('ui.footer.more') if index == 0 else '', 8)} {line}", MUTED))


def _replay_details(page: Page, report: Report) -> list[str]:
    """How far the replay moves kernels, and how much of the time no cause holds; both of the worst rank."""
    held = max(replay.anchored_share for replay in report.replay)
    parts = [page.say("ui.footer.anchored", share=format_pct(held))]
    shifts = [replay.start_shift for replay in report.replay if replay.start_shift is not None]
    if shifts:
        worst = max(shifts, key=lambda shift: shift.p90_us)
        fields = {"median": format_us(worst.median_us), "p90": format_us(worst.p90_us)}
        parts.append(page.say("ui.footer.shift", **fields))
    return parts


def _flow(parts: list[str], separator: str, width: int) -> list[str]:
    """The parts side by side, on as many lines of ``width`` cells as they need; no part is broken."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1] + separator + part) <= width:
            lines[-1] += separator + part
        else:
            lines.append(part)
    return lines
