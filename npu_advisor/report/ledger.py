"""The step ledger: where the time of a step went, in pieces that add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, inf

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.findings import Step

# A step whose pieces miss its duration by less than this share only shows rounding.
_ROUNDING = 0.001
_OWNERS = ("dispatch", "sync", "compile", "data", "alloc", "gc", "other")


@dataclass(frozen=True)
class Piece:
    """One owner of time: ``us`` per step and its ``share`` of the step. ``key`` is one of ``theme.PIECES``."""

    key: str
    label: Text
    us: float
    share: float


@dataclass(frozen=True)
class Ledger:
    """The mean step of one rank. ``pieces`` are in the order of the bar and sum to ``duration_us``.

    ``path`` is the share of each part in the critical path, largest first; empty where that is not known.
    """

    rank: int
    steps: tuple[int | None, ...]
    duration_us: float
    pieces: tuple[Piece, ...]
    prepare_us: float
    waiting_rank: str | None
    path: tuple[tuple[str, float], ...] = ()

    def share(self, key: str) -> float:
        """The share of one piece, 0 when the step has none."""
        return sum(piece.share for piece in self.pieces if piece.key == key)

    def us(self, key: str) -> float:
        """The time of one piece, 0 when the step has none."""
        return sum(piece.us for piece in self.pieces if piece.key == key)

    def largest_loss(self) -> Piece | None:
        """The largest piece that is not computing."""
        return max((piece for piece in self.pieces if piece.key != "compute"), key=lambda piece: piece.us, default=None)

    def by_size(self) -> list[Piece]:
        """The pieces, largest first."""
        return sorted(self.pieces, key=lambda piece: -piece.us)


def ledgers(steps: Sequence[Step]) -> list[Ledger]:
    """One ledger a rank: of its mean step; the rank with the longest step first."""
    by_rank: dict[int, list[Step]] = {}
    for step in steps:
        by_rank.setdefault(step.rank, []).append(step)
    made = (_mean(rank, own) for rank, own in by_rank.items())
    return sorted((each for each in made if each is not None), key=lambda each: (-each.duration_us, each.rank))


def _mean(rank: int, steps: list[Step]) -> Ledger | None:
    duration = _average([step.duration_us for step in steps])
    if duration <= 0:
        return None
    waiting = _average_by_key([step.waiting_for_rank_us for step in steps])
    owners = _average_by_key([step.idle_owners for step in steps])
    exposed = _average([step.exposed_communication_us for step in steps])
    free = _average([step.free_us for step in steps])
    prepare = _average([step.prepare_us for step in steps])
    culprit = max(waiting, key=lambda name: waiting[name], default=None)
    amounts = {"compute": _average([step.compute_us for step in steps])}
    if culprit is not None:
        amounts["waiting"] = min(waiting[culprit], exposed)
        amounts["waiting_other"] = min(fsum(waiting.values()), exposed) - amounts["waiting"]
    amounts["communication"] = exposed - amounts.get("waiting", 0.0) - amounts.get("waiting_other", 0.0)
    amounts |= _idle(owners, free, prepare)
    amounts["after_last"] = _average([step.after_last_kernel_us for step in steps])
    rest = duration - fsum(amounts.values())
    if rest > _ROUNDING * duration:
        amounts["unaccounted"] = rest
    pieces = tuple(Piece(key, _label(key, culprit), us, us / duration) for key, us in amounts.items() if us > 0)
    return Ledger(rank, tuple(step.step for step in steps), duration, pieces, prepare, culprit, _path(steps))


def _path(steps: Sequence[Step]) -> tuple[tuple[str, float], ...]:
    """The critical path of the mean step; without that of one of the steps there is none."""
    paths = [{str(part): us for part, us in step.critical_path.items()} for step in steps if step.critical_path]
    if len(paths) < len(steps):
        return ()
    amounts = _average_by_key(paths)
    whole = fsum(amounts.values())
    return tuple((part, amounts[part] / whole) for part in sorted(amounts, key=lambda part: -amounts[part]))


def _idle(owners: dict[str, float], free: float, prepare: float) -> dict[str, float]:
    """The idle time by owner where owners are known, else by its two places in the step."""
    if not any(owners.values()):
        return {"free": free, "prepare": prepare}
    amounts = {name: owners.get(name, 0.0) for name in _OWNERS}
    unknown = [name for name in owners if name not in _OWNERS]
    amounts["other"] += fsum(owners[name] for name in unknown)
    missing = free + prepare - fsum(amounts.values())
    if missing > _ROUNDING * (free + prepare):
        amounts["other"] += missing
    return amounts


def _label(key: str, culprit: str | None) -> Text:
    if key == "waiting":
        return say("ui.piece.waiting", rank=culprit)
    if key == "communication" and culprit is not None:
        return say("ui.piece.communication_rest")
    return say(f"ui.piece.{key}")


def _average(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0


def _average_by_key(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: fsum(row.get(name, 0.0) for row in rows) / len(rows) for name in names}


def bar_cells(shares: Sequence[float], width: int) -> list[int]:
    """How many of ``width`` cells each share gets: largest remainder, and one cell for all that reach 0.1 %."""
    total = fsum(shares)
    if total <= 0:
        return [0] * len(shares)
    exact = [share / total * width for share in shares]
    cells = [max(int(value), 1 if share >= _ROUNDING else 0) for value, share in zip(exact, shares, strict=True)]
    while sum(cells) < width:
        index = max(range(len(cells)), key=lambda i: exact[i] - cells[i])
        cells[index] += 1
    while sum(cells) > width:
        index = max(range(len(cells)), key=lambda i: cells[i] - exact[i] if cells[i] > 1 else -inf)
        cells[index] -= 1
    return cells
