"""What all tables of a database share: lanes, times, order, and looking rows up by id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npu_advisor.readers.numbers import DAY_NS, Bool, Int
from npu_advisor.readers.trace_tables import Columns

_LATEST = 2**62


class Lanes:
    """Track numbers by (process, pid, tid), and the table ``tracks``."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._threads: list[str] = []

    def of(self, process: str, pid: Int, tid: Int, thread: str) -> Columns:
        """Columns track, pid and tid; ``thread`` is the lane's name with ``{}`` for the tid."""
        pids, pid_values = pd.factorize(pid)
        tids, tid_values = pd.factorize(tid)
        both, uniques = pd.factorize(pids * max(1, len(tid_values)) + tids)
        tracks = np.empty(len(uniques), np.int64)
        for place, unique in enumerate(np.asarray(uniques).tolist()):
            one, other = divmod(unique, len(tid_values))
            key = (process, int(pid_values[one]), int(tid_values[other]))
            tracks[place] = self._numbers.setdefault(key, len(self._numbers))
            if len(self._threads) < len(self._numbers):
                self._threads.append(thread.format(key[2]))
        return {"track": tracks[both], "pid": pid, "tid": tid}

    def of_threads(self, process: str, global_tid: Int) -> Columns:
        """The same for host threads, given as ``pid << 32 | tid``."""
        named = global_tid >= 0
        pid, tid = np.where(named, global_tid >> 32, -1), np.where(named, global_tid & 0xFFFFFFFF, -1)
        return self.of(process, pid, tid, "Thread {}")

    def table(self) -> Columns:
        """The columns of ``tracks``."""
        keys: list[Any] = list(self._numbers)
        return {
            "process": np.array([key[0] for key in keys], dtype=object),
            "thread": np.array(self._threads, dtype=object),
            "pid": np.array([key[1] for key in keys], np.int64),
            "tid": np.array([key[2] for key in keys], np.int64),
        }


def span(start: Int, end: Int) -> tuple[Int, Int, Bool]:
    """Start and duration in ns (-1 and 0 where impossible), and which durations are (negative, over a day, unknown)."""
    told = (start > 0) & (start < _LATEST)
    start = np.where(told, start, -1)
    duration = np.where(told & (end > 0) & (end < _LATEST), end - start, -1)
    bad = (duration < 0) | (duration > DAY_NS)
    return start, np.where(bad, 0, duration), bad


def instant(at: Int) -> Int:
    """A time in ns; -1 where impossible."""
    return np.where((at > 0) & (at < _LATEST), at, -1)


def by_start(columns: Columns) -> Columns:
    """The rows in start order, outer before inner."""
    start: Int = columns["start_ns"]
    duration: Int = columns.get("dur_ns", start)
    order = np.lexsort((-duration, start))
    return {name: values[order] for name, values in columns.items()}


def keep(columns: Columns, rows: Bool) -> Columns:
    """Only the chosen rows."""
    return {name: values[rows] for name, values in columns.items()}


def of_device(columns: Columns, device: int) -> Columns:
    """The rows of the device, and those that name none."""
    own = columns.pop("deviceId")
    return keep(columns, (own == device) | (own < 0)) if device >= 0 else columns


def rows_of(ids: Int, wanted: Int) -> Int:
    """For each wanted id the first row that has it, -1 for none."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    row = order[place]
    return np.where(ids[row] == wanted, row, -1)
