"""Kernels by class and by type on both sides, and the types that only one side launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from npu_advisor.compare.inner import inner_paths
from npu_advisor.compare.match import Recording
from npu_advisor.compare.noise import change
from npu_advisor.compare.vocabulary import class_names, kernel_class
from npu_advisor.comparison import ClassChange, Normalised, OneSided
from npu_advisor.findings import Location

# Between devices every kernel has another name; what counts there is the work that only one of them has to do.
INSERTED = ("conversion", "copy")
_MOST_LINES, _MOST_OPS = 10, 5
# Table, its column that says what ran, and the class of all its rows where that is known beforehand.
_TABLES = (("kernels", "type", ""), ("comms", "type", "communication"), ("tasks", "name", "copy"))


def used(recordings: Sequence[Recording]) -> pd.DataFrame:
    """Kernels, copies and collectives of the steps that count: type, class, op, source, group, inner (path inside the
    call), us; the number of steps is in ``attrs["steps"]``."""
    frames = []
    for recording in recordings:
        for name, type_of, fixed in _TABLES:
            table = recording.profile.table(name)
            chosen = np.isin(table["step"], recording.steps)
            if name == "tasks":
                chosen &= np.asarray(table["kind"] == "copy")
            rows = np.flatnonzero(chosen)
            op = table["op"][rows]
            frame = pd.DataFrame(
                {
                    "type": table.strings(type_of)[rows],
                    "op": np.append(recording.profile.table("ops").strings("name"), "")[op],
                    "source": table.strings("source")[rows],
                    "group": np.append(recording.group, -1)[np.append(recording.calls.of_op, -1)[op]],
                    "us": table["dur_us"][rows],
                    "inner": inner_paths(recording.profile, recording.calls, op),
                    "table": name,
                }
            )
            frames.append(frame.assign(kernel_class=fixed))
    found = pd.concat(frames, ignore_index=True)
    found["type"] = found["type"].fillna("")
    open_ = (found["kernel_class"] == "").to_numpy()
    named = [kernel_class(*pair) for pair in zip(found["type"][open_], found["op"][open_].fillna(""), strict=True)]
    found.loc[open_, "kernel_class"] = named
    found.attrs["steps"] = max(sum(len(recording.steps) for recording in recordings), 1)
    return found


def classes(base: pd.DataFrame, new: pd.DataFrame, ratios: Mapping[str, Normalised]) -> list[ClassChange]:
    """Launches and time of every class that either side has, the longest first; with the ratio that is known of it."""
    tables = [side.groupby("kernel_class")["us"].agg(["size", "sum"]) / side.attrs["steps"] for side in (base, new)]
    found = []
    for name in class_names():
        figures = [table.loc[name] if name in table.index else None for table in tables]
        if any(figure is not None for figure in figures):
            counts, times = (
                [float(figure[column]) if figure is not None else 0.0 for figure in figures]
                for column in ("size", "sum")
            )
            kernels, us = change("kernels", counts), change("us", times)
            found.append(ClassChange(name=name, kernels=kernels, us=us, normalised=ratios.get(name)))
    return sorted(found, key=lambda each: -max(each.us.base or 0.0, each.us.new or 0.0))


def one_sided(
    base: pd.DataFrame, new: pd.DataFrame, place: Callable[[str | None], Location | None], same_device: bool
) -> list[OneSided]:
    """Kernel types that only one side launches, heaviest first; between devices only conversions and copies."""
    found = []
    for side, mine, other in (("base", base, new), ("new", new, base)):
        alone = mine[(mine["table"] == "kernels") & ~mine["type"].isin(set(other["type"]))]
        if not same_device:
            alone = alone[alone["kernel_class"].isin(INSERTED)]
        for (name, of_class), rows in alone.groupby(["type", "kernel_class"]):
            lines = rows.groupby("source")["us"].sum().sort_values(ascending=False, kind="stable")
            ops = rows.groupby("op")["us"].sum().sort_values(ascending=False, kind="stable")
            places = [place(str(line)) for line in lines.index[:_MOST_LINES]]
            found.append(
                OneSided(
                    side="base" if side == "base" else "new",
                    type=str(name),
                    kernel_class=str(of_class),
                    kernels=len(rows) / mine.attrs["steps"],
                    us=float(rows["us"].sum()) / mine.attrs["steps"],
                    locations=[each for each in places if each is not None],
                    ops=[str(op) for op in ops.index[:_MOST_OPS] if op],
                )
            )
    return sorted(found, key=lambda each: -each.us)


def types_by_group(side: pd.DataFrame) -> dict[int, dict[str, float]]:
    """By group of calls: the kernel types launched, and how many of each per step."""
    kernels = side[(side["group"] >= 0) & (side["table"] == "kernels")]
    found: dict[int, dict[str, float]] = {}
    sizes = kernels.groupby(["group", "type"], as_index=False).size()
    for group, name, count in zip(*(sizes[column].tolist() for column in ("group", "type", "size")), strict=True):
        found.setdefault(group, {})[name] = count / side.attrs["steps"]
    return found
