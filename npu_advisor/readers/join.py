"""Match the rows of one file with the slices of another by name and start time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npu_advisor.base.categorical import Categorical
from npu_advisor.readers.numbers import Int


def match(
    names: Categorical, start_ns: Int, other_names: Categorical, other_start_ns: Int, within_ns: int = 1000
) -> Int:
    """For each (name, start) the row of the other table that is the same event, -1 for none; each row is used once.

    Equal starts first (several equal ones pair in order), then the nearest within ``within_ns``: two files round the
    same time differently.
    """
    labels = {label: number for number, label in enumerate(other_names.categories)}
    translate = np.array([*(labels.get(label, -2) for label in names.categories), -2], np.int64)
    left = pd.DataFrame({"name": translate[names.codes], "start": start_ns, "row": np.arange(len(start_ns))})
    right = pd.DataFrame({"name": other_names.codes.astype(np.int64), "start": other_start_ns})
    right["other"] = np.arange(len(right))
    left, right = left[left["name"] >= 0], right[right["name"] >= 0]
    found = np.full(len(start_ns), -1, np.int64)
    keys = ["name", "start"]
    left = left.assign(nth=left.groupby(keys).cumcount())
    right = right.assign(nth=right.groupby(keys).cumcount())
    exact = left.merge(right, on=[*keys, "nth"])
    found[exact["row"].to_numpy()] = exact["other"].to_numpy()
    left = left[~left["row"].isin(exact["row"])].sort_values("start")
    right = right[~right["other"].isin(exact["other"])].sort_values("start")
    if len(left) and len(right):
        right = right.assign(there=right["start"])
        near = pd.merge_asof(left, right, on="start", by="name", direction="nearest", tolerance=within_ns)
        near = near[near["other"].notna()]
        near = near.assign(apart=(near["start"] - near["there"]).abs()).sort_values("apart", kind="stable")
        near = near.drop_duplicates("other")
        found[near["row"].to_numpy()] = near["other"].to_numpy(np.int64)
    return found


def take(values: Int, rows: Int, missing: int = -1) -> Int:
    """``values[rows]``, ``missing`` where the row is -1."""
    if not len(values):
        return np.full(len(rows), missing, np.int64)
    return np.where(rows >= 0, values[rows], missing)
