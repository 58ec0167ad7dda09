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
    from rich.progress import Progress, TaskID

_PATIENCE_SECONDS = 1.0


class ProgressBar:
    """Call it with (done, total); leaving the ``with`` block removes the bar."""

    def __init__(self, lang: Lang, quiet: bool) -> None:
        self._reading, self._judging = say("ui.progress.read").pick(lang), say("ui.progress.judge").pick(lang)
        self._silent = quiet or not sys.stderr.isatty()
        self._since = monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, done: float, total: float) -> None:
        """Show how far the work is."""
        if self._silent or monotonic() - self._since < _PATIENCE_SECONDS:
            return
        if self._bar is None or self._task is None:
            self._bar, self._task = self._started()
        if done < total:
            self._bar.update(
                self._task, description=self._reading, completed=done, total=total, share=f"{done / total:4.0%}"
            )
        else:
            # A bar without a total only moves.
            self._bar.reset(self._task, description=self._judging, total=None, share="")

    def _started(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[share]}"),
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        bar.start()
        return bar, bar.add_task(self._reading, total=None, share="")

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
