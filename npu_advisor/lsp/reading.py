"""Get the report: read one that is there, or have a process of its own make it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from npu_advisor.base.frame import Frame
from npu_advisor.engine.places import Roots, location
from npu_advisor.findings import Finding, LineCost, Report
from npu_advisor.lsp.settings import Settings
from npu_advisor.report.json import load_report

# The exit code of the child when the profiler is still at work.
NOT_YET = 75


class NoReport(Exception):  # noqa: N818 (it is an answer, not a fault of the server)
    """There is none to show; the text says why."""


def read(path: Path, settings: Settings, folders: Sequence[Path]) -> Report:
    """The report in the file ``path``, its lines looked for in ``folders``: it may come from another machine."""
    try:
        report = load_report(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoReport(f"{path}: {error}") from error
    roots = Roots.of([*settings.source_root, *map(str, folders)])
    return report.model_copy(
        update={
            "findings": [_found_again(finding, roots) for finding in report.findings],
            "lines": [_line_again(line, roots) for line in report.lines],
        }
    )


async def analyzed(settings: Settings, folders: Sequence[Path]) -> Report | None:
    """The report on the newest recording, by :mod:`npu_advisor.lsp.child`; None while it is being written."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "npu_advisor.lsp.child", settings.model_dump_json(by_alias=True), *map(str, folders)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode == NOT_YET:
        return None
    try:
        return load_report(out.decode("utf-8"))
    except ValueError as error:
        raise NoReport(err.decode("utf-8", errors="replace").strip() or str(error)) from error


def _found_again(finding: Finding, roots: Roots) -> Finding:
    place = finding.location
    if place is None:
        return finding
    again = location(Frame(place.path, place.line, place.function), place.how, roots)
    return finding.model_copy(update={"location": again, "fixes": []})


def _line_again(cost: LineCost, roots: Roots) -> LineCost:
    place = location(Frame(cost.path, cost.line, cost.function), "", roots)
    here = {"local_path": place.local_path, "text": place.text} if place else {"local_path": None, "text": None}
    return cost.model_copy(update=here)
