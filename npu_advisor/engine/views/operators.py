"""What the host does: torch ops by name, by name and shapes, and by call stack.

Device times are the profiler's own (operator_details.csv) where they were read. Otherwise an op's device self time is
the summed duration of the kernels, collectives and device tasks it launched, its total that of all ops below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npu_advisor.base.intervals import Floats, Mask
from npu_advisor.engine.views.tables import heaviest, table_view, text
from npu_advisor.graph.named import STEP_MARK, starting
from npu_advisor.model.profile import Profile
from npu_advisor.views import TableView, Unit

TIMES = ("host_self_us", "host_total_us", "device_self_us", "device_total_us")
_UNITS: dict[str, Unit] = {"calls": "count", **dict.fromkeys(TIMES, "us")}
MAX_STACKS, MAX_SHAPES = 20, 120


def operator_tables(profile: Profile) -> dict[str, TableView]:
    """The tables of the Operator view; none where no op was recorded."""
    frame = operator_frame(profile)
    if frame.empty:
        return {}
    file = "operator_details.csv" if profile.has("op_details") else "trace_view.json"
    made = {"operator": _table(frame, ["name"], {"name": "text", **_UNITS, "source": "line"}, file)}
    if frame["shapes"].notna().any():
        made["operator_shape"] = _table(
            frame, ["name", "shapes"], {"name": "text", "shapes": "text", **_UNITS}, file, MAX_SHAPES
        )
    if frame["stack"].notna().any():
        stacked = frame[frame["stack"].notna()]
        made["operator_stack"] = _table(
            stacked, ["name", "stack"], {"name": "text", "stack": "stack", **_UNITS}, file, MAX_STACKS
        )
    return made


def _table(
    frame: pd.DataFrame, by: list[str], units: dict[str, Unit], file: str, limit: int | None = None
) -> TableView:
    grouped = frame.groupby(by, dropna=False, sort=False)
    made = grouped[list(TIMES)].sum(min_count=1).assign(calls=grouped.size())
    if "source" in units:
        made["source"] = heaviest(frame, by, "source", "host_self_us")
    made = made.reset_index().sort_values("host_self_us", ascending=False, kind="stable")
    name = "operator" if len(by) == 1 else f"operator_{'shape' if by[1] == 'shapes' else by[1]}"
    return table_view(name, made, units, file) if limit is None else table_view(name, made, units, file, limit)


def operator_frame(profile: Profile) -> pd.DataFrame:
    """One row per torch op, step marks left out: name, shapes, stack, source and the four times in us."""
    ops, details = profile.table("ops"), profile.table("op_details")
    rows = np.flatnonzero(~starting(ops, STEP_MARK))
    named = pd.DataFrame({name: text(ops[name])[rows] for name in ("name", "shapes", "stack", "source")})
    named = named.reset_index(drop=True)
    order = np.argsort(ops["start_ns"][rows], kind="stable")
    if len(details) == len(rows) and len(rows):
        ordered = named.iloc[order].reset_index(drop=True)
        if (ordered["name"] == text(details["name"])).all():
            return ordered.assign(**{name: details[name] for name in TIMES})
    if len(details):
        # The two lists do not agree, so only the names can be trusted to go with the times.
        blank = dict.fromkeys(("shapes", "stack", "source"))
        return pd.DataFrame({"name": text(details["name"]), **blank, **{name: details[name] for name in TIMES}})
    device_self, device_total = _device_times(profile)
    times: dict[str, Any] = {
        "host_self_us": ops["self_us"][rows],
        "host_total_us": ops["dur_us"][rows],
        "device_self_us": device_self[rows],
        "device_total_us": device_total[rows],
    }
    return named.assign(**times)


def _device_times(profile: Profile) -> tuple[Floats, Floats]:
    """Self and total device time of every op in us."""
    ops = profile.table("ops")
    own = np.zeros(len(ops))
    for name in ("kernels", "comms", "tasks"):
        table = profile.table(name)
        known: Mask = table["op"] >= 0
        own += np.bincount(table["op"][known], weights=table["dur_us"][known], minlength=len(ops))
    by_order = np.zeros(len(ops))
    by_order[ops["pre"]] = own
    before = np.concatenate(([0.0], np.cumsum(by_order)))
    return own, before[ops["last"] + 1] - before[ops["pre"]]
