"""The overlay as Chrome-trace JSON, to load beside a trace or to put into it.

Perfetto, MindStudio Insight and chrome://tracing read both. Times are us on the profile's own clock; starts are
written as text with three decimals, as torch_npu writes them: a double cannot hold them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from npu_advisor.base.units import format_pct, format_us
from npu_advisor.findings import Finding, Report
from npu_advisor.report.options import Options
from npu_advisor.report.text import clean, inert
from npu_advisor.views import Slice, Track

# Larger than any process number of Linux and, unlike those that torch_npu makes up, no multiple of 32: the tracks
# stay apart in a merged file.
PID, PID_STEP = 4_194_305, 32
# Above the profile's own processes.
_SORT = -100
# Perfetto reads starts as doubles, which may move each by 256 ns, and drops slices that overlap then.
_APART_NS = 512


def render_trace(report: Report, tracks: Sequence[Track], options: Options) -> str:
    """The tracks as a JSON list, one event a line."""
    lines = (json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in events(report, tracks, options))
    return "[" + ",\n".join(lines) + "]\n"


def events(report: Report, tracks: Sequence[Track], options: Options) -> list[dict[str, Any]]:
    """The events of all tracks: names of the process of each rank and of its tracks, then the slices."""
    findings = {finding.fingerprint: finding for finding in inert(report).findings}
    made: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}
    for track in tracks:
        pid = PID + PID_STEP * max(track.rank, 0)
        if track.rank not in numbers:
            made += _named(pid, track.rank, _SORT + len(numbers))
        tid = numbers[track.rank] = numbers.get(track.rank, 0) + 1
        finding = findings.get(track.fingerprint)
        made.append(_meta("thread_name", pid, tid, name=_title(track, finding, options)))
        made.append(_meta("thread_sort_index", pid, tid, sort_index=tid))
        arguments = _arguments(finding, options)
        slices = sorted(track.slices, key=lambda piece: piece.start_ns)
        for piece, after in zip(slices, [*slices[1:], None], strict=True):
            event = {"ph": "X", "pid": pid, "tid": tid, "name": clean(piece.name.pick(options.lang))}
            event |= {"cat": f"npu-advisor.{track.kind}"} | _placed(piece, after, arguments)
            made.append(event)
    return made


def _placed(piece: Slice, after: Slice | None, arguments: dict[str, str]) -> dict[str, Any]:
    """Where a slice is, ending a moment early where the next one follows at once; its exact duration is told then."""
    end = piece.start_ns + piece.dur_ns
    drawn = end if after is None else max(min(end, after.start_ns - _APART_NS), piece.start_ns + min(piece.dur_ns, 1))
    told = dict(arguments)
    if piece.source:
        told["line"] = clean(piece.source)
    if drawn < end:
        told["duration"] = f"{_us(piece.dur_ns)} us"
    place = {"ts": _us(piece.start_ns), "dur": (drawn - piece.start_ns) / 1000}
    return place | ({"args": told} if told else {})


def _named(pid: int, rank: int, place: int) -> list[dict[str, Any]]:
    name = f"npu-advisor, rank {rank}" if rank >= 0 else "npu-advisor"
    return [_meta("process_name", pid, 0, name=name), _meta("process_sort_index", pid, 0, sort_index=place)]


def _meta(kind: str, pid: int, tid: int, **arguments: object) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": arguments}


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _title(track: Track, finding: Finding | None, options: Options) -> str:
    name = clean(track.name.pick(options.lang))
    return f"{finding.rule_id}: {name}" if finding else name


def _arguments(finding: Finding | None, options: Options) -> dict[str, str]:
    if finding is None:
        return {}
    made = {"rule": finding.rule_id, "message": finding.message.pick(options.lang)}
    if finding.location:
        made["line"] = f"{finding.location.path}({finding.location.line}): {finding.location.function}"
    if finding.saving:
        made["saving"] = f"{format_us(finding.saving.us_per_step)} ({format_pct(finding.saving.share)})"
    return made
