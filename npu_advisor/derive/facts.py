"""Totals of one profile: the ``profile`` row that rules compare with, and the peaks of memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import union
from npu_advisor.model.profile import Profile
from npu_advisor.model.schema import IDLE_OWNERS
from npu_advisor.model.table import Table

# PTA+GE is the running sum of both allocators; without GE there is only PTA.
PEAK_COMPONENTS = ("PTA+GE", "PTA")


class Peak(NamedTuple):
    """A maximum of memory: bytes, and when it is first reached (ns)."""

    size_bytes: float
    at_ns: int


def memory_peak(profile: Profile, column: str, components: tuple[str, ...] = PEAK_COMPONENTS) -> Peak | None:
    """The peak of ``allocated_bytes`` or ``reserved_bytes`` of the first component that was recorded."""
    memory = profile.table("memory")
    for component in components if len(memory) else ():
        rows = np.flatnonzero(np.asarray(memory["component"] == component))
        values = memory[column][rows]
        if np.isfinite(values).any():
            # Samples are in time order and argmax takes the first.
            row = rows[int(np.nanargmax(values))]
            return Peak(float(memory[column][row]), int(memory["start_ns"][row]))
    return None


def device_busy_us(profile: Profile) -> float:
    """Union of the compute kernels of each step, summed; of all kernels where none belongs to a step."""
    kernels = profile.table("kernels")
    step = kernels["step"]
    numbers = np.unique(step[step >= 0]) if (step >= 0).any() else np.array([-1])
    total = 0
    for number in numbers:
        rows = step == number
        total += union(kernels["start_ns"][rows], kernels["end_ns"][rows]).total
    return total / 1000.0


def idle_us(profile: Profile, step: int | None = None) -> dict[str, float]:
    """Idle time of each owner in us, over all steps or in one (a row of ``steps``)."""
    idle = profile.table("idle")
    mine = np.ones(len(idle), dtype=bool) if step is None else idle["step"] == step
    return {
        owner: float(idle["dur_ns"][mine & np.asarray(idle["owner"] == owner)].sum()) / 1000.0 for owner in IDLE_OWNERS
    }


def profile_row(profile: Profile) -> Table:
    """The ``profile`` table: one row of totals, switches and environment."""
    info, steps = profile.info, profile.table("steps")
    # Without a complete step (a cut recording) the cut ones are all there is to measure against.
    whole = steps["complete"] if steps["complete"].any() else np.ones(len(steps), dtype=bool)
    peaks = {column: memory_peak(profile, column) for column in ("allocated_bytes", "reserved_bytes")}
    values: dict[str, object] = {
        "level": info.level,
        "device": info.device,
        "torch_npu": info.torch_npu,
        "cann": info.cann,
        "with_stack": bool(info.with_stack),
        "record_shapes": bool(info.record_shapes),
        "profile_memory": bool(info.profile_memory),
        "steps": int(whole.sum()),
        **{f"env.{name}": value for name, value in info.env.items()},
    }
    if len(steps):
        values["step_us"] = float(steps["dur_us"][whole].mean())
        values["steps_us"] = float(steps["dur_us"].sum())
        values["device_idle_us"] = float(steps["free_us"].sum())
    if profile.has("kernels"):
        values["device_busy_us"] = device_busy_us(profile)
        values.update({f"idle_{owner}_us": us for owner, us in idle_us(profile).items()})
    for column, peak in peaks.items():
        if peak is not None:
            values[f"peak_{column}"] = peak.size_bytes
    return Table.build("profile", {name: [value] for name, value in values.items()}, profile.rank)
