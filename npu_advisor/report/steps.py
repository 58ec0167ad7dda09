"""The picture of the step on the page: bar, ledger, a row for every rank, the largest kernel types."""

from __future__ import annotations

from math import ceil

from rich.cells import cell_len

from npu_advisor.base.units import format_count, format_pct, format_us
from npu_advisor.findings import Report
from npu_advisor.report.ledger import Ledger, Piece, bar_cells
from npu_advisor.report.page import Page
from npu_advisor.report.text import pad, shorten, wrap
from npu_advisor.report.theme import MUTED, PIECES
from npu_advisor.report.verdict import step_range

# Two columns of the ledger need this much room.
_TWO_COLUMNS = 96
_LABEL_CELLS, _US_CELLS, _SHARE_CELLS, _COLUMN_CELLS = 24, 10, 9, 48
_SHOWN_RANKS = 8
_SHOWN_KERNELS = 3
# Parts of the critical path that are named beside the largest one.
_SHOWN_PARTS, _SHOWN_OF_PATH = 2, 0.01


def add_step(page: Page, ledger: Ledger, note: bool) -> None:
    """The bar of the mean step and its ledger, largest piece first; ``note`` adds the line that explains them."""
    cells = bar_cells([piece.share for piece in ledger.pieces], page.width - 2)
    page.add((" ", ""), *_bar(page, ledger, cells))
    pieces = ledger.by_size()
    columns = 2 if page.width >= _TWO_COLUMNS and len(pieces) > 2 else 1
    rows = ceil(len(pieces) / columns)
    for row in range(rows):
        left = _entry(page, pieces[row])
        right = _entry(page, pieces[row + rows]) if row + rows < len(pieces) else []
        gap = _COLUMN_CELLS - sum(cell_len(text) for text, _ in left)
        page.add((" ", ""), *left, *([(" " * gap, ""), *right] if right else []))
    if note:
        _notes(page, ledger)
    _bound_by(page, ledger)
    page.blank()


def _bar(page: Page, ledger: Ledger, cells: list[int]) -> list[tuple[str, str]]:
    marks = [PIECES[piece.key] for piece in ledger.pieces]
    return [(mark.show(page.options.utf8) * count, mark.style) for mark, count in zip(marks, cells, strict=True)]


def _entry(page: Page, piece: Piece) -> list[tuple[str, str]]:
    mark = PIECES[piece.key]
    label = pad(shorten(page.mark(piece.label.pick(page.options.lang)), _LABEL_CELLS, page.ellipsis), _LABEL_CELLS)
    figures = pad(format_us(piece.us), _US_CELLS, right=True) + pad(format_pct(piece.share), _SHARE_CELLS, right=True)
    return [(mark.show(page.options.utf8) + " ", mark.style), (label + figures, "")]


def _bound_by(page: Page, ledger: Ledger) -> None:
    """What the critical path consists of, largest part first."""
    if not ledger.path:
        return
    (first, share), *rest = ledger.path
    shown = [(part, share) for part, share in rest if share >= _SHOWN_OF_PATH][:_SHOWN_PARTS]
    parts = [page.say("ui.path.share", part=page.say(f"ui.path.{part}"), share=format_pct(own)) for part, own in shown]
    fields = {
        "cause": page.say(f"ui.path.{first}"),
        "share": format_pct(share),
        "parts": page.say("ui.path.comma").join(parts),
    }
    for line in wrap(page.say("ui.path.bound" if parts else "ui.path.bound_alone", **fields), page.width - 2):
        page.add((" " + line, MUTED))


def _notes(page: Page, ledger: Ledger) -> None:
    notes = []
    if len(ledger.steps) > 1 and step_range(ledger.steps):
        notes.append(page.say("ui.ledger.mean", n=len(ledger.steps), range=step_range(ledger.steps)))
    if ledger.prepare_us > 0 and not ledger.share("prepare"):
        notes.append(page.say("ui.ledger.prepare", us=format_us(ledger.prepare_us)))
    for line in wrap(page.gap.join(notes), page.width - 2):
        page.add((" " + line, MUTED))


def add_ranks(page: Page, ranks: list[Ledger]) -> None:
    """One row a rank when there are several: its bar on the scale of the longest step, its step, what it computes."""
    if len(ranks) < 2:
        return
    shown = ranks if page.options.show_all or len(ranks) <= _SHOWN_RANKS else [*ranks[: _SHOWN_RANKS - 1], ranks[-1]]
    longest = ranks[0].duration_us
    labels = [page.say("ui.ranks.rank", rank=ledger.rank) for ledger in shown]
    figures = [
        pad(format_us(ledger.duration_us), _US_CELLS, right=True)
        + "  "
        + page.say("ui.ranks.computes", share=pad(format_pct(ledger.share("compute")), 6, right=True))
        for ledger in shown
    ]
    left, right = max(map(cell_len, labels)), max(map(cell_len, figures))
    room = page.width - left - right - 4
    page.add((" " + page.say("ui.ranks.head"), MUTED))
    for index, (ledger, label, figure) in enumerate(zip(shown, labels, figures, strict=True)):
        if index == len(shown) - 1 and len(shown) < len(ranks):
            page.add((" " + page.say("ui.ranks.more", n=len(ranks) - len(shown)), MUTED))
        length = max(1, round(ledger.duration_us / longest * room))
        bar = _bar(page, ledger, bar_cells([piece.share for piece in ledger.pieces], length))
        page.add((f" {pad(label, left)} ", ""), *bar, right=(pad(figure, right), ""))
    page.blank()


def add_top_kernels(page: Page, report: Report, ledger: Ledger | None, calm: bool) -> None:
    """The largest kernel types of one rank with their share of the computing time."""
    rank = ledger.rank if ledger is not None else next((kernel.rank for kernel in report.top_kernels), None)
    own = [kernel for kernel in report.top_kernels if kernel.rank == rank]
    kernels = sorted(own, key=lambda kernel: -kernel.total_us)[: None if page.options.show_all else _SHOWN_KERNELS]
    if not kernels:
        return
    head = page.say("ui.top.head" if calm else "ui.top.head_plain")
    if ledger is not None and len(ledger.steps) > 1 and step_range(ledger.steps):
        head = page.say("ui.ledger.mean", n=len(ledger.steps), range=step_range(ledger.steps)) + page.gap + head
    for line in wrap(head, page.width - 2):
        page.add((" " + line, MUTED))
    names = [shorten(kernel.type, 32, page.ellipsis) for kernel in kernels]
    left = max(map(cell_len, names))
    room = page.width - left - 36
    for kernel, name in zip(kernels, names, strict=True):
        bar = page.mark("━") * max(1, round(kernel.share / max(kernels[0].share, 1e-9) * room))
        figures = f"  {format_us(kernel.total_us)}  {format_pct(kernel.share)}  {format_count(kernel.calls)}x"
        page.add((f"   {pad(name, left)}  ", ""), (bar, "green"), (figures, ""))
    page.blank()
