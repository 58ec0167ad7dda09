"""What looks slow on the host but is not the cause: long events whose time the device does not lose.

This is the answer for profiles whose replay cannot be trusted; :mod:`npu_advisor.derive.hidden` asks the replay.

An event qualifies when it lasts at least 5 % of its step and the device is idle during at most a twentieth of it and
under 0.5 % of the step.  Steps whose device records are not complete tell nothing.  The outermost such event speaks for
what it contains: a Python function for the ops it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from npu_advisor.base.frame import Frame, is_user_path, is_user_relative, parse_frame, split_stack
from npu_advisor.base.intervals import Ints, Mask, Spans, covered, union
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.graph.named import STEP_MARK
from npu_advisor.graph.nesting import nesting_of
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

MIN_STEP_SHARE = 0.05
MAX_IDLE_OF_EVENT = 0.05
MAX_IDLE_OF_STEP = 0.005


class Bystander(NamedTuple):
    """One such event: its name, the line that calls it, its mean duration per step, why it costs nothing, and whether
    it ran on the device."""

    name: str
    frame: Frame | None
    duration_us: float
    reason: Text
    device: bool = False


def bystanders(profile: Profile, limit: int = 5) -> list[Bystander]:
    """The longest bystanders of a linked profile with a trace, at most ``limit``, longest first."""
    steps = profile.table("steps")
    whole = int(steps["complete"].sum())
    if not profile.has("ops") or not whole or not profile.has("kernels"):
        return []
    device = {name: profile.table(name) for name in ("kernels", "comms")}
    busy = {name: union(tasks["start_ns"], tasks["end_ns"]) for name, tasks in device.items()}
    found: dict[tuple[str, str], list[tuple[float, Text]]] = {}
    frames_of: dict[tuple[str, str], Frame | None] = {}
    spoken: list[tuple[int, int, int]] = []
    for name in ("frames", "ops"):
        table = profile.table(name)
        for row in _outermost(profile, table):
            track, start, end = (int(table[column][row]) for column in ("track", "start_ns", "end_ns"))
            if any(lane == track and low <= start and end <= high for lane, low, high in spoken):
                continue
            spoken.append((track, start, end))
            label, frame = label_of(profile, table, row)
            key = (label, str(frame))
            frames_of[key] = frame
            found.setdefault(key, []).append((float(table["dur_us"][row]), _reason(busy, table, row)))
    made = [
        Bystander(label, frames_of[label, place], sum(us for us, _ in parts) / whole, parts[-1][1])
        for (label, place), parts in ((key, sorted(parts, key=lambda part: part[0])) for key, parts in found.items())
    ]
    return sorted(made, key=lambda item: -item.duration_us)[:limit]


def _outermost(profile: Profile, table: Table) -> Ints:
    """Rows of ``table`` that qualify and have no qualifying ancestor."""
    if not len(table):
        return np.zeros(0, dtype=np.int64)
    steps, idle = profile.table("steps"), profile.table("idle")
    step = step_of(profile, table, np.arange(len(table)))
    step_ns = np.where(step >= 0, steps["dur_ns"][np.maximum(step, 0)], np.iinfo(np.int64).max)
    lost = covered(table["start_ns"], table["end_ns"], union(idle["start_ns"], idle["end_ns"]))
    long_ = table["dur_ns"] >= MIN_STEP_SHARE * step_ns
    harmless = (lost <= MAX_IDLE_OF_EVENT * table["dur_ns"]) & (lost <= MAX_IDLE_OF_STEP * step_ns)
    good = long_ & harmless & eligible(table) & (table["dur_ns"] < 0.98 * step_ns)
    good &= (step >= 0) & steps["complete"][np.maximum(step, 0)]
    tree = nesting_of(profile, table.spec.name)
    nearest = tree.inherit(np.where(good, np.arange(len(table)), -1))
    above = np.where(tree.parent >= 0, nearest[np.maximum(tree.parent, 0)], -1)
    return np.flatnonzero(good & (above < 0))


def step_of(profile: Profile, table: Table, rows: Ints) -> Ints:
    """The step row of each of these events, -1 for none."""
    if table.spec.column("step"):
        return np.asarray(table.at("step", rows))
    steps = profile.table("steps")
    row = np.searchsorted(steps["start_ns"], table.at("start_ns", rows), side="right") - 1
    inside = (row >= 0) & (table.at("end_ns", rows) <= steps["end_ns"][np.maximum(row, 0)])
    return np.where(inside, row, -1)


def eligible(table: Table) -> Mask:
    """User functions among Python frames; user ranges and optimizer steps among ops (not torch's own plumbing)."""
    names = table["name"]
    if table.spec.name == "frames":
        frames = [parse_frame(str(name)) for name in names.categories]
        good = [frame is not None and is_user_relative(frame.path) for frame in frames]
    else:
        good = [
            not str(name).startswith((STEP_MARK, "autograd::engine", "DistributedDataParallel"))
            for name in names.categories
        ]
    match: Mask = np.array([*good, False], dtype=bool)
    return np.asarray(match[names.codes])


def label_of(profile: Profile, table: Table, row: int) -> tuple[str, Frame | None]:
    """What to call the event, and the user's line that calls it."""
    name = str(table.text("name", row))
    if table.spec.name == "ops":
        source = table.text("source", row)
        short = name.removeprefix("Optimizer.step#") if name.startswith("Optimizer.step#") else name
        return short, parse_frame(source) if source else None
    frame = parse_frame(name)
    assert frame is not None
    return frame.function, _caller(profile, frame, table, row)


def _caller(profile: Profile, frame: Frame, table: Table, row: int) -> Frame | None:
    """The user frame just outside ``frame``, from the stack of any op that runs inside this call."""
    ops = profile.table("ops")
    start, stacks = ops["start_ns"], ops["stack"]
    low, high = table["start_ns"][row], table["start_ns"][row] + table["dur_ns"][row]
    # Few of all the ops of a recording: nothing else is looked at of the others.
    begun = np.flatnonzero((start >= low) & (start <= high))
    inside = (ops["track"][begun] == table["track"][row]) & (start[begun] + ops["dur_ns"][begun] <= high)
    codes = stacks.codes[begun[inside]]
    for code in dict.fromkeys(codes[codes >= 0][:50].tolist()):
        parsed = [parse_frame(text) for text in split_stack(str(stacks.categories[code]))]
        chain = [item for item in parsed if item is not None and is_user_path(item.path)]
        for inner, outer in pairwise(chain):
            if inner.function == frame.function and inner.path.endswith(frame.path):
                return outer
    return None


def _reason(busy: Mapping[str, Spans], table: Table, row: int) -> Text:
    """What the device does meanwhile: ``busy`` is when it computes (kernels) and communicates (comms)."""
    span = (table["start_ns"][row : row + 1], table["end_ns"][row : row + 1])
    dur = max(int(table["dur_ns"][row]), 1)
    shares = {name: int(covered(*span, spans)[0]) / dur for name, spans in busy.items()}
    what = "communicates" if shares["comms"] > shares["kernels"] else "computes"
    share = max(shares.values())
    if share >= 0.5:
        return say(f"bystander.device_{what}", share=f"{100 * share:.0f} %")
    return say("bystander.no_idle")
