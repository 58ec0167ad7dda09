"""What one report has to say about one open file, at the lines where its code is now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from npu_advisor.findings import Finding, LineCost, Report


class Shown:
    """A report by file. ``on(path, lines)`` places it on the text of an editor, which may have changed since."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._findings: dict[Path, list[Finding]] = {}
        self._costs: dict[Path, list[LineCost]] = {}
        for finding in report.findings:
            if finding.location is not None and finding.location.local_path is not None:
                self._findings.setdefault(Path(finding.location.local_path).resolve(), []).append(finding)
        for cost in report.lines:
            if cost.local_path is not None:
                self._costs.setdefault(Path(cost.local_path).resolve(), []).append(cost)

    def findings(self, path: Path, lines: Sequence[str]) -> list[tuple[int, Finding]]:
        """The findings in ``path`` with their lines (from 1) in the text ``lines``, gravest first."""
        found = []
        for finding in self._findings.get(path.resolve(), []):
            assert finding.location is not None
            line = line_now(finding.location.line, finding.location.text, lines)
            if line is not None:
                found.append((line, finding))
        return found

    def costs(self, path: Path, lines: Sequence[str]) -> list[tuple[int, LineCost]]:
        """As :meth:`findings`, for what lines cost; costliest first."""
        placed = [(line_now(cost.line, cost.text, lines), cost) for cost in self._costs.get(path.resolve(), [])]
        return [(line, cost) for line, cost in placed if line is not None]


def line_now(line: int, text: str | None, lines: Sequence[str]) -> int | None:
    """Where ``text``, once line ``line``, stands in ``lines``: there, or at the nearest line that reads the same.

    None when it is gone. Without a text there is nothing to compare: the line as recorded.
    """
    if text is None:
        return line if line <= len(lines) else None
    wanted = text.strip()
    same = [number for number, now in enumerate(lines, 1) if now.strip() == wanted]
    return min(same, key=lambda number: abs(number - line), default=None)
