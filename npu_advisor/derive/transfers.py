"""Where the time of each collective goes, and what its transfers look like."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints, Mask, covered, union
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

Floats = npt.NDArray[np.float64]
# A copy over a link between cards; on the chip itself alignment and packet size do not matter.
ON_CHIP = ("ON_CHIP", "INVALID_TYPE")
MOVING = ("SDMA", "RDMA")
# SDMA moves bursts of so many bytes; what is no multiple of it ends in a slow tail.
BURST = 512
_TOLD = ("bytes", "transit_us", "wait_us", "sync_us", "idle_us")


def comm_split(profile: Profile) -> Table:
    """The ``comm_split`` table: one row per collective, in the order of ``comms``.

    ``exposed_us`` is its part that no kernel hides, ``late_us`` what this rank waits in it for others;
    ``largest_bytes`` and ``transfers`` are of its sub-tasks between cards, where these were recorded. What
    communication.json does not tell is absent.
    """
    comms, pieces = profile.table("comms"), profile.table("exposed")
    if not profile.has("kernels"):
        return Table.build("comm_split", {}, profile.rank)
    kernels = profile.table("kernels")
    computing = union(kernels["start_ns"], kernels["end_ns"])
    columns = {
        **{name: comms[name] for name in ("start_ns", "dur_ns", "type", "op", "step", "source", "source_how")},
        **{name: comms[name] for name in _TOLD if not len(comms) or np.isfinite(comms[name]).any()},
        "exposed_us": _per_comm(pieces, pieces["comm"], pieces["dur_us"], len(comms)),
        "late_us": _per_comm(pieces, pieces["comm"], pieces["dur_us"] * pieces["late"], len(comms)),
        "hidden_us": covered(comms["start_ns"], comms["end_ns"], computing) / 1000.0,
        "comm": np.arange(len(comms)),
    }
    if _told_inside(profile):
        columns |= _largest(profile, len(comms))
    told = {
        name: values for name, values in columns.items() if name in _ALWAYS or name not in _OF_COMMS or _any(values)
    }
    return Table.build("comm_split", told, profile.rank)


_OF_COMMS = ("bytes", "transit_us", "wait_us", "sync_us", "idle_us")
_ALWAYS = ("start_ns", "dur_ns")


def _any(values: Floats) -> bool:
    return bool(np.isfinite(values).any())


def _per_comm(table: Table, comm: Ints, values: Floats, size: int) -> Floats:
    rows = comm >= 0 if len(table) else np.zeros(0, dtype=bool)
    sums: Floats = np.bincount(comm[rows], weights=values[rows], minlength=size).astype(np.float64)
    return sums


def _told_inside(profile: Profile) -> bool:
    """Whether the sub-tasks of every collective are known; a card alone has neither."""
    return profile.has("comm_tasks") or (profile.has("kernels") and not len(profile.table("comms")))


def between_cards(tasks: Table) -> Mask:
    """Which sub-tasks move data from card to card."""
    transport, link = (np.asarray(tasks[name], dtype=object) for name in ("transport", "link"))
    found: Mask = np.isin(transport, MOVING) & ~np.isin(link, ON_CHIP) & (tasks["bytes"] > 0)
    return found


def _largest(profile: Profile, size: int) -> dict[str, Floats | Ints]:
    tasks = profile.table("comm_tasks")
    rows = np.flatnonzero(between_cards(tasks) & (tasks["comm"] >= 0))
    largest = np.full(size, np.nan)
    np.fmax.at(largest, tasks["comm"][rows], tasks["bytes"][rows])
    return {"largest_bytes": largest, "transfers": np.bincount(tasks["comm"][rows], minlength=size)}


def transfers(profile: Profile) -> Table:
    """The ``transfers`` table: one row per sub-task that moves data between cards.

    ``beside_us`` is how long kernels compute meanwhile; ``gbs`` is 1e9 bytes/s. ``excess_us``: what a transfer whose
    size is no multiple of 512 bytes takes longer than at the median rate of those of its kind whose size is one.
    """
    tasks, kernels, comms = profile.table("comm_tasks"), profile.table("kernels"), profile.table("comms")
    if not _told_inside(profile):
        return Table.build("transfers", {}, profile.rank)
    rows = np.flatnonzero(between_cards(tasks))
    size, dur_ns, comm = tasks["bytes"][rows], tasks["dur_ns"][rows], tasks["comm"][rows]
    start = tasks["start_ns"][rows]
    computing = union(kernels["start_ns"], kernels["end_ns"])
    with np.errstate(divide="ignore", invalid="ignore"):
        gbs = np.where(dur_ns > 0, size / dur_ns, np.nan)
    padded = {name: np.append(comms[name], -1) for name in ("op", "step")}
    columns = {
        "start_ns": start,
        "dur_ns": dur_ns,
        "name": tasks["name"][rows],
        "bytes": size,
        "transport": tasks["transport"][rows],
        "link": tasks["link"][rows],
        "gbs": gbs,
        "aligned": np.mod(size, BURST) == 0,
        "excess_us": _excess(tasks, rows, size, dur_ns),
        "beside_us": covered(start, start + dur_ns, computing) / 1000.0,
        "comm": comm,
        "op": padded["op"][comm],
        "step": padded["step"][comm],
        "source": comms.strings("source")[comm],
        "source_how": comms.strings("source_how")[comm],
    }
    return Table.build("transfers", columns, profile.rank)


def _excess(tasks: Table, rows: Ints, size: Floats, dur_ns: Ints) -> Floats:
    """The us lost to alignment, 0 for aligned transfers, NaN where no aligned one of the kind can be compared with."""
    excess = np.zeros(len(rows))
    kind = tasks["name"].codes[rows].astype(np.int64) * (len(tasks["link"].categories) + 1) + tasks["link"].codes[rows]
    aligned = np.mod(size, BURST) == 0
    for one in np.unique(kind[~aligned]):
        bad, good = (kind == one) & ~aligned, (kind == one) & aligned & (dur_ns > 0)
        rate = float(np.median(size[good] / dur_ns[good])) if good.any() else np.nan
        excess[bad] = np.maximum(dur_ns[bad] - size[bad] / rate, 0.0) / 1000.0
    return excess
