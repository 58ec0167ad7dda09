"""Communication that no kernel hides, piece by piece, and whom the device waits for in it.

A collective starts to move data when its last rank has arrived.  Only that rank holds everybody up, and only from the
moment the second latest had arrived.  Two sources say who it is: the ``Notify_Wait`` tasks of this rank (they see every
rank, also those that were not recorded), and, where these say nothing, the durations of the same collective on the
other ranks that were read: who arrives last has the shortest one, and durations need no common clock.  There may be
ranks that nobody recorded, so a short collective convicts a rank only if its kernels take longer, too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints, Mask, Spans, covered, cut, intersect, latest_open, subtract, union
from npu_advisor.derive.facts import kernel_us
from npu_advisor.derive.world import LOCAL, rank_groups
from npu_advisor.graph.source import ENGINE_MARK
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

# Send and receive end at different times on their two sides; only what all ranks finish together can be compared.
POINT_TO_POINT = ("send", "receive", "recv", "batchsendrecv")
# How much longer a rank's kernels must take than another's before the difference explains a wait.
SLOWER = 1.05


def is_p2p(types: Any) -> Mask:
    """Which rows of a text column of communication types are between two ranks."""
    names = [str(name).lower().replace("_", "").startswith(POINT_TO_POINT) for name in types.categories]
    found: Mask = np.array([*names, False], dtype=bool)[types.codes]
    return found


class _Late(NamedTuple):
    """Times in which this rank waited for others, in one collective each; ``peer`` is the one that alone was missing,
    -1 while several were."""

    comm: Ints
    start: Ints
    end: Ints
    peer: Ints


def exposed(profile: Profile) -> Table:
    """The ``exposed`` table of a linked profile, in time order; without kernels there is nothing to be hidden by."""
    comms, kernels, steps = profile.table("comms"), profile.table("kernels"), profile.table("steps")
    if not profile.has("kernels"):
        return Table.build("exposed", {}, profile.rank)
    late = _late(profile)
    computing = union(kernels["start_ns"], kernels["end_ns"])
    spans = subtract(union(comms["start_ns"], comms["end_ns"]), computing)
    spans = intersect(spans, union(steps["start_ns"], steps["end_ns"]))
    borders = [comms["start_ns"], comms["end_ns"], late.start, late.end, steps["start_ns"], steps["end_ns"]]
    pieces = cut(spans, np.concatenate(borders))
    none = np.full(len(pieces.start), -1, dtype=np.int64)
    comm = latest_open(comms["start_ns"], comms["end_ns"], pieces.start) if len(pieces.start) else none
    waits, peer = _waits_at(pieces.start, late)
    step = np.searchsorted(steps["start_ns"], pieces.start, side="right") - 1 if len(steps) else none
    columns = {
        "start_ns": pieces.start,
        "dur_ns": pieces.end - pieces.start,
        "type": comms.strings("type")[comm],
        "late": waits,
        "known": np.isin(peer, [other.rank for other in slower_peers(profile)]) & (peer >= 0),
        "backward": _by_autograd(profile)[comm],
        "p2p": np.append(is_p2p(comms["type"]), False)[comm],
        "hidden_share": _hidden_share(comms, computing)[comm],
        "comm": comm,
        "op": comms["op"][comm],
        "step": step,
        "source": comms.strings("source")[comm],
        "source_how": comms.strings("source_how")[comm],
    }
    # Without sub-tasks only a slower rank among those read is known; any other may have been waited for unseen.
    if not len(comms) or len(profile.table("comm_tasks")) or (peer >= 0).any():
        columns["peer"] = peer
    return Table.build("exposed", columns, profile.rank)


def _hidden_share(comms: Table, computing: Spans) -> npt.NDArray[np.float64]:
    """For each collective, the share of the time of all of its type that kernels hide; one element more, for row -1."""
    codes = np.asarray(comms["type"].codes, dtype=np.int64) + 1
    hidden = np.bincount(codes, covered(comms["start_ns"], comms["end_ns"], computing)) if len(codes) else np.zeros(1)
    total = np.bincount(codes, comms["dur_ns"]) if len(codes) else np.zeros(1)
    return np.append((hidden / np.maximum(total, 1.0))[codes], np.nan)


def _by_autograd(profile: Profile) -> Mask:
    """Which collectives a thread of autograd launched; one element more, False, for row -1."""
    ops, comms = profile.table("ops"), profile.table("comms")
    names = [str(name).startswith(ENGINE_MARK) for name in ops["name"].categories]
    engine = np.unique(ops["track"][np.array([*names, False], dtype=bool)[ops["name"].codes]])
    track = np.append(ops["track"], -1)[comms["op"]]
    return np.append(np.isin(track, engine[engine >= 0]), False)


def waits_for_rank(profile: Profile) -> dict[int, dict[int, int]]:
    """Per step row, per peer rank: ns of exposed communication spent waiting for that rank alone."""
    table = profile.table("exposed")
    result: dict[int, dict[int, int]] = {row: {} for row in range(len(profile.table("steps")))}
    for row in np.flatnonzero(table["peer"] >= 0):
        waits, peer = result[int(table["step"][row])], int(table["peer"][row])
        waits[peer] = waits.get(peer, 0) + int(table["dur_ns"][row])
    return result


def waits_for_others(profile: Profile) -> Spans:
    """When this rank's collectives waited for one or several other ranks, hidden by kernels or not (ns)."""
    late = _late(profile)
    return union(late.start, late.end)


def waits_told_by(profile: Profile) -> str | None:
    """What tells the waits of :func:`waits_for_others`: ``tasks`` of this rank, which see every rank, or the ranks that
    were read; None where no collective was recorded. Waits that are told by different means cannot be compared."""
    if not len(profile.table("comms")):
        return None
    if (profile.table("comm_tasks")["name"] == "Notify_Wait").any():
        return "tasks"
    return " ".join(str(rank) for rank in sorted([profile.rank, *(other.rank for other in profile.peers)]))


def slower_peers(profile: Profile) -> list[Profile]:
    """The other ranks that were read and whose kernels take longer than this rank's."""
    mine = kernel_us(profile)
    return [other for other in profile.peers if kernel_us(other) > SLOWER * mine]


def _waits_at(at: Ints, late: _Late) -> tuple[Mask, Ints]:
    """Whether each time is a wait, and for which rank alone (-1 for none or several)."""
    inside = union(late.start, late.end)
    whole = np.searchsorted(inside.start, at, side="right") - 1
    waits = (whole >= 0) & (at < np.append(inside.end, 0)[whole])
    peer = np.full(len(at), -1, dtype=np.int64)
    if waits.any():
        peer[waits] = late.peer[latest_open(late.start, late.end, at[waits])]
    return waits, peer


def _late(profile: Profile) -> _Late:
    """What the sub-tasks say; for collectives in which they name nobody, what the other ranks say, if they do."""
    told, compared = _by_notify(profile), _by_duration(profile)
    named = told.comm[told.peer >= 0]
    rest = ~np.isin(compared.comm, named)
    kept = ~np.isin(told.comm, compared.comm[rest])
    return _Late(*(np.concatenate((mine[kept], other[rest])) for mine, other in zip(told, compared, strict=True)))


def _built(rows: list[tuple[int, int, int, int]]) -> _Late:
    """Rows (comm, start, end, peer) as columns; those of no length are dropped."""
    kept = [row for row in rows if row[2] > row[1]]
    return _Late(*np.array(kept, dtype=np.int64).reshape(-1, 4).T)


def _by_notify(profile: Profile) -> _Late:
    """From the ``Notify_Wait`` of this rank, for each collective: until when several peers were missing, and from then
    on the latest one."""
    tasks = profile.table("comm_tasks")
    waiting = np.asarray(tasks["name"] == "Notify_Wait") if len(tasks) else np.zeros(0, dtype=bool)
    peer, own, comm, length = (tasks[name] for name in ("dst_rank", "src_rank", "comm", "dur_ns"))
    members = _members(profile)
    rows = np.flatnonzero(waiting & (comm >= 0) & (peer != LOCAL) & (peer >= 0) & (peer != own))
    # In each collective the longest wait for a peer says when that peer arrived.
    order = rows[np.lexsort((-length[rows], peer[rows], comm[rows]))]
    longest = order[np.append(True, (np.diff(comm[order]) != 0) | (np.diff(peer[order]) != 0))[: len(order)]]
    longest = longest[np.lexsort((-length[longest], comm[longest]))]
    first = np.append(True, np.diff(comm[longest]) != 0)[: len(longest)]
    found = []
    for at in np.flatnonzero(first):
        row = longest[at]
        alone = at + 1 == len(longest) or first[at + 1]
        second = 0 if alone else int(length[longest[at + 1]])
        start = int(tasks["start_ns"][row])
        found.append((int(comm[row]), start, start + second, -1))
        late = _in_job(int(peer[row]), int(own[row]), members.get(int(comm[row]), ()), profile.rank)
        found.append((int(comm[row]), start + second, start + int(length[row]), late))
    return _built(found)


def other_side(profile: Profile) -> Ints:
    """For each communication between two ranks the other one, as far as its sub-tasks and the list of communicators
    tell; -1 for all others."""
    comms, tasks = profile.table("comms"), profile.table("comm_tasks")
    found = np.full(len(comms), -1, dtype=np.int64)
    members, several = _members(profile), set()
    comm, own, peer = tasks["comm"], tasks["src_rank"], tasks["dst_rank"]
    rows = np.flatnonzero((comm >= 0) & (peer >= 0) & (peer != LOCAL) & (peer != own)) if members else own[:0]
    for row in rows[is_p2p(comms["type"])[comm[rows]]].tolist():
        at = int(comm[row])
        if at in members:
            other = _in_job(int(peer[row]), int(own[row]), members[at], profile.rank)
            several |= {at} if found[at] not in (-1, other) else set()
            found[at] = other
    found[sorted(several)] = -1
    return found


def _members(profile: Profile) -> dict[int, tuple[int, ...]]:
    """The ranks of the communicator of each collective, where the recording lists its communicators."""
    groups = {group.hash: group.ranks for group in rank_groups(profile)}
    if not groups:
        return {}
    names = profile.table("comms").strings("group")
    return {row: groups[str(name)] for row, name in enumerate(names) if str(name) in groups}


def _in_job(peer: int, own: int, members: tuple[int, ...], rank: int) -> int:
    """The rank in the job of a peer that sub-tasks count within the communicator, as they do with this rank itself."""
    counted = 0 <= own < len(members) and members[own] == rank and 0 <= peer < len(members)
    return members[peer] if counted else peer


def _by_duration(profile: Profile) -> _Late:
    """The slower peer whose part of each collective is the shortest, and when only it was missing.

    What the late rank hides under its longer computation this rank would hide too, were they equally fast: of the
    collective itself only as much is left as the late rank exposes.
    """
    slower = slower_peers(profile)
    if not slower:
        return _built([])
    comms, mine = profile.table("comms"), _collectives(profile)
    others = [(other.rank, *_durations(other)) for other in profile.peers]
    suspects = {other.rank for other in slower}
    found = []
    for key, row in mine.items():
        length, end = int(comms["dur_ns"][row]), int(comms["end_ns"][row])
        theirs = [(int(dur[rows[key]]), int(bare[rows[key]]), rank) for rank, rows, dur, bare in others if key in rows]
        if theirs and min(theirs)[0] < length and min(theirs)[2] in suspects:
            _, bare_ns, peer = min(theirs)
            second = sorted([length, *(dur for dur, *_ in theirs)])[1]
            found.append((row, end - second, end - bare_ns, peer))
    return _built(found)


def _durations(profile: Profile) -> tuple[dict[tuple[str, int, int], int], Ints, Ints]:
    """The collectives by key, how long each lasts, and how much of it no kernel hides, in ns."""
    comms, kernels = profile.table("comms"), profile.table("kernels")
    hidden = covered(comms["start_ns"], comms["end_ns"], union(kernels["start_ns"], kernels["end_ns"]))
    return _collectives(profile), comms["dur_ns"], comms["dur_ns"] - hidden


def _collectives(profile: Profile) -> dict[tuple[str, int, int], int]:
    """Rows of ``comms`` by (name, step number, how many of that name and step came before)."""
    comms, numbers = profile.table("comms"), np.append(profile.table("steps")["number"], -1)
    names, p2p = comms.strings("name"), is_p2p(comms["type"])
    seen: Counter[tuple[str, int]] = Counter()
    found = {}
    for row in np.argsort(comms["start_ns"], kind="stable"):
        if p2p[row]:
            continue
        key = (str(names[row]), int(numbers[comms["step"][row]]))
        found[(*key, seen[key])] = int(row)
        seen[key] += 1
    return found
