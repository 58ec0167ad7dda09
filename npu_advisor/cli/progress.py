"""A progress bar on stderr: only on a terminal, only when the work takes longer than a second.

It counts bytes of the input. What comes once they are read has no length that could be told, so none is shown then.
"""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_SECONDS = 1.0


class ProgressBar:
    """Call it with (done, total); leaving the ``with`` block removes the bar."""

    def __init__(self, lang: Lang, quiet: bool) -> None:
        self._lang = lang
        self._silent = quiet or sys.stderr is None or not sys.stderr.isatty()
        self._since = monotonic()
        self._bar: Progress | None = None
        self._stage = ""

    def __call__(self, done: float, total: float) -> None:
        """Show how far the work is."""
        if self._silent or monotonic() - self._since < _PATIENCE_SECONDS:
            return
        bar = self._shown("ui.progress.read" if done < total else "ui.progress.judge", timed=done < total)
        if done < total:
            bar.update(bar.task_ids[0], completed=done, total=total)

    def _shown(self, stage: str, *, timed: bool) -> Progress:
        if self._bar is None or stage != self._stage:
            self._stop()
            self._bar, self._stage = _started(say(stage).pick(self._lang), timed=timed), stage
        return self._bar

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


def _started(label: str, *, timed: bool) -> Progress:
    """A bar with the share that is done and the time that is left, or one that only moves and counts the seconds."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    counts = (TaskProgressColumn(), TimeRemainingColumn()) if timed else (TimeElapsedColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *counts)
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(label, total=None)
    bar.start()
    return bar
