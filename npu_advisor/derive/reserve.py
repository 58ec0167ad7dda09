"""Memory over time: what the allocator holds without using it, and what stays behind after each step."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

# The pool of torch's caching allocator; GE and the runtime hold memory that no setting of it changes.
POOL = "PTA"


def _pool(profile: Profile) -> tuple[Table, Ints]:
    memory = profile.table("memory")
    rows = np.flatnonzero(np.asarray(memory["component"] == POOL)) if len(memory) else np.zeros(0, dtype=np.int64)
    return memory, rows[memory["start_ns"][rows] >= 0]


def fragmentation(profile: Profile) -> Table:
    """The ``fragmentation`` table: one row per sample of the pool, lasting until the next one, in time order.

    ``most_reserved`` marks where the pool is largest; of several samples, the one that uses most of it.
    """
    memory, rows = _pool(profile)
    reserved, allocated = memory["reserved_bytes"][rows], memory["allocated_bytes"][rows]
    rows = rows[np.isfinite(reserved) & np.isfinite(allocated) & (reserved > 0)]
    if not len(rows):
        return Table.build("fragmentation", {}, profile.rank)
    start = memory["start_ns"][rows]
    reserved, allocated = memory["reserved_bytes"][rows], memory["allocated_bytes"][rows]
    largest = np.zeros(len(rows), dtype=bool)
    largest[np.lexsort((-allocated, -reserved))[0]] = True
    columns = {
        "start_ns": start,
        "dur_ns": np.append(np.diff(start), 0),
        "reserved_bytes": reserved,
        "allocated_bytes": allocated,
        "unused_bytes": np.maximum(reserved - allocated, 0.0),
        "unused_share": np.maximum(reserved - allocated, 0.0) / reserved,
        "most_reserved": largest,
    }
    return Table.build("fragmentation", columns, profile.rank)


def step_memory(profile: Profile) -> Table:
    """The ``step_memory`` table: what is allocated when each step ends, and how much more than when it began.

    Only steps that begin and end between samples have a row.
    """
    memory, rows = _pool(profile)
    steps = profile.table("steps")
    rows = rows[np.isfinite(memory["allocated_bytes"][rows])]
    at, allocated = memory["start_ns"][rows], memory["allocated_bytes"][rows]
    numbered = np.flatnonzero((steps["number"] >= 0) & steps["complete"]) if len(steps) else np.zeros(0, dtype=np.int64)
    begin = np.searchsorted(at, steps["start_ns"][numbered], side="right") - 1
    end = np.searchsorted(at, steps["end_ns"][numbered], side="right") - 1
    known = (begin >= 0) & (end > begin)
    if not known.any():
        return Table.build("step_memory", {}, profile.rank)
    numbered, begin, end = numbered[known], begin[known], end[known]
    columns = {
        "start_ns": steps["start_ns"][numbered],
        "dur_ns": steps["dur_ns"][numbered],
        "begin_bytes": allocated[begin],
        "end_bytes": allocated[end],
        "growth_bytes": allocated[end] - allocated[begin],
        "step": numbered,
    }
    return Table.build("step_memory", columns, profile.rank)
