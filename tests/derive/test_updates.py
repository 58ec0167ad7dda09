"""Updates of captured graphs, and which waits only order a replay behind them."""

from __future__ import annotations

from typing import Any

import pytest

from npu_advisor.api import finish
from npu_advisor.engine.testing import given_profile
from npu_advisor.model.profile import Profile

OP = "npu::npu_fused_infer_attention_score"


def update(at: int, op: int = -1) -> list[dict[str, Any]]:
    """The calls of one update: begin, tiling, end; 60 us in all."""
    calls = (("aclmdlRICaptureTaskUpdateBegin", 0, 5), ("aclnnFusedInferAttentionScoreV3GetWorkspaceSize", 10, 40))
    made = [{"name": name, "start_us": at + after, "dur_us": dur, "track": 0} for name, after, dur in calls]
    made[1]["op"] = op
    return [*made, {"name": "aclmdlRICaptureTaskUpdateEnd", "start_us": at + 55, "dur_us": 5, "track": 0}]


def loop(*before: dict[str, Any], ops: list[dict[str, Any]] | None = None) -> Profile:
    """One replay, launched at 300 and run at 350, after the given calls."""
    launch = {"name": "aclmdlRIExecuteAsync", "start_us": 300, "dur_us": 10, "track": 0}
    kernel = {
        "name": "a",
        "type": "FusedInferAttentionScore",
        "start_us": 350,
        "dur_us": 50,
        "model": 3,
        "api": len(before),
    }
    given = {"apis": [*before, launch], "kernels": [kernel], "ops": ops or [{"name": OP, "start_us": 0, "dur_us": 9}]}
    return given_profile(given, finish)


def test_an_update_lasts_until_the_next_one_or_the_launch() -> None:
    table = loop(*update(100, op=0), *update(200, op=0)).graph_updates
    assert table[["dur_us", "tiling_us", "op", "iteration"]].to_numpy().tolist() == [[100, 40, 0, 0], [100, 40, 0, 0]]


def test_without_the_calls_attention_ops_that_launch_nothing_stand_for_updates() -> None:
    ops = [{"name": OP, "start_us": 100, "dur_us": 60}, {"name": "aten::add", "start_us": 200, "dur_us": 5}]
    table = loop(ops=ops).graph_updates
    assert table[["dur_us", "op"]].to_numpy().tolist() == [[60, 0]]


def test_attention_that_launches_its_kernel_is_no_update() -> None:
    launch = {"name": "aclmdlRIExecuteAsync", "start_us": 300, "dur_us": 10, "track": 0}
    kernels = [
        {"name": "a", "type": "FusedInferAttentionScore", "start_us": 200, "dur_us": 50, "op": 0},
        {"name": "b", "type": "MatMulV2", "start_us": 350, "dur_us": 50, "model": 3, "api": 0},
    ]
    ops = [{"name": OP, "start_us": 100, "dur_us": 60}]
    profile = given_profile({"apis": [launch], "kernels": kernels, "ops": ops}, finish)
    assert profile.graph_updates.empty
    assert profile.has("graph_updates")


@pytest.mark.parametrize(
    ("op", "following", "orders"),
    [
        ("prepare input", "aclmdlRIExecuteAsync", True),
        ("prepare input", "aclmdlRICaptureTaskUpdateBegin", True),
        ("prepare input", "aclrtMemcpyAsync", False),
        ("aten::copy_", "aclmdlRIExecuteAsync", False),
    ],
)
def test_a_wait_for_no_data_right_before_a_replay_only_orders_it(op: str, following: str, orders: bool) -> None:
    calls: list[dict[str, Any]] = [
        {"name": "aclrtSynchronizeStreamWithTimeout", "start_us": 100, "dur_us": 30, "track": 0, "op": 0},
        {"name": following, "start_us": 140, "dur_us": 5, "track": 0},
    ]
    profile = loop(*calls, ops=[{"name": op, "start_us": 90, "dur_us": 45}])
    waits = profile.idle[profile.idle["owner"] == "sync"]
    assert waits[["api", "orders_replay"]].to_numpy().tolist() == [[0, orders]]
