"""Get the report: read one that is there, or have a process of its own make it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from npu_advisor.base.frame import Frame
from npu_advisor.engine.places import Roots, location
from npu_advisor.findings import Finding, LineCost, Report
from npu_advisor.lsp.settings import Settings
from npu_advisor.report.json import load_report

# The exit code of the child when the profiler is still at work.
NOT_YET = 75


class Question(BaseModel):
    """What the child is asked: JSON on its stdin."""

    settings: Settings
    folders: list[str]


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


class Analyst:
    """A process that analyses once (:mod:`npu_advisor.lsp.child`).

    It imports what it needs while it waits for the question, so one that is started early answers sooner.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "npu_advisor.lsp.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    async def analyzed(self, settings: Settings, folders: Sequence[Path]) -> Report | None:
        """The report on the newest recording; None while it is being written. NoReport when there is none."""
        question = Question(settings=settings, folders=[str(folder) for folder in folders])
        try:
            out, err = await asyncio.to_thread(self._process.communicate, question.model_dump_json().encode())
        finally:
            self.stop()
        if self._process.returncode == NOT_YET:
            return None
        try:
            return load_report(out.decode("utf-8"))
        except ValueError as error:
            raise NoReport(err.decode("utf-8", errors="replace").strip() or str(error)) from error

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process.poll() is None:
            self._process.kill()


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
