"""The test behind a verdict: p-values against counted arrangements, and what is called noise."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from npu_advisor.compare.noise import RUN_FLOOR, _normal, _ranks, change, judge, judged


def _normal_steps(seed: int, mean: float, count: int, spread: float = 0.01) -> list[float]:
    return (mean * (1 + spread * np.random.default_rng(seed).standard_normal(count))).tolist()


def test_the_exact_p_value_is_the_share_of_arrangements_at_least_as_extreme() -> None:
    one, other = [1.0, 2.0, 2.0, 5.0], [3.0, 6.0, 7.0, 8.0, 9.0]
    found = judge(one, other)
    ranks = {1.0: 1.0, 2.0: 2.5, 3.0: 4.0, 5.0: 5.0, 6.0: 6.0, 7.0: 7.0, 8.0: 8.0, 9.0: 9.0}
    pooled = [ranks[value] for value in one + other]
    off = abs(sum(pooled[:4]) - 20.0)
    dealt = [abs(sum(chosen) - 20.0) for chosen in combinations(pooled, 4)]
    assert found.test == "mann_whitney_exact"
    assert found.p_value == pytest.approx(sum(each >= off for each in dealt) / len(dealt))
    assert found.verdict == "beyond_noise"


def test_the_approximation_is_near_the_exact_value() -> None:
    one, other = _normal_steps(1, 100, 8), _normal_steps(2, 101, 8)
    exact = judge(one, other).p_value
    assert exact is not None
    assert _normal(_ranks(np.array(one + other)), 8) == pytest.approx(exact, abs=0.02)


def test_three_percent_over_ten_steps_are_found() -> None:
    found = judge(_normal_steps(1, 100, 10), _normal_steps(2, 103, 10))
    assert found.verdict == "beyond_noise"
    assert found.shift == pytest.approx(3.0, abs=0.8)
    assert (found.base.n, found.new.n) == (10, 10)


def test_the_same_distribution_is_rarely_called_different() -> None:
    verdicts = [
        judge(_normal_steps(2 * i, 100, 10), _normal_steps(2 * i + 1, 100, 10), 0.0).verdict for i in range(200)
    ]
    wrong = verdicts.count("beyond_noise")
    assert 1 <= wrong <= 22  # 5 % of 200, give or take three standard deviations


def test_a_slow_first_step_does_no_harm() -> None:
    assert judge([900.0, *_normal_steps(1, 100, 9)], _normal_steps(2, 100, 10)).verdict == "within_noise"


@pytest.mark.parametrize(
    ("base", "new", "verdict", "test"),
    [
        ([5.0, 6.0], [5.0, 6.0], "same", "spread"),
        ([100.0], [130.0], "untested", "none"),
        ([100.0], [100.5], "within_noise", "none"),
        ([100.0, 104.0], [200.0, 204.0], "beyond_noise", "spread"),
        ([23.0, 58.0, 90.0], [0.2, 0.0, 0.5], "beyond_noise", "spread"),
        ([23.0, 58.0, 90.0], [30.0, 9.0, 12.0], "within_noise", "spread"),
        ([100.0, 110.0], [104.0, 112.0], "within_noise", "spread"),
        ([100.0, 110.0], [108.0, 120.0], "untested", "spread"),
    ],
)
def test_few_steps(base: list[float], new: list[float], verdict: str, test: str) -> None:
    found = judge(base, new)
    assert (found.verdict, found.test, found.p_value) == (verdict, test, None)


def test_what_runs_of_one_program_differ_by_is_noise_however_steady_the_steps() -> None:
    base = [100.0 + i / 1000 for i in range(10)]
    new = [value * (1 + RUN_FLOOR / 2) for value in base]
    assert judge(base, new).verdict == "within_noise"
    assert judge(base, new, floor=0.0).verdict == "beyond_noise"


def test_equal_steps_do_not_differ_however_many_they_are() -> None:
    same = judged("x", ([14.42], [14.42] * 20))
    assert (same.change, same.share) == (0.0, 0.0)


def test_a_change_from_nothing_has_no_share() -> None:
    assert change("x", (0.0, 5.0)).share is None
    assert change("x", (None, 5.0)).change is None
    assert judged("x", ([2.0, 4.0], [6.0])).change == 3.0
