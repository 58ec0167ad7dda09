"""Work that goes on beside other work: how many cores there are for it, and its result once it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")
# More are not kept busy.
MOST = 8


def processes() -> int:
    """How many cores this process may use: NPU_ADVISOR_PROCESSES, else all that it is allowed, up to :data:`MOST`."""
    asked = os.environ.get("NPU_ADVISOR_PROCESSES", "")
    if asked.isdigit():
        return max(1, int(asked))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST)


class Ahead(Generic[T]):
    """The result of ``work``, which begins at once in a thread of its own; on a single core, when it is asked for.

    Numpy lets other threads run while it reckons. What the work raises, :attr:`result` does. A run that is interrupted
    does not wait for it.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._made: list[T] = []
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True) if processes() > 1 else None
        if self._thread is not None:
            self._thread.start()

    @property
    def result(self) -> T:
        """What the work made, once it is done."""
        if self._thread is None and not self._made:
            self._made.append(self._work())
        elif self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made[0]

    def _run(self) -> None:
        try:
            self._made.append(self._work())
        except BaseException as error:
            self._error = error
