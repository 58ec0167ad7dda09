"""The strict replay of recorded profiles gives back their steps, and little of it hangs on anchors."""

from __future__ import annotations

import numpy as np
import pytest
from places import PROFILES, needs_profiles
from replay_kit import times

from npu_advisor import load_profile
from npu_advisor.api import load_profiles
from npu_advisor.graph.replay import Replayer

pytestmark = needs_profiles

RANKS = (
    "npu-alexnet-text-l0/rank0_ascend_pt",
    "npu-alexnet-text-l0/rank1_ascend_pt",
    "npu-alexnet-text-l1/rank0_ascend_pt",
    "npu-alexnet-text-l1/rank1_ascend_pt",
    "npu-alexnet-text-l2/rank0_ascend_pt",
    "npu-alexnet-db-l0/rank0_ascend_pt",
    "npu-alexnet-db-l0/rank1_ascend_pt",
    "npu-alexnet-db-l1/rank1_ascend_pt",
    "npu-alexnet-db-l2/rank0_ascend_pt",
    "npu-trace-only-2024",
)


@pytest.mark.parametrize("name", RANKS)
def test_a_step_replays_to_what_was_recorded(name: str) -> None:
    replayer = Replayer(load_profile(PROFILES / name))
    (shift,) = (ns / 1000.0 for ns in replayer.kernel_shift.values())
    print(
        f"{name}: error {replayer.error:.3%}, anchored {replayer.anchored_share:.1%}, "
        f"kernel shift median {np.median(shift):.0f} us, p90 {np.quantile(shift, 0.9):.0f} us"
    )
    assert replayer.error <= 0.01
    assert replayer.anchored_share <= 0.15
    assert np.array_equal(times(replayer), replayer.calibrated.rec)
    assert np.quantile(shift, 0.9) < 500


@pytest.mark.parametrize("name", ["npu-alexnet-text-l0", "npu-alexnet-text-l1"])
def test_two_ranks_of_eight_replay_together(name: str) -> None:
    replayer = Replayer(load_profiles(PROFILES / name))
    assert replayer.error <= 0.01
    assert len(replayer.recorded) == 2
    assert all(rank.transit for rank in replayer.graph.ranks)


def test_conversions_beside_a_long_wait_save_nothing() -> None:
    """57 TransData kernels, 1.4 ms of the device: the step waits for another rank all the same."""
    replayer = Replayer(load_profile(PROFILES / "npu-alexnet-text-l1/rank0_ascend_pt"))
    rows = np.flatnonzero(replayer.profiles[0].table("kernels").strings("type") == "TransData")
    variants = replayer.fixer(0).variants("remove", "kernels", rows)
    assert len(rows) == 57
    assert variants is not None
    assert replayer.price(variants.expected) < 100_000


@pytest.mark.parametrize("name", [name for name in RANKS if "alexnet" in name])
def test_a_faster_loader_saves_its_whole_wait(name: str) -> None:
    """Whatever the level and form: without CANN calls the copy that blocks the loop must be seen all the same."""
    replayer = Replayer(load_profile(PROFILES / name))
    ops = replayer.profiles[0].table("ops")
    rows = np.flatnonzero([str(name).startswith("enumerate(DataLoader)") for name in ops.strings("name")])
    variants = replayer.fixer(0).variants("remove", "ops", rows)
    assert variants is not None
    waited = float(ops["dur_us"][rows].sum())
    # The Python before the call goes with it.
    assert waited <= replayer.price(variants.expected) / 1000.0 <= 1.15 * waited
