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
from npu_advisor.views import Track

# Larger than any process number of Linux and, unlike those that torch_npu makes up, no multiple of 32: the tracks
# stay apart in a merged file.
PID, PID_STEP = 4_194_305, 32
# Above the profile's own processes.
_SORT = -100


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
            made += _named(pid, track.rank)
        tid = numbers[track.rank] = numbers.get(track.rank, 0) + 1
        finding = findings.get(track.fingerprint)
        made.append(_meta("thread_name", pid, tid, name=_title(track, finding, options)))
        made.append(_meta("thread_sort_index", pid, tid, sort_index=tid))
        arguments = _arguments(finding, options)
        for piece in track.slices:
            event = {"ph": "X", "pid": pid, "tid": tid, "ts": _us(piece.start_ns), "dur": piece.dur_ns / 1000}
            event |= {"name": clean(piece.name.pick(options.lang)), "cat": f"npu-advisor.{track.kind}"}
            line = {"line": clean(piece.source)} if piece.source else {}
            if arguments or line:
                event["args"] = {**arguments, **line}
            made.append(event)
    return made


def _named(pid: int, rank: int) -> list[dict[str, Any]]:
    name = f"npu-advisor, rank {rank}" if rank >= 0 else "npu-advisor"
    return [_meta("process_name", pid, 0, name=name), _meta("process_sort_index", pid, 0, sort_index=_SORT)]


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
