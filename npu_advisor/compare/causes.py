"""Which lines explain the change of the step, and how much of it each.

The time that holds the step (the critical path through the run; the device's ledger where no replay can be trusted)
is cut by line on both sides. Line by line the differences add up to the change of the step, but not each line that
holds more or less of it is to blame: a line whose own work is the same holds another part of the step only because
something else overlaps with it differently now. So the lines whose own work changed (more or fewer calls or kernels,
or time beyond noise) are the causes; what moved at all other lines was knocked on by them and is shared among the
causes in proportion to what they moved themselves. Without a cause it is the remainder, and so is what moved because
a line's own work varied within noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npu_advisor.compare.noise import judged
from npu_advisor.compare.tally import UNPLACED, Tally, samples
from npu_advisor.comparison import Change

# What a line's own work is: part of the tally, what it is called, which value, and the share by which it differs
# between runs of the same program.
WORK = (
    ("call", "calls", "count", 0.0),
    ("kernel", "kernels", "count", 0.0),
    ("kernel", "kernel_us", "us", 0.03),
    ("host", "host_us", "us", 0.10),
    ("communication", "communication_us", "us", 0.10),
)
# A change of a line's own time below this share of the step moves nothing that anybody would notice.
_LEAST = 0.0005


class Side(NamedTuple):
    """What was counted on one side: what holds the step, what was done, and the mean step in us."""

    holding: Tally
    work: Tally
    step_us: float


class PlaceChange(NamedTuple):
    """A place (number), what it moved of the step (us), by part, and how its own work changed."""

    place: int
    direct_us: float
    knock_on_us: float
    parts: dict[str, float]
    work: list[Change]

    @property
    def us(self) -> float:
        """Its part of the change."""
        return self.direct_us + self.knock_on_us


class Explained(NamedTuple):
    """The causes and what moved elsewhere, the largest first, and what of the change no cause explains."""

    causes: list[PlaceChange]
    elsewhere: list[PlaceChange]
    remainder_us: float


def attribute(base: Side, new: Side) -> Explained:
    """What explains the change of the step."""
    moved, work = _moved(base.holding, new.holding), _work(base, new)
    causes = [
        at for at, changes in work.items() if at != UNPLACED and any(_is_real(each, base.step_us) for each in changes)
    ]
    total = new.step_us - base.step_us
    direct = {at: sum(moved.get(at, {}).values()) for at in causes}
    others = {at: sum(parts.values()) for at, parts in moved.items() if at not in direct}
    knocked_on = sum(us - _noise(at, us, work) for at, us in others.items())
    shares = _shares(direct, work)
    found = [
        PlaceChange(at, us, knocked_on * shares[at], moved.get(at, {}), [each for each in work[at] if each.change])
        for at, us in direct.items()
    ]
    elsewhere = [PlaceChange(at, us, 0.0, moved[at], []) for at, us in others.items()]
    return Explained(
        causes=sorted(found, key=lambda cause: (-round(abs(cause.us), 1), -_extent(cause.work))),
        elsewhere=sorted(elsewhere, key=lambda each: -abs(each.us)),
        remainder_us=total - sum(cause.us for cause in found),
    )


def _moved(base: Tally, new: Tally) -> dict[int, dict[str, float]]:
    """By place and part: how much more of the step it holds, in us."""
    before, after = base.mean("place", "part"), new.mean("place", "part")
    found: dict[int, dict[str, float]] = {}
    for key in {**before, **after}:
        difference = after.get(key, 0.0) - before.get(key, 0.0)
        if difference:
            found.setdefault(int(key[0]), {})[str(key[1])] = difference
    return found


def _noise(place: int, us: float, work: dict[int, list[Change]]) -> float:
    """What of a move at a place that is no cause its own work explains: that varied by no more than noise."""
    most = abs(us) if place == UNPLACED else min(_extent(work.get(place, [])), abs(us))
    return most if us > 0 else -most


def _shares(direct: dict[int, float], work: dict[int, list[Change]]) -> dict[int, float]:
    """By cause: its share of what was knocked on."""
    weights = {at: abs(us) for at, us in direct.items()}
    if not any(weights.values()):
        weights = {at: _extent(work[at]) for at in direct}
    whole = sum(weights.values())
    return {at: weight / whole if whole else 0.0 for at, weight in weights.items()}


def _extent(work: Sequence[Change]) -> float:
    """How much a line's work changed, in us."""
    return sum(abs(change.change or 0.0) for change in work if change.key.endswith("_us"))


def _work(base: Side, new: Side) -> dict[int, list[Change]]:
    """By place: its own work on both sides."""
    found: dict[int, list[Change]] = {}
    for part, key, value, floor in WORK:
        before, after = base.work.by("part", "place", value=value), new.work.by("part", "place", value=value)
        for at in {**before, **after}:
            if at[0] == part:
                one, other = samples(before, at, base.work.samples), samples(after, at, new.work.samples)
                found.setdefault(int(at[1]), []).append(judged(key, (one, other), floor))
    return found


def _is_real(change: Change, step_us: float) -> bool:
    """Whether a line's work differs by more than noise, and by an amount that can matter."""
    if change.key.endswith("_us"):
        if abs(change.change or 0.0) < _LEAST * step_us:
            return False
    elif bool(change.base) != bool(change.new):
        return True
    judgement = change.judgement
    if judgement is None or judgement.verdict == "within_noise":
        return False
    return judgement.verdict == "beyond_noise" or (judgement.verdict == "untested" and judgement.test == "none")
