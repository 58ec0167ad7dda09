"""Intervals that belong to somebody: unions per owner, and what lies under each row; int64 ns, half open."""

from __future__ import annotations

import numpy as np

from npu_advisor.engine.values import Array


def union_per_owner(owner: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
    """The disjoint intervals that cover the same time of each owner; sorted by owner, then time."""
    real = end > start
    owner, start, end = owner[real], start[real], end[real]
    if not len(owner):
        return owner, start, end
    order = np.lexsort((start, owner))
    owner, start, end = owner[order], start[order], end[order]
    reach = running_end(owner, end)
    fresh = np.ones(len(owner), dtype=bool)
    fresh[1:] = (owner[1:] != owner[:-1]) | (start[1:] > reach[:-1])
    heads = np.flatnonzero(fresh)
    tails = np.append(heads[1:], len(owner)) - 1
    return owner[heads], start[heads], reach[tails]


def running_end(owner: Array, end: Array) -> Array:
    """The latest end so far within each owner; rows ordered by owner."""
    if not len(end):
        return end
    number = np.cumsum(np.diff(owner, prepend=owner[:1]) != 0)
    low, room = int(end.min()), int(end.max()) - int(end.min()) + 1
    place, known = end - low, None
    if room * (int(number[-1]) + 1) >= 2**63:  # rows without a time lie decades before all others
        known, place = np.unique(end, return_inverse=True)
        room = len(known)
    # Each owner is lifted above all before it, so that one sweep serves them all.
    reach = np.maximum.accumulate(place + number * room) - number * room
    return np.asarray(reach + low if known is None else known[reach], dtype=np.int64)


def total_per_owner(owner: Array, start: Array, end: Array, owners: int) -> Array:
    """Covered ns of each owner 0 .. owners-1."""
    who, begins, ends = union_per_owner(owner, start, end)
    out = np.zeros(owners, dtype=np.int64)
    np.add.at(out, who, ends - begins)
    return out


def overlap(start: Array, end: Array, begins: Array, ends: Array) -> tuple[Array, Array, Array]:
    """The parts of a disjoint sorted union that lie in each row's [start, end).

    Returns offsets (rows + 1) into the two arrays of clipped starts and ends.
    """
    first = np.searchsorted(ends, start, side="right")
    last = np.maximum(np.searchsorted(begins, end, side="left"), first)
    counts = np.where(end > start, last - first, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    rows = np.repeat(np.arange(len(start)), counts)
    at = np.arange(offsets[-1]) - offsets[:-1][rows] + first[rows]
    return offsets, np.maximum(begins[at], start[rows]), np.minimum(ends[at], end[rows])
