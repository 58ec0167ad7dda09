"""Budgets: what a step may cost, checked against a report; violated ones fail a build.

::

    [tool.npu-advisor.budget]
    step_us = {max = "120 ms", max_regression = "3 %"}
    idle_share = {max = "20 %", level = "warning"}
    kernel_share.TransData = {max = "1 %"}
    peak_allocated_bytes = [{max = "30 GB", rank = 0}, {max = "28 GB", profile = "*small*"}]
    findings.high = {max = 0}

``max`` is a quantity in the metric's own unit. ``max_regression`` is against a baseline report: a share of its value
(``3 %``) or a quantity; of metrics that are shares themselves, points of them. ``profile`` (a pattern for the path as
given), ``rank`` and ``step`` say what a budget is for: without them, for every rank and the mean of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from math import fsum
from typing import Any, Literal

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.base.terms import IDLE_OWNERS, Severity, Text
from npu_advisor.base.units import parse_quantity
from npu_advisor.findings import BudgetResult, RankFacts, Report, Step
from npu_advisor.rules.source import nearest

Level = Literal["error", "warning"]
Unit = Literal["us", "share", "bytes", ""]
_KEYS = ("max", "max_regression", "level", "profile", "rank", "step")
_LEVELS = ("error", "warning")


@dataclass(frozen=True)
class Budget:
    """One limit of one metric (its dotted name)."""

    metric: str
    unit: Unit
    most: float | None
    most_regression: float | None
    relative: bool = False
    level: Level = "error"
    profile: str | None = None
    rank: int | None = None
    step: int | None = None


def _mean(steps: Sequence[Step], value: Callable[[Step], float]) -> float:
    return fsum(value(step) for step in steps) / len(steps)


# Metrics of steps: the mean over those in scope.
_OF_STEPS: dict[str, tuple[Unit, Callable[[Step], float]]] = {
    "step_us": ("us", lambda step: step.duration_us),
    "compute_us": ("us", lambda step: step.compute_us),
    "exposed_communication_us": ("us", lambda step: step.exposed_communication_us),
    "idle_us": ("us", lambda step: step.free_us + step.prepare_us),
    "idle_share": ("share", lambda step: (step.free_us + step.prepare_us) / step.duration_us),
    "communication_share": ("share", lambda step: step.exposed_communication_us / step.duration_us),
}
_OF_RANKS: dict[str, tuple[Unit, Callable[[RankFacts], int | None]]] = {
    "peak_allocated_bytes": ("bytes", lambda facts: facts.peak_allocated_bytes),
    "peak_reserved_bytes": ("bytes", lambda facts: facts.peak_reserved_bytes),
}
# Metrics with a name after the dot: idle owner, kernel type, severity.
_FAMILIES: dict[str, Unit] = {"idle_owner_us": "us", "kernel_share": "share", "findings": ""}
# The names that some of them may have.
_MEMBERS = {"idle_owner_us": IDLE_OWNERS, "findings": tuple(severity.value for severity in Severity)}
METRICS = (*_OF_STEPS, *_OF_RANKS, *_FAMILIES)


def parse_budgets(table: object, origin: str) -> list[Budget]:
    """The budgets of a TOML table; ConfigError (naming ``origin``) for what is none."""
    if not isinstance(table, Mapping):
        raise _wrong(origin, "budget", say("budget.not_a_table"))
    found: list[Budget] = []
    for name, value in table.items():
        if name in _FAMILIES:
            if not isinstance(value, Mapping):
                raise _wrong(origin, name, say("budget.needs_name", name=name))
            for member, limits in value.items():
                if name in _MEMBERS and member not in _MEMBERS[name]:
                    raise _unknown(origin, f"{name}.{member}", [f"{name}.{each}" for each in _MEMBERS[name]])
                found += _limits(f"{name}.{member}", _FAMILIES[name], limits, origin)
        elif name in _OF_STEPS or name in _OF_RANKS:
            unit = _OF_STEPS[name][0] if name in _OF_STEPS else _OF_RANKS[name][0]
            found += _limits(name, unit, value, origin)
        else:
            raise _unknown(origin, name, METRICS)
    return found


def check(budgets: Sequence[Budget], report: Report, baseline: Report | None = None) -> list[BudgetResult]:
    """Every budget against ``report``, rank by rank where it names none; regressions against ``baseline``."""
    results = []
    for budget in budgets:
        if budget.profile is not None and not _is_for(budget.profile, report):
            continue
        ranks = [info.rank for info in report.profile.ranks] if budget.rank is None else [budget.rank]
        for rank in [-1] if budget.metric.startswith("findings.") and budget.rank is None else ranks:
            results += _results(budget, rank, report, baseline)
    return results


def violated(results: Sequence[BudgetResult]) -> bool:
    """Whether a budget of level error is violated."""
    return any(each.outcome == "violated" and each.level == "error" for each in results)


def _is_for(pattern: str, report: Report) -> bool:
    return any(fnmatch(path, pattern) for path in (report.profile.path, *(info.path for info in report.profile.ranks)))


def _wrong(origin: str, name: str, problem: Text, hint: Text | None = None) -> ConfigError:
    en, zh = (say("budget.at", path=origin, name=name, problem=problem.pick(lang)).pick(lang) for lang in ("en", "zh"))
    return ConfigError(Text(en=en, zh=zh), None, hint)


def _limits(metric: str, unit: Unit, value: object, origin: str) -> list[Budget]:
    entries = value if isinstance(value, list) else [value]
    return [_limit(metric, unit, entry, origin) for entry in entries]


def _limit(metric: str, unit: Unit, entry: object, origin: str) -> Budget:
    if not isinstance(entry, Mapping):
        raise _wrong(origin, metric, say("budget.no_limit"))
    for key in entry:
        if key not in _KEYS:
            hint = nearest(str(key), _KEYS)
            raise _wrong(origin, metric, say("budget.unknown_key", name=key, hint=hint, keys=", ".join(_KEYS)))
    if not entry.keys() & {"max", "max_regression"}:
        raise _wrong(origin, metric, say("budget.no_limit"))
    level = entry.get("level", "error")
    if level not in _LEVELS:
        raise _wrong(origin, metric, say("budget.bad_level", value=level))
    if not isinstance(entry.get("profile", ""), str):
        raise _misfit(origin, metric, "profile", entry["profile"])
    if "step" in entry and metric not in _OF_STEPS and not metric.startswith("idle_owner_us."):
        raise _wrong(origin, metric, say("budget.no_step"))
    regression = entry.get("max_regression")
    relative = isinstance(regression, str) and regression.strip().endswith("%") and unit != "share"
    return Budget(
        metric=metric,
        unit=unit,
        most=_quantity(entry, "max", unit, metric, origin),
        most_regression=_quantity(entry, "max_regression", "share" if relative else unit, metric, origin),
        relative=relative,
        level=level,
        profile=entry.get("profile"),
        rank=_whole(entry, "rank", metric, origin),
        step=_whole(entry, "step", metric, origin),
    )


def _quantity(entry: Mapping[str, Any], key: str, unit: str, metric: str, origin: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        found = parse_quantity(str(value), unit)
        if key == "max" and found < 0:
            raise ValueError
    except ValueError:
        raise _misfit(origin, metric, key, value) from None
    if unit == "share" and found > 1 and not (isinstance(value, str) and value.strip().endswith("%")):
        raise _wrong(origin, metric, say("budget.no_share", limit=key, value=value))
    return found


def _whole(entry: Mapping[str, Any], key: str, metric: str, origin: str) -> int | None:
    value = entry.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise _misfit(origin, metric, key, value)
    return value


def _misfit(origin: str, metric: str, key: str, value: object) -> ConfigError:
    return _wrong(origin, metric, say("budget.not_quantity", limit=key, value=value))


def _unknown(origin: str, name: str, known: Sequence[str]) -> ConfigError:
    """The error for a metric that is none, with the one that it looks like and all that there are."""
    problem = say("budget.unknown_metric", hint=nearest(name, known))
    return _wrong(origin, name, problem, say("budget.metrics", metrics=", ".join(known)))


def _results(budget: Budget, rank: int, report: Report, baseline: Report | None) -> list[BudgetResult]:
    value = _measure(budget, rank, report)
    before = _measure(budget, rank, baseline) if baseline is not None else None
    found = []
    if budget.most is not None:
        found.append(_result(budget, rank, value, budget.most, None, say("budget.unknown")))
    if budget.most_regression is not None:
        allowed = budget.most_regression * (before or 0.0) if budget.relative else budget.most_regression
        limit = None if before is None else before + allowed
        reason = say("budget.no_baseline") if baseline is None else say("budget.unknown")
        found.append(_result(budget, rank, value, limit, before, reason))
    return found


def _result(
    budget: Budget, rank: int, value: float | None, limit: float | None, before: float | None, reason: Text
) -> BudgetResult:
    known = value is not None and limit is not None
    over = max(value - limit, 0.0) if value is not None and limit is not None else None
    return BudgetResult(
        metric=budget.metric,
        unit=budget.unit,
        level=budget.level,
        rank=rank if rank >= 0 else None,
        step=budget.step,
        outcome="not_checked" if not known else "violated" if over else "kept",
        value=value,
        limit=limit,
        baseline=before,
        over=over,
        reason=None if known else reason,
    )


def _measure(budget: Budget, rank: int, report: Report) -> float | None:
    """The metric of one rank; None where the report cannot say."""
    family, _, member = budget.metric.partition(".")
    if family == "findings":
        mine = [found for found in report.findings if rank < 0 or found.rank == rank]
        return float(sum(found.severity.value == member for found in mine))
    if family == "kernel_share":
        return _kernel_share(member, rank, report)
    facts = next((facts for facts in report.facts if facts.rank == rank), None)
    if family in _OF_RANKS:
        value = _OF_RANKS[family][1](facts) if facts is not None else None
        return None if value is None else float(value)
    steps = _steps(budget, rank, report)
    if not steps:
        return None
    if family == "idle_owner_us":
        return _mean(steps, lambda step: step.idle_owners.get(member, 0.0))
    return _mean(steps, _OF_STEPS[family][1])


def _steps(budget: Budget, rank: int, report: Report) -> list[Step]:
    mine = [step for step in report.steps if step.rank == rank and budget.step in (None, step.step)]
    mine = [step for step in mine if step.duration_us > 0]
    return [step for step in mine if step.complete] or mine


def _kernel_share(type_: str, rank: int, report: Report) -> float | None:
    """The share of a kernel type; none where the report lists it with no rank's kernels."""
    kernels = [kernel for kernel in report.top_kernels if kernel.rank == rank]
    if not kernels:
        return None
    listed = next((kernel.share for kernel in kernels if kernel.type == type_), None)
    # The list ends with the small ones: what it leaves out cannot be told from nothing once it is complete.
    whole = fsum(kernel.share for kernel in kernels)
    return listed if listed is not None else 0.0 if whole > 1 - _COMPLETE else None


_COMPLETE = 1e-6
