"""Steps: which step everything belongs to, and where each step's time goes."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from npu_advisor.base.intervals import Floats, Ints, Mask, Spans, covered, subtract, union
from npu_advisor.base.messages import say
from npu_advisor.model.profile import KERNELS_LOST, WHOLE_KERNELS, Diagnostic, Profile
from npu_advisor.model.table import Table

_MARK = re.compile(r"^ProfilerStep#(\d{1,9})$")
HOST_TABLES = ("ops", "enqueues", "apis", "gcs", "allocs")
DEVICE_TABLES = ("kernels", "tasks", "comms")


def assign_steps(profile: Profile) -> None:
    """Make ``steps`` from the ProfilerStep marks and fill every ``step`` key.

    Host events belong to the step they start in, on any thread; queue entries and device tasks to the step of what
    enqueued them, else to the step the file names. Without marks everything is one step with number -1.
    """
    if not profile.has("steps"):
        _make_steps(profile)
    steps = profile.table("steps")
    for name in HOST_TABLES:
        table = profile.table(name)
        _fill_step(profile, name, _step_at(steps, table["start_ns"]))
    ops_step, enqueue_step = profile.table("ops")["step"], profile.table("enqueues")["step"]
    _fill_step(profile, "dequeues", _take(enqueue_step, profile.table("dequeues")["enqueue"]))
    for name in DEVICE_TABLES:
        table = profile.table(name)
        by_op = _take(ops_step, table["op"])
        own = table["step_id"] if table.spec.column("step_id") else np.full(len(table), -1, dtype=np.int64)
        step = np.where(by_op >= 0, by_op, _step_numbered(steps, own))
        # A task whose time was lost counts, but no step may reach back to it.
        _fill_step(profile, name, np.where(table["start_ns"] >= 0, step, -1))
    if _unmarked(steps):
        for name in (*HOST_TABLES, "dequeues", *DEVICE_TABLES):
            if profile.has(name):
                table = profile.table(name)
                profile.put(table.with_columns(step=np.where(table["start_ns"] >= 0, 0, -1)))


def keep_steps(profile: Profile, numbers: Collection[int]) -> None:
    """Look at the steps with these numbers only: the others leave ``steps``, and what ran in them has no step."""
    steps = profile.table("steps")
    kept = np.flatnonzero(np.isin(steps["number"], list(numbers)))
    new_row = np.full(len(steps) + 1, -1, dtype=np.int64)
    new_row[kept] = np.arange(len(kept))
    profile.put(steps.rows(kept))
    for name in (*HOST_TABLES, "dequeues", *DEVICE_TABLES):
        table = profile.table(name)
        if "step" in table.present:
            profile.put(table.with_columns(step=new_row[table["step"]]))
    profile.focused = True


def _take(values: Ints, keys: Ints) -> Ints:
    return (
        np.where(keys >= 0, values[np.maximum(keys, 0)], -1) if len(values) else np.full(len(keys), -1, dtype=np.int64)
    )


def _fill_step(profile: Profile, name: str, step: Ints) -> None:
    table = profile.table(name)
    if profile.has(name) and "step" not in table.present:
        profile.put(table.with_columns(step=step))


def _unmarked(steps: Table) -> bool:
    return len(steps) == 1 and steps["number"][0] < 0


def _make_steps(profile: Profile) -> None:
    ops = profile.table("ops")
    marks = [(row, _MARK.match(name or "")) for row, name in enumerate(ops["name"].categories)]
    number_of = {row: int(found[1]) for row, found in marks if found}
    rows = np.flatnonzero(np.isin(ops["name"].codes, list(number_of))) if number_of else np.zeros(0, dtype=np.int64)
    rows = rows[ops["start_ns"][rows] >= 0]
    if len(rows):
        rows = rows[np.argsort(ops["start_ns"][rows], kind="stable")]
        numbers = np.array([number_of[code] for code in ops["name"].codes[rows]], dtype=np.int64)
        _put_steps(profile, numbers, ops["start_ns"][rows], ops["dur_ns"][rows], ops["dur_us"][rows])
        return
    if not _put_numbered(profile):
        _put_window(profile)


def _put_steps(profile: Profile, number: Ints, start: Ints, dur: Ints, host_us: Any) -> None:
    columns = {"number": number, "start_ns": start, "dur_ns": dur, "host_us": host_us}
    profile.put(Table.build("steps", columns, profile.rank))


def _put_numbered(profile: Profile) -> bool:
    """Steps from the Step Id columns of the CSVs, when there is no trace: their windows are those of the device."""
    tables = [profile.table(name) for name in ("kernels", "comms")]
    step_id = np.concatenate([table["step_id"] for table in tables])
    start = np.concatenate([table["start_ns"] for table in tables])
    end = np.concatenate([table["end_ns"] for table in tables])
    step_id, start, end = (column[start >= 0] for column in (step_id, start, end))
    numbers = np.unique(step_id[step_id >= 0])
    if profile.has("ops") or not len(numbers):
        return False
    first = np.array([start[step_id == number].min() for number in numbers])
    last = np.array([end[step_id == number].max() for number in numbers])
    order = np.argsort(first, kind="stable")
    _put_steps(profile, numbers[order], first[order], (last - first)[order], np.full(len(numbers), np.nan))
    return True


def _put_window(profile: Profile) -> None:
    """One unnumbered step over everything that was recorded."""
    starts, ends = [], []
    for name in ("ops", "dequeues", "kernels", "comms"):
        table = profile.table(name)
        known = table["start_ns"] >= 0
        if known.any():
            starts.append(int(table["start_ns"][known].min()))
            ends.append(int(table["end_ns"][known].max()))
    if not starts:
        return
    start, end = min(starts), max(ends)
    _put_steps(profile, np.array([-1]), np.array([start]), np.array([end - start]), np.array([np.nan]))
    profile.diagnostics.append(Diagnostic("no_step_markers", "info", "", say("diag.no_step_markers")))


def _step_at(steps: Table, at: Ints) -> Ints:
    """Row of the step whose window holds each time, -1 for none."""
    if not len(steps):
        return np.full(len(at), -1, dtype=np.int64)
    order = np.argsort(steps["start_ns"], kind="stable")
    row = np.searchsorted(steps["start_ns"][order], at, side="right") - 1
    step = order[np.maximum(row, 0)]
    return np.where((row >= 0) & (at < steps["end_ns"][step]), step, -1)


def _step_numbered(steps: Table, number: Ints) -> Ints:
    """Row of the step with each number, -1 for none."""
    if not len(steps):
        return np.full(len(number), -1, dtype=np.int64)
    order = np.argsort(steps["number"], kind="stable")
    row = np.minimum(np.searchsorted(steps["number"][order], number), len(steps) - 1)
    return np.where((number >= 0) & (steps["number"][order][row] == number), order[row], -1)


def close_steps(profile: Profile) -> None:
    """Widen the steps to wall windows that tile time, and fill their ledger.

    A step lasts from its host start (or the end of the previous step, if the device still worked on that) to its host
    end (or its last device task, if later). Inside, every ns is compute, exposed communication, prepare (before the
    step's first device task), free (between) or after (behind the last).
    """
    steps = profile.table("steps")
    if not len(steps) or "compute_us" in steps.present:
        return
    busy = {name: _spans(profile.table(name)) for name in ("kernels", "comms")}
    first, last = _device_windows(profile, len(steps))
    start, end = steps["start_ns"].copy(), np.maximum(steps["end_ns"], last)
    order = np.argsort(steps["start_ns"], kind="stable")
    end[order] = np.maximum.accumulate(end[order])
    start[order[1:]] = np.maximum(start[order[1:]], end[order[:-1]])
    columns = _ledger(busy["kernels"], busy["comms"], Spans(start, end), first, last)
    profile.put(
        steps.with_columns(
            start_ns=start,
            dur_ns=end - start,
            device_start_ns=first,
            device_end_ns=last,
            complete=_complete(profile, first),
            **columns,
        )
    )
    _check_sums(profile)


def _check_sums(profile: Profile) -> None:
    """Say so where the profiler's own step times know of more computing than the kernels that were found."""
    told, found = (float(profile.table(name)["compute_us"].sum()) for name in ("step_trace", "steps"))
    if profile.has("kernels") and found < WHOLE_KERNELS * told:
        file = "" if profile.info.form == "db" else "kernel_details.csv"
        message = say("diag.kernels_lost", found_ms=found / 1000.0, told_ms=told / 1000.0)
        profile.diagnostics.append(Diagnostic(KERNELS_LOST, "warning", file, message))


def _spans(table: Table) -> Spans:
    return union(table["start_ns"], table["end_ns"])


def _device_windows(profile: Profile, count: int) -> tuple[Ints, Ints]:
    """First start and last end of each step's own compute and communication; -1 for a step without any."""
    tables = [profile.table(name) for name in ("kernels", "comms")]
    step = np.concatenate([table["step"] for table in tables])
    start = np.concatenate([table["start_ns"] for table in tables])[step >= 0]
    end = np.concatenate([table["end_ns"] for table in tables])[step >= 0]
    step = step[step >= 0]
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, -1, dtype=np.int64)
    np.minimum.at(first, step, start)
    np.maximum.at(last, step, end)
    return np.where(last < 0, -1, first), last


def _ledger(compute: Spans, comm: Spans, window: Spans, first: Ints, last: Ints) -> dict[str, Floats]:
    """The columns of ``steps`` that say what passes in each wall window, in us; ``first`` is -1 without device work."""
    start, end = window
    busy = union(np.append(compute.start, comm.start), np.append(compute.end, comm.end))
    first = np.where(first < 0, end, np.maximum(first, start))
    last = np.maximum(last, first)
    ns = {
        "compute_us": covered(start, end, compute),
        "comm_us": covered(start, end, comm),
        "exposed_comm_us": covered(start, end, subtract(comm, compute)),
        "free_us": last - first - covered(first, last, busy),
        "prepare_us": first - start - covered(start, first, busy),
        "after_us": end - last - covered(last, end, busy),
    }
    return {name: values / 1000.0 for name, values in ns.items()}


def idle_spans(compute: Spans, comm: Spans, windows: Spans) -> Spans:
    """When the device neither computes nor communicates inside the windows, which must be in order and disjoint."""
    return subtract(subtract(union(*windows), compute), comm)


# A first or last step with this share of the usual ops but fewer than that share of the usual kernels lost records.
MIN_OPS, MIN_KERNELS = 0.95, 0.9


def _complete(profile: Profile, first: Ints) -> Mask:
    """Steps whose device work was recorded; a remark names those that have none, and those at the edges of the
    window that ran the ops of the others but lost some of their kernels."""
    numbers = profile.table("steps")["number"]
    for number in numbers[first < 0]:
        message = say("diag.step_without_kernels", step=int(number))
        profile.diagnostics.append(Diagnostic("step_without_kernels", "warning", "", message))
    complete = first >= 0
    for row in _edges_that_lost_kernels(profile, complete):
        complete[row] = False
        message = say("diag.step_incomplete", step=int(numbers[row]))
        profile.diagnostics.append(Diagnostic("step_incomplete", "warning", "", message))
    return complete


def _edges_that_lost_kernels(profile: Profile, known: Mask) -> list[int]:
    if known.sum() < 3:
        return []
    counts = {}
    for name in ("ops", "kernels"):
        step = profile.table(name)["step"]
        counts[name] = np.bincount(step[step >= 0], minlength=len(known))
    usual = {name: float(np.median(count[known])) for name, count in counts.items()}
    edges = np.flatnonzero(known)[[0, -1]]
    return [
        int(row)
        for row in edges
        if counts["ops"][row] >= MIN_OPS * usual["ops"] and counts["kernels"][row] < MIN_KERNELS * usual["kernels"]
    ]
