"""Collectives across ranks: all ranks present are joined by group and ordinal and end together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.replay.arrays import COLLECTIVE, Builder
from npu_advisor.graph.replay.device import DeviceLanes
from npu_advisor.graph.replay.tasks import COMM, Tasks
from npu_advisor.model.profile import Profile

Member = tuple[int, int]
# The two sides of a point-to-point communication.
_DIRECTIONS = ("send", "receive")


def matched(profiles: Sequence[Profile], tasks: Sequence[Tasks]) -> list[list[Member]]:
    """The same collective on different ranks: lists of (position in ``profiles``, task).

    The n-th of a group and type on one rank is the n-th on every other; a group whose counts differ between ranks
    (a cut recording) is left apart. By order over all groups, ranks that run different groups would be mixed up. A
    send is no other rank's send: its counterpart is a receive, known where the group has two ranks.
    """
    rows: dict[tuple[str, str], dict[int, Ints]] = defaultdict(dict)
    for number, (profile, own) in enumerate(zip(profiles, tasks, strict=True)):
        comms = np.flatnonzero(own.kind == COMM)
        comms = comms[np.argsort(own.start[comms], kind="stable")]
        table = profile.table("comms")
        names = np.array([str(name) for name in table.strings("group")], dtype=object)[own.row[comms]]
        types = np.array([str(name) for name in table.strings("type")], dtype=object)[own.row[comms]]
        for key in set(zip(names.tolist(), types.tolist(), strict=True)):
            rows[key][number] = comms[(names == key[0]) & (types == key[1])]
    found = []
    for (group, kind), by_rank in rows.items():
        if kind.lower() in _DIRECTIONS:
            if kind.lower() == _DIRECTIONS[0]:
                found += _sent(by_rank, _received(rows, group))
        elif len(by_rank) > 1 and len({len(members) for members in by_rank.values()}) == 1:
            ranks = sorted(by_rank)
            found += [
                list(zip(ranks, same, strict=True)) for same in zip(*(by_rank[r].tolist() for r in ranks), strict=True)
            ]
    return found


def _received(rows: dict[tuple[str, str], dict[int, Ints]], group: str) -> dict[int, Ints]:
    """The receives of a group, by rank."""
    return next((own for (name, kind), own in rows.items() if name == group and kind.lower() == _DIRECTIONS[1]), {})


def _sent(sends: dict[int, Ints], receives: dict[int, Ints]) -> list[list[Member]]:
    """Each send with its receive: the n-th of one rank is the n-th of the only other rank of the group."""
    ranks = sorted({*sends, *receives})
    if len(ranks) != 2:
        return []
    found = []
    for here, there in (ranks, ranks[::-1]):
        mine, theirs = sends.get(here), receives.get(there)
        if mine is not None and theirs is not None and len(mine) == len(theirs):
            found += [[(here, one), (there, other)] for one, other in zip(mine.tolist(), theirs.tolist(), strict=True)]
    return found


def join(
    builder: Builder, tasks: Sequence[Tasks], lanes: Sequence[DeviceLanes], groups: list[list[Member]]
) -> tuple[Ints, list[dict[int, int]]]:
    """Edges start on every rank -> end on this rank; returns the edges they replace and each rank's transit by task.

    The node between holds the last start, on the first member's clock.
    """
    replaced: list[int] = []
    transit: list[dict[int, int]] = [{} for _ in tasks]
    if not groups:
        return np.zeros(0, dtype=np.int64), transit
    offsets = [_offsets(tasks, group) for group in groups]
    lengths = [_transit(tasks, group) for group in groups]
    last = [
        max(int(tasks[rank].start[task]) - offset for (rank, task), offset in zip(group, own, strict=True))
        for group, own in zip(groups, offsets, strict=True)
    ]
    nodes = builder.nodes(np.array(last, dtype=np.int64) - builder.origin, -1).tolist()
    into: list[tuple[int, int, int]] = []
    out: list[tuple[int, int, int]] = []
    places: list[Member] = []
    for group, own, length, node in zip(groups, offsets, lengths, nodes, strict=True):
        for (rank, task), offset in zip(group, own, strict=True):
            into.append((int(lanes[rank].task_start[task]), node, -offset))
            out.append((node, int(lanes[rank].task_end[task]), length + offset))
            places.append((rank, task))
            transit[rank][task] = length
    src, dst, w = np.array(into, dtype=np.int64).T
    builder.link(src, dst, w, COLLECTIVE)
    src, dst, w = np.array(out, dtype=np.int64).T
    edges = builder.link(src, dst, w, COLLECTIVE).tolist()
    for (rank, task), edge in zip(places, edges, strict=True):
        replaced.append(int(lanes[rank].run[task]))
        lanes[rank].run[task] = edge
    return np.array(replaced, dtype=np.int64), transit


def _transit(tasks: Sequence[Tasks], group: list[Member]) -> int:
    """The shortest duration of a collective on any rank: the last to come waits for nobody."""
    return min(int(tasks[rank].end[task] - tasks[rank].start[task]) for rank, task in group)


def _offsets(tasks: Sequence[Tasks], group: list[Member]) -> list[int]:
    """How far each member's clock is ahead of the first one's: all ranks leave a collective together."""
    ends = [int(tasks[rank].end[task]) for rank, task in group]
    return [end - ends[0] for end in ends]
