"""What all tables of a database share: lanes, times, order, and looking rows up by id."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_advisor.base.numbering import factorize, first_equal
from npu_advisor.base.whole import narrow, widened
from npu_advisor.readers.join import outer_first
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
        (pids, pid_values), (tids, tid_values) = factorize(pid), factorize(tid)
        rows, both = factorize(pids * max(1, len(tid_values)) + tids)
        one, other = np.divmod(both, max(1, len(tid_values)))
        return self._named(process, pid_values[one], tid_values[other], rows, thread)

    def of_threads(self, process: str, global_tid: Int) -> Columns:
        """The same for host threads, given as ``pid << 32 | tid``."""
        rows, distinct = factorize(widened(global_tid))
        known = distinct >= 0
        pid, tid = np.where(known, distinct >> 32, -1), np.where(known, distinct & 0xFFFFFFFF, -1)
        return self._named(process, pid, tid, rows, "Thread {}")

    def _named(self, process: str, pids: Int, tids: Int, rows: Int, thread: str) -> Columns:
        """The columns, from the lanes by number and the number of each row."""
        tracks = np.zeros(len(pids), np.int64)
        for place, (pid, tid) in enumerate(zip(pids.tolist(), tids.tolist(), strict=True)):
            tracks[place] = self._numbers.setdefault((process, pid, tid), len(self._numbers))
            if len(self._threads) < len(self._numbers):
                self._threads.append(thread.format(tid))
        return {"track": narrow(tracks)[rows], "pid": narrow(pids)[rows], "tid": narrow(tids)[rows]}

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
    start, end = widened(start), widened(end)
    told = (start > 0) & (start < _LATEST)
    start = np.where(told, start, -1)
    duration = np.where(told & (end > 0) & (end < _LATEST), end - start, -1)
    bad = (duration < 0) | (duration > DAY_NS)
    return start, np.where(bad, 0, duration), bad


def instant(at: Int) -> Int:
    """A time in ns; -1 where impossible."""
    at = widened(at)
    return np.where((at > 0) & (at < _LATEST), at, -1)


def by_start(columns: Columns) -> Columns:
    """The rows in start order, outer before inner."""
    order = outer_first(columns["start_ns"], columns.get("dur_ns"))
    return {name: values[order] for name, values in columns.items()}


def keep(columns: Columns, rows: Bool | Int) -> Columns:
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


def alike(values: Int, starts: Int) -> tuple[Int, Int]:
    """The number of each run of values, which begin at ``starts``: equal runs have one, in the order met; and the first
    run of each number.

    Runs whose values add up to the same, each times a power of its own, are compared value by value with the first.
    """
    counts = np.diff(starts, append=len(values))
    within = np.arange(len(values)) - np.repeat(starts, counts)
    leader = np.arange(len(starts))
    rest, odd = leader, _ODD
    while len(rest):
        powers = np.cumprod(np.full(int(counts.max()), odd, np.uint64))
        sums = np.add.reduceat(values.astype(np.uint64) * powers[within], starts)[rest]
        leader[rest] = rest[first_equal(sums[:, None])]
        place = np.minimum(np.repeat(starts[leader], counts) + within, len(values) - 1)
        differ = np.logical_or.reduceat(values != values[place], starts) | (counts != counts[leader])
        rest, odd = np.flatnonzero(differ), odd + 2
    return factorize(leader)


# Odd, so that no power of it is nothing in 64 bits.
_ODD = 0x9E3779B97F4A7C15
