"""The process that scans stretches of a trace for another one: they come in on stdin, parts go out."""

from __future__ import annotations

import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import IO

from npu_advisor.readers.trace_spans import Part, Reading, part_of
from npu_advisor.readers.trace_wire import receive, send


def main() -> None:
    """Serve until stdin ends."""
    # Ctrl-C reaches the whole group: the other process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    parts: SimpleQueue[tuple[Part | None] | None] = SimpleQueue()
    # The next stretch is scanned while the other process is too busy to take in what the last one held.
    writer = threading.Thread(target=_write, args=(parts, out), daemon=True)
    writer.start()
    reading = Reading()
    try:
        while True:
            parts.put((part_of(receive(sys.stdin.buffer), reading),))
    except EOFError:
        parts.put(None)
        writer.join()


def _write(parts: SimpleQueue[tuple[Part | None] | None], out: IO[bytes]) -> None:
    while (found := parts.get()) is not None:
        send(found[0], out)
