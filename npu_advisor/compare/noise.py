"""Whether two samples of steps differ by more than they vary.

The test is Mann and Whitney's: it asks only whether the values of the one tend to be larger, so a slow first step does
no harm. Up to some thousand arrangements it is exact (every way to deal the ranks to the two sides is counted, ties
included), beyond that the normal approximation with the correction for ties. How large the difference is tells the
Hodges-Lehmann shift, how much a side varies the median absolute deviation, scaled by 1.4826 to compare with a
standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb, erfc, isclose, isfinite, sqrt

import numpy as np

from npu_advisor.base.intervals import Floats
from npu_advisor.comparison import Change, Judgement, Sample, Test, Verdict

ALPHA = 0.05
# Two recordings of the same program differ by that much although their steps agree among themselves: clocks, heat,
# memory layout. Several runs on both sides show this by themselves.
RUN_FLOOR = 0.01
SPREADS = 3.0
SCALE = 1.4826
_MOST_ARRANGEMENTS = 20_000
# Every step of the one side this many times every step of the other is no noise.
_APART = 2.0
# So few values say little by their median: their range counts too.
_FEW = 3
_TINY = 1e-9


def judge(base: Sequence[float], new: Sequence[float], floor: float = RUN_FLOOR, alpha: float = ALPHA) -> Judgement:
    """The verdict on two samples of one figure, neither of them empty."""
    one, other = np.asarray(base, dtype=np.float64), np.asarray(new, dtype=np.float64)
    shift = float(np.median(other[:, None] - one[None, :]))
    test, p_value = _test(one, other, alpha)
    return Judgement(
        verdict=_verdict(one, other, shift, test, p_value, floor, alpha),
        test=test,
        shift=shift,
        p_value=p_value,
        alpha=alpha,
        floor=floor,
        base=_sample(one),
        new=_sample(other),
    )


Two = Sequence[float | None]


def change(key: str, sides: Two, judgement: Judgement | None = None) -> Change:
    """A figure on both sides (base, new)."""
    base, new = sides
    if base is None or new is None or not isfinite(base) or not isfinite(new):
        return Change(key=key, base=base, new=new, change=None, judgement=judgement)
    # Means of equal values over another number of steps differ in their last digit.
    moved = 0.0 if isclose(base, new, rel_tol=1e-12) else new - base
    share = moved / base if base else None
    return Change(key=key, base=base, new=new, change=moved, share=share, judgement=judgement)


def judged(key: str, sides: Sequence[Sequence[float]], floor: float = RUN_FLOOR) -> Change:
    """The means of a figure over the steps of both sides (base, new), with the verdict on their difference."""
    base, new = sides
    verdict = judge(base, new, floor) if len(base) and len(new) else None
    return change(key, (_mean(base), _mean(new)), verdict)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _sample(values: Floats) -> Sample:
    middle = float(np.median(values))
    return Sample(n=len(values), median=middle, mad=float(np.median(np.abs(values - middle))))


def _verdict(
    one: Floats, other: Floats, shift: float, test: Test, p_value: float | None, floor: float, alpha: float
) -> Verdict:
    if shift == 0.0 and len(one) == len(other) and np.array_equal(np.sort(one), np.sort(other)):
        return "same"
    if abs(shift) < floor * abs(float(np.median(one))):
        return "within_noise"
    if test == "none":
        return "untested"
    if test == "spread":
        if _apart(one, other):
            return "beyond_noise"
        spreads = abs(shift) / max(_spread(one), _spread(other), _TINY)
        return "beyond_noise" if spreads > SPREADS else "untested" if spreads > 1.0 else "within_noise"
    return "beyond_noise" if p_value is not None and p_value < alpha else "within_noise"


def _apart(one: Floats, other: Floats) -> bool:
    """Whether several steps on each side lie so far apart that their spread does not matter, however large it is."""
    low, high = sorted((one, other), key=lambda side: float(np.median(side)))
    return min(len(one), len(other)) > 1 and float(low.min()) >= 0 and float(high.min()) > _APART * float(low.max())


def _spread(values: Floats) -> float:
    """The scaled median absolute deviation; of few values half their range, where that is more."""
    half_range = float(np.ptp(values)) / 2
    scaled = SCALE * _sample(values).mad
    return max(scaled, half_range) if len(values) <= _FEW else scaled


def _test(one: Floats, other: Floats, alpha: float) -> tuple[Test, float | None]:
    arrangements = comb(len(one) + len(other), len(one))
    if 2 / arrangements > alpha:
        return ("none" if len(one) == len(other) == 1 else "spread"), None
    ranks = _ranks(np.concatenate((one, other)))
    if arrangements <= _MOST_ARRANGEMENTS:
        return "mann_whitney_exact", _exact(ranks, len(one))
    return "mann_whitney_normal", _normal(ranks, len(one))


def _ranks(values: Floats) -> Floats:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Floats = (last - (counts - 1) / 2)[inverse.reshape(-1)]
    return shared


def _exact(ranks: Floats, first: int) -> float:
    """The share of all ways to deal the ranks in which the rank sum is at least as far from its middle."""
    dealt = np.array(list(combinations(range(len(ranks)), first)))
    middle = ranks.sum() * first / len(ranks)
    off = np.abs(ranks[dealt].sum(axis=1) - middle)
    return float(np.mean(off >= abs(ranks[:first].sum() - middle) - 1e-9))


def _normal(ranks: Floats, first: int) -> float:
    total, second = len(ranks), len(ranks) - first
    _, ties = np.unique(ranks, return_counts=True)
    variance = first * second / 12 * (total + 1 - float((ties**3 - ties).sum()) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    off = abs(float(ranks[:first].sum()) - first * (total + 1) / 2)
    return erfc(max(off - 0.5, 0.0) / sqrt(variance) / sqrt(2))
