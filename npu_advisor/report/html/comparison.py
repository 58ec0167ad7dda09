"""The comparison of two profiles as an HTML page: the Diff view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_us
from npu_advisor.comparison import Change, Comparison, RankPair
from npu_advisor.findings import ProfileFacts
from npu_advisor.report.cards import Places
from npu_advisor.report.comparison import locations, noise_told, notes, outcome
from npu_advisor.report.comparison_work import reasons
from npu_advisor.report.html.causes import causes_of, falls
from npu_advisor.report.html.diff_tables import class_table, diff_grids, phase_table
from npu_advisor.report.html.document import document
from npu_advisor.report.html.markup import bar
from npu_advisor.report.html.sides import Axis, Bar, SideRow, each_told, side_row, told, tone_of
from npu_advisor.report.options import Options
from npu_advisor.report.text import compose, inert
from npu_advisor.report.verdict import step_range


def render_comparison(comparison: Comparison, options: Options) -> str:
    """The comparison as a complete HTML document: the pair that matters most in full, the other ranks as a table."""
    comparison = inert(comparison)
    pair, places = comparison.main, Places(locations(comparison), options.base)
    causes = causes_of(pair, places)
    axis = Axis.over([each.change or 0.0 for each in (*pair.ledger, pair.step)])
    return document(
        "comparison.html",
        options,
        comparison=comparison,
        pair=pair,
        outcome=told(lambda words: outcome(words, pair)),
        noise=told(lambda words: noise_told(words, pair)),
        notes=each_told(lambda words: notes(words, comparison)),
        verdict=_tone(pair.step),
        sides=_sides(comparison, pair),
        ledger=[_part(each, axis.bar(0.0, each.change or 0.0)) for each in (*pair.ledger, pair.step)],
        zero=axis.zero,
        extra=[_part(each) for each in (*pair.extra, pair.host_us_per_call) if {each.base, each.new} != {None}],
        causes=[cause for cause in causes if cause.matters],
        small=[cause for cause in causes if not cause.matters],
        falls=falls(pair.attribution, causes),
        phases=phase_table(pair),
        classes=class_table(pair),
        no_ratio=[
            compose("ui.compare.no_ratio", reason=Text(en=en, zh=zh))
            for en, zh in zip(reasons(pair, "en"), reasons(pair, "zh"), strict=True)
        ],
        grids=diff_grids(comparison, pair, places),
        made_by=compose("html.made_by", name=comparison.tool.name, version=comparison.tool.version),
    )


def _tone(step: Change) -> str:
    """The tone of the verdict: none while nobody knows whether the change is more than noise."""
    sure = step.judgement is not None and step.judgement.verdict == "beyond_noise"
    return tone_of(step) if sure else ""


@dataclass(frozen=True)
class SideBar:
    """One side: where it is from, and its step as a bar on the scale of the longer one."""

    name: Text
    path: str
    about: list[Text]
    bar: Markup
    time: str


def _sides(comparison: Comparison, pair: RankPair) -> list[SideBar]:
    longest = max(pair.step.base or 0.0, pair.step.new or 0.0) or 1.0
    made = []
    for name, facts, rank, steps, runs, whole in (
        ("base", comparison.base, pair.base_rank, pair.base_steps, pair.base_runs, pair.step.base),
        ("new", comparison.new, pair.new_rank, pair.new_steps, pair.new_runs, pair.step.new),
    ):
        shares = [(f"c-{part.key}", (getattr(part, name) or 0.0) / longest) for part in pair.ledger]
        about = _about(facts, rank, steps, runs)
        made.append(SideBar(say(f"ui.compare.{name}"), facts.path, about, bar(shares), format_us(whole)))
    return made


def _about(facts: ProfileFacts, rank: int, steps: Sequence[int | None], runs: int) -> list[Text]:
    numbers = step_range(steps)
    made = [say("ui.finding.step", step=numbers)] if numbers else []
    if rank >= 0:
        made.append(say("ui.finding.rank", rank=rank))
    if runs > 1:
        made.append(say("html.diff.runs", n=runs))
    info = next((each for each in facts.ranks if each.rank == rank), None)
    known = [info.device, info.level, info.torch_npu and f"torch_npu {info.torch_npu}"] if info else []
    return [*made, *(Text(en=value, zh=value) for value in known if value)]


def _part(change: Change, place: Bar | None = None) -> SideRow:
    return side_row(change, say(f"ui.compare.part.{change.key}"), place)
