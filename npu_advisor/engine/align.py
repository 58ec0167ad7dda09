"""Match rows of two tables that agree on some columns: what ``join`` and ``compare`` do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_advisor.base.numbering import paired
from npu_advisor.engine.values import Array, Value, column_value, concat
from npu_advisor.model.profile import Profile
from npu_advisor.model.schema import SCHEMA


def partner(left: Sequence[Value], right: Sequence[Value], lengths: tuple[int, int]) -> Array:
    """For each left row the right row whose values are all the same, -1 without one; a missing value equals nothing.

    ``lengths`` are the numbers of rows; no two right rows are the same (of equals, the first is taken).
    """
    size = sum(lengths)
    ids, known = np.zeros(size, dtype=np.int64), np.ones(size, dtype=bool)
    for pair in zip(left, right, strict=True):
        codes = concat(pair).codes()
        known &= codes >= 0
        ids = paired(ids, codes)
    mine, theirs = ids[: lengths[0]], ids[lengths[0] :]
    usable = np.flatnonzero(known[lengths[0] :])
    order = usable[np.argsort(theirs[usable], kind="stable")]
    if not len(order):
        return np.full(lengths[0], -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(theirs[order], mine), len(order) - 1)
    found = (theirs[order][at] == mine) & known[: lengths[0]]
    return np.where(found, order[at], -1)


def by_label(value: Value, profile: Profile) -> Value:
    """A key as what its table is called by (a step's number), so that it can be found in another profile."""
    label = SCHEMA[value.target].label if value.kind == "key" else ""
    return column_value(profile.table(value.target), label, value.data) if label else value
