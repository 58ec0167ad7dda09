"""The top of the page: the verdict, the bar of the step, and what stands behind the report."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_count, format_pct, format_us
from npu_advisor.findings import Report
from npu_advisor.report.html.markup import bar
from npu_advisor.report.ledger import Ledger, ledgers
from npu_advisor.report.options import Options
from npu_advisor.report.text import compose
from npu_advisor.report.verdict import is_calm, step_range, verdict


@dataclass(frozen=True)
class PieceView:
    """One piece of the step: its colour class, and its figures as text; ``us`` is the exact one."""

    key: str
    label: Text
    us: float
    time: str
    share: str
    width: float


@dataclass(frozen=True)
class Overview:
    """What opens the page."""

    title: str
    crumb: list[Text]
    sentences: list[Text]
    calm: bool
    bar: Markup | None
    pieces: list[PieceView]
    notes: list[Text]
    footer: list[Text]


def overview(report: Report, options: Options) -> Overview:
    """The verdict with the bar of the rank that has the longest step."""
    ranks = ledgers(report.steps)
    sentences = verdict(report, ranks)
    pieces = piece_views(ranks[0]) if ranks else []
    return Overview(
        title=sentences[0].pick(options.lang) if sentences else report.profile.path,
        crumb=_crumb(report, ranks),
        sentences=sentences,
        calm=is_calm(report, ranks),
        bar=bar([(f"c-{piece.key}", piece.width) for piece in pieces]) if pieces else None,
        pieces=sorted(pieces, key=lambda piece: -piece.us),
        notes=_notes(ranks),
        footer=_footer(report),
    )


def piece_views(ledger: Ledger) -> list[PieceView]:
    """The pieces of one rank's mean step, in the order of the bar."""
    return [
        PieceView(piece.key, piece.label, piece.us, format_us(piece.us), format_pct(piece.share), piece.share)
        for piece in ledger.pieces
    ]


def critical(report: Report) -> list[PieceView]:
    """What the critical path of the longest mean step consists of, longest part first."""
    ranks = ledgers(report.steps)
    if not ranks:
        return []
    return [
        PieceView(
            f"p-{part}",
            say(f"ui.path.{part}"),
            share * ranks[0].duration_us,
            format_us(share * ranks[0].duration_us),
            format_pct(share),
            share,
        )
        for part, share in ranks[0].path
    ]


def _crumb(report: Report, ranks: list[Ledger]) -> list[Text]:
    made = []
    if ranks:
        numbers = step_range(ranks[0].steps)
        made += [say("ui.finding.step", step=numbers)] if numbers else []
        if ranks[0].rank >= 0:
            made.append(say("html.rank_of", rank=ranks[0].rank, ranks=len(report.profile.ranks)))
    for info in report.profile.ranks[:1]:
        known = [info.device, info.level, info.torch_npu and f"torch_npu {info.torch_npu}"]
        made += [Text(en=value, zh=value) for value in known if value]
    return made


def _notes(ranks: list[Ledger]) -> list[Text]:
    if not ranks:
        return []
    first, notes = ranks[0], []
    if len(first.steps) > 1 and step_range(first.steps):
        notes.append(say("ui.ledger.mean", n=len(first.steps), range=step_range(first.steps)))
    if first.prepare_us > 0 and first.us("prepare") == 0:
        notes.append(say("ui.ledger.prepare", us=format_us(first.prepare_us)))
    return notes


def _footer(report: Report) -> list[Text]:
    clean = sum(rule.outcome == "clean" for rule in report.rules)
    checked = sum(rule.outcome in ("clean", "fired") for rule in report.rules)
    kernels = sum(fact.kernels or 0 for fact in report.facts if fact.kernels_linked_to_line is not None)
    linked = sum(fact.kernels_linked_to_line or 0 for fact in report.facts)
    made = [say("ui.footer.checked", n=checked, rules=len(report.rules), clean=clean)] if report.rules else []
    if kernels:
        made.append(say("ui.footer.lines", linked=format_count(linked), kernels=format_count(kernels)))
    if report.replay:
        made.append(say("ui.footer.replay", share=format_pct(max(abs(one.error) for one in report.replay))))
    return [*made, compose("html.made_by", name=report.tool.name, version=report.tool.version)]
