"""Which chip a profile was recorded on, how that is known, and what the chip can do at most.

Cores, clock and cube rate come from CANN's own platform configuration (``platform_config/*.ini``): the cube does
16 x 16 x 16 multiply-adds per core and cycle in fp16, that is 8192 operations.  Bandwidths are public claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from npu_advisor.model.profile import Profile

How = Literal["known", "given", "inferred"]
CUBE_FLOP_PER_CYCLE = 8192.0
CLOCK = "AI Core Freq"
VECTOR_CORES = ("AI_VECTOR_CORE", "MIX_AIV")
CUBE_CORES = ("AI_CORE", "MIX_AIC")
# So many kernels on exactly that many vector cores tell the chip; fewer may be a coincidence of shapes.
MIN_WITNESSES = 3
# Clocks differ by less than this only within one chip.
CLOCK_TOLERANCE = 0.01


@dataclass(frozen=True)
class Chip:
    """A chip (for a package of two dies: one die). ``bandwidth`` in bytes/s, ``mhz`` the nominal cube clock."""

    name: str
    cube_cores: int
    vector_cores: int
    mhz: int
    bandwidth: float

    @property
    def cube_flops(self) -> float:
        """Peak of the cube units in fp16 and bf16, FLOP/s."""
        return self.cube_cores * self.mhz * 1e6 * CUBE_FLOP_PER_CYCLE


CHIPS = (
    Chip("Ascend310P3", 8, 7, 1060, 204.8e9),
    Chip("Ascend910B1", 24, 48, 1850, 1.6e12),
    Chip("Ascend910B2", 24, 48, 1800, 1.6e12),
    Chip("Ascend910B3", 20, 40, 1800, 1.6e12),
    Chip("Ascend910B4", 20, 40, 1500, 0.8e12),
    Chip("Ascend910_9391", 24, 48, 1850, 1.6e12),
    Chip("Ascend910_9392", 24, 48, 1850, 1.6e12),
    Chip("Ascend910_9381", 24, 48, 1800, 1.6e12),
    Chip("Ascend910_9382", 24, 48, 1800, 1.6e12),
    Chip("Ascend950PR_9589", 32, 64, 1650, 1.6e12),
    Chip("Ascend950PR_9579", 28, 56, 1650, 1.6e12),
)


@dataclass(frozen=True)
class Hardware:
    """The chip of a profile. ``chip`` is None where only the number of cores is known."""

    cube_cores: int
    vector_cores: int
    chip: Chip | None
    how: How


def hardware(profile: Profile) -> Hardware | None:
    """The chip of ``profile``, None when nothing tells it.

    In this order: the device record of the recording (``DeviceInfo``), the name the user gave (``soc``), else how many
    vector cores full kernels use and the fastest clock seen. The chip *family* that databases name is no chip.
    """
    told = profile.info.metadata.get("DeviceInfo")
    if isinstance(told, Mapping) and (known := _recorded(told)):
        return known
    given = profile.info.metadata.get("soc")
    for chip in CHIPS:
        if chip.name == given:
            return Hardware(chip.cube_cores, chip.vector_cores, chip, "given")
    return _inferred(profile)


def _recorded(device: Mapping[str, object]) -> Hardware | None:
    numbers = [_whole(device.get(name)) for name in ("ai_core_num", "aiv_num", "aic_frequency")]
    cube, vector, mhz = numbers
    if not cube or not vector:
        return None
    return Hardware(cube, vector, _chip(vector, float(mhz or 0)), "known")


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else 0


def _inferred(profile: Profile) -> Hardware | None:
    kernels = profile.table("kernels")
    if not profile.has("kernels") or "block_dim" not in kernels.present or "core" not in kernels.present:
        return None
    on_vector = np.isin(np.asarray(kernels["core"], dtype=object), VECTOR_CORES)
    used = kernels["block_dim"][on_vector]
    counts = {vector: int((used == vector).sum()) for vector in {chip.vector_cores for chip in CHIPS}}
    vector = max(counts, key=lambda number: (counts[number], number))
    # Some kernels ask for more blocks than there are cores; but no chip is full with its cores half used.
    if counts[vector] < MIN_WITNESSES or counts[vector] < int(((used > vector) & (used <= 64)).sum()):
        return None
    chip = _chip(vector, fastest_mhz(profile))
    cube = next(chip.cube_cores for chip in CHIPS if chip.vector_cores == vector)
    return Hardware(cube, vector, chip, "inferred")


def _chip(vector_cores: int, mhz: float) -> Chip | None:
    """The first chip with these cores at this clock; those that share both share the rest, too."""
    fits = (c for c in CHIPS if c.vector_cores == vector_cores and abs(c.mhz - mhz) <= CLOCK_TOLERANCE * c.mhz)
    return next(fits, None)


def fastest_mhz(profile: Profile) -> float:
    """The fastest clock of the AI cores that was sampled, in MHz; 0 where none was."""
    counters = profile.table("counters")
    if not len(counters):
        return 0.0
    values = counters["value"][np.asarray(counters["name"] == CLOCK)]
    return float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
