"""The process that scans spans of a trace for another one: a span comes in as a line, a pickled part goes out."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from pathlib import Path

from npu_advisor.readers.trace_parallel import LENGTH, MARK
from npu_advisor.readers.trace_spans import scan


def main() -> None:
    """Serve until stdin ends: lines ``begin end size path`` in, lengths and pickles out."""
    # Ctrl-C reaches the whole group: the other process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        *span, name = line.split()
        begin, end, size = map(int, span)
        path = Path(os.fsdecode(bytes.fromhex(name.decode())))
        part = pickle.dumps(scan(path, begin, end, size), protocol=5)
        out.write(MARK + len(part).to_bytes(LENGTH, "little") + part)
        out.flush()
