"""Rows by what their names begin with: step marks, optimizer steps, and the ops that only hold others."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Mask
from npu_advisor.model.table import Table

STEP_MARK = "ProfilerStep#"
OPTIMIZER_STEP = "Optimizer.step#"
# Ops that hold others but are no call of the user's code by themselves.
WRAPPERS = (STEP_MARK, "Optimizer.", "DistributedDataParallel.", "nn.Module:")


def starting(table: Table, starts: str | tuple[str, ...], exact: str = "") -> Mask:
    """Which rows' names start with ``starts`` (one of them, where there are several) or are ``exact``."""
    names = table["name"]
    # The last entry stands for code -1, a row without a name.
    matching = [str(name).startswith(starts) or str(name) == exact for name in names.categories]
    match = np.array([*matching, False], dtype=bool)
    found: Mask = match[names.codes]
    return found
