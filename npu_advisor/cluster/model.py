"""The model of a job: its recurrence, how well that gives back the recording, and what edits gain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npu_advisor.base.intervals import Floats, Ints, Mask
from npu_advisor.cluster.matching import Matched
from npu_advisor.cluster.recurrence import Places, Sequences, finish_times, waves
from npu_advisor.model.table import Table

# A model that misses the recorded step by more than this says nothing of an edited one.
TRUSTED = 0.1
# A collective that starts so soon after the one before was waiting for it, not for the rank's own work.
QUEUED_NS = 50_000


@dataclass(frozen=True)
class JobModel:
    """``error`` is how far the job's step as modelled is off the recorded one (share); ``experts`` the time of experts
    in ``lead`` and in ``advance`` of the sequences, where there are any."""

    sequences: Sequences | None
    step_of: Places
    experts: tuple[Floats, Floats] | None
    tail_row: Ints
    steps: int
    plain_us: float
    error: float

    @classmethod
    def of(cls, steps: Table, of: Ints, comms: Table, comm_rank: Ints, same: Matched, count: int) -> JobModel:
        """The model of the summaries; not usable where collectives have no times or fewer than two ranks share one.

        Both tables come in order of rank, step and time.
        """
        if "lead_us" not in comms.present or "tail_us" not in steps.present or not (same.members > 1).any():
            return cls(None, np.zeros(0, np.int32), None, np.zeros(0, np.int64), 1, 0.0, np.nan)
        step_row, tail_row = _step_rows(steps, of, comms, comm_rank)
        sequences, order = _sequences(steps, of, comms, comm_rank, same, count, step_row)
        number = max(int(np.median(np.bincount(of, minlength=count))), 1)
        ends = finish_times(sequences)
        recorded = np.bincount(of, weights=steps["dur_us"], minlength=count) + sequences.offset
        plain, truth = float(ends.max()), float(recorded.max())
        error = abs(plain - truth) / truth if truth else np.nan
        return cls(sequences, step_row[order].astype(np.int32), _experts(comms, order), tail_row, number, plain, error)

    @property
    def usable(self) -> bool:
        """Whether the model gives back the recording well enough to be asked."""
        return self.sequences is not None and self.error <= TRUSTED

    def gain(self, rank: int, kernels: float = 1.0, idle: float = 1.0) -> float:
        """What a step of the job gains (us) if the kernels and idle times of one rank are scaled."""
        assert self.sequences is not None
        changed, rest = np.ones(self.sequences.ranks), np.ones(self.sequences.ranks)
        changed[rank], rest[rank] = kernels, idle
        return (self.plain_us - float(finish_times(self.sequences, changed, rest).max())) / self.steps

    def gain_of_ranks(self, kernels: Floats) -> float:
        """What a step gains (us) if the kernels of each rank are scaled."""
        assert self.sequences is not None
        return (self.plain_us - float(finish_times(self.sequences, kernels).max())) / self.steps

    def gain_of_experts(self, factor: Floats) -> float:
        """What a step gains (us) if only the experts of each rank are scaled; NaN where nothing tells when they ran."""
        own = self.sequences
        assert own is not None
        if self.experts is None:
            return np.nan
        lead, advance = (column * (factor[own.rank] - 1) for column in self.experts)
        edited = replace(own, lead=own.lead + lead, advance=own.advance + advance)
        return (self.plain_us - float(finish_times(edited).max())) / self.steps

    def gain_of_links(self, rank: int, ratio: float) -> float:
        """What a step gains (us) if the collectives of a rank take ``ratio`` of their time to move data."""
        own = self.sequences
        assert own is not None
        scale = np.ones(len(own.transit))
        scale[own.instance[own.rank == rank]] = ratio
        return (self.plain_us - float(finish_times(replace(own, transit=own.transit * scale)).max())) / self.steps

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
        return (self.plain_us - float(finish_times(edited).max())) / self.steps


def _experts(comms: Table, order: Ints) -> tuple[Floats, Floats] | None:
    if "lead_expert_us" not in comms.present:
        return None
    lead = np.nan_to_num(comms["lead_expert_us"])
    return lead[order], (lead + np.nan_to_num(comms["under_expert_us"]))[order]


def _step_rows(steps: Table, of: Ints, comms: Table, comm_rank: Ints) -> tuple[Ints, Ints]:
    """(for each row of ``comms`` its row of ``steps``, the last one of each rank)."""
    width = int(max(steps["number"].max(initial=0), comms["number"].max(initial=0))) + 2
    keys = of * width + steps["number"] + 1
    wanted = comm_rank * width + comms["number"] + 1
    found = np.argsort(keys, kind="stable")[np.minimum(np.searchsorted(np.sort(keys), wanted), len(keys) - 1)]
    last = np.zeros(int(of.max(initial=-1)) + 1, dtype=np.int64)
    last[of] = np.arange(len(of))
    return found, last


def _sequences(
    steps: Table,
    of: Ints,
    comms: Table,
    rank: Ints,
    same: Matched,
    count: int,
    step_row: Ints,
) -> tuple[Sequences, Ints]:
    """The sequences, and their order as rows of ``comms``."""
    new_rank = np.append(True, rank[1:] != rank[:-1])
    own = _own_times(steps, of, comms, same.instance, step_row, new_rank)
    order, waves_end = waves(rank, same.instance, count)
    tail, tail_busy = _own_after(steps, of, rank, step_row, count)
    sequences = Sequences(
        waves_end=waves_end,
        rank=rank[order].astype(np.int32),
        instance=same.instance[order].astype(np.int32),
        # A job has millions of collectives: each column is let go of when it is in its new order.
        lead=own.pop("lead")[order],
        lead_busy=own.pop("lead_busy")[order],
        advance=own.pop("advance")[order],
        advance_busy=own.pop("advance_busy")[order],
        blocks=comms["blocks"][order],
        serial=_serial(comms, new_rank)[order],
        transit=same.transit,
        offset=_offsets(steps, of, rank, same.instance, comms["end_ns"], new_rank, count),
        tail=tail,
        tail_busy=tail_busy,
    )
    return sequences, order


def _serial(comms: Table, new_rank: Mask, after_ns: int | None = None) -> Mask:
    """Whether each collective began when the rank's previous one had ended (``after_ns``: less than that after it)."""
    start, end = comms["start_ns"], comms["end_ns"]
    serial = ~new_rank
    serial[1:] &= start[1:] >= end[:-1]
    if after_ns is not None:
        serial[1:] &= start[1:] - end[:-1] < after_ns
    return serial


def _own_times(
    steps: Table, of: Ints, comms: Table, instance: Ints, step_row: Ints, new_rank: Mask
) -> dict[str, Floats]:
    """``lead`` and ``advance`` of Sequences, and of both what is under kernels, in the order of ``comms``."""
    lead, lead_busy = comms["lead_us"].copy(), comms["lead_busy_us"].copy()
    for column, tails in ((lead, steps["tail_us"]), (lead_busy, steps["tail_busy_us"])):
        column += _own_before(np.nan_to_num(tails), of, step_row, new_rank)
    advance, advance_busy = lead + comms["under_us"], lead_busy + comms["under_busy_us"]
    queued = _serial(comms, new_rank, QUEUED_NS)
    new_step = np.append(True, step_row[1:] != step_row[:-1])
    work = np.maximum(steps["compute_us"], 1e-9)
    early = _early(lead_busy, advance_busy, work[step_row], instance, queued, new_step)
    lead -= lead_busy
    lead -= _early(lead, advance - advance_busy, None, instance, queued, new_step)
    lead_busy -= early
    lead += lead_busy
    return {"lead": lead, "lead_busy": lead_busy, "advance": advance, "advance_busy": advance_busy}


def _early(lead: Floats, advance: Floats, whole: Floats | None, instance: Ints, queued: Mask, new_step: Mask) -> Floats:
    """How much own time of one kind earlier a collective could have started that only queued behind the one before it.

    ``lead`` is the own time before it (since the last one ended), ``advance`` that and what passed while it ran. Every
    rank runs the same code, so it was ready when the same part of the step (of ``whole``, None: the same time) was done
    as on the rank that had done least when it started there: that rank was held up by its own work.
    """
    done = np.cumsum(advance)
    done -= advance  # before it
    done -= np.repeat(done[new_step], np.diff(np.flatnonzero(np.append(new_step, True))))  # in its step
    done += lead  # when it began
    least = np.full(int(instance.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, instance, done if whole is None else done / whole)
    ready = least[instance]
    done -= ready if whole is None else ready * whole
    done[~queued] = 0.0
    return np.maximum(done, 0.0, out=done)


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
