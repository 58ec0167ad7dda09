"""Who waits for whom: collectives by type and rank, the longest ones, and the links they use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from npu_advisor.engine.views.tables import table_view, text
from npu_advisor.model.profile import Profile
from npu_advisor.views import TableView

LONGEST = 100
_TIMES = ("dur_us", "transit_us", "wait_us", "sync_us", "idle_us")
_TYPE_UNITS: Any = {
    "rank": "id",
    "type": "text",
    "calls": "count",
    "bytes": "bytes",
    "mean_bytes": "bytes",
    "elapse_us": "us",
    "transit_us": "us",
    "wait_us": "us",
    "sync_us": "us",
    "idle_us": "us",
    "gbs": "gbs",
}
_LONGEST_UNITS: Any = {"name": "text", **_TYPE_UNITS, "late_us": "us", "source": "line"}
_LINK_UNITS: Any = {
    "rank": "id",
    "transport": "text",
    "pairs": "count",
    "bytes": "bytes",
    "transit_us": "us",
    "gbs": "gbs",
}


def communication_tables(profiles: Sequence[Profile]) -> dict[str, TableView]:
    """The tables of the Distributed view, over all ranks."""
    made = {}
    frame = pd.concat([collectives(profile) for profile in profiles], ignore_index=True)
    if len(frame):
        made["comm_type"] = table_view("comm_type", by_type(frame), _TYPE_UNITS, "communication.json")
        longest = frame.rename(columns={"dur_us": "elapse_us"})
        longest = longest.sort_values("elapse_us", ascending=False, kind="stable")
        longest["gbs"] = _bandwidth(longest)
        units = {key: unit for key, unit in _LONGEST_UNITS.items() if key not in ("calls", "mean_bytes", "type")}
        made["comm_longest"] = table_view("comm_longest", longest, units, "communication.json", LONGEST)
    links = pd.concat([_links(profile) for profile in profiles], ignore_index=True)
    if len(links):
        grouped = links.groupby(["rank", "transport"], dropna=False, sort=False)
        summed = grouped.agg(pairs=("pair", "nunique"), bytes=("bytes", "sum"), transit_us=("transit_us", "sum"))
        summed["gbs"] = _bandwidth(summed)
        made["comm_link"] = table_view(
            "comm_link",
            summed.reset_index().sort_values("bytes", ascending=False, kind="stable"),
            _LINK_UNITS,
            "communication_matrix.json",
        )
    return made


def collectives(profile: Profile) -> pd.DataFrame:
    """One row per collective of one rank; ``late_us`` is how long this rank waited in it for others."""
    table, exposed = profile.table("comms"), profile.table("exposed")
    late: Any = exposed["late"] & (exposed["comm"] >= 0)
    waited = np.bincount(exposed["comm"][late], weights=exposed["dur_us"][late], minlength=len(table))
    return pd.DataFrame(
        {name: text(table[name]) for name in ("name", "type", "source")}
        | {name: table[name] for name in ("rank", "bytes", *_TIMES)}
        | {"late_us": waited[: len(table)]}
    )


def by_type(frame: pd.DataFrame) -> pd.DataFrame:
    """Collectives of each rank and type, longest first."""
    grouped = frame.groupby(["rank", "type"], dropna=False, sort=False)
    made = grouped[[*_TIMES, "bytes"]].sum(min_count=1).rename(columns={"dur_us": "elapse_us"})
    made["calls"] = grouped.size()
    made["mean_bytes"] = grouped["bytes"].mean()
    made["gbs"] = _bandwidth(made)
    return made.reset_index().sort_values("elapse_us", ascending=False, kind="stable")


def _bandwidth(frame: pd.DataFrame) -> Any:
    """GB/s (10^9 bytes) while data moves."""
    return frame["bytes"] / frame["transit_us"].where(frame["transit_us"] > 0) / 1000.0


def _links(profile: Profile) -> pd.DataFrame:
    table = profile.table("links")
    frame = pd.DataFrame(
        {"rank": table["rank"], "transport": text(table["transport"]), "op": text(table["op"])}
        | {name: table[name] for name in ("bytes", "transit_us")}
        | {"pair": [f"{src}-{dst}" for src, dst in zip(table["src"], table["dst"], strict=True)]}
    )
    # Newer files hold totals beside the slowest and fastest samples of each type; adding those counts them twice.
    total = frame["op"].astype(str).str.replace(r"@.*", "", regex=True).str.endswith("-total")
    return frame[total] if total.any() else frame
