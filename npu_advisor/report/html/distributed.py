"""One bar a rank on one scale, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from npu_advisor.base.units import format_us
from npu_advisor.findings import Report
from npu_advisor.report.html.markup import bar
from npu_advisor.report.ledger import ledgers

MAX_RANKS = 64
# From these shares of the longest wait on, a cell of the matrix is darker.
_SHADES = (0.01, 0.1, 0.4)


@dataclass(frozen=True)
class RankBar:
    """The mean step of one rank."""

    rank: int
    bar: Markup
    time: str


@dataclass(frozen=True)
class Wait:
    """What one rank waits for another, per step."""

    text: str
    shade: int


@dataclass(frozen=True)
class Distributed:
    """Bars of the ranks; ``peers`` are the columns of the matrix ``waits`` (rank, cells)."""

    bars: list[RankBar]
    keys: list[str]
    more: int
    peers: list[int]
    waits: list[tuple[int, list[Wait]]]


def distributed(report: Report) -> Distributed:
    """From the ledgers of the report, in the order of ranks."""
    ranks = ledgers(report.steps)
    longest = max((each.duration_us for each in ranks), default=1.0) or 1.0
    shown = sorted(ranks[:MAX_RANKS], key=lambda each: each.rank)
    present = {piece.key for each in shown for piece in each.pieces}
    order = [piece.key for each in shown for piece in each.pieces]
    waits = {each.rank: _waits(report, each.rank) for each in shown}
    peers = sorted({peer for row in waits.values() for peer in row})
    most = max((us for row in waits.values() for us in row.values()), default=0.0)
    return Distributed(
        bars=[
            RankBar(
                each.rank,
                bar([(f"c-{piece.key}", piece.us / longest) for piece in each.pieces]),
                format_us(each.duration_us),
            )
            for each in shown
        ],
        keys=[key for key in dict.fromkeys(order) if key in present],
        more=len(ranks) - len(shown),
        peers=peers,
        waits=[(rank, [_wait(row.get(peer, 0.0), most) for peer in peers]) for rank, row in waits.items()],
    )


def _waits(report: Report, rank: int) -> dict[int, float]:
    """Mean wait of one rank for each other, in us per step."""
    own = [step for step in report.steps if step.rank == rank]
    sums: dict[int, float] = {}
    for step in own:
        for peer, us in step.waiting_for_rank_us.items():
            sums[int(peer)] = sums.get(int(peer), 0.0) + us / len(own)
    return sums


def _wait(us: float, most: float) -> Wait:
    share = us / most if most else 0.0
    return Wait(format_us(us) if us else "", sum(share >= floor for floor in _SHADES))
