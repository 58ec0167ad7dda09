"""What explains the change of the step, and how much of it each.

The time that holds the step (the critical path through the run; the device's ledger where no replay can be trusted)
is cut by place on both sides: by line, or by op where no line is known; waits for other ranks are a place of their own.
Place by place the differences add up to the change of the step, but not each place that holds more or less of it is to
blame: one whose own work is the same holds another part of the step only because something else overlaps with it
differently now. So the places whose own work changed (more or fewer calls or kernels, or time beyond noise) are the
causes; what moved at all other places was knocked on by them and is shared among the causes in proportion to what they
moved themselves. Without a cause it is the remainder, and so is what moved because a place's own work varied within
noise. What waits for other ranks moved is always told by itself. Where every kernel (or op) takes the same factor
longer, the device (or the host) is the cause, not each line.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from npu_advisor.compare.noise import SCALE, judged
from npu_advisor.compare.tally import UNPLACED, WAITING, Tally, samples
from npu_advisor.compare.uniform import Uniform, everywhere
from npu_advisor.comparison import Change

# What a place's own work is: part of the tally, what it is called, which value, and the share by which it differs
# between runs of the same program.
WORK = (
    ("call", "calls", "count", 0.0),
    ("kernel", "kernels", "count", 0.0),
    ("kernel", "kernel_us", "us", 0.03),
    ("host", "host_us", "us", 0.10),
    ("communication", "communication_us", "us", 0.10),
    ("waiting", "waiting_us", "us", 0.10),
)
# A change of a place's own time below this share of the step moves nothing that anybody would notice.
_LEAST = 0.0005
# Where many places are tested some differ by chance: a difference counts when it is more than so many spreads, or when
# its p-value stands up to the number of tests (Bonferroni).
_SPREADS = 2.0


class Side(NamedTuple):
    """What was counted on one side: what holds the step, what was done, and the mean step in us."""

    holding: Tally
    work: Tally
    step_us: float


class PlaceChange(NamedTuple):
    """A place (number), what it moved of the step (us), by part, and how its own work changed: by ``factor``
    everywhere, where that is told."""

    place: int
    direct_us: float
    knock_on_us: float
    parts: dict[str, float]
    work: list[Change]
    factor: float | None = None

    @property
    def us(self) -> float:
        """Its part of the change."""
        return self.direct_us + self.knock_on_us


class Explained(NamedTuple):
    """The causes and what moved elsewhere, the largest first, and what of the change no cause explains."""

    causes: list[PlaceChange]
    elsewhere: list[PlaceChange]
    remainder_us: float


_Moved = dict[int, dict[str, float]]
_Work = dict[int, list[Change]]


def attribute(base: Side, new: Side, beside: Collection[int]) -> Explained:
    """What explains the change of the step. ``beside`` are places with calls next to ones that came or went: what moves
    there is the same edit."""
    moved, work = _moved(base.holding, new.holding), _work(base, new)
    spread = [_of_everything(each, moved, work, base.step_us) for each in everywhere(base.work, new.work)]
    tests = _tests(work)
    alone = [_at_place(at, moved, work) for at, changes in work.items() if _is_cause(changes, base.step_us, tests)]
    causes = [*spread, *(cause for cause in alone if cause.place != UNPLACED)]
    shares = _shares(causes)
    if WAITING in moved and WAITING not in {cause.place for cause in causes}:
        # Noise or not, it is no work of this rank: told apart it spoils neither the causes nor the remainder.
        causes, shares = [*causes, _at_place(WAITING, moved, work)], [*shares, 0.0]
    told = {cause.place for cause in causes}
    others = {at: sum(parts.values()) for at, parts in moved.items() if at not in told}
    knocked_on = sum(us if at in beside else us - _noise(at, us, work) for at, us in others.items())
    found = [
        cause._replace(knock_on_us=knocked_on * share, work=[each for each in cause.work if each.change])
        for cause, share in zip(causes, shares, strict=True)
    ]
    elsewhere = [PlaceChange(at, us, 0.0, moved[at], []) for at, us in others.items()]
    return Explained(
        causes=sorted(found, key=lambda cause: (-round(abs(cause.us), 1), -_extent(cause.work))),
        elsewhere=sorted(elsewhere, key=lambda each: -abs(each.us)),
        remainder_us=new.step_us - base.step_us - sum(cause.us for cause in found),
    )


def _moved(base: Tally, new: Tally) -> _Moved:
    """By place and part: how much more of the step it holds, in us."""
    before, after = base.mean("place", "part"), new.mean("place", "part")
    found: _Moved = {}
    for key in {**before, **after}:
        difference = after.get(key, 0.0) - before.get(key, 0.0)
        if difference:
            found.setdefault(int(key[0]), {})[str(key[1])] = difference
    return found


def _at_place(place: int, moved: _Moved, work: _Work) -> PlaceChange:
    parts = moved.get(place, {})
    return PlaceChange(place, sum(parts.values()), 0.0, parts, work[place])


def _of_everything(spread: Uniform, moved: _Moved, work: _Work, step_us: float) -> PlaceChange:
    """The cause that is a factor on everything: takes from ``moved`` and ``work`` what it explains there."""
    parts: dict[str, float] = {}
    for at, changes in work.items():
        (mine, rest) = _parted(changes, spread)
        if mine is None or _is_cause(rest, step_us, _tests(work)):
            continue
        work[at] = rest
        share = _limited(sum(moved.get(at, {}).values()), mine.change or 0.0)
        for part, us in moved.get(at, {}).items():
            parts[part] = parts.get(part, 0.0) + us * share
            moved[at][part] = us * (1 - share)
    return PlaceChange(spread.place, sum(parts.values()), 0.0, parts, [spread.total], spread.factor)


def _parted(changes: Sequence[Change], spread: Uniform) -> tuple[Change | None, list[Change]]:
    mine = next((each for each in changes if spread.fits(each)), None)
    return mine, [each for each in changes if each is not mine]


def _limited(moved_us: float, own_us: float) -> float:
    """The share of what moved at a place that its own work can explain."""
    return min(max(own_us / moved_us, 0.0), 1.0) if moved_us else 0.0


def _noise(place: int, us: float, work: _Work) -> float:
    """What of a move at a place that is no cause its own work explains: that varied by no more than noise."""
    most = abs(us) if place == UNPLACED else min(_extent(work.get(place, [])), abs(us))
    return most if us > 0 else -most


def _shares(causes: Sequence[PlaceChange]) -> list[float]:
    """By cause: its share of what was knocked on."""
    weights = [abs(cause.direct_us) for cause in causes]
    if not any(weights):
        weights = [_extent(cause.work) for cause in causes]
    whole = sum(weights)
    return [weight / whole if whole else 0.0 for weight in weights]


def _extent(work: Sequence[Change]) -> float:
    """How much a place's work changed, in us."""
    return sum(abs(change.change or 0.0) for change in work if change.key.endswith("_us"))


def _work(base: Side, new: Side) -> _Work:
    """By place: its own work on both sides."""
    found: _Work = {}
    for part, key, value, floor in WORK:
        before, after = base.work.by("part", "place", value=value), new.work.by("part", "place", value=value)
        for at in {**before, **after}:
            if at[0] == part:
                one, other = samples(before, at, base.work.samples), samples(after, at, new.work.samples)
                found.setdefault(int(at[1]), []).append(judged(key, (one, other), floor))
    return found


def _tests(work: _Work) -> int:
    return sum(each.judgement is not None and each.judgement.p_value is not None for at in work.values() for each in at)


def _is_cause(work: Sequence[Change], step_us: float, tests: int) -> bool:
    return any(_is_real(each, step_us, tests) for each in work)


def _is_real(change: Change, step_us: float, tests: int) -> bool:
    """Whether a place's work differs by more than noise, one of ``tests`` places, and by an amount that can matter."""
    if change.key.endswith("_us"):
        if abs(change.change or 0.0) < _LEAST * step_us:
            return False
    elif bool(change.base) != bool(change.new):
        return True
    judgement = change.judgement
    if judgement is None or judgement.verdict == "within_noise":
        return False
    if judgement.verdict == "untested":
        return judgement.test == "none"
    spread = SCALE * max(judgement.base.mad, judgement.new.mad)
    certain = judgement.p_value is None or judgement.p_value * tests < judgement.alpha
    return judgement.verdict == "beyond_noise" and (certain or abs(judgement.shift) > _SPREADS * spread)
