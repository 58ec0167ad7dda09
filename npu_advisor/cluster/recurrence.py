"""What a change of some ranks does to the job: a max-plus recurrence over collectives.

A rank works on its own; a collective may start when enough of that is done, moves data once the last of its ranks has
arrived, and ends for all of them at once. With ``T`` when a rank had done its own work up to the end of its previous
collective, ``a`` its arrival at the next one and ``E`` the end of that::

    a = max(T + lead, end of the rank's previous collective)        where it had ended before this one began
    E = max(a over the ranks of the collective) + transit
    T = max(T + advance, E where nothing computed when it ended, else 0)

``lead`` is the own time (idle + kernels) until the collective could start, ``advance`` that until it ended, ``transit``
the shortest duration of the collective on any rank: the last to arrive waits for nobody. An edit scales the kernels or
the idle time of a rank. This is an approximation: it knows nothing of the host behind a gap (kernels that get faster
may only uncover it), and takes the n-th send of a pair for the n-th receive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Floats, Ints, Mask

Places = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Sequences:
    """Collectives of all ranks in the order of :func:`waves`, and where in it each wave ends. Times in us.

    ``rank`` is a position (0..n-1), ``instance`` the same number on all ranks of one collective. ``transit`` is by
    instance; by rank are ``offset``, when the recording begins on a common clock, and ``tail``, the own time after the
    last collective.
    """

    waves_end: Ints
    rank: Places
    instance: Places
    lead: Floats
    lead_busy: Floats
    advance: Floats
    advance_busy: Floats
    blocks: Mask
    serial: Mask
    transit: Floats
    offset: Floats
    tail: Floats
    tail_busy: Floats

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.tail)


def waves(rank: Ints, instance: Ints, count: int) -> tuple[Ints, Ints]:
    """Rows in an order in which the recurrence can be solved, and where in it each wave ends: its rows at once.

    Rows come by rank (0..``count``-1) and time. A collective is ready when it is the next one of all its ranks. Where
    ranks disagree on the order (a recording that lacks rows) nothing is ready; those that are furthest behind then go
    on alone.
    """
    at = np.searchsorted(rank, np.arange(count), side="left")
    ends = np.searchsorted(rank, np.arange(count), side="right")
    first = at.copy()
    members = np.bincount(instance, minlength=1)
    ready = np.zeros(len(members), dtype=np.int64)
    found = []
    active = np.flatnonzero(at < ends)
    ready += np.bincount(instance[at[active]], minlength=len(members))
    while len(active):
        rows = at[active]
        done = ready[instance[rows]] >= members[instance[rows]]
        if not done.any():
            done = rows - first[active] == (rows - first[active]).min()
        moved = active[done]
        found.append(rows[done])
        at[moved] += 1
        still = moved[at[moved] < ends[moved]]
        np.add.at(ready, instance[at[still]], 1)
        active = active[at[active] < ends[active]]
    order: Ints = np.concatenate([np.zeros(0, dtype=np.int64), *found])
    return order, np.cumsum([len(rows) for rows in found], dtype=np.int64)


def finish_times(sequences: Sequences, kernels: Floats | None = None, idle: Floats | None = None) -> Floats:
    """When each rank has done all its steps (us), with its kernels and idle times scaled by a factor a rank."""
    ones = np.ones(sequences.ranks)
    busy, rest = (ones if kernels is None else kernels), (ones if idle is None else idle)
    time, ended = sequences.offset.copy(), np.full(sequences.ranks, -np.inf)
    end = np.full(int(sequences.instance.max(initial=-1)) + 1, -np.inf)
    since = 0
    for until in sequences.waves_end.tolist():
        rows, since = slice(since, until), until
        rank, instance = sequences.rank[rows], sequences.instance[rows]
        arrival = time[rank] + _scaled(sequences.lead[rows], sequences.lead_busy[rows], busy[rank], rest[rank])
        arrival = np.where(sequences.serial[rows], np.maximum(arrival, ended[rank]), arrival)
        np.maximum.at(end, instance, arrival)
        over = end[instance] + sequences.transit[instance]
        done = time[rank] + _scaled(sequences.advance[rows], sequences.advance_busy[rows], busy[rank], rest[rank])
        time[rank] = np.where(sequences.blocks[rows], np.maximum(done, over), done)
        ended[rank] = over
    return np.maximum(time + _scaled(sequences.tail, sequences.tail_busy, busy, rest), 0.0)


def _scaled(whole: Floats, under_kernels: Floats, kernels: Floats, idle: Floats) -> Floats:
    return under_kernels * kernels + (whole - under_kernels) * idle
