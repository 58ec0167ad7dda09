"""Markdown of a comparison, for a pull request."""

from __future__ import annotations

from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.base.units import format_bytes, format_count, format_pct, format_us
from npu_advisor.comparison import Cause, Change, Comparison, FindingChange, OneSided, RankPair
from npu_advisor.report.cards import Places
from npu_advisor.report.comparison import locations, notes, only_lines, place_of, signed, verdict, work_told
from npu_advisor.report.comparison_work import (
    both_counts,
    both_us,
    call_name,
    inner_modules,
    matched_calls,
    module_name,
    ratio_told,
    reasons,
)
from npu_advisor.report.markdown import escape, grid
from npu_advisor.report.options import Options
from npu_advisor.report.text import inert, one_line

_SHOWN, _SHOWN_KERNELS = 10, 10


def render_markdown(comparison: Comparison, options: Options) -> str:
    """The verdict, what explains the change, findings fixed and new, and the ledger folded away."""
    comparison = inert(comparison)
    pair, places, words = comparison.main, Places(locations(comparison), options.base), _Words(options.lang)
    most = None if options.show_all else _SHOWN
    parts = [f"## {words('md.compare.title')}", escape(verdict(words, pair)), *map(escape, notes(words, comparison))]
    if pair.attribution.causes:
        parts += [f"### {words('ui.compare.causes')}", _causes(pair, places, words, most)]
    else:
        parts.append(escape(words("ui.compare.no_causes")))
    if news := [each for each in comparison.findings if each.status not in ("same", "not_checked")]:
        parts += [f"### {words('ui.compare.findings')}", _findings(news[:most], places, words)]
    parts.append(_folded(words("ui.compare.ledger"), _ledger(pair, words)))
    if comparison.base_device != comparison.new_device:
        parts.append(_folded(words("ui.compare.calls"), _calls(pair, words, most)))
        if pair.modules:
            parts.append(_folded(words("ui.compare.modules"), _modules(pair, words, most)))
        parts.append(_folded(words("ui.compare.classes"), _classes(pair, words)))
    if pair.one_sided:
        parts += [
            _folded(words(f"ui.compare.only.{side}"), _only(mine[:_SHOWN_KERNELS], places, words))
            for side in ("base", "new")
            if (mine := [each for each in pair.one_sided if each.side == side])
        ]
    return "\n\n".join(parts) + "\n"


class _Words:
    """Fixed texts in one language."""

    def __init__(self, lang: Lang) -> None:
        self.lang = lang

    def __call__(self, key: str, **fields: object) -> str:
        """The text ``key``."""
        return say(key, **fields).pick(self.lang)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _code(text: str) -> str:
    return "`" + one_line(text).replace("`", "'").replace("|", "\\|") + "`"


def _causes(pair: RankPair, places: Places, words: _Words, most: int | None) -> str:
    head = [words(f"md.compare.{name}") for name in ("where", "changed")]
    head += [words("ui.compare.change"), words("md.compare.effect")]
    causes = pair.attribution.causes
    rows = [_cause(cause, places, words) for cause in causes[:most]]
    if most is not None and len(causes) > most:
        left = sum(cause.us for cause in causes[most:])
        rows.append([escape(words("ui.compare.more", n=len(causes) - most)), "", signed(left), ""])
    rows.append([words("md.compare.remainder"), "", signed(round(pair.attribution.remainder_us, 3)), ""])
    return grid(head, rows)


def _cause(cause: Cause, places: Places, words: _Words) -> list[str]:
    work = words("ui.compare.comma").join(work_told(words, cause))
    return [_code(place_of(words, cause, places)), escape(work), signed(cause.us), format_pct(cause.share_of_change)]


def _findings(findings: list[FindingChange], places: Places, words: _Words) -> str:
    head = [words("md.compare.status"), words("md.compare.finding"), words("md.compare.where")]
    head += [words("ui.compare.base"), words("ui.compare.new")]
    rows = []
    for each in findings:
        place = each.new_location or each.base_location
        where = _code(places.show(place)) if place else ""
        status = words(f"ui.compare.status.{each.status}")
        title = escape(each.title.pick(words.lang))
        rows.append([status, title, where, format_us(each.base_us), format_us(each.new_us)])
    return grid(head, rows)


def _ledger(pair: RankPair, words: _Words) -> str:
    head = ["", *(words(f"ui.compare.{name}") for name in ("base", "new", "change"))]
    return grid(head, [_figures(each, words) for each in (*pair.ledger, pair.step, *pair.extra)])


def _figures(change: Change, words: _Words) -> list[str]:
    form = format_bytes if change.key.endswith("bytes") else format_us
    share = f" ({change.share:+.1%})" if change.share else ""
    label = words(f"ui.compare.part.{change.key}")
    return [label, form(change.base), form(change.new), signed(change.change, form) + share]


def _calls(pair: RankPair, words: _Words, most: int | None) -> str:
    head = ["", *(words(f"ui.compare.column.{key}") for key in ("kernels", "kernel_us", "host_us"))]
    rows = [
        [_code(call_name(each)), both_counts(each.kernels), both_us(each.kernel_us), both_us(each.host_us)]
        for each in matched_calls(pair)[:most]
    ]
    return grid(head, rows)


def _modules(pair: RankPair, words: _Words, most: int | None) -> str:
    head = ["", *(words(f"ui.compare.column.{key}") for key in ("calls", "kernels", "kernel_us"))]
    rows = [
        [_code(module_name(each)), both_counts(each.calls), both_counts(each.kernels), both_us(each.kernel_us)]
        for each in inner_modules(pair)[:most]
    ]
    return grid(head, rows)


def _classes(pair: RankPair, words: _Words) -> str:
    head = [words(f"md.compare.{name}") for name in ("class", "launches", "time")] + [words("ui.compare.change")]
    rows = [[each.name, both_counts(each.kernels), both_us(each.us), signed(each.us.change)] for each in pair.classes]
    if any(ratios := [ratio_told(each) for each in pair.classes]):
        head.append(words("ui.compare.column.ratio"))
        rows = [[*row, ratio] for row, ratio in zip(rows, ratios, strict=True)]
    told = [words("ui.compare.no_ratio", reason=reason) for reason in reasons(pair, words.lang)]
    return "\n\n".join([grid(head, rows), *map(escape, told)])


def _only(kernels: list[OneSided], places: Places, words: _Words) -> str:
    head = [words(f"md.compare.{name}") for name in ("kernel", "launches", "time", "where")]
    rows = []
    for each in kernels:
        where = _code(only_lines(each, places)) if each.locations else ""
        rows.append([escape(each.type), format_count(each.kernels), format_us(each.us), where])
    return grid(head, rows)
