"""The figures of a report that need no rule: ledger of the steps, facts of a rank, top kernels, remarks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import numpy as np

from npu_advisor.base.errors import ProfileError
from npu_advisor.derive.bystanders import Bystander, bystanders
from npu_advisor.derive.comm import waits_for_rank
from npu_advisor.derive.facts import device_busy_us, idle_by_step, memory_peak
from npu_advisor.derive.hidden import hidden
from npu_advisor.engine.places import Roots, location
from npu_advisor.engine.pricing import Priced
from npu_advisor.engine.run import RuleResult, guarded
from npu_advisor.engine.savings import REAL_SHARE, Trusted
from npu_advisor.findings import Finding, NotTheCause, Outcome, RankFacts, RankInfo, Remark, Step, TopKernel
from npu_advisor.graph.replay.path import StepPath
from npu_advisor.model.profile import Diagnostic, Profile

# Budgets look types up here: a list that is cut short cannot say that a type is not there.
TOP_KERNELS = 100


def rank_info(profile: Profile) -> RankInfo:
    """What one rank says about itself."""
    info = profile.info
    return RankInfo(
        rank=info.rank,
        path=info.path,
        form=info.form,
        level=info.level,
        device=info.device,
        torch_npu=info.torch_npu,
        cann=info.cann,
    )


def steps(profile: Profile, paths: Sequence[StepPath] = ()) -> list[Step]:
    """The ledger of every step; ``paths`` are their critical paths where the replay can be trusted."""
    parts = {path.step: {part: ns / 1000.0 for part, ns in path.lengths().items()} for path in paths}
    table = profile.table("steps")
    waits, idle = waits_for_rank(profile), idle_by_step(profile)
    made = []
    for row in range(len(table)):
        number, host = int(table["number"][row]), float(table["host_us"][row])
        made.append(
            Step(
                rank=profile.rank,
                step=number if number >= 0 else None,
                duration_us=float(table["dur_us"][row]),
                host_us=host if np.isfinite(host) else None,
                complete=bool(table["complete"][row]),
                compute_us=float(table["compute_us"][row]),
                communication_us=float(table["comm_us"][row]),
                exposed_communication_us=float(table["exposed_comm_us"][row]),
                free_us=float(table["free_us"][row]),
                prepare_us=float(table["prepare_us"][row]),
                after_last_kernel_us=float(table["after_us"][row]),
                waiting_for_rank_us={str(peer): ns / 1000.0 for peer, ns in sorted(waits.get(row, {}).items())},
                idle_owners={owner: us for owner, us in idle[row].items() if us > 0},
                critical_path=parts.get(row),
                bound_by=max(parts[row], key=lambda part: parts[row][part]) if parts.get(row) else None,
            )
        )
    return made


def facts(profile: Profile) -> RankFacts:
    """Counts and totals of one rank; None for what was not recorded."""
    kernels, ops = profile.table("kernels"), profile.table("ops")
    computed, hosted = profile.has("kernels"), profile.has("ops")
    table = profile.table("steps")
    peaks = {name: memory_peak(profile, f"{name}_bytes") for name in ("allocated", "reserved")}
    return RankFacts(
        rank=profile.rank,
        host_ops=len(ops) if hosted else None,
        kernels=len(kernels) if computed else None,
        kernel_time_us=float(kernels["dur_ns"].sum()) / 1000.0 if computed else None,
        kernels_linked_to_op=int((kernels["op"] >= 0).sum()) if computed and hosted else None,
        kernels_linked_to_line=int((kernels["source"].codes >= 0).sum()) if computed and hosted else None,
        enqueues=len(profile.table("enqueues")) if hosted else None,
        dequeues=len(profile.table("dequeues")) if hosted else None,
        device_busy_us=device_busy_us(profile) if computed else None,
        device_idle_us=float(table["free_us"].sum()) if computed and len(table) else None,
        peak_allocated_bytes=int(peaks["allocated"].size_bytes) if peaks["allocated"] else None,
        peak_reserved_bytes=int(peaks["reserved"].size_bytes) if peaks["reserved"] else None,
    )


def top_kernels(profile: Profile) -> list[TopKernel]:
    """The kernel types with the largest summed time."""
    kernels = profile.table("kernels")
    codes = kernels["type"].codes
    known = codes >= 0
    names = kernels["type"].categories
    total = np.bincount(codes[known], weights=kernels["dur_ns"][known], minlength=len(names))
    calls = np.bincount(codes[known], minlength=len(names))
    whole = float(kernels["dur_ns"].sum()) or 1.0
    order = sorted(np.flatnonzero(calls), key=lambda code: (-total[code], str(names[code])))[:TOP_KERNELS]
    return [
        TopKernel(
            rank=profile.rank,
            type=str(names[code]),
            calls=int(calls[code]),
            total_us=float(total[code]) / 1000.0,
            share=float(total[code]) / whole,
        )
        for code in order
    ]


def paths_of(number: int, trusted: Sequence[Trusted]) -> Sequence[StepPath]:
    """The critical paths of the rank at a position, none where its replay is not trusted."""
    return next((one.paths[one.positions.index(number)] for one in trusted if number in one.positions), [])


def not_the_cause(profiles: Sequence[Profile], priced: Priced, roots: Roots) -> list[NotTheCause]:
    """Long events whose change alone would not shorten the step; never at a line where a finding saves something.

    The replay says so where it can be trusted, else what the device does meanwhile.
    """
    items: dict[int, list[Bystander]] = {}
    for one in priced.trusted:
        guarded(partial(_ask_replay, one, items))
    made = []
    for number, profile in enumerate(profiles):
        blamed = {
            (found.location.path, found.location.line)
            for found in priced.findings
            if found.location and _is_real(profile, found)
        }
        made += [
            _event(profile, item, roots)
            for item in (items[number] if number in items else bystanders(profile))
            if item.frame is None or (item.frame.path, item.frame.line) not in blamed
        ]
    return made


def _ask_replay(one: Trusted, items: dict[int, list[Bystander]]) -> None:
    items.update(zip(one.positions, hidden(one.replayer, one.paths, one.claims), strict=True))


def _event(profile: Profile, item: Bystander, roots: Roots) -> NotTheCause:
    return NotTheCause(
        rank=profile.rank,
        name=item.name,
        location=location(item.frame, "own", roots),
        duration_us=item.duration_us,
        where="device" if item.device else "host",
        reason=item.reason,
    )


def _is_real(profile: Profile, found: Finding) -> bool:
    """Whether a finding claims to save time that counts."""
    steps = profile.table("steps")
    least = REAL_SHARE * float(steps["dur_us"].mean()) if len(steps) else 0.0
    return found.saving is not None and found.saving.high_us_per_step >= least


def remarks(profile: Profile) -> list[Remark]:
    """The profile's diagnostics, each once."""
    seen: dict[tuple[str, str, str], Remark] = {}
    for item in profile.diagnostics:
        remark = Remark(code=item.code, severity=item.severity, file=item.file, message=item.message)
        seen.setdefault((item.code, item.file, item.message.en), remark)
    return list(seen.values())


def unreadable(error: ProfileError) -> Diagnostic:
    """A rank that could not be read, as a remark on those that could."""
    return Diagnostic(error.code, "error", error.path, error.what)


def outcomes(per_rank: Sequence[Sequence[RuleResult]]) -> list[Outcome]:
    """How each rule ended on all ranks together: fired or failed if it did anywhere, clean only if everywhere."""
    return [_outcome(results) for results in zip(*per_rank, strict=True)]


_GRAVITY = ("fired", "failed", "skipped", "clean")


def _outcome(results: Sequence[RuleResult]) -> Outcome:
    worst = min(results, key=lambda result: _GRAVITY.index(result.outcome))
    return Outcome(
        id=worst.rule.id,
        title=worst.rule.title,
        docs=worst.rule.docs if worst.outcome == "fired" else None,
        outcome=worst.outcome,
        reason=worst.reason,
        enable=worst.enable,
    )


# Where a switch goes in the profiler call: (argument of profile(), value) or one of _ExperimentalConfig().
_CONFIG = "torch_npu.profiler._ExperimentalConfig"
_LEVEL = "torch_npu.profiler.ProfilerLevel"
_METRICS = "torch_npu.profiler.AiCMetrics"


def profiler_call(results: Sequence[tuple[Profile, Sequence[RuleResult]]]) -> str | None:
    """The ``torch_npu.profiler.profile(...)`` arguments that record what skipped rules lacked, and what the rules on
    the recording itself advise; None when no rule was skipped for want of a switch."""
    wanted: dict[str, str] = {}
    for _, rules in results:
        for result in rules:
            if result.outcome == "skipped" and result.enable:
                wanted.update(_switches(result.enable))
    if not wanted:
        return None
    for _, rules in results:
        for result in rules:
            for raw in result.raw_findings if result.rule.category == "profile" else ():
                for suggestion in raw.suggestions:
                    wanted.update(_switches(suggestion.after or ""))
    experimental = [f"profiler_level={_LEVEL}.{wanted.pop('profiler_level')}"] if "profiler_level" in wanted else []
    if "aic_metrics" in wanted:
        experimental.append(f"aic_metrics={_METRICS}.{wanted.pop('aic_metrics')}")
    experimental += [f"{name}={wanted.pop(name)}" for name in ("l2_cache", "gc_detect_threshold") if name in wanted]
    lines = [f"    {name}={value}," for name, value in wanted.items()]
    if experimental:
        lines.append(f"    experimental_config={_CONFIG}({', '.join(experimental)}),")
    npu = any(profile.info.device_kind == "npu" for profile, _ in results)
    return "\n".join(["torch_npu.profiler.profile(" if npu else "torch.profiler.profile(", *lines, ")"])


def _switches(enable: str) -> dict[str, str]:
    """``a=1, b=2`` as a dict; prose (a switch that is no single argument) is left to the rule's own reason."""
    pairs = [part.strip().partition("=") for part in re.split(r",(?![^(\[]*[)\]])", enable)]
    return {name: value for name, _, value in pairs if value and value != "..." and name.isidentifier()}
