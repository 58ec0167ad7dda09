"""The changes to the user's code that findings allow: the codemods that their advice names, on the code at hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from npu_advisor.codemods import CODEMODS, patch
from npu_advisor.engine.run import guarded
from npu_advisor.engine.sourcefile import open_source
from npu_advisor.findings import CodeFix, Finding


def with_fixes(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each with the fixes for its line as the file stands here."""
    made = []
    for found in findings:
        fixes = _fixes(found)
        made.append(found.model_copy(update={"fixes": fixes}) if fixes else found)
    return made


def _fixes(finding: Finding) -> list[CodeFix]:
    place = finding.location
    # A file that has changed since the recording may hold anything at that line.
    if place is None or place.local_path is None or place.code is None or not place.code.fits:
        return []
    if not any(suggestion.codemod for suggestion in finding.suggestions):
        return []
    source = open_source(Path(place.local_path))
    return fixes_in(finding, source.text, place.line) if source else []


def fixes_in(finding: Finding, text: str, line: int) -> list[CodeFix]:
    """The fixes of a finding whose line is ``line`` of the file ``text``: its own file, or as edited since."""
    place = finding.location
    if place is None or place.local_path is None:
        return []
    fixes: list[CodeFix] = []
    for name in dict.fromkeys(suggestion.codemod for suggestion in finding.suggestions):
        if name is not None and name in CODEMODS:
            guarded(lambda name=name: fixes.extend(_fix(finding, name, text, line)))  # type: ignore[misc]
    return fixes


def _fix(finding: Finding, name: str, text: str, line: int) -> list[CodeFix]:
    made = patch(name, text, line, finding.values)
    # A character that could not be decoded must not be written back as something else.
    if made is None or any("\ufffd" in edit.text for edit in made.edits):
        return []
    assert finding.location is not None and finding.location.local_path is not None
    return [
        CodeFix(
            codemod=name,
            applicability=made.applicability,
            title=made.title,
            path=finding.location.local_path,
            edits=list(made.edits),
        )
    ]
