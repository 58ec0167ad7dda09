"""The process that scans spans of a trace for another one: a span comes in as a line, a part goes out."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from npu_advisor.readers.trace_spans import scan
from npu_advisor.readers.trace_wire import send


def main() -> None:
    """Serve until stdin ends: lines ``begin end size path`` in, parts out."""
    # Ctrl-C reaches the whole group: the other process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        *span, name = line.split()
        begin, end, size = map(int, span)
        send(scan(Path(os.fsdecode(bytes.fromhex(name.decode()))), begin, end, size), out)
