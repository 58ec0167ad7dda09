"""Findings of two reports matched: what was fixed, what is new, what costs more or less."""

from __future__ import annotations

from pathlib import PurePath

from npu_advisor.comparison import FindingChange
from npu_advisor.findings import Finding, Report

# A saving that changed by less than this share of itself, or of the step, is the same.
_SAME_SHARE, _SAME_OF_STEP = 0.10, 0.002
_ORDER = ("new", "worse", "fixed", "better", "same", "not_checked")
_Status = str


def finding_changes(base: Report, new: Report) -> list[FindingChange]:
    """Every finding of either report once: the worst news first, in order of what they cost.

    Findings are the same by fingerprint; where the code lies in another folder now, by rule, file name and function.
    """
    pairs = matched(base.findings, new.findings)
    step_us = max((step.duration_us for step in (*base.steps, *new.steps)), default=0.0)
    made = [_change(one, other, base, new, step_us) for one, other in pairs]
    return sorted(made, key=lambda each: (_ORDER.index(each.status), -max(each.base_us or 0.0, each.new_us or 0.0)))


def matched(base: list[Finding], new: list[Finding]) -> list[tuple[Finding | None, Finding | None]]:
    """Pairs of the same finding; None where the other side has none."""
    left = {finding.fingerprint: finding for finding in new}
    pairs: list[tuple[Finding | None, Finding | None]] = []
    alone = []
    for finding in base:
        other = left.pop(finding.fingerprint, None)
        if other is None:
            alone.append(finding)
        else:
            pairs.append((finding, other))
    for finding in alone:
        twin = next((other for other in left.values() if _identity(other) == _identity(finding)), None)
        if twin is not None:
            del left[twin.fingerprint]
        pairs.append((finding, twin))
    return [*pairs, *((None, finding) for finding in left.values())]


def fixed(base: Report, new: Report) -> list[Finding]:
    """Findings of ``base`` that saved something and that ``new``, which was checked for them, has no more."""
    gone = {each.fingerprint for each in finding_changes(base, new) if each.status == "fixed"}
    return [found for found in base.findings if found.fingerprint in gone and found.saving is not None]


def _identity(finding: Finding) -> tuple[str, str, str]:
    place = finding.location
    file = PurePath(place.path.replace("\\", "/")).name if place else ""
    return finding.rule_id, file, place.function if place else finding.fingerprint


def _change(one: Finding | None, other: Finding | None, base: Report, new: Report, step_us: float) -> FindingChange:
    shown = other or one
    assert shown is not None
    costs = [_cost(one, base), _cost(other, new)]
    return FindingChange.model_validate(
        {
            "status": _status(one, other, costs, base, new, step_us),
            "fingerprint": (one or shown).fingerprint,
            "rule_id": shown.rule_id,
            "title": shown.title,
            "severity": shown.severity,
            "base_us": costs[0],
            "new_us": costs[1],
            "base_location": _bare(one),
            "new_location": _bare(other),
        }
    )


def _bare(finding: Finding | None) -> object:
    return finding.location.model_copy(update={"code": None}) if finding and finding.location else None


def _cost(finding: Finding | None, report: Report) -> float | None:
    """What a finding costs per step: what its fix saves, else what was recorded in all steps, shared among them."""
    if finding is None or finding.category == "profile":  # that is about the whole recording
        return None
    if finding.saving is not None or finding.recorded_us is None:
        return finding.saving.us_per_step if finding.saving else None
    runs = sum(info.rank == finding.rank for info in report.profile.ranks)
    steps = sum(step.rank == finding.rank for step in report.steps)
    return finding.recorded_us * max(runs, 1) / max(steps, 1)


def _status(
    one: Finding | None, other: Finding | None, costs: list[float | None], base: Report, new: Report, step_us: float
) -> _Status:
    if one is None or other is None:
        missing, shown = (base, other) if one is None else (new, one)
        rule = shown.rule_id if shown else ""
        checked = any(each.id == rule and each.outcome in ("fired", "clean") for each in missing.rules)
        return ("new" if one is None else "fixed") if checked else "not_checked"
    before, after = (cost or 0.0 for cost in costs)
    if one.saving is None or other.saving is None:
        # What no fix gives back has no price that could rise or fall.
        return "same"
    if abs(after - before) <= max(_SAME_SHARE * abs(before), _SAME_OF_STEP * step_us):
        return "same"
    return "worse" if after > before else "better"
