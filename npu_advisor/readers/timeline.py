"""Times that cannot be true: one flipped digit would stretch the recording, and a step of it, over years."""

from __future__ import annotations

import numpy as np

from npu_advisor.readers.notes import Notes, some
from npu_advisor.readers.numbers import DAY_NS
from npu_advisor.readers.trace_tables import Columns

_HOST = ("ops", "frames", "enqueues", "dequeues", "apis", "gcs")
_DEVICE = ("kernels", "tasks", "comms", "comm_tasks")


def lose_strays(columns: dict[str, Columns], notes: Notes) -> None:
    """Make every start (ns) that lies more than a day from the middle of the recording a lost one (-1), and say so."""
    timed = {name: columns[name]["start_ns"] for name in (*_HOST, *_DEVICE) if "start_ns" in columns.get(name, ())}
    known = np.concatenate([np.zeros(0, np.int64), *(start[start >= 0] for start in timed.values())])
    if not len(known):
        return
    # A time that was recorded: the mean of two that are years apart would be a stray's neighbour, or nobody's.
    half = len(known) // 2
    middle = np.partition(known, half)[half]
    strays = {name: (start >= 0) & (np.abs(start - middle) > DAY_NS) for name, start in timed.items()}
    found = [f"{name}: {int(stray.sum())}" for name, stray in strays.items() if stray.any()]
    for name, stray in strays.items():
        if stray.any():
            columns[name] = {**columns[name], "start_ns": np.where(stray, -1, timed[name])}
    if found:
        notes.say("bad_timestamp", "warning", "", "bad_timestamp_stray", kinds=some(found, limit=10))
