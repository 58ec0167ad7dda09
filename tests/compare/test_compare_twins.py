"""Generated twins: one planted cause taken out, and the comparison must say so, at its line, and add up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic import HARDER, Settings, generate

from npu_advisor.api import Only, compare, verify
from npu_advisor.base.errors import ConfigError
from npu_advisor.compare.sides import _paired
from npu_advisor.comparison import RankPair

Generated = Callable[[Settings], Path]
# Plant -> the lines of the generated script that are its own.
LINES = {
    "dispatch": (81, 82),
    "native_optimizer": (108,),
    "top_kernel": (84,),
    "transdata": (73,),
    "mem_peak": (31, 32),
    "aicpu": (96,),
    "dataloader": (92,),
    "item": (101,),
    "unoverlapped_comm": (107,),
}


def _settings(**changed: Any) -> Settings:
    plain: dict[str, Any] = {"steps": 3, "layers": 3, "counters": False, "truth_steps": 2, "plant": ["all"]}
    return Settings(**{**plain, **changed})


def _pair(base: Path, new: Path, **options: Any) -> RankPair:
    # What is compared does not depend on the rules: one of them is enough where findings do not matter.
    return compare(base, new, select=["layout-transdata"], **options).main


def _adds_up(pair: RankPair) -> None:
    told = pair.attribution
    assert told.change_us == pytest.approx(pair.step.change, abs=1e-6)
    assert sum(cause.us for cause in told.causes) + told.remainder_us == pytest.approx(told.change_us, abs=1e-6)
    assert sum(part.change or 0.0 for part in pair.ledger) == pytest.approx(told.change_us, abs=1e-3)
    for side in ("base", "new"):
        parts = sum(getattr(part, side) for part in pair.ledger)
        assert parts == pytest.approx(getattr(pair.step, side), rel=1e-6)


@pytest.mark.parametrize("plant", LINES)
def test_the_change_is_put_down_to_the_line_of_what_was_taken_out(plant: str, generated: Generated) -> None:
    base, new = generated(_settings()), generated(_settings(without=[plant]))
    pair = _pair(base, new)
    _adds_up(pair)
    told = pair.attribution
    assert told.basis == "critical_path"
    first = told.causes[0]
    assert first.base_location is not None and first.base_location.line in LINES[plant]
    assert abs(told.remainder_us) <= 0.02 * abs(told.change_us)
    own = [cause for cause in told.causes if cause.base_location and cause.base_location.line in LINES[plant]]
    slack = 0.02 * abs(told.change_us) + 30
    assert sum(cause.us for cause in own) == pytest.approx(told.change_us, abs=slack)


@pytest.mark.parametrize("plant", ["dispatch", "item", "unoverlapped_comm"])
def test_what_makes_a_profile_harder_to_read_leaves_the_causes_at_their_lines(plant: str, generated: Generated) -> None:
    harder = {"ranks": 2, **HARDER}
    found = compare(
        generated(_settings(**harder)), generated(_settings(**harder, without=[plant])), select=["layout-transdata"]
    )
    for pair in found.pairs:
        _adds_up(pair)
        first = pair.attribution.causes[0]
        assert first.base_location is not None and first.base_location.line in LINES[plant]
        assert abs(pair.attribution.remainder_us) <= 0.02 * abs(pair.attribution.change_us)


def test_a_slow_rank_is_its_device_there_and_a_wait_elsewhere(generated: Generated) -> None:
    two = {"ranks": 2, "world": 2, "layers": 6, "device_scale": 0.8}
    found = compare(
        generated(_settings(**two)), generated(_settings(**two, without=["slow_rank"])), select=["layout-transdata"]
    )
    slow = found.main
    assert slow.base_rank == 1
    first = slow.attribution.causes[0]
    assert (first.kind, first.base_location) == ("device", None)
    assert first.factor == pytest.approx(1 / 1.3, rel=0.01)
    assert first.us == pytest.approx(slow.attribution.change_us, rel=0.02)
    (other,) = [pair for pair in found.pairs if pair is not slow]
    waits = other.attribution.causes[0]
    assert (waits.kind, waits.rank) == ("other_rank", 1)
    assert waits.us == pytest.approx(other.attribution.change_us, rel=0.1)
    for pair in found.pairs:
        _adds_up(pair)


def test_a_profile_against_itself_shows_nothing(generated: Generated) -> None:
    path = generated(_settings())
    found = compare(path, path)
    pair = found.main
    assert pair.step.judgement is not None and pair.step.judgement.verdict == "same"
    assert pair.attribution.causes == [] and pair.attribution.elsewhere == []
    assert pair.attribution.remainder_us == pair.step.change == 0.0
    assert (pair.base_only_calls, pair.new_only_calls) == (0, 0) and pair.matched_calls > 100
    assert {each.status for each in pair.ops} == {"matched"}
    assert pair.one_sided == []
    assert {each.status for each in found.findings} == {"same"}


def _ten_steps(seed: int, scale: float = 0.8) -> Settings:
    return _settings(steps=10, layers=3, plant=[], seed=seed, device_scale=scale, world=1)


def test_two_seeds_of_one_run_do_not_differ_beyond_noise(generated: Generated) -> None:
    pair = _pair(generated(_ten_steps(7)), generated(_ten_steps(8)))
    assert pair.step.change != 0.0
    assert pair.step.judgement is not None and pair.step.judgement.verdict == "within_noise"
    assert pair.attribution.causes == []


def test_three_percent_over_ten_steps_are_found(generated: Generated) -> None:
    pair = _pair(generated(_ten_steps(7)), generated(_ten_steps(8, 0.8 * 1.035)))
    judgement = pair.step.judgement
    assert pair.step.share is not None and 0.025 < pair.step.share < 0.04
    assert judgement is not None and judgement.verdict == "beyond_noise"
    assert judgement.test.startswith("mann_whitney") and judgement.p_value is not None and judgement.p_value < 0.001
    _adds_up(pair)
    cause = pair.attribution.causes[0]
    assert cause.kind == "device" and cause.factor == pytest.approx(1.035, abs=0.005)
    assert cause.us == pytest.approx(pair.attribution.change_us, rel=0.1)


def test_several_runs_of_a_rank_are_one_sample(tmp_path: Path) -> None:
    for number, seed in enumerate((7, 8)):
        generate(tmp_path / f"base/{number}", _ten_steps(seed))
        generate(tmp_path / f"new/{number}", _ten_steps(seed + 10))
    pair = _pair(tmp_path / "base", tmp_path / "new")
    assert (pair.base_runs, pair.new_runs) == (2, 2)
    assert pair.step.judgement is not None
    assert (pair.step.judgement.base.n, pair.step.judgement.floor) == (20, 0.0)
    assert pair.step.judgement.verdict == "within_noise"


def test_steps_and_ranks_of_one_profile_are_compared(generated: Generated) -> None:
    path = generated(_settings(ranks=2, layers=3, world=4))
    steps = _pair(path, path, base_only=Only((0,), (10,)), new_only=Only((0,), (12,)))
    assert (steps.base_steps, steps.new_steps) == ([10], [12])
    assert steps.matched_calls > 100
    _adds_up(steps)
    ranks = _pair(path, path, base_only=Only((0,)), new_only=Only((1,)))
    assert (ranks.base_rank, ranks.new_rank) == (0, 1)
    _adds_up(ranks)
    both = compare(path, path, select=["layout-transdata"])
    assert [(pair.base_rank, pair.new_rank) for pair in both.pairs] == [(0, 0), (1, 1)]


def test_ranks_that_do_not_pair_up_are_refused() -> None:
    assert _paired({3: []}, {5: [], 6: []}) == [([], [])]
    assert len(_paired({0: [], 1: []}, {4: [], 5: []})) == 2
    with pytest.raises(ConfigError, match="ranks 0, 1 of the one side and ranks 4, 5, 6 of the other do not pair up"):
        _paired({0: [], 1: []}, {4: [], 5: [], 6: []})


def test_findings_are_fixed_by_what_was_taken_out(generated: Generated) -> None:
    found = compare(generated(_settings()), generated(_settings(without=["native_optimizer"])))
    fixed = [each for each in found.findings if each.status == "fixed"]
    assert "optimizer-native" in {each.rule_id for each in fixed}
    back = compare(generated(_settings(without=["native_optimizer"])), generated(_settings()))
    assert "optimizer-native" in {each.rule_id for each in back.findings if each.status == "new"}


def test_kernels_of_a_matched_call(generated: Generated) -> None:
    pair = _pair(generated(_settings()), generated(_settings(without=["transdata"])))
    (conv,) = [each for each in pair.ops if each.name == "aten::conv2d"]
    assert conv.status == "matched" and conv.only_base_kernels == {"TransData": 3.0}
    assert conv.kernels.change == -3.0
    (only,) = [each for each in pair.one_sided if each.type == "TransData"]
    assert (only.side, only.kernels, [place.line for place in only.locations]) == ("base", 3.0, [73])
    conversions = next(each for each in pair.classes if each.name == "conversion")
    assert conversions.kernels.change == -3.0


# ---- verify ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plant", ["native_optimizer", "item"])
def test_a_prediction_is_compared_with_what_came(plant: str, generated: Generated) -> None:
    base, new = generated(_settings()), generated(_settings(without=[plant]))
    found = verify(base, new)
    rule = {"native_optimizer": "optimizer-native", "item": "dispatch-sync-in-step"}[plant]
    (entry,) = [each for each in found.verified if each.rule_id == rule]
    lost = -(found.step.change or 0.0)
    assert entry.realised_us == pytest.approx(lost, rel=0.02)
    assert entry.predicted_us == pytest.approx(entry.realised_us, rel=0.1)
    assert entry.error == pytest.approx((entry.predicted_us - entry.realised_us) / entry.realised_us)
    assert entry.inside and entry.counts
    assert found.joint_realised_us == lost and found.joint_predicted_us is not None
    assert found.summary.counted >= 1


def test_what_is_only_hidden_now_does_not_count_as_fixed(generated: Generated) -> None:
    """Without the slow loader the host runs ahead, so its dispatch costs nothing any more: nobody fixed that."""
    base, new = generated(_settings(layers=12)), generated(_settings(layers=12, without=["dataloader"]))
    rules = ["data-loader", "dispatch-dequeue-gap"]
    gone = {each.rule_id for each in compare(base, new, select=rules).findings if each.status == "fixed"}
    assert gone == set(rules)
    (entry,) = verify(base, new, select=rules).verified
    assert (entry.rule_id, entry.how) == ("data-loader", "step")
    assert entry.predicted_us == pytest.approx(entry.realised_us, rel=0.1)


def test_what_no_fix_gives_back_is_told_per_step_however_many_were_recorded(generated: Generated) -> None:
    rules = ["comm-small-packets", "profile-one-step"]
    found = compare(generated(_settings(steps=1)), generated(_settings(steps=4)), select=rules)
    packets, one_step = sorted(found.findings, key=lambda each: each.rule_id)
    assert packets.status == "same"
    assert packets.new_us == pytest.approx(packets.base_us, rel=0.1)
    assert (one_step.status, one_step.base_us) == ("fixed", None)
