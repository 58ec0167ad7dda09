"""The parts of the program on both sides: every kernel in one of them, and each told as the ops themselves tell it."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import DEMO, PROFILES, needs_profiles

from npu_advisor import load_profile
from npu_advisor.api import compare
from npu_advisor.comparison import PhaseChange


def _phases(base: Path, new: Path) -> dict[str, PhaseChange]:
    return {each.name: each for each in compare(base, new).main.phases}


def test_phases_hold_every_kernel_and_the_time_of_their_ops() -> None:
    profile = load_profile(DEMO)
    ops, kernels, steps = profile.ops, profile.kernels, profile.steps
    inside = kernels[kernels["step"] >= 0]
    found = _phases(DEMO, DEMO)
    assert sum(each.kernels.base or 0.0 for each in found.values()) == pytest.approx(len(inside) / len(steps))
    assert sum(each.kernel_us.new or 0.0 for each in found.values()) == pytest.approx(
        inside["dur_us"].sum() / len(steps)
    )
    mine = ops[ops["step"] >= 0]
    for name, start in (("data", "enumerate(DataLoader)"), ("optimizer", "Optimizer.")):
        own = mine[mine["name"].astype(str).str.startswith(start)]
        assert len(own) and found[name].host_us.base == pytest.approx(own["dur_us"].sum() / len(steps)), name
    assert all(each.host_us.change == 0 for each in found.values())


@needs_profiles
def test_backward_is_what_autograd_launches() -> None:
    path = PROFILES / "npu-alexnet-text-l1"
    found = _phases(path, path)
    assert {name: each.kernels.base for name, each in found.items()} == {
        "data": 0,
        "forward": 68,
        "backward": 115,
        "optimizer": 4,
    }


@needs_profiles
def test_a_side_without_a_part_has_none_of_it() -> None:
    found = _phases(PROFILES / "gpu-alexnet-a100", PROFILES / "npu-alexnet-text-l1")
    assert found["optimizer"].kernel_us.base == 0.0 and (found["optimizer"].kernel_us.new or 0.0) > 0
