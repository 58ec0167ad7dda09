"""Times of the same work on two devices against what the devices can do, by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from npu_advisor.compare.calls import Kind
from npu_advisor.compare.match import NOWHERE, Group
from npu_advisor.compare.normalised import normalised
from npu_advisor.derive.peaks import Peaks, peaks
from npu_advisor.model.profile import Profile, ProfileInfo

FAST, SLOW = Peaks("fast", 900e12, 3e12), Peaks("slow", 300e12, 1.5e12)
HALF = "c10::BFloat16;c10::BFloat16"


def _group(shapes: str, dtypes: str, base_dtypes: str | None = None) -> Group:
    name = "aten::linear"
    return Group(NOWHERE, Kind(name, shapes, "", base_dtypes or dtypes), Kind(name, shapes, "", dtypes))


def _side(rows: list[tuple[int, str, float]], steps: int = 2) -> pd.DataFrame:
    """Kernels (group, class, us in each of the steps)."""
    side = pd.DataFrame([row for row in rows for _ in range(steps)], columns=["group", "kernel_class", "us"])
    side["table"] = "kernels"
    side.attrs["steps"] = steps
    return side


def test_three_times_the_time_on_a_device_of_a_third_is_as_good() -> None:
    groups = [_group("8,16;16,16", HALF)]
    base, new = _side([(0, "matmul", 10.0)]), _side([(0, "matmul", 25.0), (0, "conversion", 5.0)], steps=1)
    found = normalised(base, new, groups, (FAST, SLOW))["matmul"]
    assert (found.bound, found.base_us, found.new_us) == ("flops", 10.0, 30.0)  # the conversion is part of the price
    assert found.ratio == pytest.approx(1.0) and found.reason is None
    assert found.ratio == (found.new_us / found.base_us) / ((found.base_peak or 0) / (found.new_peak or 1))


def test_what_memory_limits_is_held_against_bandwidth() -> None:
    groups = [_group("8,16", "float")]
    base, new = _side([(0, "elementwise", 10.0)]), _side([(0, "elementwise", 40.0)])
    found = normalised(base, new, groups, (FAST, SLOW))["elementwise"]
    assert found.bound == "bandwidth" and found.ratio == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("group", "devices", "reason"),
    [
        (_group("8,16;16,16", HALF), (None, SLOW), "the device of base is not known"),
        (_group("8,16;16,16", HALF), (FAST, None), "the device of new is not known"),
        (_group("8,16;16,16", HALF), (None, None), "the devices are not known"),
        (_group("8,16;16,16", "float;float"), (FAST, SLOW), "not in 16 bit"),
        (_group("8,16;16,16", HALF, "float;float"), (FAST, SLOW), "same recorded shapes and types"),
        (_group("", ""), (FAST, SLOW), "same recorded shapes and types"),
    ],
)
def test_without_a_ratio_there_is_a_reason(
    group: Group, devices: tuple[Peaks | None, Peaks | None], reason: str
) -> None:
    found = normalised(_side([(0, "matmul", 10.0)]), _side([(0, "matmul", 30.0)]), [group], devices)["matmul"]
    assert found.ratio is None
    assert found.reason is not None and reason in found.reason.en and found.reason.zh


def test_a_link_is_no_device() -> None:
    base = _side([(0, "communication", 10.0), (-1, "other", 3.0)])
    assert normalised(base, base, [_group("8", "float")], (FAST, SLOW)) == {}


@pytest.mark.parametrize(
    ("device", "flops"),
    [("NVIDIA H100 80GB HBM3", 989.4e12), ("NVIDIA A100-SXM4-40GB", 312e12), ("NVIDIA H20", 148e12), ("Quadro", None)],
)
def test_gpus_are_known_by_name(device: str, flops: float | None) -> None:
    found = peaks(Profile(ProfileInfo("made", device=device, device_kind="gpu"), {}))
    assert (found.flops if found else None) == flops
