"""How much the steps of a recording resemble each other, kernel by kernel."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.base.numbering import paired
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

_SIGNATURE = ("type", "input_shapes", "input_dtypes")


def sequences(profile: Profile) -> Table:
    """The ``sequences`` table: one row per step with kernels, in order.

    ``alike`` is the share of kernels that equal, in type, shapes and data types, the kernel at the same place of the
    step before; kernels that one of the two has more count as different. The first step
    has none, and one step alone cannot tell.
    """
    kernels, steps = profile.table("kernels"), profile.table("steps")
    if not profile.has("kernels") or any(name not in kernels.present for name in _SIGNATURE):
        return Table.build("sequences", {}, profile.rank)
    signature = np.zeros(len(kernels), dtype=np.int64)
    for name in _SIGNATURE:
        signature = paired(signature, kernels[name].codes)
    order = np.lexsort((kernels["start_ns"], kernels["step"]))
    order = order[kernels["step"][order] >= 0]
    numbers, first = np.unique(kernels["step"][order], return_index=True)
    runs = np.split(signature[order], first[1:]) if len(first) else []
    columns = {
        "step": numbers,
        "start_ns": steps["start_ns"][numbers],
        "dur_ns": steps["dur_ns"][numbers],
        "kernels": np.array([len(run) for run in runs], dtype=np.int64),
        "replayed": np.bincount(kernels["step"][order], weights=kernels["model"][order] >= 0)[numbers].astype(np.int64),
    }
    if len(runs) > 1:
        columns["alike"] = np.array([np.nan, *(_alike(before, now) for before, now in pairwise(runs))])
    return Table.build("sequences", columns, profile.rank)


def _alike(before: Ints, now: Ints) -> float:
    both = min(len(before), len(now))
    return float((before[:both] == now[:both]).sum()) / max(len(before), len(now))
