"""What the device computes: kernels by type and core, by source line, by core type, and the longest ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npu_advisor.engine.views.tables import heaviest, table_view, text
from npu_advisor.model.profile import Profile
from npu_advisor.views import TableView, Unit

# Shown of the busy shares of the pipes: what matrix and vector kernels compute with, and what feeds them.
RATIOS = ("aic_mac_ratio", "aic_mte2_ratio", "aiv_vec_ratio", "aiv_mte2_ratio")
LONGEST = 40

_SUMS: dict[str, Unit] = {"total_us": "us", "share": "share", "calls": "count", "mean_us": "us", "max_us": "us"}
_RATIO_UNITS: dict[str, Unit] = dict.fromkeys(RATIOS, "share")


def kernel_tables(profile: Profile) -> dict[str, TableView]:
    """The tables of the Kernel view; none where no kernel was recorded."""
    if not profile.has("kernels") or not len(profile.table("kernels")):
        return {}
    frame = kernel_frame(profile)
    longest = frame.sort_values("dur_us", ascending=False, kind="stable")
    return {
        "kernel_type": table_view(
            "kernel_type",
            summed(frame, ["type", "core"]),
            {"type": "text", **_SUMS, "core": "text", **_RATIO_UNITS, "source": "line"},
            "op_statistic.csv",
        ),
        "kernel_line": table_view(
            "kernel_line", summed(frame, ["source"]), {"source": "line", **_SUMS, "type": "text"}, "kernel_details.csv"
        ),
        "kernel_core": table_view("kernel_core", summed(frame, ["core"]), {"core": "text", **_SUMS}),
        "kernel_longest": table_view(
            "kernel_longest",
            longest,
            {
                "name": "text",
                "type": "text",
                "dur_us": "us",
                "wait_us": "us",
                "launch_delay_us": "us",
                "block_dim": "count",
                "input_shapes": "text",
                **_RATIO_UNITS,
                "source": "line",
            },
            "kernel_details.csv",
            LONGEST,
        ),
    }


def kernel_frame(profile: Profile) -> pd.DataFrame:
    """One row per kernel with the columns that the view needs; ratios are NaN where they were not recorded."""
    table = profile.table("kernels")
    columns: dict[str, Any] = {name: text(table[name]) for name in ("name", "type", "core", "source", "input_shapes")}
    columns |= {name: table[name] for name in ("dur_us", "wait_us", "launch_delay_us", *RATIOS)}
    columns["block_dim"] = pd.array(np.where(table["block_dim"] >= 0, table["block_dim"], 0), dtype="Int64")
    frame = pd.DataFrame(columns)
    frame.loc[table["block_dim"] < 0, "block_dim"] = pd.NA
    return frame


def summed(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Kernels grouped: total, share of computing time, calls, mean, max, ratios weighted by time, heaviest line."""
    weights = {f"weight_{name}": frame["dur_us"].where(frame[name].notna()) for name in RATIOS}
    products = {name: frame[name] * frame["dur_us"] for name in RATIOS}
    grouped = frame.assign(**products, **weights).groupby(by, dropna=False, sort=False)
    made = grouped.agg(
        total_us=("dur_us", "sum"), calls=("dur_us", "size"), mean_us=("dur_us", "mean"), max_us=("dur_us", "max")
    )
    for name in RATIOS:
        used = grouped[f"weight_{name}"].sum()
        made[name] = grouped[name].sum() / used.where(used > 0)
    made["share"] = made["total_us"] / (made["total_us"].sum() or 1.0)
    for column in ("source", "type"):
        if column not in by:
            made[column] = heaviest(frame, by, column, "dur_us")
    return made.reset_index().sort_values("total_us", ascending=False, kind="stable")
