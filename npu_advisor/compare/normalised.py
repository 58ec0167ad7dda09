"""How well each side uses its device: times of the same work, new against base, over what the devices can do at most.

Only calls that have the same shapes and types on both sides are the same work. All kernels of such a call count for
the class of its heaviest one: a conversion that one device needs before a product is part of the price of the product.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from npu_advisor.base.messages import say
from npu_advisor.compare.match import Group
from npu_advisor.comparison import Normalised
from npu_advisor.derive.peaks import Peaks

# Classes that arithmetic limits; links, not the device, limit communication, and nobody knows what limits the rest.
FLOPS = ("matmul", "convolution", "attention")
UNLIMITED = ("communication", "other")
_HALF = ("c10::BFloat16", "c10::Half")


def normalised(
    base: pd.DataFrame, new: pd.DataFrame, groups: Sequence[Group], devices: tuple[Peaks | None, Peaks | None]
) -> dict[str, Normalised]:
    """By class of kernels: the ratio of how both sides use their device, or why there is none."""
    alike = [number for number, group in enumerate(groups) if _is_same_work(group)]
    sums = [_by_group(side, alike) for side in (base, new)]
    heaviest = sums[1]["kernel_class"].combine_first(sums[0]["kernel_class"])
    found = {}
    for name in sorted({*base["kernel_class"], *new["kernel_class"]} - set(UNLIMITED)):
        mine = heaviest.index[heaviest == name]
        if name in FLOPS:
            mine = mine[[_is_half(groups[number]) for number in mine]]
        times = [float(side["us"].reindex(mine).fillna(0.0).sum()) for side in sums]
        found[name] = _ratio(name, times, devices, bool((heaviest == name).any()))
    return found


def _is_same_work(group: Group) -> bool:
    one, other = group.base, group.new
    if one is None or other is None or not one.shapes or not one.dtypes:
        return False
    return (one.shapes, one.dtypes) == (other.shapes, other.dtypes)


def _is_half(group: Group) -> bool:
    return group.new is not None and group.new.dtypes.split(";")[0] in _HALF


def _by_group(side: pd.DataFrame, groups: Sequence[int]) -> pd.DataFrame:
    """By group: us per step, and the class of its heaviest kernels."""
    rows = side[side["group"].isin(groups) & (side["table"] == "kernels")]
    times = rows.groupby(["group", "kernel_class"])["us"].sum().unstack(fill_value=0)
    return pd.DataFrame({"us": times.sum(axis=1) / side.attrs["steps"], "kernel_class": times.idxmax(axis=1)})


def _ratio(name: str, times: Sequence[float], devices: tuple[Peaks | None, Peaks | None], matched: bool) -> Normalised:
    bound = "flops" if name in FLOPS else "bandwidth"
    limits = [getattr(device, bound) if device else None for device in devices]
    ratio = reason = None
    if limits[0] is None or limits[1] is None:
        sides = [side for side, limit in zip(("base", "new"), limits, strict=True) if limit is None]
        reason = say("compare.no_devices" if len(sides) > 1 else f"compare.no_device.{sides[0]}")
    elif not times[0] or not times[1]:
        reason = say("compare.not_half" if matched and bound == "flops" else "compare.no_same_work")
    else:
        ratio = (times[1] * limits[1]) / (times[0] * limits[0])
    return Normalised.model_validate(
        {
            "bound": bound,
            "base_us": times[0],
            "new_us": times[1],
            "base_peak": limits[0],
            "new_peak": limits[1],
            "ratio": ratio,
            "reason": reason,
        }
    )
