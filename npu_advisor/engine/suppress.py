"""``# npu-advisor: ignore[rule-id] reason`` on a line of the user's code (or alone on the line above) leaves out what
these rules find there. The comment counts where the source can be read and the line fits the recorded frame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from npu_advisor.base.frame import parse_frame
from npu_advisor.engine.places import Roots, location
from npu_advisor.engine.run import RawFinding, RuleResult
from npu_advisor.findings import Finding, Location, Suppressed
from npu_advisor.model.profile import Profile

Results = list[tuple[Profile, list[RuleResult]]]

_COMMENT = re.compile(r"#\s*npu-advisor:\s*ignore\[(?P<rules>[^\]]*)\](?P<reason>.*)")


def split(results: Sequence[tuple[Profile, Sequence[RuleResult]]], roots: Roots) -> tuple[Results, Results]:
    """The results without the findings that a comment leaves out, and those with nothing else (empty: no comment)."""
    kept: Results = []
    left_out: Results = []
    for profile, outcomes in results:
        chosen = [[raw for raw in outcome.raw_findings if _is_ignored(raw, roots)] for outcome in outcomes]
        ignored = {id(raw) for raws in chosen for raw in raws}
        kept.append(
            (
                profile,
                [
                    replace(outcome, raw_findings=[raw for raw in outcome.raw_findings if id(raw) not in ignored])
                    for outcome in outcomes
                ],
            )
        )
        if ignored:
            pairs = zip(outcomes, chosen, strict=True)
            left_out.append((profile, [replace(outcome, raw_findings=raws) for outcome, raws in pairs]))
    return kept, left_out


def suppressed(findings: Sequence[Finding]) -> list[Suppressed]:
    """Priced findings that were left out, each with the reason that its comment gives."""
    return [Suppressed(finding=found, reason=_reason(found.location, found.rule_id) or "") for found in findings]


def _is_ignored(raw: RawFinding, roots: Roots) -> bool:
    frame = parse_frame(raw.source) if raw.source else None
    return frame is not None and _reason(location(frame, "", roots), raw.rule.id) is not None


def _reason(place: Location | None, rule_id: str) -> str | None:
    """What the comment at ``place`` says after the rule's id; None when no comment names the rule."""
    if place is None or place.code is None or not place.code.fits:
        return None
    at = place.line - place.code.first_line
    above = place.code.lines[at - 1].strip() if at > 0 else ""
    for line in (place.code.lines[at], above if above.startswith("#") else ""):
        found = _COMMENT.search(line)
        if found and rule_id in [name.strip() for name in found["rules"].split(",")]:
            return found["reason"].strip(" -:")
    return None
