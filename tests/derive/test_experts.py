"""How unequal the experts' work is, told by comparing the n-th grouped product of every rank."""

from __future__ import annotations

import pytest

from npu_advisor.api import finish
from npu_advisor.derive import introduce
from npu_advisor.engine.run import run_rules
from npu_advisor.engine.testing import given_profile
from npu_advisor.model.profile import Profile
from npu_advisor.session import rank_rules


def rank(number: int, *durations: float) -> Profile:
    kernels = [{"name": "g", "type": "GroupedMatmul", "dur_us": us, "input_shapes": "8,64"} for us in durations]
    kernels.append({"name": "m", "type": "MatMul", "dur_us": 5, "input_shapes": "8,64"})
    profile = given_profile({"kernels": kernels, "steps": [{"number": 1, "dur_us": 500}]}, finish)
    object.__setattr__(profile.info, "rank", number)
    return profile


def test_the_busiest_rank_leads_in_most_layers() -> None:
    ranks = [rank(0, 50, 50, 30), rank(1, 20, 20, 40), rank(2, 20, 20, 20)]
    introduce(ranks)
    rows = [one.profile.iloc[0] for one in ranks]
    assert [row["expert_us"] for row in rows] == [130, 80, 60]
    assert [row["mean_expert_us"] for row in rows] == [90, 90, 90]
    assert [row["expert_lead"] for row in rows] == pytest.approx([2 / 3, 1 / 3, 0])


def test_ranks_that_run_other_layers_are_not_compared() -> None:
    ranks = [rank(0, 50, 50), rank(1, 20)]
    introduce(ranks)
    assert "mean_expert_us" not in ranks[0].profile


def test_ranks_that_run_other_layers_may_still_be_slow() -> None:
    ranks = [rank(0, 50, 50), rank(1, 20)]
    introduce(ranks)
    plans = rank_rules(dirs=(), params=None, select=("cluster-slow-rank",), ignore=())
    assert [result.outcome for result in run_rules(plans, ranks[0])] == ["clean"]


def test_one_rank_says_why_there_is_no_comparison() -> None:
    (alone,) = [rank(0, 50)]
    introduce([alone])
    missing = alone.missing("profile", "mean_expert_us")
    assert missing is not None
    assert missing.reason.en == "only one rank of the run was read"


def test_a_dense_model_has_no_experts_to_be_unequal() -> None:
    ranks = [rank(0), rank(1)]
    introduce(ranks)
    assert ranks[0].profile[["expert_us", "mean_expert_us", "expert_lead"]].iloc[0].tolist() == [0, 0, 0]
