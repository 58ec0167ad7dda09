"""What the host does: torch ops by name, by name and shapes, and by call stack.

Device times are the profiler's own (operator_details.csv) where they were read. Otherwise an op's device self time is
the summed duration of the kernels, collectives and device tasks it launched, its total that of all ops below it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from npu_advisor.base.intervals import Floats, Ints, Mask
from npu_advisor.engine.views.tables import heaviest, table_view, text
from npu_advisor.graph.named import STEP_MARK, starting
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table
from npu_advisor.views import TableView, Unit

TIMES = ("host_self_us", "host_total_us", "device_self_us", "device_total_us")
_UNITS: dict[str, Unit] = {"calls": "count", **dict.fromkeys(TIMES, "us")}
MAX_STACKS, MAX_SHAPES = 16, 80


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
    listed = _unmarked(details)
    times = _as_written(profile)
    if len(listed) and times is None:
        # The two lists do not agree, so only the names can be trusted to go with the times.
        blank = dict.fromkeys(("shapes", "stack", "source"))
        names = text(details["name"]).to_numpy()[listed]
        return pd.DataFrame({"name": names, **blank, **{name: details[name][listed] for name in TIMES}})
    rows, times = _unmarked(ops), times or _computed(profile)
    named = {name: text(ops[name]).to_numpy()[rows] for name in ("name", "shapes", "stack", "source")}
    return pd.DataFrame({**named, **{name: values[rows] for name, values in times.items()}})


def op_times(profile: Profile) -> dict[str, Floats]:
    """The four times of every row of ``ops`` in us: the profiler's own where its list goes with the trace."""
    return _as_written(profile) or _computed(profile)


def _unmarked(table: Table) -> Ints:
    """Rows in time order that are no step marks: torch_npu leaves those out of operator_details.csv."""
    rows = np.flatnonzero(~starting(table, STEP_MARK))
    return rows[np.argsort(table["start_ns"][rows], kind="stable")] if table.spec.timed else rows


def _as_written(profile: Profile) -> dict[str, Floats] | None:
    """The times of operator_details.csv for every row of ``ops``, NaN for step marks; None where it was not read or
    lists other ops than the trace."""
    ops, details = profile.table("ops"), profile.table("op_details")
    rows, listed = _unmarked(ops), _unmarked(details)
    same = len(rows) == len(listed) and len(rows) > 0
    if not same or not np.array_equal(ops.strings("name")[rows], details.strings("name")[listed]):
        return None
    made = {}
    for name in TIMES:
        made[name] = np.full(len(ops), np.nan)
        made[name][rows] = details[name][listed]
    return made


def _computed(profile: Profile) -> dict[str, Floats]:
    """Host times from the trace, device times from the tasks each op launched."""
    ops = profile.table("ops")
    own = np.zeros(len(ops))
    for name in ("kernels", "comms", "tasks"):
        table = profile.table(name)
        known: Mask = table["op"] >= 0
        own += np.bincount(table["op"][known], weights=table["dur_us"][known], minlength=len(ops))
    by_order = np.zeros(len(ops))
    by_order[ops["pre"]] = own
    before = np.concatenate(([0.0], np.cumsum(by_order)))
    below = before[ops["last"] + 1] - before[ops["pre"]]
    return dict(zip(TIMES, (ops["self_us"], ops["dur_us"], own, below), strict=True))
