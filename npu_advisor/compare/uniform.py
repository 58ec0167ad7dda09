"""Whether everything on the device, or on the host, takes the same factor longer or shorter.

A slower clock, a hotter card, another machine or more profiling touches every kernel (or every op) alike. Told line by
line that would look like a hundred causes where there is one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Floats
from npu_advisor.compare.noise import judged
from npu_advisor.compare.tally import DEVICE, HOST, Tally
from npu_advisor.comparison import Change

# Part of the tally that is spread over everything, the work it makes, the place it is told at, and the smallest factor.
SPREAD = (("kernel", "kernel_us", DEVICE, 0.01), ("host", "host_us", HOST, 0.05))
# So many groups of calls hold at least the second share of the time; of these the third share has the same factor,
# give or take the fourth share of what it changes.
_FEWEST, _COVERING, _ALIKE, _SLACK = 8, 0.5, 0.6, 0.35
# No group counts for more than this share of the time: one that changed alone is not everything.
_MOST = 0.1
# Means over the steps differ by that much anyway.
_MEASURED = 0.01


class Uniform(NamedTuple):
    """What changed everywhere (``key`` of the work), by which factor, where it is told (number of a place), and how
    its sum over the step changed."""

    key: str
    factor: float
    place: int
    total: Change

    def fits(self, change: Change) -> bool:
        """Whether ``change`` is that factor and nothing else."""
        if change.key != self.key or not change.base or not change.new:
            return False
        return bool(_alike(np.array([change.new / change.base]), self.factor)[0])


def everywhere(base: Tally, new: Tally) -> list[Uniform]:
    """What became longer or shorter everywhere, by the work that both sides have."""
    found = [_spread(base, new, *kind) for kind in SPREAD]
    return [each for each in found if each is not None]


def _spread(base: Tally, new: Tally, part: str, key: str, place: int, floor: float) -> Uniform | None:
    times, calls = ([side.mean("part", "group", value=value) for side in (base, new)] for value in ("us", "count"))
    counted = "kernel" if part == "kernel" else "call"
    common = [
        group
        for at, group in times[0]
        if at == part and group >= 0 and calls[0].get((counted, group)) == calls[1].get((counted, group), 0.0)
    ]
    before = np.array([times[0][part, group] for group in common])
    after = np.array([times[1].get((part, group), 0.0) for group in common])
    known = before > 0
    before, after = before[known], after[known]
    whole = sum(us for (at, _), us in times[0].items() if at == part)
    if len(before) < _FEWEST or before.sum() < _COVERING * whole:
        return None
    ratio, weight = after / before, np.minimum(before, _MOST * before.sum())
    factor = _weighted_median(ratio, weight)
    if abs(factor - 1) < floor or weight[_alike(ratio, factor)].sum() < _ALIKE * weight.sum():
        return None
    sums = [side.by("part").get((part,), []) for side in (base, new)]
    total = judged(key, sums, floor)
    noisy = total.judgement is None or total.judgement.verdict == "within_noise"
    return None if noisy else Uniform(key, factor, place, total)


def _alike(ratio: Floats, factor: float) -> np.ndarray:
    close: np.ndarray = np.abs(ratio / factor - 1) <= max(_MEASURED, _SLACK * abs(factor - 1))
    return close


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
