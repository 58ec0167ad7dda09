"""trace_view.json (and any Chrome trace of an Ascend profile) to columns.

One tolerant reader: blocks of bytes cut between events, decoded into typed structs with the cyclic collector off,
turned into arrays block by block.  A bad escape, NaN, bytes that are not UTF-8 or a cut cost (at most) one event.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from npu_advisor.base.messages import say
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.trace_blocks import EventBlocks, gpu_trace
from npu_advisor.readers.trace_decode import Recovery, decode
from npu_advisor.readers.trace_events import EventSorter
from npu_advisor.readers.trace_tables import Trace, TraceTables

_LANES = ("Python", "CANN", "Ascend Hardware", "Overlap Analysis")


@contextmanager
def _no_cyclic_gc() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_trace(path: Path, notes: Notes, progress: Callable[[int], None] | None = None) -> Trace:
    """Read the trace at ``path``; what had to be mended goes to ``notes``.

    Raises UnreadableFileError when the file is empty or no trace, ProfileError when it was recorded on a GPU.
    """
    blocks, sorter, recovery = EventBlocks(path, progress), EventSorter(), Recovery()
    with _no_cyclic_gc():
        for block in blocks:
            sorter.add(decode(block, blocks.complete, recovery))
    if not recovery.events and not blocks.complete:
        raise UnreadableFileError(say("reason.no_whole_event", size=blocks.size))
    trace = TraceTables(path.name, sorter, notes, mend_paths=recovery.escapes > 0).build()
    trace.events = recovery.events
    if sorter.gpu and not len(trace.hardware.get("name", ())):
        raise gpu_trace(path)
    _report(path.name, blocks, recovery, trace, notes)
    return trace


def _report(file: str, blocks: EventBlocks, recovery: Recovery, trace: Trace, notes: Notes) -> None:
    if not blocks.complete:
        seen = set(trace.tracks["process"][_busy_tracks(trace)].dropna()) if len(trace.tracks) else set()
        absent = [lane for lane in _LANES if lane not in seen]
        notes.say(
            "trace_truncated",
            "warning",
            file,
            byte=blocks.size if recovery.cut_at is None else recovery.cut_at,
            size=blocks.size,
            events=recovery.events,
            lost=int(recovery.cut_at is not None),
            lanes=", ".join(absent) or "-",
        )
    if recovery.repaired or recovery.lost:
        notes.say("trace_json_repaired", "warning", file, repaired=recovery.repaired, lost=recovery.lost)
    if recovery.invalid_utf8:
        notes.say("trace_invalid_utf8", "warning", file, events=recovery.invalid_utf8)


def _busy_tracks(trace: Trace) -> Any:
    """Tracks that hold slices; an arrow may end on a lane whose own events are lost."""
    slices = [columns for name, columns in trace.tables.items() if name != "flow_points"]
    parts = [columns["track"] for columns in (*slices, trace.hardware, trace.comm_ops) if "track" in columns]
    return np.unique(np.concatenate(parts)) if parts else []
