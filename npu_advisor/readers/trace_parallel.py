"""Scan a trace, a large one in as many processes as there are cores; alone where none can be had, with the same result.

The helpers are plain child processes of the same Python: nothing of the caller's program is imported or run again in
them, so it needs no guard, on any system. A helper that fails is done without.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, cast

import npu_advisor
from npu_advisor.base.ahead import processes
from npu_advisor.readers.trace_seams import SPAN, Extent, Span, Turn, is_zipped, spans_of
from npu_advisor.readers.trace_wire import receive, send

if TYPE_CHECKING:
    from npu_advisor.readers.trace_decode import Recovery
    from npu_advisor.readers.trace_events import EventSorter
    from npu_advisor.readers.trace_spans import Part, Reading

TRACE = "trace_view.json"
# Below this a helper starts for longer than it helps.
LARGE = 24 << 20
LARGE_ZIPPED = LARGE >> 4
# What a helper is asked for at once: so it never waits for the next stretch, however long this process is busy.
AHEAD = 3
# A part fits in, where the system lets a pipe be so large.
_PIPE = 1 << 20
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from npu_advisor.readers.trace_helper import main; main()"


class TraceScan:
    """A trace being scanned: the helpers start at once, ``finish`` joins in.

    Leave it as a context manager: that ends the helpers, whatever happened.
    """

    def __init__(self, tasks: _Spans | _Turns, helpers: int) -> None:
        self._source: _Spans | _Turns = tasks
        self._tasks: Iterator[tuple[int, Span | Turn]] = enumerate(tasks)
        self._lock, self._weight = threading.Lock(), 0
        self._returned: list[tuple[int, Span | Turn]] = []
        self._done: dict[int, Part] = {}
        self._helpers = [_Helper(self) for _ in range(helpers)]

    @classmethod
    def begin(cls, path: Path) -> TraceScan:
        """Raises OSError."""
        if begun := _ahead.pop(_real(path), None):
            return begun
        size, helpers = path.stat().st_size, processes() - 1
        spans = spans_of(path) if size >= LARGE else []
        if len(spans) > 1:
            return cls(_Spans(path, spans), min(helpers, len(spans) - 1))
        large = size >= LARGE or (size >= LARGE_ZIPPED and is_zipped(path))
        return cls(_Turns(path), helpers if large else 0)

    def finish(self, sorter: EventSorter, progress: Callable[[int], None] | None) -> tuple[Extent, Recovery]:
        """Let ``sorter`` take in all events; how far the file goes, and what was mended.

        Raises OSError, and UnreadableFileError for what is no trace.
        """
        from npu_advisor.readers.trace_decode import Recovery
        from npu_advisor.readers.trace_spans import Reading

        joined, reading = _Joined(sorter, Recovery()), Reading()
        self._work(joined, reading, progress)
        for helper in self._helpers:
            helper.join()
        # What a helper that failed gave back.
        self._work(joined, reading, progress)
        joined.take_in(self._done)
        return self._source.extent(joined.complete, reading), joined.recovery

    def _work(self, joined: _Joined, reading: Reading, progress: Callable[[int], None] | None) -> None:
        from npu_advisor.readers.trace_spans import part_of

        while found := self.next():
            number, task = found
            # Numba takes memory for good: that of the helpers goes with them.
            self.put(number, part_of(task, reading, compiled=not self._helpers))
            # At once: parts that wait take more room than what they are joined to.
            joined.take_in(self._done)
            if progress:
                progress(self._weight)

    def next(self) -> tuple[int, Span | Turn] | None:
        """The next stretch that nobody scans yet, and its number."""
        with self._lock:
            if self._returned:
                return self._returned.pop()
            return next(self._tasks, None)

    def put(self, number: int, part: Part | None) -> None:
        """A stretch is done; None: the file has ended before it."""
        with self._lock:
            if part is None:
                self._tasks = iter(())
            else:
                self._done[number] = part
                self._weight += part.weight

    def give_back(self, number: int, task: Span | Turn) -> None:
        """A stretch that somebody else has to scan."""
        with self._lock:
            self._returned.append((number, task))

    def __enter__(self) -> TraceScan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._tasks = iter(())
        for helper in self._helpers:
            helper.end()


class _Spans:
    """The stretches of a plain array, which each process reads itself."""

    def __init__(self, path: Path, spans: list[tuple[int, int]]) -> None:
        self._path, self._spans, self._size = path, spans, spans[-1][1]

    def __iter__(self) -> Iterator[Span]:
        for begin, end in self._spans:
            yield Span(self._path.absolute(), begin, end, self._size)

    def extent(self, complete: bool, _: Reading) -> Extent:
        """How far the file goes; ``complete`` is what its last stretch says."""
        return Extent(complete, False, self._size)


class _Turns:
    """The stretches of any other trace, a zipped one say, until one of them shows that the file has ended."""

    def __init__(self, path: Path) -> None:
        self._first = Turn(path.absolute(), SPAN, 0)

    def __iter__(self) -> Iterator[Turn]:
        return (self._first._replace(number=number) for number in itertools.count())

    def extent(self, _: bool, reading: Reading) -> Extent:
        """How far the file goes. Raises UnreadableFileError when it is no trace."""
        return reading.extent(self._first)


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


_ahead: dict[str, TraceScan] = {}


@contextlib.contextmanager
def begun_ahead(path: Path) -> Iterator[None]:
    """Have the helpers scan the first large trace under ``path`` while this process still imports what it needs."""
    trace = _first_trace(path) if processes() > 1 else None
    scan = _begun(trace) if trace else None
    if trace is None or scan is None:
        yield
        return
    with scan:
        _ahead[_real(trace)] = scan
        try:
            yield
        finally:
            _ahead.pop(_real(trace), None)


def _begun(trace: Path) -> TraceScan | None:
    try:
        return TraceScan.begin(trace)
    except OSError:
        # Whoever reads it will say so.
        return None


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _first_trace(path: Path) -> Path | None:
    """The trace that will be read first; where there is a database, that is read instead."""
    if path.is_file():
        return path
    for folder, folders, files in os.walk(path):
        folders.sort()
        trace = next((name for name in (TRACE, f"{TRACE}.gz") if name in files), None)
        if trace is not None and not any(name.endswith(".db") for name in files):
            return Path(folder) / trace
    return None


class _Helper(threading.Thread):
    """One child process and the thread that feeds it."""

    def __init__(self, work: TraceScan) -> None:
        super().__init__(daemon=True)
        self._work, self._process = work, _started()
        self.start()

    def run(self) -> None:
        if self._process is None:
            return
        # Pipes, both of them.
        tasks, parts = cast("tuple[IO[bytes], IO[bytes]]", (self._process.stdin, self._process.stdout))
        asked: deque[tuple[int, Span | Turn]] = deque()
        try:
            while self._ask(tasks, asked):
                part: Part | None = receive(parts)
                number, _ = asked.popleft()
                self._work.put(number, part)
        except (OSError, ValueError, pickle.UnpicklingError, EOFError):
            for number, task in asked:
                self._work.give_back(number, task)

    def _ask(self, tasks: IO[bytes], asked: deque[tuple[int, Span | Turn]]) -> bool:
        """Send stretches until enough are ``asked`` for, or none is left; whether there is one to wait for."""
        while len(asked) < AHEAD and (found := self._work.next()):
            asked.append(found)
            send(found[1], tasks)
        return bool(asked)

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
        process = subprocess.Popen(
            [sys.executable, "-c", _CODE, home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
    return process
