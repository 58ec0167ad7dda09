"""What is alive: memory curves, the peak and its owners, and allocations by op."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.derive.facts import memory_peak
from npu_advisor.engine.views.tables import heaviest, table_view, text
from npu_advisor.model.profile import Profile
from npu_advisor.views import Curve, MemoryView, TableView

# A chart is about this many pixels wide; each bucket keeps its lowest and highest sample.
BUCKETS = 300
_COLUMNS: tuple[Literal["allocated", "reserved", "active"], ...] = ("allocated", "reserved", "active")


def memory_view(profile: Profile, epoch_ns: int) -> MemoryView | None:
    """The curves of every component and the peak; None where memory was not recorded."""
    memory = profile.table("memory")
    if not len(memory):
        return None
    names = memory.strings("component")
    curves = []
    for component in dict.fromkeys(names.tolist()):
        rows = np.flatnonzero(names == component)
        for what in _COLUMNS:
            values = memory[f"{what}_bytes"][rows]
            known = np.isfinite(values)
            if known.any():
                at = (memory["start_ns"][rows][known] - epoch_ns) / 1000.0
                curves.append(_curve(str(component), what, at, values[known]))
    peak = memory_peak(profile, "allocated_bytes")
    steps = profile.table("steps")
    return MemoryView(
        curves=curves,
        peak_bytes=peak.size_bytes if peak else None,
        peak_at_us=(peak.at_ns - epoch_ns) / 1000.0 if peak else None,
        steps_us=[
            ((int(start) - epoch_ns) / 1000.0, (int(end) - epoch_ns) / 1000.0)
            for start, end in zip(steps["start_ns"][:50], steps["end_ns"][:50], strict=True)
        ],
    )


def _curve(component: str, what: Literal["allocated", "reserved", "active"], at: Floats, values: Floats) -> Curve:
    kept = _extremes(values)
    return Curve(
        component=component,
        what=what,
        at_us=[round(value, 1) for value in at[kept].tolist()],
        size_bytes=values[kept].tolist(),
        samples=len(values),
    )


def _extremes(values: Floats) -> Ints:
    """Ascending positions of the first, last, lowest and highest value of each of ``BUCKETS`` equal parts."""
    if len(values) <= 4 * BUCKETS:
        return np.arange(len(values))
    kept = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), BUCKETS):
        kept |= {int(part[0]), int(part[np.argmin(values[part])]), int(part[np.argmax(values[part])])}
    return np.array(sorted(kept), dtype=np.int64)


def memory_tables(profile: Profile) -> dict[str, TableView]:
    """The tables of the Memory view."""
    made = {}
    if len(owners := profile.table("peak_owners")):
        frame = pd.DataFrame(
            {name: text(owners[name]) for name in ("name", "source", "life")}
            | {name: owners[name] for name in ("size_bytes", "share")}
        )
        made["memory_peak"] = table_view("memory_peak", _by_owner(frame), _OWNER_UNITS, "operator_memory.csv")
    if len(allocs := profile.table("allocs")):
        made["memory_operator"] = table_view(
            "memory_operator", _by_operator(allocs), _OPERATOR_UNITS, "operator_memory.csv"
        )
    if len(modules := profile.table("module_memory")):
        frame = pd.DataFrame({"component": text(modules["component"]), "size_bytes": modules["reserved_bytes"]})
        largest = frame.groupby("component", sort=False)["size_bytes"].max().rename("peak_bytes").reset_index()
        made["memory_module"] = table_view(
            "memory_module",
            largest[largest["peak_bytes"] > 0].sort_values("peak_bytes", ascending=False, kind="stable"),
            {"component": "text", "peak_bytes": "bytes"},
            "npu_module_mem.csv",
        )
    return made


_OWNER_UNITS: Any = {
    "name": "text",
    "source": "line",
    "size_bytes": "bytes",
    "share": "share",
    "blocks": "count",
    "largest_bytes": "bytes",
    "life": "text",
}
_OPERATOR_UNITS: Any = {
    "name": "text",
    "blocks": "count",
    "size_bytes": "bytes",
    "largest_bytes": "bytes",
    "mean_life_us": "us",
    "kept": "count",
    "source": "line",
}


def _by_owner(frame: pd.DataFrame) -> pd.DataFrame:
    grouped = frame.groupby(["name", "source", "life"], dropna=False, sort=False)
    made = grouped.agg(
        size_bytes=("size_bytes", "sum"),
        share=("share", "sum"),
        blocks=("size_bytes", "size"),
        largest_bytes=("size_bytes", "max"),
    )
    return made.reset_index().sort_values("size_bytes", ascending=False, kind="stable")


def _by_operator(allocs: Any) -> pd.DataFrame:
    released = allocs["release_ns"] >= 0
    frame = pd.DataFrame(
        {
            "name": text(allocs["name"]),
            "source": text(allocs["source"]),
            "size_bytes": allocs["size_bytes"],
            "life_us": np.where(released, allocs["dur_us"], np.nan),
            "kept": ~released,
        }
    )
    grouped = frame.groupby("name", dropna=False, sort=False)
    made = grouped.agg(
        blocks=("size_bytes", "size"),
        size_bytes=("size_bytes", "sum"),
        largest_bytes=("size_bytes", "max"),
        mean_life_us=("life_us", "mean"),
        kept=("kept", "sum"),
    )
    made["source"] = heaviest(frame, ["name"], "source", "size_bytes")
    return made.reset_index().sort_values("size_bytes", ascending=False, kind="stable")
