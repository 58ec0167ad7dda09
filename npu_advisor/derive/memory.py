"""What was alive when allocated memory peaked."""

from __future__ import annotations

import numpy as np

from npu_advisor.derive.facts import memory_peak
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

BEFORE = "(before the recording)"


def peak_owners(profile: Profile) -> Table:
    """The ``peak_owners`` table: allocations alive at the peak, largest first, and one row for what came before.

    An allocation is alive from its allocation to its release; a blank release means it outlived the recording.
    Without samples of the allocator the peak cannot be placed and the table is empty.
    """
    allocs, steps = profile.table("allocs"), profile.table("steps")
    peak = memory_peak(profile, "allocated_bytes")
    if peak is None or not profile.has("allocs"):
        return Table.build("peak_owners", {}, profile.rank)
    release = allocs["release_ns"]
    alive = (allocs["start_ns"] <= peak.at_ns) & ((release < 0) | (release > peak.at_ns)) & (allocs["size_bytes"] > 0)
    rows = np.flatnonzero(alive)
    rows = rows[np.argsort(-allocs["size_bytes"][rows], kind="stable")]
    size = allocs["size_bytes"][rows]
    before = max(peak.size_bytes - float(size.sum()), 0.0)
    step = allocs["step"][rows]
    ends = steps["end_ns"][np.maximum(step, 0)] if len(steps) else np.zeros(len(rows), dtype=np.int64)
    temporary = (release[rows] >= 0) & (step >= 0) & (release[rows] <= ends)
    life = np.where(temporary, "temporary", "step").astype(object)
    nobody = np.array([-1])
    columns = {
        "name": np.append(allocs.strings("name")[rows], BEFORE),
        "size_bytes": np.append(size, before),
        "share": np.append(size, before) / peak.size_bytes if peak.size_bytes else np.zeros(len(rows) + 1),
        "start_ns": np.append(allocs["start_ns"][rows], nobody),
        "dur_ns": np.append(allocs["dur_ns"][rows], 0),
        "recorded": np.append(np.ones(len(rows), dtype=bool), False),
        "life": np.append(life, "step"),
        "alloc": np.append(rows, nobody),
        "op": np.append(allocs["op"][rows], nobody),
        "step": np.append(step, nobody),
        "source": [*allocs.strings("source")[rows], None],
        "source_how": [*allocs.strings("source_how")[rows], None],
    }
    return Table.build("peak_owners", columns, profile.rank)
