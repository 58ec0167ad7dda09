"""How much memory kernels move, by their shapes, and how fast the best of them do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Floats
from npu_advisor.base.shapes import tensor_bytes
from npu_advisor.model.profile import Profile

# A rate needs this much traffic: less is mostly launch.
LEAST_BYTES = 2**20
# A type of kernel with fewer runs says little about the device.
LEAST_RUNS = 3


class Traffic(NamedTuple):
    """Of each kernel row the bytes written, and read and written together (NaN unknown); ``rate`` is in bytes per ns,
    that of the type of vector kernel that moves most in its usual run, 0 where no shapes are known."""

    written: Floats
    moved: Floats
    rate: float


def traffic(profile: Profile) -> Traffic:
    """The traffic of a profile's kernels."""
    kernels = profile.table("kernels")
    read, written = (
        tensor_bytes(shape.codes, shape.categories, dtype.codes, dtype.categories)
        for shape, dtype in (
            (kernels["input_shapes"], kernels["input_dtypes"]),
            (kernels["output_shapes"], kernels["output_dtypes"]),
        )
    )
    moved = read + written
    known = np.isfinite(moved) & (moved >= LEAST_BYTES) & (kernels["dur_ns"] > 0)
    known &= np.asarray(kernels["core"] == "AI_VECTOR_CORE")
    rows, types = np.flatnonzero(known), kernels["type"].codes
    rates = [0.0]
    for kind in np.unique(types[rows]).tolist():
        mine = rows[types[rows] == kind]
        if len(mine) >= LEAST_RUNS:
            rates.append(float(np.median(moved[mine] / kernels["dur_ns"][mine])))
    return Traffic(written, moved, max(rates))
