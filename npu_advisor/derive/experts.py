"""How the experts' work is spread over the ranks of an expert-parallel group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints
from npu_advisor.model.profile import Profile

# Grouped matrix products: one kernel computes all experts of a layer that live on this rank.
EXPERT_KERNEL = "GroupedMatmul"


def expert_facts(profile: Profile) -> dict[str, object]:
    """``expert_us``, ``mean_expert_us`` and ``expert_lead`` of the ``profile`` row; zero where no rank has experts.

    Every rank runs the same layers in the same order, so its n-th grouped product is compared with the n-th of the
    others. Where the counts differ (a rank without requests) the ranks cannot be compared.
    """
    mine = _durations(profile)
    facts: dict[str, object] = {"expert_us": float(mine.sum()) / 1000.0}
    others = [_durations(peer) for peer in profile.peers]
    if others and all(len(other) == len(mine) for other in others):
        every = np.stack([mine, *others])
        facts["mean_expert_us"] = float(every.sum(axis=1).mean()) / 1000.0
        facts["expert_lead"] = float((mine > np.max(others, axis=0)).mean()) if len(mine) else 0.0
    return facts


def _durations(profile: Profile) -> Ints:
    """Durations of the experts' kernels in start order, in ns."""
    kernels = profile.table("kernels")
    names = [str(name).startswith(EXPERT_KERNEL) for name in kernels["type"].categories]
    match: npt.NDArray[np.bool_] = np.array([*names, False], dtype=bool)
    rows = np.flatnonzero(match[kernels["type"].codes])
    found: Ints = kernels["dur_ns"][rows[np.argsort(kernels["start_ns"][rows], kind="stable")]]
    return found
