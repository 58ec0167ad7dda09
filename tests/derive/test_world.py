"""What a rank knows of its job: the roles of its groups, its stage, how many ranks there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_advisor.api import finish
from npu_advisor.derive.ranks import summary_tables
from npu_advisor.derive.world import group_hash, missing_ranks, rank_groups, stage_of, world_size
from npu_advisor.engine.testing import given_profile
from npu_advisor.model.profile import Profile, ProfileInfo

GROUPS: dict[str, Any] = {
    "10.0.0.1%eth0_0": {"group_name": "pp", "group_rank": 1, "global_ranks": [1, 5]},
    "10.0.0.1%eth0_1": {"group_name": "tp", "group_rank": 1, "global_ranks": [4, 5, 6, 7]},
    "odd": {"group_name": "tp", "global_ranks": "none"},
    "odder": None,
}


def _profile(**metadata: object) -> Profile:
    return Profile(ProfileInfo("x", rank=5, metadata=metadata), {})


def test_groups_have_roles_and_a_rank_its_stage() -> None:
    profile = _profile(parallel_group_info=GROUPS)
    assert [(group.role, group.ranks) for group in rank_groups(profile)] == [("pp", (1, 5)), ("tp", (4, 5, 6, 7))]
    assert stage_of(profile) == 1
    assert world_size(profile) == 8
    assert stage_of(_profile()) == -1


def test_the_size_that_the_framework_noted_counts() -> None:
    assert world_size(_profile(distributed_args={"world_size": 64})) == 64
    assert world_size(_profile(distributed_args="broken", parallel_group_info=[1])) == 6


def test_ranks_of_no_one_run_lack_nobody() -> None:
    assert missing_ranks([_profile(), _profile()]) == []
    assert missing_ranks([_profile()]) == [0, 1, 2, 3, 4]


def test_own_time_stands_still_in_exposed_communication() -> None:
    """A step of 100 us: 40 us kernel, a collective from 30 to 80 (40 exposed), 10 us kernel, 10 us nothing."""
    name = "10.0.0.1%eth0_1"
    given = {
        "steps": [{"number": 3, "start_ns": 0, "dur_us": 100}],
        "kernels": [{"type": "MatMul", "start_ns": 0, "dur_us": 40}, {"type": "Add", "start_ns": 80_000, "dur_us": 10}],
        "comms": [{"type": "allReduce", "group": group_hash(name), "start_ns": 30_000, "dur_us": 50}],
    }
    profile = given_profile(given, finish)
    profile.info = ProfileInfo("x", rank=0, metadata={"parallel_group_info": GROUPS})
    steps, kernels, _, comms, _ = summary_tables(profile)
    assert comms.strings("role").tolist() == ["tp"]
    assert (comms["number"][0], comms["ordinal"][0]) == (3, 0)
    figures = ("lead_us", "lead_busy_us", "under_us", "under_busy_us", "exposed_us")
    assert [float(comms[figure][0]) for figure in figures] == [30.0, 30.0, 10.0, 10.0, 40.0]
    assert bool(comms["blocks"][0])
    assert (float(steps["tail_us"][0]), float(steps["tail_busy_us"][0])) == (20.0, 10.0)
    assert np.isclose(kernels["total_us"].sum(), 50.0)
