"""What the device of a profile can do at most, for comparing devices of different make.

Peaks of products in 16 bit (dense, accumulated in fp32) and bandwidths of device memory: of NPUs as in
:mod:`npu_advisor.derive.hardware`, of GPUs from their makers' data sheets.
"""

from __future__ import annotations

from typing import NamedTuple

from npu_advisor.derive.hardware import hardware
from npu_advisor.model.profile import Profile


class Peaks(NamedTuple):
    """A device and its peaks: ``flops`` in FLOP/s, ``bandwidth`` in bytes/s."""

    name: str
    flops: float
    bandwidth: float


# What the driver calls them, without the maker's name; the first that is found in the name counts.
GPUS = (
    Peaks("A100-SXM4-80GB", 312e12, 2.039e12),
    Peaks("A100 80GB PCIe", 312e12, 1.935e12),
    Peaks("A100-SXM4-40GB", 312e12, 1.555e12),
    Peaks("A100-PCIE-40GB", 312e12, 1.555e12),
    Peaks("A100-PG509-200", 312e12, 1.555e12),
    Peaks("A800-SXM4-80GB", 312e12, 2.039e12),
    Peaks("H100 80GB HBM3", 989.4e12, 3.35e12),
    Peaks("H100 PCIe", 756e12, 2.0e12),
    Peaks("H800", 989.4e12, 3.35e12),
    Peaks("H200", 989.4e12, 4.8e12),
    Peaks("H20", 148e12, 4.0e12),
    Peaks("V100-SXM2", 125e12, 0.9e12),
    Peaks("L40S", 362e12, 0.864e12),
    Peaks("MI300X", 1307e12, 5.3e12),
)


def peaks(profile: Profile) -> Peaks | None:
    """The peaks of the device, None where nothing tells which one it is."""
    if profile.info.device_kind == "gpu":
        called = profile.info.device or ""
        return next((gpu for gpu in GPUS if gpu.name in called), None)
    found = hardware(profile)
    if found is None or found.chip is None:
        return None
    return Peaks(found.chip.name, found.chip.cube_flops, found.chip.bandwidth)
