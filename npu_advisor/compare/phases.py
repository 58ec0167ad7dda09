"""The parts of a training step on both sides: loading data, forward, backward, optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.compare.calls import engine_tracks
from npu_advisor.compare.match import Recording
from npu_advisor.compare.noise import change
from npu_advisor.comparison import Phase, PhaseChange
from npu_advisor.graph.idle import DATA_OPS
from npu_advisor.graph.named import starting
from npu_advisor.graph.nesting import nesting_of

PHASES: tuple[Phase, ...] = get_args(Phase)
_DATA, _FORWARD, _BACKWARD, _OPTIMIZER, _OTHER = range(len(PHASES))
_OPTIMIZER_OPS = ("Optimizer.",)


class _Sums(NamedTuple):
    """Per step, by phase."""

    host_us: Floats
    kernels: Floats
    kernel_us: Floats


def phases(base: Sequence[Recording], new: Sequence[Recording]) -> list[PhaseChange]:
    """Every phase that either side has, in the order of a step."""
    sides = [_mean(side) for side in (base, new)]
    return [
        PhaseChange(
            name=name, **{key: change(key, [float(getattr(side, key)[at]) for side in sides]) for key in _Sums._fields}
        )
        for at, name in enumerate(PHASES)
        if any(figures[at] for side in sides for figures in side)
    ]


def _mean(side: Sequence[Recording]) -> _Sums:
    steps = max(sum(len(recording.steps) for recording in side), 1)
    parts = [_of(recording) for recording in side]
    return _Sums(*(sum(figures, np.zeros(len(PHASES))) / steps for figures in zip(*parts, strict=True)))


def _of(recording: Recording) -> _Sums:
    """Host time is that of whole ranges for data and optimizer, else of the calls, which leaves out what Python does
    between them. Kernels belong to the op that launched them."""
    ops, kernels, calls = recording.profile.table("ops"), recording.profile.table("kernels"), recording.calls
    phase, ranges = _phases(recording)
    called = calls.row[np.isin(phase[calls.row], (_FORWARD, _BACKWARD))]
    rows = np.concatenate([ranges, called])
    rows = rows[np.isin(ops["step"][rows], recording.steps)]
    run = np.flatnonzero(np.isin(kernels["step"], recording.steps))
    of_kernel = np.append(phase, _OTHER)[kernels["op"][run]]
    return _Sums(
        _by(phase[rows], ops["dur_us"][rows]),
        _by(of_kernel, np.ones(len(run))),
        _by(of_kernel, kernels["dur_us"][run]),
    )


def _phases(recording: Recording) -> tuple[Ints, Ints]:
    """The phase of every op, and the outermost ranges of loading data and of the optimizer."""
    ops, tree = recording.profile.table("ops"), nesting_of(recording.profile, "ops")
    marked = np.full(len(ops), -1, dtype=np.int64)
    marked[starting(ops, DATA_OPS)] = _DATA
    marked[starting(ops, _OPTIMIZER_OPS)] = _OPTIMIZER
    phase = tree.inherit(marked)
    inside = np.append(phase, -1)[tree.parent] >= 0
    rest = np.where(np.isin(ops["track"], engine_tracks(ops)), _BACKWARD, _FORWARD)
    return np.where(phase >= 0, phase, rest), np.flatnonzero((marked >= 0) & ~inside)


def _by(phase: Ints, amounts: Floats) -> Floats:
    return np.bincount(phase, weights=amounts, minlength=len(PHASES)).astype(np.float64)
