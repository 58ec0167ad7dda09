"""trace_view.json (and any Chrome trace of an Ascend profile) to columns.

One tolerant reader: stretches of bytes cut between events, decoded into typed structs with the cyclic collector off,
turned into arrays block by block, and joined.  A bad escape, NaN, bytes that are not UTF-8 or a cut cost (at most) one
event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npu_advisor.base.messages import say
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.trace_blocks import EventBlocks
from npu_advisor.readers.trace_decode import Recovery
from npu_advisor.readers.trace_events import EventSorter
from npu_advisor.readers.trace_parallel import TraceScan
from npu_advisor.readers.trace_seams import Extent
from npu_advisor.readers.trace_tables import Trace, TraceTables

_LANES = ("Python", "CANN", "Ascend Hardware", "Overlap Analysis")


class KinetoTraceError(Exception):
    """The trace is one of Kineto, recorded on a GPU."""


def read_trace(
    path: Path, notes: Notes, progress: Callable[[int], None] | None = None, more: Sequence[Path] = ()
) -> Trace:
    """Read the trace at ``path`` and the pieces of it in ``more``; what had to be mended goes to ``notes``.

    Raises UnreadableFileError when the file is empty or no trace, KinetoTraceError when it was recorded on a GPU.
    """
    sorter = EventSorter()
    pieces = [_piece(piece, sorter, notes) for piece in more]
    try:
        pieces.insert(0, (path, *_read_piece(path, sorter, progress)))
    except UnreadableFileError as error:
        if not any(pieces):
            raise
        notes.unreadable(path.name, error.reason)
    read = [piece for piece in pieces if piece is not None]
    trace = TraceTables(path.name, sorter, notes, mend_paths=any(part.escapes for _, _, part in read)).build()
    trace.events = sum(part.events for _, _, part in read)
    if sorter.gpu and not len(trace.hardware.get("name", ())):
        raise KinetoTraceError
    seen = set(trace.tracks["process"][_busy_tracks(trace)])
    for piece, blocks, part in read:
        report_recovery(piece.name, blocks, part, [lane for lane in _LANES if lane not in seen], notes)
    return trace


def _piece(path: Path, sorter: EventSorter, notes: Notes) -> tuple[Path, Extent, Recovery] | None:
    """As ``_read_piece``; one that cannot be read is reported."""
    try:
        return (path, *_read_piece(path, sorter, None))
    except UnreadableFileError as error:
        notes.unreadable(path.name, error.reason)
        return None


def _read_piece(path: Path, sorter: EventSorter, progress: Callable[[int], None] | None) -> tuple[Extent, Recovery]:
    try:
        with TraceScan.begin(path) as scan:
            extent, recovery = scan.finish(sorter, progress)
    except OSError as error:
        raise UnreadableFileError(say("reason.unreadable", error=error.strerror or error)) from error
    if not recovery.events and not extent.complete:
        raise UnreadableFileError(say("reason.no_whole_event", size=extent.size))
    return extent, recovery


def report_recovery(
    file: str, blocks: Extent | EventBlocks, recovery: Recovery, absent: list[str], notes: Notes
) -> None:
    """Say what of ``file`` is lost or was mended; ``absent`` are lanes without events."""
    if not blocks.complete:
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
    if blocks.damaged:
        notes.say("gz_damaged", "warning", file)
    if recovery.repaired or recovery.lost:
        notes.say("trace_json_repaired", "warning", file, repaired=recovery.repaired, lost=recovery.lost)
    if recovery.invalid_utf8:
        notes.say("trace_invalid_utf8", "warning", file, events=recovery.invalid_utf8)


def _busy_tracks(trace: Trace) -> Any:
    """Tracks that hold slices; an arrow may end on a lane whose own events are lost."""
    slices = [columns for name, columns in trace.tables.items() if name != "flow_points"]
    parts = [columns["track"] for columns in (*slices, trace.hardware, trace.comm_ops) if "track" in columns]
    return np.unique(np.concatenate(parts)) if parts else []
