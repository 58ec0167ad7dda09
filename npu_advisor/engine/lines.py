"""What each line of the user's code costs on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_advisor.base.frame import parse_frame
from npu_advisor.base.intervals import Floats
from npu_advisor.engine.places import Roots, location
from npu_advisor.findings import LineCost
from npu_advisor.model.profile import Profile

# More lines than this nobody reads; the rest is what costs least.
MAX_LINES = 1000


def line_costs(profiles: Sequence[Profile], roots: Roots) -> list[LineCost]:
    """Every line that launched device work inside the steps, costliest first, on the rank where it takes longest."""
    costs: dict[tuple[str, int], LineCost] = {}
    for profile in profiles:
        for cost in _of_rank(profile):
            key = (cost.path, cost.line)
            if key not in costs or _weight(costs[key]) < _weight(cost):
                costs[key] = cost
    ordered = sorted(costs.values(), key=lambda cost: (-_weight(cost), cost.path, cost.line))
    return [_placed(cost, roots) for cost in ordered[:MAX_LINES]]


def _weight(cost: LineCost) -> float:
    return cost.device_us_per_step + cost.communication_us_per_step


def _of_rank(profile: Profile) -> list[LineCost]:
    steps = profile.table("steps")
    step_us = float(steps["dur_us"].mean()) if len(steps) else 0.0
    if not step_us:
        return []
    kernels, comms = _by_source(profile, "kernels"), _by_source(profile, "comms")
    made = []
    for source in dict.fromkeys([*kernels, *comms]):
        frame = parse_frame(source)
        if frame is None:
            continue
        count, device_us = kernels.get(source, (0.0, 0.0))
        made.append(
            LineCost(
                rank=profile.rank,
                path=frame.path,
                line=frame.line,
                function=frame.function,
                device_us_per_step=device_us / len(steps),
                communication_us_per_step=comms.get(source, (0.0, 0.0))[1] / len(steps),
                share=device_us / len(steps) / step_us,
                kernels=count / len(steps),
            )
        )
    return made


def _by_source(profile: Profile, name: str) -> dict[str, tuple[float, float]]:
    """Count and summed us of the rows of one table by source line, those outside the steps left out."""
    table = profile.table(name)
    if not len(table):
        return {}
    codes = table["source"].codes
    used = (codes >= 0) & np.asarray(table["step"] >= 0)
    names = table["source"].categories
    counts = np.bincount(codes[used], minlength=len(names))
    total: Floats = np.bincount(codes[used], weights=table["dur_ns"][used], minlength=len(names)) / 1000.0
    return {str(names[code]): (float(counts[code]), float(total[code])) for code in np.flatnonzero(counts)}


def _placed(cost: LineCost, roots: Roots) -> LineCost:
    place = location(parse_frame(f"{cost.path}({cost.line}): {cost.function}"), "", roots)
    if place is None or place.local_path is None:
        return cost
    return cost.model_copy(update={"local_path": place.local_path, "text": place.text})
