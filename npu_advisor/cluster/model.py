"""The model of a job: its recurrence, how well that gives back the recording, and what edits gain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Floats, Ints, Mask
from npu_advisor.cluster.matching import Matched
from npu_advisor.cluster.recurrence import Sequences, finish_times, waves
from npu_advisor.model.table import Table

# A model that misses the recorded step by more than this says nothing of an edited one.
TRUSTED = 0.1
# A collective that starts so soon after the one before was waiting for it, not for the rank's own work.
QUEUED_NS = 50_000


@dataclass(frozen=True)
class JobModel:
    """``error`` is how far the job's step as modelled is off the recorded one (share)."""

    sequences: Sequences | None
    order: list[Ints]
    step_of: Ints
    tail_row: Ints
    steps: int
    plain_us: float
    error: float

    @classmethod
    def of(cls, steps: Table, of: Ints, comms: Table, comm_rank: Ints, same: Matched, count: int) -> JobModel:
        """The model of the summaries; not usable where collectives have no times or fewer than two ranks share one."""
        nothing = cls(None, [], np.zeros(0, np.int64), np.zeros(0, np.int64), 1, 0.0, np.nan)
        if "lead_us" not in comms.present or "tail_us" not in steps.present or not same.shared.any():
            return nothing
        rows, step_row, tail_row = _layout(steps, of, comms, comm_rank)
        sequences = _sequences(steps, of, comms, comm_rank, same, count, rows, step_row)
        order = waves(sequences)
        number = max(int(np.median(np.bincount(of, minlength=count))), 1)
        ends = finish_times(sequences, order)
        recorded = np.bincount(of, weights=steps["dur_us"], minlength=count) + sequences.offset
        plain, truth = float(ends.max()), float(recorded.max())
        error = abs(plain - truth) / truth if truth else np.nan
        return cls(sequences, order, step_row, tail_row, number, plain, error)

    @property
    def usable(self) -> bool:
        """Whether the model gives back the recording well enough to be asked."""
        return self.sequences is not None and self.error <= TRUSTED

    def gain(self, rank: int, kernels: float = 1.0, idle: float = 1.0) -> float:
        """What a step of the job gains (us) if the kernels and idle times of one rank are scaled."""
        assert self.sequences is not None
        ones = np.ones(self.sequences.ranks)
        changed = ones.copy()
        changed[rank] = kernels
        rest = ones.copy()
        rest[rank] = idle
        return (self.plain_us - float(finish_times(self.sequences, self.order, changed, rest).max())) / self.steps

    def gain_of_steps(self, factor: Floats) -> float:
        """What a step gains if the kernels of each step of each rank (a row of ``rank_steps``) are scaled."""
        own = self.sequences
        assert own is not None
        scale, tail = factor[self.step_of], factor[self.tail_row]
        edited = replace(
            own,
            lead=own.lead + own.lead_busy * (scale - 1),
            advance=own.advance + own.advance_busy * (scale - 1),
            tail=own.tail + own.tail_busy * (tail - 1),
        )
        return (self.plain_us - float(finish_times(edited, self.order).max())) / self.steps


def _layout(steps: Table, of: Ints, comms: Table, comm_rank: Ints) -> tuple[Ints, Ints, Ints]:
    """(rows of ``comms`` in order of rank, step and time; the row of ``steps`` of each; each rank's last one).

    Both tables come in order of steps within a rank.
    """
    rows = np.argsort(comm_rank, kind="stable")
    width = int(max(steps["number"].max(initial=0), comms["number"].max(initial=0))) + 2
    keys = of * width + steps["number"] + 1
    wanted = comm_rank[rows] * width + comms["number"][rows] + 1
    found = np.argsort(keys, kind="stable")[np.minimum(np.searchsorted(np.sort(keys), wanted), len(keys) - 1)]
    last = np.zeros(int(of.max(initial=-1)) + 1, dtype=np.int64)
    last[of] = np.arange(len(of))
    return rows, found, last


def _sequences(
    steps: Table,
    of: Ints,
    comms: Table,
    comm_rank: Ints,
    same: Matched,
    count: int,
    rows: Ints,
    step_row: Ints,
) -> Sequences:
    rank, instance = comm_rank[rows], same.instance[rows]
    start, end = comms["start_ns"][rows], comms["end_ns"][rows]
    new_rank = np.append(True, rank[1:] != rank[:-1])
    serial = ~new_rank
    serial[1:] &= start[1:] >= end[:-1]
    queued = serial.copy()
    queued[1:] &= start[1:] - end[:-1] < QUEUED_NS
    lead, lead_busy = comms["lead_us"][rows].copy(), comms["lead_busy_us"][rows].copy()
    for column, tails in ((lead, steps["tail_us"]), (lead_busy, steps["tail_busy_us"])):
        column += _own_before(np.nan_to_num(tails), of, step_row, new_rank)
    own = _Own(lead - lead_busy, comms["under_us"][rows] - comms["under_busy_us"][rows])
    busy = _Own(lead_busy, comms["under_busy_us"][rows])
    new_step = np.append(True, step_row[1:] != step_row[:-1])
    idle_early = _early(own, np.ones(len(rows)), instance, queued, new_step)
    busy_early = _early(busy, np.maximum(steps["compute_us"][step_row], 1e-9), instance, queued, new_step)
    tail, tail_busy = _own_after(steps, of, rank, step_row, count)
    return Sequences(
        rank=rank,
        instance=instance,
        lead=lead - idle_early - busy_early,
        lead_busy=lead_busy - busy_early,
        advance=lead + comms["under_us"][rows],
        advance_busy=lead_busy + comms["under_busy_us"][rows],
        blocks=comms["blocks"][rows],
        serial=serial,
        transit=same.transit[rows],
        offset=_offsets(steps, of, rank, instance, end, new_rank, count),
        tail=tail,
        tail_busy=tail_busy,
    )


class _Own(NamedTuple):
    """Own time of one kind before each collective (since the last one ended) and while it ran."""

    lead: Floats
    under: Floats


def _early(own: _Own, whole: Floats, instance: Ints, queued: Mask, new_step: Mask) -> Floats:
    """How much own time earlier a collective could have started that only queued behind the one before it.

    Every rank runs the same code, so it was ready when the same part of the step (of ``whole``) was done as on the rank
    that had done least when it started there: that rank was held up by its own work.
    """
    total = np.cumsum(own.lead + own.under)
    group = np.cumsum(new_step) - 1
    base = (total - own.lead - own.under)[new_step][group]
    at_start = total - own.under - base
    least = np.full(int(instance.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, instance, at_start / whole)
    return np.where(queued, np.maximum(at_start - least[instance] * whole, 0.0), 0.0)


def _own_before(tails: Floats, of: Ints, step_row: Ints, new_rank: Mask) -> Floats:
    """Own time at the end of earlier steps that lies between a collective and the one before it (else since the rank's
    recording began): the tails of all steps of the rank from that one's up to this one's."""
    before = np.append(0.0, np.cumsum(tails))
    first_row = np.searchsorted(of, of[step_row], side="left")
    since = np.where(new_rank, first_row, np.append(0, step_row[:-1]))
    found: Floats = before[step_row] - before[since]
    return found


def _own_after(steps: Table, of: Ints, rank: Ints, step_row: Ints, count: int) -> tuple[Floats, Floats]:
    """Own time of each rank from its last collective to the end of its last step, and of it under kernels."""
    last_comm = np.searchsorted(of, np.arange(count), side="left")
    last_comm[rank] = step_row  # the last one wins
    end = np.searchsorted(of, np.arange(count), side="right")
    found = []
    for name in ("tail_us", "tail_busy_us"):
        before = np.append(0.0, np.cumsum(np.nan_to_num(steps[name])))
        found.append(before[end] - before[np.minimum(last_comm, end)])
    return found[0], found[1]


def _offsets(steps: Table, of: Ints, rank: Ints, instance: Ints, end: Ints, new_rank: Mask, count: int) -> Floats:
    """When each rank's recording began, on a clock on which the first collective of every rank ends at once (us).

    Clocks of different machines differ by more than a step; the end of a collective is what they share.
    """
    begin = np.zeros(count, dtype=np.int64)
    begin[of[::-1]] = steps["start_ns"][::-1]
    first = np.flatnonzero(new_rank)
    after = (end[first] - begin[rank[first]]) / 1000.0
    latest = np.full(int(instance.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(latest, instance[first], after)
    offset = np.zeros(count)
    offset[rank[first]] = latest[instance[first]] - after
    return offset
