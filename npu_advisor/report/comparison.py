"""Two profiles side by side as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from rich.cells import cell_len

from npu_advisor.base.units import format_bytes, format_count, format_pct, format_us
from npu_advisor.comparison import Cause, Change, Comparison, FindingChange, OneSided, RankPair
from npu_advisor.findings import Location
from npu_advisor.report.cards import Places
from npu_advisor.report.comparison_work import add_work
from npu_advisor.report.options import Options
from npu_advisor.report.page import Page
from npu_advisor.report.text import inert, pad, shorten, wrap
from npu_advisor.report.theme import GOOD, MUTED, PIECES, STRONG

_CELLS = 12
_SHOWN_CAUSES, _SHOWN_FINDINGS, _SHOWN_KERNELS = 6, 8, 6
# Changes below this share of the step are not worth a line.
_VISIBLE = 0.001
TINY_US = 0.05
# What was knocked on elsewhere is told when it is more than this share of a cause.
_TOLD_KNOCK_ON = 0.1
_WORSE = "red"


def render_comparison(comparison: Comparison, options: Options) -> str:
    """The comparison as text for a terminal of ``options.width`` cells, with colour codes when ``options.color``."""
    comparison = inert(comparison)
    page, pair = Page(options), comparison.main
    places = Places(locations(comparison), options.base)
    if len(comparison.pairs) > 1:
        page.heading(page.say("ui.compare.ranks", base=pair.base_rank, new=pair.new_rank), "")
    for line in wrap(verdict(page.say, pair), page.width - 2):
        page.add((" " + line, STRONG))
    for line in (line for note in notes(page.say, comparison) for line in wrap(note, page.width - 2)):
        page.add((" " + line, MUTED))
    page.blank()
    _add_ledger(page, pair)
    _add_causes(page, pair, places)
    if comparison.base_device != comparison.new_device or options.show_all:
        add_work(page, pair)
    _add_one_sided(page, pair, places)
    _add_findings(page, comparison.findings, places)
    _add_other_ranks(page, comparison, pair)
    return page.text()


Say = Callable[..., str]


def locations(comparison: Comparison) -> list[Location]:
    """Every place that a comparison names."""
    found: list[Location | None] = []
    for pair in comparison.pairs:
        for cause in (*pair.attribution.causes, *pair.attribution.elsewhere):
            found += [cause.base_location, cause.new_location]
        found += [place for each in pair.one_sided for place in each.locations]
    for finding in comparison.findings:
        found += [finding.base_location, finding.new_location]
    return [place for place in found if place is not None]


def verdict(say: Say, pair: RankPair) -> str:
    """What happened to the step, and whether that is more than noise."""
    return f"{outcome(say, pair)} {noise_told(say, pair)}".rstrip()


def outcome(say: Say, pair: RankPair) -> str:
    """What happened to the step; where one side has no step marks, what stands against what."""
    step, change = pair.step, pair.step.change or 0.0
    if len(sides := unmarked(pair)) == 1:
        return say(f"ui.compare.whole.{sides[0]}", old=format_us(step.base), new=format_us(step.new))
    key = "ui.compare.equal" if change == 0 else f"ui.compare.{'longer' if change > 0 else 'shorter'}"
    figures = {"us": format_us(abs(change)), "share": format_pct(abs(step.share or 0.0))}
    return say(key, old=format_us(step.base), new=format_us(step.new), **figures)


def noise_told(say: Say, pair: RankPair) -> str:
    """Whether the change of the step is more than noise, and how that was found; empty where nobody can tell."""
    judgement = pair.step.judgement
    if judgement is None or len(unmarked(pair)) == 1:
        return ""
    told = say(f"ui.compare.noise.{judgement.verdict}")
    if judgement.verdict == "same":
        return told
    p_value = f"{judgement.p_value:.2g}" if judgement.p_value is not None else ""
    told += say(f"ui.compare.test.{judgement.test}", p=p_value, base=judgement.base.n, new=judgement.new.n)
    if judgement.verdict == "within_noise" and abs(judgement.shift) < judgement.floor * judgement.base.median:
        told += say("ui.compare.floor", floor=format_pct(judgement.floor))
    return told


def notes(say: Say, comparison: Comparison) -> list[str]:
    """What a reader must know of the two recordings before the figures."""
    told = []
    if comparison.settings:
        pairs = [
            say("ui.compare.from_to", what=each.name, base=each.base or "-", new=each.new or "-")
            for each in comparison.settings
        ]
        told.append(say("ui.compare.settings", settings=say("ui.compare.comma").join(pairs)))
    sides = unmarked(comparison.main)
    return [*told, *(say("ui.compare.unmarked", side=say(f"ui.compare.{side}")) for side in sides)]


def unmarked(pair: RankPair) -> list[str]:
    """The sides without step marks, of which the whole recording counts as one step."""
    return [side for side in ("base", "new") if getattr(pair, f"{side}_steps") == [None]]


def _add_ledger(page: Page, pair: RankPair) -> None:
    head = "".join(pad(page.say(f"ui.compare.{name}"), _CELLS, True) for name in ("base", "new", "change"))
    page.add((f" {page.say('ui.compare.ledger')}", STRONG), right=(head, MUTED))
    for change in pair.ledger:
        mark = PIECES[change.key]
        _add_row(page, change, (mark.show(page.options.utf8), mark.style))
    _add_row(page, pair.step, (" ", ""), STRONG)
    for change in (*pair.extra, pair.host_us_per_call):
        if change.base is not None or change.new is not None:
            _add_row(page, change, (" ", ""), MUTED)
    page.blank()


def _add_row(page: Page, change: Change, mark: tuple[str, str], style: str = "") -> None:
    form = format_bytes if change.key.endswith("bytes") else format_us
    noisy = change.judgement is not None and change.judgement.verdict in ("within_noise", "same")
    told = signed(change.change, form) + (f"  {percent(change.share)}" if change.share else "")
    figures = "".join(pad(form(value), _CELLS, right=True) for value in (change.base, change.new))
    tone = style or (MUTED if noisy else _tone(change.change))
    label = shorten(page.say(f"ui.compare.part.{change.key}"), 34, page.ellipsis)
    right = figures + pad(told, _CELLS + 9, right=True)
    page.add((f"   {mark[0]} ", mark[1]), (label, style), right=(right, tone))


def _tone(change: float | None) -> str:
    return "" if not change else _WORSE if change > 0 else GOOD


def signed(value: float | None, form: Callable[[float | None], str] = format_us) -> str:
    """A change with its sign; nothing for none."""
    if value is None or not value:
        return "0" if value == 0 else "-"
    return f"{'+' if value > 0 else '-'}{form(abs(value))}"


def percent(share: float) -> str:
    """A change as a share of what was before, as a factor where it is many times that."""
    return f"{share * 100:+.1f} %" if abs(share) < 10 else f"x{1 + share:.1f}"


def _add_causes(page: Page, pair: RankPair, places: Places) -> None:
    told = pair.attribution
    page.heading(page.say("ui.compare.causes"), page.say(f"ui.compare.by.{told.basis}"))
    if not told.causes:
        page.add((f"   {page.say('ui.compare.no_causes')}", ""))
    worth = [cause for cause in told.causes if matters(cause, pair)][:_SHOWN_CAUSES]
    shown = told.causes if page.options.show_all else worth
    for cause in shown:
        _add_cause(page, cause, places)
    if left := told.causes[len(shown) :]:
        rest = told.change_us - told.remainder_us - sum(cause.us for cause in shown)
        page.add((f"   {page.say('ui.compare.more', n=len(left))}", MUTED), right=(signed(rest), MUTED))
    if abs(told.remainder_us) >= TINY_US:
        page.add((f"   {page.say('ui.compare.remainder')}", MUTED), right=(signed(told.remainder_us), MUTED))
    counts = {"matched": pair.matched_calls, "base": pair.base_only_calls, "new": pair.new_only_calls}
    for line in wrap(page.say("ui.compare.matched", **counts), page.width - 4):
        page.add((f"   {line}", MUTED))
    page.blank()


def matters(cause: Cause, pair: RankPair) -> bool:
    """Whether a cause is worth a line."""
    extent = max([abs(each.change or 0.0) for each in cause.work if each.key.endswith("_us")] + [abs(cause.us)])
    return extent >= _VISIBLE * max(pair.step.base or 0.0, pair.step.new or 0.0)


def _add_cause(page: Page, cause: Cause, places: Places) -> None:
    hidden = felt(cause) == "hidden"
    share = "" if hidden or cause.share_of_change is None else format_pct(cause.share_of_change)
    figures = ("0" if hidden else signed(cause.us)) + pad(share, 11, right=True)
    where = shorten(place_of(page.say, cause, places), page.width - 4, page.ellipsis)
    page.add((f"   {where}", "cyan"), right=(figures, "" if hidden else _tone(cause.us)))
    notes = work_told(page.say, cause)
    if notes and felt(cause) != "here":
        notes.append(page.say(f"ui.compare.{felt(cause)}", us=signed(cause.knock_on_us)))
    for line in wrap(page.say("ui.compare.comma").join(notes), page.width - 8):
        page.add((f"      {line}", ""))
    for op in cause.ops[: 3 if page.options.show_all else 1]:
        name = f"{op.name}  {op.new_shapes or op.base_shapes or ''}"
        page.add((f"      {shorten(name, page.width - 8, page.ellipsis)}", MUTED))


def place_of(say: Say, cause: Cause, places: Places) -> str:
    """Where a cause is: its line (both, where the line moved), the op's name, or what lies beyond lines."""
    if cause.kind == "other_rank":
        return say("ui.compare.waits" if cause.rank is None else "ui.compare.waits_for", rank=cause.rank)
    if cause.factor is not None:
        return say(f"ui.compare.everywhere.{cause.kind}", factor=f"{cause.factor:.3g}")
    shown = [places.show(place) for place in (cause.base_location, cause.new_location) if place is not None]
    return " → ".join(dict.fromkeys(shown)) or cause.name or "-"


def work_told(say: Say, cause: Cause) -> list[str]:
    """How each kind of work of a cause changed; waits for other ranks also where that is within noise."""
    told = [_from_to(say, change) for change in cause.work]
    verdicts = [change.judgement.verdict for change in cause.work if change.judgement]
    return [*told, say("ui.compare.noise_mark")] if "within_noise" in verdicts and cause.kind == "other_rank" else told


def _from_to(say: Say, change: Change) -> str:
    form = format_us if change.key.endswith("_us") else format_count
    what = say(f"ui.compare.work.{change.key}")
    return say("ui.compare.from_to", what=what, base=form(change.base), new=form(change.new))


def felt(cause: Cause) -> Literal["hidden", "knock_on", "here"]:
    """Whether the step feels a cause: not at all, largely where the work is the same, or where the cause is."""
    if abs(cause.us) < TINY_US:
        return "hidden"
    return "knock_on" if abs(cause.knock_on_us) > _TOLD_KNOCK_ON * abs(cause.us) else "here"


def _add_one_sided(page: Page, pair: RankPair, places: Places) -> None:
    for side in ("base", "new"):
        mine = [each for each in pair.one_sided if each.side == side]
        if not mine:
            continue
        page.heading(page.say(f"ui.compare.only.{side}"), page.say("ui.compare.only_note"))
        shown = mine if page.options.show_all else mine[:_SHOWN_KERNELS]
        for each in shown:
            figures = f"{format_count(round(each.kernels, 1))} x{pad(format_us(each.us), _CELLS, right=True)}"
            page.add((f"   {shorten(each.type, 40, page.ellipsis)}", ""), right=(figures, ""))
            if lines := only_lines(each, places):
                page.add((f"      {shorten(lines, page.width - 8, page.ellipsis)}", "cyan"))
        if len(shown) < len(mine):
            page.add((f"   {page.say('ui.compare.more', n=len(mine) - len(shown))}", MUTED))
        page.blank()


def only_lines(each: OneSided, places: Places) -> str:
    """The lines a one-sided kernel comes from."""
    return ", ".join(places.show(place) for place in each.locations)


_TONES = {"fixed": GOOD, "better": GOOD, "new": _WORSE, "worse": _WORSE}


def _add_findings(page: Page, findings: Sequence[FindingChange], places: Places) -> None:
    if not findings:
        return
    counts = Counter(each.status for each in findings)
    told = [
        page.say("ui.compare.counts", n=n, status=page.say(f"ui.compare.status.{key}")) for key, n in counts.items()
    ]
    page.heading(page.say("ui.compare.findings"), page.say("ui.compare.comma").join(told))
    worth = [each for each in findings if each.status != "same" or page.options.show_all]
    shown = worth if page.options.show_all else worth[:_SHOWN_FINDINGS]
    for each in shown:
        figures = "".join(pad(format_us(us), _CELLS, right=True) for us in (each.base_us, each.new_us))
        word = pad(page.say(f"ui.compare.status.{each.status}"), _CELLS)
        title = shorten(each.title.pick(page.options.lang), page.width - cell_len(figures) - 18, page.ellipsis)
        page.add((f"   {word}", _TONES.get(each.status, MUTED)), (title, ""), right=(figures, ""))
        place = each.new_location or each.base_location
        if place is not None:
            where = shorten(places.show(place), page.width - _CELLS - 4, page.ellipsis)
            page.add((f"   {' ' * _CELLS}{where}", "cyan"))
    if len(shown) < len(worth):
        page.add((f"   {page.say('ui.compare.more', n=len(worth) - len(shown))}", MUTED))
    page.blank()


def _add_other_ranks(page: Page, comparison: Comparison, main: RankPair) -> None:
    others = [pair for pair in comparison.pairs if pair is not main]
    if not others:
        return
    page.heading(page.say("ui.compare.other_ranks"), "")
    for pair in others:
        texts = (format_us(pair.step.base), format_us(pair.step.new), signed(pair.step.change))
        figures = "".join(pad(text, _CELLS, right=True) for text in texts)
        label = page.say("ui.compare.ranks", base=pair.base_rank, new=pair.new_rank)
        page.add((f"   {label}", ""), right=(figures, _tone(pair.step.change)))
    page.blank()
