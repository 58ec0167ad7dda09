"""Fill the views of a run: of the rank with the longest step in detail, of the others what compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from npu_advisor.base.intervals import Spans, union
from npu_advisor.base.terms import Text
from npu_advisor.engine.pricing import fingerprint_of
from npu_advisor.engine.run import RawFinding, RuleResult
from npu_advisor.engine.savings import Results, Trusted
from npu_advisor.engine.summary import paths_of
from npu_advisor.engine.views.communication import communication_tables
from npu_advisor.engine.views.kernels import kernel_tables
from npu_advisor.engine.views.memory import memory_tables, memory_view
from npu_advisor.engine.views.operators import operator_tables
from npu_advisor.engine.views.timeline import MAX_MARKS, epoch, median_step, timeline
from npu_advisor.findings import Finding
from npu_advisor.graph.replay.path import StepPath
from npu_advisor.model.profile import Profile
from npu_advisor.model.schema import SCHEMA
from npu_advisor.views import Holding, Timeline, Views, Window

# Ranks whose timeline is kept: the one in focus, and those that findings are about.
MAX_TIMELINES = 3
MAX_PIECES = 24
# Tables that a recording may or may not hold, in the order of the timeline.
HELD = (
    *("steps", "ops", "frames", "enqueues", "dequeues", "apis", "kernels", "tasks", "comms", "comm_tasks"),
    *("memory", "allocs", "module_memory", "op_statistic", "op_details", "links", "l2_cache", "aicpu", "gcs"),
)


__all__ = ["build_views", "finding_spans"]


def build_views(results: Results, findings: Sequence[Finding], trusted: Sequence[Trusted] = ()) -> Views:
    """The views of every rank that was read, with the windows of ``findings`` on the timelines.

    ``trusted`` are the replays that the critical paths are taken from.
    """
    profiles = [profile for profile, _ in results]
    focus = max(profiles, key=_mean_step)
    paths = {id(profile): paths_of(number, trusted) for number, profile in enumerate(profiles)}
    tables = {**kernel_tables(focus), **operator_tables(focus), **memory_tables(focus)}
    tables |= communication_tables(profiles)
    return Views(
        rank=focus.rank,
        tables=tables,
        memory=memory_view(focus, epoch(focus)),
        timelines=_timelines(results, findings, focus, paths),
        holdings=_holdings(focus),
    )


def _holdings(profile: Profile) -> list[Holding]:
    """What was recorded of the tables that rules ask for, and what was not and why."""
    made = []
    for name in HELD:
        spec, missing = SCHEMA[name], profile.missing(name)
        called = Text(en=spec.called[0], zh=spec.called[1])
        if missing is None:
            made.append(Holding(called, len(profile.table(name)), spec.files))
        else:
            made.append(Holding(called, 0, spec.files, missing.reason, missing.enable))
    return made


def _mean_step(profile: Profile) -> float:
    steps = profile.table("steps")
    return float(steps["dur_ns"].mean()) if len(steps) else 0.0


def _timelines(
    results: Results, findings: Sequence[Finding], focus: Profile, paths: Mapping[int, Sequence[StepPath]]
) -> list[Timeline]:
    blamed = dict.fromkeys(finding.rank for finding in findings)
    kept = [(focus, outcomes) for profile, outcomes in results if profile is focus]
    for rank in blamed:
        kept += [(profile, outcomes) for profile, outcomes in results if profile.rank == rank and profile is not focus]
    kept = kept[:MAX_TIMELINES]
    made = []
    for profile, outcomes in kept:
        start = epoch(profile)
        spans = finding_spans(profile, outcomes, findings)
        windows = [_window(profile, name, pieces, start) for name, pieces in spans.items()]
        made.append(timeline(profile, windows, start, MAX_MARKS // len(kept), paths[id(profile)]))
    return [each for each in made if each.lanes]


def finding_spans(profile: Profile, outcomes: Sequence[RuleResult], findings: Sequence[Finding]) -> dict[str, Spans]:
    """When the events behind each finding happened on this rank, by fingerprint; findings about no time are absent."""
    raws: dict[str, list[RawFinding]] = {}
    for outcome in outcomes:
        for raw in outcome.raw_findings:
            raws.setdefault(fingerprint_of(raw), []).append(raw)
    made = {}
    for finding in findings:
        alike = raws.get(finding.fingerprint.partition("-")[0], [])
        # Findings of one rule and line differ in step or in what they were grouped by.
        same = [raw for raw in alike if raw.values == finding.values]
        spans = _events(profile, same or alike)
        if len(spans.start):
            made[finding.fingerprint] = spans
    return made


def _events(profile: Profile, raws: Sequence[RawFinding]) -> Spans:
    """The union of the events behind the findings; covered device time where that is what they are about."""
    start, end = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for raw in raws:
        name, rows = raw.members
        table = profile.table(name)
        if len(raw.covered.start):
            start.append(raw.covered.start)
            end.append(raw.covered.end)
        elif table.spec.timed and len(rows):
            rows = rows[table["start_ns"][rows] >= 0]  # memory of before the recording has no time
            start.append(table["start_ns"][rows])
            end.append(np.maximum(table["end_ns"][rows], table["start_ns"][rows] + 1))
    return union(np.concatenate(start), np.concatenate(end))


def _window(profile: Profile, name: str, spans: Spans, epoch_ns: int) -> Window:
    """The largest pieces; one of the median step comes first if it is hardly smaller, for that step is kept whole."""
    size = spans.end - spans.start
    step = median_step(profile) or (0, 0)
    shown = (spans.start >= step[0]) & (spans.end <= step[1]) & (2 * size >= size.max())
    longest = np.lexsort((-size, ~shown))[:1].tolist()
    longest += [row for row in np.argsort(-size, kind="stable")[:MAX_PIECES].tolist() if row not in longest]
    pieces = [(int(spans.start[row]) - epoch_ns, int(spans.end[row]) - epoch_ns) for row in longest]
    return Window(fingerprint=name, pieces=pieces, total=len(spans.start))
