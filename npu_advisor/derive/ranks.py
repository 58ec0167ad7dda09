"""What one rank tells of itself for the comparison of a whole job: small tables, whatever the size of the recording."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Floats, Ints, Mask, Spans, covered, union
from npu_advisor.base.shapes import tensor_dims, tensor_sizes
from npu_advisor.base.terms import IDLE_OWNERS
from npu_advisor.derive.comm import other_side
from npu_advisor.derive.experts import EXPERT_KERNEL
from npu_advisor.derive.world import LOCAL, rank_groups
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

TOP_LINES = 20
SUMMARY_TABLES = ("rank_steps", "rank_kernels", "rank_lines", "rank_comms", "rank_links")


def summary_tables(profile: Profile) -> list[Table]:
    """The tables of SUMMARY_TABLES for one linked profile."""
    own = _OwnTime(profile)
    comms = _rank_comms(profile, own)
    steps = _rank_steps(profile, own)
    return [steps, _rank_kernels(profile), _rank_lines(profile), comms, _rank_links(profile)]


class _OwnTime:
    """A clock of the rank's own work, which stands still while exposed communication holds the device.

    Between two times it has passed by what lies between them and is neither exposed communication. Work and its pace
    are the rank's own; how long communication takes depends on the others.
    """

    def __init__(self, profile: Profile) -> None:
        kernels, exposed = profile.table("kernels"), profile.table("exposed")
        self.busy = union(kernels["start_ns"], kernels["end_ns"])
        self.exposed = union(exposed["start_ns"], exposed["end_ns"])
        rows = np.flatnonzero(_of_experts(kernels))
        self.experts = union(kernels["start_ns"][rows], kernels["end_ns"][rows])

    def passed(self, since: Ints, until: Ints) -> tuple[Floats, Floats]:
        """(own time, of it under kernels) from ``since`` to ``until`` in us; negative where these are swapped."""
        return (
            (until - since - _signed(since, until, self.exposed)) / 1000.0,
            _signed(since, until, self.busy) / 1000.0,
        )


def _of_experts(kernels: Table) -> Mask:
    names = [str(name).startswith(EXPERT_KERNEL) for name in kernels["type"].categories]
    found: Mask = np.array([*names, False], dtype=bool)[kernels["type"].codes]
    return found


def _signed(since: Ints, until: Ints, spans: Spans) -> Ints:
    inside = covered(np.minimum(since, until), np.maximum(since, until), spans)
    found: Ints = np.where(until < since, -inside, inside)
    return found


def _per_step(profile: Profile, name: str, weights: str = "dur_us", rows: Mask | None = None) -> Floats:
    table, count = profile.table(name), len(profile.table("steps"))
    keep = table["step"] >= 0
    keep = keep if rows is None else keep & rows
    sums = np.bincount(table["step"][keep], weights=table[weights][keep], minlength=count)[:count]
    return np.asarray(sums, dtype=np.float64)


def _rank_steps(profile: Profile, own: _OwnTime) -> Table:
    steps = profile.table("steps")
    kept = ("number", "start_ns", "dur_ns", "compute_us", "comm_us", "free_us")
    columns: dict[str, Any] = {name: steps[name] for name in kept}
    columns |= {
        "exposed_us": steps["exposed_comm_us"],
        "prepare_us": steps["prepare_us"],
        "after_us": steps["after_us"],
    }
    if profile.has("kernels"):
        step = profile.table("kernels")["step"]
        columns["kernel_us"] = _per_step(profile, "kernels")
        columns["calls"] = np.bincount(step[step >= 0], minlength=len(steps))[: len(steps)]
        idle = profile.table("idle")
        for owner in IDLE_OWNERS:
            columns[f"idle_{owner}_us"] = _per_step(profile, "idle", rows=np.asarray(idle["owner"] == owner))
        columns["mhz"] = _clock(profile)
        columns |= _work(profile)
        columns["p2p_us"] = _per_step(profile, "exposed", rows=profile.table("exposed")["p2p"])
        last = _last_ends(profile)
        columns["tail_us"], columns["tail_busy_us"] = own.passed(last, steps["end_ns"])
    elif len(steps):  # only a ledger: its sum of computing is all there is
        columns["kernel_us"] = steps["compute_us"]
    return Table.build("rank_steps", columns, profile.rank)


def _clock(profile: Profile) -> Floats:
    """Mean clock of each step by the time that kernels on AI cores ran at it; NaN where none was sampled."""
    clock, steps = profile.table("clock"), profile.table("steps")
    step = np.searchsorted(steps["start_ns"], clock["start_ns"], side="right") - 1
    keep = (step >= 0) & np.isfinite(clock["mhz"])
    weight = np.bincount(step[keep], weights=clock["busy_us"][keep], minlength=len(steps))
    total = np.bincount(step[keep], weights=(clock["busy_us"] * clock["mhz"])[keep], minlength=len(steps))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = total / weight
    return found


def _work(profile: Profile) -> dict[str, Any]:
    """How much the kernels of each step had to do: elements read, and tokens and time of the experts."""
    kernels = profile.table("kernels")
    experts = _of_experts(kernels)
    found: dict[str, Any] = {"expert_us": _per_step(profile, "kernels", rows=experts)}
    if "input_shapes" not in kernels.present:
        return found
    shapes = kernels["input_shapes"]
    sizes = [sum(tensor_sizes(str(text)) or ()) for text in shapes.categories]
    leading = [next((dims[0] for dims in tensor_dims(str(text)) or () if dims), 0) for text in shapes.categories]
    for name, values, rows in (("elements", sizes, shapes.codes >= 0), ("expert_rows", leading, experts)):
        each = np.array([*values, 0], dtype=np.float64)[shapes.codes]
        keep = rows & (kernels["step"] >= 0)
        found[name] = np.bincount(kernels["step"][keep], each[keep], len(found["expert_us"]))
    return found


def _last_ends(profile: Profile) -> Ints:
    """When the last collective of each step ends, in start order; the step's start where it has none."""
    comms, last = profile.table("comms"), profile.table("steps")["start_ns"].copy()
    order = np.argsort(comms["start_ns"], kind="stable")
    order = order[comms["step"][order] >= 0]
    last[comms["step"][order]] = comms["end_ns"][order]
    return np.asarray(last, dtype=np.int64)


def _rank_comms(profile: Profile, own: _OwnTime) -> Table:
    comms, steps = profile.table("comms"), profile.table("steps")
    rows = np.flatnonzero(comms["step"] >= 0)
    rows = rows[np.lexsort((comms["start_ns"][rows], comms["step"][rows]))]
    table, step, peer = comms.rows(rows), comms["step"][rows], other_side(profile)[rows]
    columns: dict[str, object] = {
        "number": steps["number"][step],
        "role": _roles(profile, table),
        "ordinal": ordinals(step, table["group"].codes, table["type"].codes, peer),
        **{name: table[name] for name in ("type", "group", "start_ns", "dur_ns", "bytes", "wait_us", "transit_us")},
    }
    if (peer >= 0).any():
        columns["peer"] = peer
    if profile.has("exposed") and (table["start_ns"] >= 0).all():
        start, end = table["start_ns"], table["end_ns"]
        first = np.append(True, step[1:] != step[:-1])[: len(step)]
        since = np.where(first, steps["start_ns"][step], np.append(0, end)[: len(end)])
        columns["lead_us"], columns["lead_busy_us"] = own.passed(since, start)
        columns["under_us"], columns["under_busy_us"] = own.passed(start, end)
        if len(own.experts.start):
            columns["lead_expert_us"] = _signed(since, start, own.experts) / 1000.0
            columns["under_expert_us"] = _signed(start, end, own.experts) / 1000.0
        columns["exposed_us"] = covered(start, end, own.exposed) / 1000.0
        columns["blocks"] = covered(end - 1, end, own.exposed) > 0
    return Table.build("rank_comms", columns, profile.rank)


def _roles(profile: Profile, comms: Table) -> npt.NDArray[np.object_]:
    """What the group of each collective is for; None where the recording does not list its groups."""
    roles = {group.hash: group.role for group in rank_groups(profile)}
    names = [roles.get(str(name)) or None for name in comms["group"].categories]
    found: npt.NDArray[np.object_] = np.array([*names, None], dtype=object)[comms["group"].codes]
    return found


def ordinals(*keys: npt.NDArray[np.integer]) -> Ints:
    """How many earlier rows share all ``keys`` with each row."""
    count = len(keys[0])
    order = np.lexsort(keys[::-1])  # stable: rows of equal keys stay in order
    new = np.append(True, np.zeros(max(count - 1, 0), dtype=bool))[:count]
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    place = np.arange(count) - np.maximum.accumulate(np.where(new, np.arange(count), 0))
    found = np.empty(count, dtype=np.int64)
    found[order] = place
    return found


def _rank_kernels(profile: Profile) -> Table:
    kernels = profile.table("kernels")
    codes, names = kernels["type"].codes, np.asarray(kernels["type"].categories, dtype=object)
    known = codes >= 0
    total = np.bincount(codes[known], weights=kernels["dur_us"][known], minlength=len(names))
    calls = np.bincount(codes[known], minlength=len(names))
    used = np.flatnonzero(calls)
    columns = {
        "type": names[used],
        "calls": calls[used],
        "total_us": total[used],
        "line": _heaviest_line(kernels, known)[used],
    }
    return Table.build("rank_kernels", columns, profile.rank)


def _heaviest_line(kernels: Table, known: Mask) -> npt.NDArray[np.object_]:
    """For each type (by code) the line with most time, None where no line is known."""
    types, lines = kernels["type"], kernels["source"]
    found = np.full(len(types.categories), None, dtype=object)
    rows = np.flatnonzero(known & (lines.codes >= 0))
    if not len(rows):
        return found
    width = len(lines.categories)
    pair = types.codes[rows].astype(np.int64) * width + lines.codes[rows]
    pairs, inverse = np.unique(pair, return_inverse=True)
    order = np.argsort(np.bincount(inverse, weights=kernels["dur_us"][rows]), kind="stable")
    found[pairs[order] // width] = np.asarray(lines.categories, dtype=object)[pairs[order] % width]
    return found


def _rank_lines(profile: Profile) -> Table:
    kernels = profile.table("kernels")
    lines = kernels["source"]
    known = lines.codes >= 0
    total = np.bincount(lines.codes[known], weights=kernels["dur_us"][known], minlength=len(lines.categories))
    calls = np.bincount(lines.codes[known], minlength=len(lines.categories))
    top = np.argsort(-total, kind="stable")[:TOP_LINES]
    top = top[calls[top] > 0]
    columns = {
        "line": np.asarray(lines.categories, dtype=object)[top],
        "calls": calls[top],
        "total_us": total[top],
    }
    return Table.build("rank_lines", columns, profile.rank)


def _rank_links(profile: Profile) -> Table:
    """Traffic over real links, summed up over operations and steps."""
    links, steps = profile.table("links"), profile.table("steps")
    local = np.asarray(links["transport"] == "LOCAL") if len(links) else np.zeros(0, dtype=bool)
    rows = np.flatnonzero(~local & (links["src"] >= 0) & (links["dst"] != LOCAL) & (links["transport"].codes >= 0))
    codes = links["transport"].codes[rows].astype(np.int64)
    keys = np.stack([codes, links["src"][rows], links["dst"][rows]], axis=1).reshape(-1, 3)
    found, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    count = len(found)
    columns = {
        "transport": np.asarray(links["transport"].categories, dtype=object)[found[:, 0]],
        "src": found[:, 1],
        "dst": found[:, 2],
        "bytes": np.bincount(inverse, weights=links["bytes"][rows], minlength=count),
        "transit_us": np.bincount(inverse, weights=links["transit_us"][rows], minlength=count),
        "steps": np.full(count, len(steps)),
        "step_us": np.full(count, steps["dur_us"].mean() if len(steps) else np.nan),
    }
    return Table.build("rank_links", columns, profile.rank)
