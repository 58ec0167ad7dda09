"""The process that scans stretches of a trace for another one: they come in on stdin, parts go out."""

from __future__ import annotations

import os
import signal
import sys

from npu_advisor.readers.trace_spans import part_of
from npu_advisor.readers.trace_wire import receive, send


def main() -> None:
    """Serve until stdin ends."""
    # Ctrl-C reaches the whole group: the other process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        while True:
            send(part_of(receive(sys.stdin.buffer)), out)
    except EOFError:
        pass
