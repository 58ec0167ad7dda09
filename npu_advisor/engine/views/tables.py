"""From a data frame to the bounded, plain table that reports show."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from npu_advisor.base.categorical import Categorical
from npu_advisor.views import Cell, TableView, Unit, ViewColumn

# Enough to read, little enough to open from a mail.
MAX_ROWS = 400
LONGEST_TEXT = 120


def table_view(
    name: str, frame: pd.DataFrame, units: dict[str, Unit], file: str = "", limit: int | None = MAX_ROWS
) -> TableView:
    """The first ``limit`` rows of ``frame`` (None: all, and long texts whole) with the columns of ``units``; columns
    that hold nothing are left out."""
    shown = [key for key in units if key in frame and frame[key].notna().any()] if len(frame) else list(units)
    head = frame.iloc[:limit]
    longest = LONGEST_TEXT if limit is not None else None
    cells = [[_cell(value, units[key], longest) for value in head[key].tolist()] for key in shown if key in frame]
    return TableView(
        name=name,
        columns=tuple(ViewColumn(key, units[key]) for key in shown if key in frame),
        rows=[list(row) for row in zip(*cells, strict=True)],
        total=len(frame),
        file=file,
    )


def _cell(value: Any, unit: Unit, longest: int | None) -> Cell:
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, float | np.floating):
        # Times are exact to the ns, shares to what is printed of them and a little more.
        return round(float(value), 3 if unit in ("us", "bytes", "gbs", "percent") else 6)
    if isinstance(value, str) and unit != "stack" and longest is not None and len(value) > longest:
        return value[: longest // 2] + "…" + value[-longest // 2 :]
    return value if isinstance(value, str | bool) else int(value)


def text(values: Categorical) -> pd.Series[Any]:
    """A column as plain text, None where missing."""
    return pd.Series(np.asarray(values), dtype=object)


def heaviest(frame: pd.DataFrame, by: list[str], column: str, weight: str) -> pd.Series[Any]:
    """For each group of ``by`` the value of ``column`` with the largest summed ``weight``; missing ones never win."""
    known = frame[frame[column].notna()]
    if known.empty:
        return pd.Series(dtype=object)
    sums = known.groupby([*by, column], dropna=False, sort=False)[weight].sum().reset_index()
    best = sums.sort_values(weight, ascending=False, kind="stable").drop_duplicates(by)
    return best.set_index(by)[column]
