"""Put rows in order, and match those of one file with the slices of another by name and start time."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.readers.numbers import Int


def outer_first(start_ns: Int, dur_ns: Int | None = None) -> Int:
    """The rows by start, of those that start together the longest first (where they last)."""
    # What was written in order is few runs to merge, and few starts are equal.
    order = np.argsort(start_ns, kind="stable")
    if dur_ns is not None:
        start = start_ns[order]
        together = start[1:] == start[:-1]
        places = np.flatnonzero(np.append(together, False) | np.append(False, together))
        rows = order[places]
        order[places] = rows[np.lexsort((-dur_ns[rows], start[places]))]
    return order


def match(
    names: Categorical, start_ns: Int, other_names: Categorical, other_start_ns: Int, within_ns: int = 1000
) -> Int:
    """For each (name, start) the row of the other table that is the same event, -1 for none; each row is used once.

    Equal starts first (several equal ones pair in order), then the nearest within ``within_ns``: two files round the
    same time differently.
    """
    labels = {label: number for number, label in enumerate(other_names.categories)}
    translate = np.array([*(labels.get(label, -1) for label in names.categories), -1], np.int64)
    name, other_name = translate[names.codes], other_names.codes.astype(np.int64)
    found = np.full(len(start_ns), -1, np.int64)
    left, right = np.flatnonzero(name >= 0), np.flatnonzero(other_name >= 0)
    # Times by their rank: together with a name that is one whole number, in order.
    times = np.sort(np.concatenate([start_ns[left], other_start_ns[right]]), kind="stable")
    rank, other_rank = np.searchsorted(times, start_ns), np.searchsorted(times, other_start_ns)
    width = len(other_names.categories) + 1
    found[left] = _equal(rank[left] * width + name[left], right, other_rank[right] * width + other_name[right])
    used = np.zeros(len(other_start_ns), bool)
    used[found[found >= 0]] = True
    left, right = left[found[left] < 0], right[~used[right]]
    if not len(left) or not len(right):
        return found
    left = left[np.argsort(rank[left], kind="stable")]
    key, other_key = name * len(times) + rank, other_name * len(times) + other_rank
    right = right[np.argsort(other_key[right], kind="stable")]
    after = np.searchsorted(other_key[right], key[left])
    around = right[np.clip([after - 1, after], 0, len(right) - 1)]
    apart = np.abs(other_start_ns[around] - start_ns[left])
    apart[other_name[around] != name[left]] = within_ns + 1
    # Of two that are as near, the one before.
    nearest, apart = np.where(apart[0] <= apart[1], around[0], around[1]), apart.min(axis=0)
    close = np.flatnonzero(apart <= within_ns)
    close = close[np.argsort(apart[close], kind="stable")]
    others, first = np.unique(nearest[close], return_index=True)
    found[left[close[first]]] = others
    return found


def _equal(keys: Int, rows: Int, other_keys: Int) -> Int:
    """For each key the row of an equal other one, -1 for none: the first of several has the first, and so on."""
    order, other_order = np.argsort(keys, kind="stable"), np.argsort(other_keys, kind="stable")
    keys, other_keys = keys[order], other_keys[other_order]
    nth = np.arange(len(keys)) - np.searchsorted(keys, keys)
    places = np.searchsorted(other_keys, keys) + nth
    inside = np.minimum(places, max(0, len(other_keys) - 1))
    equal = places < len(other_keys)
    equal[equal] = other_keys[inside[equal]] == keys[equal]
    found = np.full(len(keys), -1, np.int64)
    found[order[equal]] = rows[other_order[inside[equal]]]
    return found


def take(values: Int, rows: Int, missing: int = -1) -> Int:
    """``values[rows]``, ``missing`` where the row is -1."""
    if not len(values):
        return np.full(len(rows), missing, np.int64)
    return np.where(rows >= 0, values[rows], missing)
