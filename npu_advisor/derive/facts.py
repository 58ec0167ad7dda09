"""Totals of one profile: the ``profile`` row that rules compare with, and the peaks of memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import union
from npu_advisor.base.terms import IDLE_OWNERS
from npu_advisor.derive.experts import expert_facts
from npu_advisor.derive.work import work_of
from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.table import Table

# PTA+GE is the running sum of both allocators; without GE there is only PTA.
PEAK_COMPONENTS = ("PTA+GE", "PTA", "CUDA")
# Columns of ``profile`` that repeat how the recording was set up.
SETTINGS = (
    "level",
    "with_stack",
    "record_shapes",
    "profile_memory",
    "aic_metrics",
    "activities",
    "skipped_steps",
    "warmup",
)


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
    """When a compute kernel of any step runs, in us; of all kernels where none belongs to a step."""
    kernels = profile.table("kernels")
    mine = kernels["step"] >= 0
    if not mine.any():
        mine = ~mine
    return union(kernels["start_ns"][mine], kernels["end_ns"][mine]).total / 1000.0


def kernel_us(profile: Profile) -> float:
    """Plain sum of the compute kernels, in us."""
    return float(profile.table("kernels")["dur_ns"].sum()) / 1000.0


def idle_us(profile: Profile, step: int | None = None) -> dict[str, float]:
    """Idle time of each owner in us, over all steps or in one (a row of ``steps``)."""
    idle = profile.table("idle")
    mine = np.ones(len(idle), dtype=bool) if step is None else idle["step"] == step
    return {
        owner: float(idle["dur_ns"][mine & np.asarray(idle["owner"] == owner)].sum()) / 1000.0 for owner in IDLE_OWNERS
    }


def _waited_us(profile: Profile, peer: int) -> float:
    """What ``profile`` waits for the rank ``peer`` alone."""
    table = profile.table("exposed")
    return float(table["dur_ns"][table["peer"] == peer].sum()) / 1000.0


def switches(info: ProfileInfo) -> dict[str, object]:
    """The settings of the recording that the profile tells; what it does not tell is absent."""
    told: dict[str, object] = {
        "level": info.level,
        "with_stack": info.with_stack,
        "record_shapes": info.record_shapes,
        "profile_memory": info.profile_memory,
        "aic_metrics": info.aic_metrics,
        "activities": ";".join(info.activities) or None,
    }
    if info.schedule:
        told["skipped_steps"] = info.schedule.get("skip_first", 0) + info.schedule.get("wait", 0)
        told["warmup"] = info.schedule.get("warmup")
    return {name: value for name, value in told.items() if value is not None}


def _loop(profile: Profile) -> dict[str, object]:
    """What kind of work was recorded, and how long an iteration lasts where it is a loop of inference."""
    work = work_of(profile)
    iterations = profile.table("iterations") if work == "inference" else ()
    if not len(iterations):
        return {} if work is None else {"work": work}
    us = iterations["dur_us"]  # type: ignore[call-overload]
    return {"work": work, "iterations": len(us), "iteration_us": float(us.mean()), "iterations_us": float(us.sum())}


def environment(profile: Profile) -> Table:
    """The ``environment`` table: every variable that the profiler noted; none where it noted nothing."""
    env = profile.info.env
    if not env:
        return Table.build("environment", {}, profile.rank)
    return Table.build("environment", {"name": list(env), "value": list(env.values())}, profile.rank)


def profile_row(profile: Profile) -> Table:
    """The ``profile`` table: one row of totals, switches and environment."""
    info, steps = profile.info, profile.table("steps")
    # Without a complete step (a cut recording) the cut ones are all there is to measure against.
    whole = steps["complete"] if steps["complete"].any() else np.ones(len(steps), dtype=bool)
    peaks = {column: memory_peak(profile, column) for column in ("allocated_bytes", "reserved_bytes")}
    values: dict[str, object] = {
        "device": info.device,
        "torch_npu": info.torch_npu,
        "cann": info.cann,
        "steps": int(whole.sum()),
        **switches(info),
        **{f"env.{name}": value for name, value in info.env.items()},
    }
    if len(steps):
        values["step_us"] = float(steps["dur_us"][whole].mean())
        values["steps_us"] = float(steps["dur_us"].sum())
        values["device_idle_us"] = float(steps["free_us"].sum())
    if profile.has("kernels"):
        values["device_busy_us"] = device_busy_us(profile)
        values["kernel_us"] = kernel_us(profile)
        values.update(expert_facts(profile))
        values.update({f"idle_{owner}_us": us for owner, us in idle_us(profile).items()})
    values.update(_loop(profile))
    values["other_ranks"] = len(profile.peers)
    if profile.peers and profile.has("kernels"):
        values["others_kernel_us"] = float(np.median([kernel_us(other) for other in profile.peers]))
        values["others_wait_us"] = float(np.median([_waited_us(other, profile.rank) for other in profile.peers]))
    if profile.has("step_memory"):
        values["memory_growth_bytes"] = float(profile.table("step_memory")["growth_bytes"].min())
    for column, peak in peaks.items():
        if peak is not None:
            values[f"peak_{column}"] = peak.size_bytes
    return Table.build("profile", {name: [value] for name, value in values.items()}, profile.rank)
