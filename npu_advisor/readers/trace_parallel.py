"""Scan a large trace in as many processes as there are cores; alone where none can be had, with the same result.

The helpers are plain child processes of the same Python: nothing of the caller's program is imported or run again in
them, so it needs no guard, on any system. A helper that fails is done without.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import npu_advisor
from npu_advisor.readers.trace_seams import spans_of
from npu_advisor.readers.trace_wire import receive

if TYPE_CHECKING:
    from npu_advisor.readers.trace_decode import Recovery
    from npu_advisor.readers.trace_events import EventSorter
    from npu_advisor.readers.trace_spans import Part

TRACE = "trace_view.json"
# Below this a helper starts for longer than it helps.
LARGE = 24 << 20
# More are not kept busy: the parts are joined in one process.
MOST = 8
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from npu_advisor.readers.trace_helper import main; main()"


def processes() -> int:
    """How many processes may scan: NPU_ADVISOR_PROCESSES, else one for every core this process may use."""
    asked = os.environ.get("NPU_ADVISOR_PROCESSES", "")
    if asked.isdigit():
        return max(1, int(asked))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST)


class SpanScan:
    """The spans of a plain trace being scanned: the helpers start at once, ``finish`` joins in.

    Leave it as a context manager: that ends the helpers, whatever happened.
    """

    def __init__(self, path: Path, spans: list[tuple[int, int]], helpers: int) -> None:
        self._path, self._spans = path, spans
        self._todo = deque(range(len(spans)))
        self._done: dict[int, Part] = {}
        self._helpers = [_Helper(self) for _ in range(min(helpers, len(spans) - 1))]

    @classmethod
    def begin(cls, path: Path) -> SpanScan | None:
        """None when the file is small, zipped, no bare array, or cannot be read: then one stream reads it."""
        if begun := _ahead.pop(_real(path), None):
            return begun
        try:
            if path.stat().st_size < LARGE:
                return None
            spans = spans_of(path)
        except OSError:
            return None
        return cls(path, spans, processes() - 1) if len(spans) > 1 else None

    @property
    def size(self) -> int:
        """Bytes of the file when the scan began."""
        return self._spans[-1][1]

    def finish(self, sorter: EventSorter, progress: Callable[[int], None] | None) -> tuple[Recovery, bool]:
        """Let ``sorter`` take in all events; what was mended, and whether the array was closed. Raises OSError."""
        from npu_advisor.readers.trace_decode import Recovery

        joined = _Joined(sorter, Recovery())
        self._work(joined, progress)
        for helper in self._helpers:
            helper.join()
        # What a helper that failed gave back.
        self._work(joined, progress)
        joined.take_in(self._done)
        return joined.recovery, joined.complete

    def _work(self, joined: _Joined, progress: Callable[[int], None] | None) -> None:
        from npu_advisor.readers.trace_spans import scan

        while (number := self.next()) is not None:
            begin, end = self._spans[number]
            self.put(number, scan(self._path, begin, end, self.size))
            # At once: parts that wait take more room than what they are joined to.
            joined.take_in(self._done)
            if progress:
                progress(self._bytes([*range(joined.parts), *self._done]))

    def _bytes(self, numbers: list[int]) -> int:
        return sum(self._spans[number][1] - self._spans[number][0] for number in numbers)

    def next(self) -> int | None:
        """The next span that nobody scans yet."""
        try:
            return self._todo.popleft()
        except IndexError:
            return None

    def put(self, number: int, part: Part) -> None:
        """A span is done."""
        self._done[number] = part

    def give_back(self, number: int) -> None:
        """A span that somebody else has to scan."""
        self._todo.appendleft(number)

    def request(self, number: int) -> bytes:
        """The line that asks a helper for a span."""
        begin, end = self._spans[number]
        return b"%d %d %d %s\n" % (begin, end, self.size, os.fsencode(self._path.absolute()).hex().encode())

    def __enter__(self) -> SpanScan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._todo.clear()
        for helper in self._helpers:
            helper.end()


class _Joined:
    """The parts that were taken in, which is in the order of the file."""

    def __init__(self, sorter: EventSorter, recovery: Recovery) -> None:
        self.recovery, self.complete, self.parts = recovery, True, 0
        self._sorter = sorter

    def take_in(self, done: dict[int, Part]) -> None:
        """Take every part out of ``done`` whose turn it is."""
        while (part := done.pop(self.parts, None)) is not None:
            self.parts += 1
            self._sorter.absorb(part.events)
            self.recovery.include(part.recovery)
            self.complete = self.complete and part.complete


_ahead: dict[str, SpanScan] = {}


@contextlib.contextmanager
def begun_ahead(path: Path) -> Iterator[None]:
    """Have the helpers scan the first large trace under ``path`` while this process still imports what it needs."""
    trace = _first_trace(path) if processes() > 1 else None
    scan = SpanScan.begin(trace) if trace else None
    if trace is None or scan is None:
        yield
        return
    with scan:
        _ahead[_real(trace)] = scan
        try:
            yield
        finally:
            _ahead.pop(_real(trace), None)


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _first_trace(path: Path) -> Path | None:
    """The trace that will be read first; where there is a database, that is read instead."""
    if path.is_file():
        return path
    for folder, folders, files in os.walk(path):
        folders.sort()
        if TRACE in files and not any(name.endswith(".db") for name in files):
            return Path(folder) / TRACE
    return None


class _Helper(threading.Thread):
    """One child process and the thread that feeds it."""

    def __init__(self, work: SpanScan) -> None:
        super().__init__(daemon=True)
        self._work, self._process = work, _started()
        self.start()

    def run(self) -> None:
        while self._process is not None and (number := self._work.next()) is not None:
            part = self._ask(self._process, number)
            if part is None:
                self._work.give_back(number)
                return
            self._work.put(number, part)

    def _ask(self, process: subprocess.Popen[bytes], number: int) -> Part | None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._work.request(number))
            process.stdin.flush()
            part: Part = receive(process.stdout)
            return part
        except (OSError, ValueError, pickle.UnpicklingError, EOFError):
            return None

    def end(self) -> None:
        """Stop the child; what it was at is lost."""
        if self._process is None:
            return
        self._process.kill()
        self.join()
        with contextlib.suppress(OSError), self._process:
            pass


def _started() -> subprocess.Popen[bytes] | None:
    """A helper process; None where this program is no Python that could start one."""
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    home = str(Path(npu_advisor.__file__).absolute().parent.parent)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _CODE, home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
