"""At which clock the AI cores ran while they computed."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import covered, union
from npu_advisor.derive.hardware import CLOCK, CUBE_CORES, VECTOR_CORES, fastest_mhz, hardware
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table


def clock(profile: Profile) -> Table:
    """The ``clock`` table: one row per stretch between two samples of the clock, in time order.

    The last one lasts until the last kernel ends. Nominal is what the chip is built for, where the chip is known, else
    the fastest clock seen: a card that is slow all along cannot be told then.
    """
    counters, kernels = profile.table("counters"), profile.table("kernels")
    rows = np.flatnonzero(np.asarray(counters["name"] == CLOCK)) if len(counters) else np.zeros(0, dtype=np.int64)
    if not len(rows) or not len(kernels):
        return Table.build("clock", {}, profile.rank)
    rows = rows[np.argsort(counters["start_ns"][rows], kind="stable")]
    start = counters["start_ns"][rows]
    end = np.append(start[1:], max(int(kernels["end_ns"].max()), int(start[-1])))
    core = np.asarray(kernels["core"], dtype=object) if "core" in kernels.present else np.array([None] * len(kernels))
    on_core = np.isin(core, (*CUBE_CORES, *VECTOR_CORES))
    busy = union(kernels["start_ns"][on_core], kernels["end_ns"][on_core])
    found = hardware(profile)
    nominal = float(found.chip.mhz) if found is not None and found.chip is not None else fastest_mhz(profile)
    columns = {
        "start_ns": start,
        "dur_ns": end - start,
        "mhz": counters["value"][rows],
        "nominal_mhz": np.full(len(rows), nominal),
        "busy_us": covered(start, end, busy) / 1000.0,
    }
    return Table.build("clock", columns, profile.rank)
