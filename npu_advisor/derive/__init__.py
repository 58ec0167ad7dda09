"""Tables and figures computed from a linked profile, each on first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.derive.clock import clock
from npu_advisor.derive.comm import exposed
from npu_advisor.derive.facts import SETTINGS, environment, profile_row, switches
from npu_advisor.derive.hardware import CHIPS, hardware
from npu_advisor.derive.iterations import iteration_gaps, iterations
from npu_advisor.derive.memory import peak_owners
from npu_advisor.derive.pipeline import bubbles
from npu_advisor.derive.reserve import fragmentation, step_memory
from npu_advisor.derive.roofline import roofline
from npu_advisor.derive.sequences import sequences
from npu_advisor.derive.transfers import comm_split, transfers
from npu_advisor.derive.updates import graph_updates
from npu_advisor.graph.idle import idle
from npu_advisor.model.profile import KERNELS_LOST, Profile

PROVIDERS = {
    "idle": idle,
    "exposed": exposed,
    "peak_owners": peak_owners,
    "iterations": iterations,
    "iteration_gaps": iteration_gaps,
    "graph_updates": graph_updates,
    "fragmentation": fragmentation,
    "step_memory": step_memory,
    "roofline": roofline,
    "clock": clock,
    "sequences": sequences,
    "comm_split": comm_split,
    "transfers": transfers,
    "bubbles": bubbles,
    "environment": environment,
    "profile": profile_row,
}


# What is compared from step to step needs this many.
ENOUGH_STEPS = 2


def derive(profile: Profile) -> Profile:
    """Register every derived table on ``profile``; none is computed yet."""
    profile.register(PROVIDERS)
    return profile


def tell_chip(profiles: Sequence[Profile], name: str) -> None:
    """Take the user's word for the chip of ``profiles``; ConfigError for a name that is not known."""
    known = [chip.name for chip in CHIPS]
    if name not in known:
        raise ConfigError(say("error.unknown_chip", name=name, known=", ".join(known)))
    for profile in profiles:
        profile.info = replace(profile.info, metadata={**profile.info.metadata, "soc": name})


def introduce(profiles: Sequence[Profile]) -> None:
    """Tell each rank of a run of the others; where a rank was read twice these are several runs: then each is told of
    the same rank in the others.

    Also says, of each, what cannot be known and why.
    """
    ranks = [profile.rank for profile in profiles]
    one_run = len(set(ranks)) == len(ranks) and min(ranks, default=-1) >= 0
    whole = {id(profile) for profile in profiles if _is_whole(profile)}
    for profile in profiles:
        others = (
            [other for other in profiles if other is not profile and _same_steps(profile, other)] if one_run else []
        )
        profile.peers = [other for other in others if id(profile) in whole and id(other) in whole]
        profile.runs = [other for other in profiles if other is not profile and other.rank == profile.rank >= 0]
        if not profile.peers:
            for name in ("others_kernel_us", "mean_expert_us"):
                profile.absent[f"profile.{name}"] = say("absent.kernels_lost" if others else "absent.one_rank")
        if profile.has("comms") and not profile.has("comm_tasks"):
            profile.absent["exposed.peer"] = say("absent.comm_tasks")
        if profile.has("kernels") and hardware(profile) is None:
            profile.absent["roofline"] = say("absent.hardware")
        if len(profile.table("steps")) < ENOUGH_STEPS:
            profile.absent["sequences.alike"] = say("absent.one_step")
            profile.absent["profile.memory_growth_bytes"] = say("absent.one_step")
        untold = [name for name in SETTINGS if name not in switches(profile.info)]
        profile.absent.update({f"profile.{name}": say("absent.settings") for name in untold})


def _is_whole(profile: Profile) -> bool:
    return all(remark.code != KERNELS_LOST for remark in profile.diagnostics)


def _same_steps(one: Profile, other: Profile) -> bool:
    return set(one.table("steps")["number"].tolist()) == set(other.table("steps")["number"].tolist())
