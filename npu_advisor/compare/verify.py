"""Predicted against realised: what the findings that were fixed between two profiles were said to save, and what
they saved; kept in a ledger file, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from npu_advisor import __version__
from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.compare.findings import fixed
from npu_advisor.compare.sides import Analysed, compare
from npu_advisor.comparison import Accuracy, Cause, RankPair, Verification, Verified
from npu_advisor.engine.pricing import fingerprint_of, price
from npu_advisor.engine.suppress import split
from npu_advisor.findings import Finding, Location, Tool

# Savings below this share of the step are not judged by their relative error; the truth may lie outside the range by
# half a percent of the step.
SMALLEST, INSIDE = 0.01, 0.005


def verify(base: Analysed, new: Analysed) -> Verification:
    """The predictions of ``base`` for what ``new`` shows as fixed, against what the step lost."""
    comparison = compare(base, new)
    pair = comparison.main
    done = _at_causes(fixed(base.report, new.report), pair.attribution.causes)
    saved = -(pair.step.change or 0.0)
    verified = [_verified(finding, done, pair, base.report.profile.path, new.report.profile.path) for finding in done]
    return Verification(
        tool=Tool(version=__version__),
        base=base.report.profile,
        new=new.report.profile,
        step=pair.step,
        verified=verified,
        joint_predicted_us=_together(base, done),
        joint_realised_us=saved,
        summary=accuracy(verified),
        diagnostics=comparison.diagnostics,
    )


def against(predicted_us: float, bounds: tuple[float, float], realised_us: float, step_us: float) -> dict[str, Any]:
    """The figures of an entry: a prediction and its range against what came, by name."""
    low, high = bounds
    slack = INSIDE * step_us
    return {
        "predicted_us": predicted_us,
        "low_us": low,
        "high_us": high,
        "realised_us": realised_us,
        "error": (predicted_us - realised_us) / realised_us if realised_us else None,
        "inside": low - slack <= realised_us <= high + slack,
        "counts": realised_us >= SMALLEST * step_us,
    }


def accuracy(verified: Sequence[Verified]) -> Accuracy:
    """How well predictions fared."""
    counted = [abs(each.error) for each in verified if each.counts and each.error is not None]
    return Accuracy(
        predictions=len(verified),
        counted=len(counted),
        smallest_share=SMALLEST,
        median_error=float(np.median(counted)) if counted else None,
        p90_error=float(np.quantile(counted, 0.9)) if counted else None,
        max_error=max(counted, default=None),
        inside=sum(each.inside for each in verified),
    )


def append(path: Path, verified: Sequence[Verified]) -> list[Verified]:
    """Add entries to the ledger file and return all that it holds then. ConfigError for a file that is no ledger."""
    known = read(path) if path.exists() else []
    try:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(each.model_dump(mode="json"), ensure_ascii=False) + "\n" for each in verified)
    except OSError as error:
        raise ConfigError(say("error.cannot_write", path=path, reason=error.strerror or error)) from error
    return [*known, *verified]


def read(path: Path) -> list[Verified]:
    """Every entry of a ledger file. ConfigError, with the line, for what is none."""
    entries = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(say("verify.no_ledger", path=path, line=1)) from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                entries.append(Verified.model_validate_json(line))
            except ValidationError as error:
                raise ConfigError(say("verify.no_ledger", path=path, line=number)) from error
    return entries


def _verified(finding: Finding, done: Sequence[Finding], pair: RankPair, base: str, new: str) -> Verified:
    saving = finding.saving
    assert saving is not None
    alone = len(done) == 1
    step_us = pair.step.base or 0.0
    realised = -(pair.step.change or 0.0) if alone else _at_line(finding.location, pair.attribution.causes)
    place = finding.location
    return Verified(
        time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        base=base,
        new=new,
        fingerprint=finding.fingerprint,
        rule_id=finding.rule_id,
        location=f"{place.path}:{place.line}" if place else None,
        step_us=step_us,
        basis=saving.basis.value,
        how="step" if alone else "line",
        **against(saving.us_per_step, (saving.low_us_per_step, saving.high_us_per_step), realised, step_us),
    )


def _at_causes(done: list[Finding], causes: Sequence[Cause]) -> list[Finding]:
    """The findings at lines whose own work changed. Another one that is gone as well was not fixed: what it cost is
    hidden now. All of them where no line changed."""
    changed = {
        (cause.base_location.path, cause.base_location.function) for cause in causes if cause.base_location is not None
    }
    real = [
        finding
        for finding in done
        if finding.location is None or (finding.location.path, finding.location.function) in changed
    ]
    return real or done


def _at_line(place: Location | None, causes: Sequence[Cause]) -> float:
    """What the step lost at a line, in us; of the whole function where the line itself explains nothing."""
    if place is None:
        return 0.0
    mine = [cause for cause in causes if cause.base_location is not None and cause.base_location.path == place.path]
    exact = [cause for cause in mine if cause.base_location and cause.base_location.line == place.line]
    near = [cause for cause in mine if cause.base_location and cause.base_location.function == place.function]
    return -sum(cause.us for cause in exact or near)


def _together(base: Analysed, done: Sequence[Finding]) -> float | None:
    """What the fixed findings were predicted to save together."""
    names = {finding.fingerprint for finding in done}
    if not names:
        return None
    kept, _ = split(base.results, base.roots)
    chosen = [
        (
            profile,
            [
                replace(one, raw_findings=[raw for raw in one.raw_findings if fingerprint_of(raw) in names])
                for one in outcomes
            ],
        )
        for profile, outcomes in kept
    ]
    return price(chosen, base.roots).saving.joint_us_per_step
