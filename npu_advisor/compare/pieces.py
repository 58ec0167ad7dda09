"""Time of one profile cut into pieces, each with the step, the op and the line it belongs to.

Three cuts of the same steps. Each piece of time is in exactly one row of the first two, so that they add up to the
steps; the third is what was done, however much of it at the same time.

ledger  the device: compute, communication (exposed), one part per idle owner, after_last
path    what holds the end of the run where it is, by the parts of :mod:`npu_advisor.graph.replay.path`
work    host (time of its threads less blocking calls), kernel, communication (moving data) and waiting (for other
        ranks): sums of durations
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask, Spans, covered, cut, intersect, latest_open, subtract, union
from npu_advisor.graph.idle import BLOCKING_COPY, SYNC_CALLS, SYNC_OPS
from npu_advisor.graph.named import WRAPPERS, starting
from npu_advisor.graph.nesting import nesting_of
from npu_advisor.graph.replay.path import StepPath
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table


class Pieces(NamedTuple):
    """Pieces of time of one part: the table and row they come from (-1 none), their step (row) and length in ns.

    ``waits`` where another rank is what they wait for.
    """

    part: str
    table: str
    row: Ints
    step: Ints
    ns: Ints
    waits: bool = False


# The tables whose rows run in a part of a critical path; those of the host are found by the open op.
_ON_DEVICE = {
    "compute": "kernels",
    "copy": "tasks",
    "communication": "comms",
    "waiting_for_rank": "comms",
    "dispatch": "dequeues",
    "stream_gap": "kernels",
}


def ledger(profile: Profile) -> list[Pieces]:
    """The device's ledger; the parts of a step add up to its duration."""
    kernels, steps = profile.table("kernels"), profile.table("steps")
    if not len(kernels):
        return _of_steps(steps)
    window = union(steps["start_ns"], steps["end_ns"])
    busy = intersect(union(kernels["start_ns"], kernels["end_ns"]), window)
    borders = [kernels["start_ns"], kernels["end_ns"], steps["start_ns"], steps["end_ns"]]
    spans = cut(busy, np.concatenate(borders))
    found = [_placed(profile, "compute", "kernels", _open_or_next(kernels, spans.start), spans)]
    exposed, idle = profile.table("exposed"), profile.table("idle")
    found += [_rows("communication", exposed, exposed["late"] == late, late) for late in (False, True)]
    owners = idle.strings("owner")
    found += [_rows(owner, idle, owners == owner) for owner in dict.fromkeys(owners.tolist())]
    told = np.zeros(len(steps), dtype=np.int64)
    for pieces in found:
        np.add.at(told, pieces.step[pieces.step >= 0], pieces.ns[pieces.step >= 0])
    rest, every = np.maximum(steps["dur_ns"] - told, 0), np.arange(len(steps))
    return [*found, Pieces("after_last", "", np.full(len(steps), -1), every, rest)]


# Where only totals of steps are known, nobody knows who owns the idle time.
_TOTALS = {
    "compute": ("compute_us",),
    "communication": ("exposed_comm_us",),
    "other": ("free_us", "prepare_us"),
    "after_last": ("after_us",),
}


def _of_steps(steps: Table) -> list[Pieces]:
    """The ledger as the file's own totals tell it."""
    every, nowhere = np.arange(len(steps)), np.full(len(steps), -1)
    told = {
        part: np.round(sum(np.nan_to_num(steps[name]) for name in names) * 1000.0).astype(np.int64)
        for part, names in _TOTALS.items()
    }
    told["other"] += steps["dur_ns"] - np.sum(list(told.values()), axis=0)
    return [Pieces(part, "", nowhere, every, ns) for part, ns in told.items()]


def _rows(part: str, table: Table, chosen: Mask, waits: bool = False) -> Pieces:
    rows = np.flatnonzero(chosen)
    return Pieces(part, table.spec.name, rows, table["step"][rows], table["dur_ns"][rows], waits)


def path(profile: Profile, paths: Sequence[StepPath]) -> list[Pieces]:
    """The critical path of a run, as far as it lies in steps."""
    found = []
    for stretch in paths:
        for part, spans in stretch.parts.items():
            if not len(spans.start):
                continue
            name = _ON_DEVICE.get(part)
            if name is not None and len(profile.table(name)):
                table = profile.table(name)
                pieces = _cut_to_steps(profile, spans, table)
                placed = _placed(profile, part, name, _open_or_next(table, pieces.start), pieces)
                found.append(placed._replace(waits=part == "waiting_for_rank"))
            else:
                pieces = _cut_to_steps(profile, spans, profile.table("ops"))
                found.append(_placed(profile, part, "ops", _host_op(profile, pieces.start), pieces))
    return found


def work(profile: Profile, waits: Spans) -> list[Pieces]:
    """What the steps had to do; ``waits`` is when collectives waited for other ranks."""
    kernels, comms = profile.table("kernels"), profile.table("comms")
    every = np.arange(len(comms))
    waited = covered(comms["start_ns"], comms["end_ns"], waits)
    found = [
        _rows("kernel", kernels, np.full(len(kernels), True)),
        Pieces("communication", "comms", every, comms["step"], comms["dur_ns"] - waited),
        Pieces("waiting", "comms", every, comms["step"], waited, waits=True),
    ]
    ops, steps = profile.table("ops"), profile.table("steps")
    if len(ops):
        blocked = _blocked(profile)
        spans = subtract(union(steps["start_ns"], steps["end_ns"]), blocked)
        pieces = _cut_to_steps(profile, spans, ops)
        found.append(_placed(profile, "host", "ops", _host_op(profile, pieces.start), pieces))
    return found


def _blocked(profile: Profile) -> Spans:
    """When the host waits for the device: how long is a matter of what it waits for."""
    apis, ops = profile.table("apis"), profile.table("ops")
    table = apis if len(apis) else ops
    rows = np.flatnonzero(starting(table, SYNC_CALLS, BLOCKING_COPY) if len(apis) else starting(ops, SYNC_OPS))
    return union(table["start_ns"][rows], table["end_ns"][rows])


def _cut_to_steps(profile: Profile, spans: Spans, table: Table) -> Spans:
    steps = profile.table("steps")
    borders = [table["start_ns"], table["end_ns"], steps["start_ns"], steps["end_ns"]]
    return cut(spans, np.concatenate(borders))


def _placed(profile: Profile, part: str, table: str, row: Ints, spans: Spans) -> Pieces:
    """Pieces with the step that each lies in, without those that lie in none."""
    steps = profile.table("steps")
    order = np.argsort(steps["start_ns"], kind="stable")
    latest = np.searchsorted(steps["start_ns"][order], spans.start, side="right") - 1
    step = np.where(latest >= 0, order[np.maximum(latest, 0)], -1)
    step[(step >= 0) & (spans.start >= steps["end_ns"][step])] = -1
    inside = step >= 0
    return Pieces(part, table, row[inside], step[inside], (spans.end - spans.start)[inside])


def _open_or_next(table: Table, at: Ints) -> Ints:
    """The row that is open at each time (the one that started last), else the next one to start; -1 after the last."""
    start, end = table["start_ns"], table["end_ns"]
    order = np.argsort(start, kind="stable")
    row: Ints = np.append(order, -1)[np.searchsorted(start[order], at)]
    inside = _covered(union(start, end), at)
    if inside.any():
        row[inside] = latest_open(start, end, at[inside])
    return row


def _covered(spans: Spans, at: Ints) -> Mask:
    whole = np.searchsorted(spans.start, at, side="right") - 1
    covered: Mask = (whole >= 0) & (at < np.append(spans.end, 0)[whole])
    return covered


def _host_op(profile: Profile, at: Ints) -> Ints:
    """The op that the host works on at each time: the innermost open one of the thread that began its own last, else
    the next one to start (the Python before an op is on its account); ranges are looked through."""
    ops, tree = profile.table("ops"), nesting_of(profile, "ops")
    is_range = starting(ops, WRAPPERS)
    best, since = (np.full(len(at), -1, dtype=np.int64) for _ in range(2))
    for track in np.unique(ops["track"]).tolist():
        row = tree.innermost(np.full(len(at), track), at)
        start = np.where((row >= 0) & ~is_range[row], ops["start_ns"][row], -1) if len(ops) else since
        best, since = np.where(start > since, row, best), np.maximum(start, since)
    real = np.flatnonzero(~is_range)
    real = real[np.argsort(ops["start_ns"][real], kind="stable")]
    following = np.append(real, -1)[np.searchsorted(ops["start_ns"][real], at)]
    found: Ints = np.where(best >= 0, best, following)
    return found
