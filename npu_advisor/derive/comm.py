"""Whom the device waits for inside collectives."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from npu_advisor.base.intervals import Ints, Spans, clip, subtract, union
from npu_advisor.model.profile import Profile

# dst_rank of a sub-task that stays on this card.
LOCAL = 4294967295


def waits_for_rank(profile: Profile) -> dict[int, dict[int, int]]:
    """Per step row, per peer rank: ns of exposed communication spent waiting for that rank alone.

    In each collective the longest ``Notify_Wait`` for a peer says when that peer arrived.  Only the latest peer holds
    everybody up, and only from the moment the second latest had arrived; what kernels cover is no loss.
    """
    late = _late_spans(profile)
    kernels, steps = profile.table("kernels"), profile.table("steps")
    computing = union(kernels["start_ns"], kernels["end_ns"])
    result: dict[int, dict[int, int]] = {}
    for row in range(len(steps)):
        low, high = int(steps["start_ns"][row]), int(steps["end_ns"][row])
        waits = {peer: clip(subtract(spans, computing), low, high).total for peer, spans in late.items()}
        result[row] = {peer: ns for peer, ns in waits.items() if ns > 0}
    return result


def _late_spans(profile: Profile) -> dict[int, Spans]:
    """For each peer the union of the times in which it alone was waited for."""
    tasks = profile.table("comm_tasks")
    waiting = np.asarray(tasks["name"] == "Notify_Wait") if len(tasks) else np.zeros(0, dtype=bool)
    peer, own = tasks["dst_rank"], tasks["src_rank"]
    rows = np.flatnonzero(waiting & (tasks["comm"] >= 0) & (peer != LOCAL) & (peer >= 0) & (peer != own))
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    order = rows[np.argsort(tasks["comm"][rows], kind="stable")]
    for comm_rows in np.split(order, np.flatnonzero(np.diff(tasks["comm"][order])) + 1):
        found = _latest(peer[comm_rows], tasks["start_ns"][comm_rows], tasks["dur_ns"][comm_rows])
        if found is not None:
            spans[found[0]].append(found[1:])
    return {rank: union(*np.array(parts, dtype=np.int64).T) for rank, parts in spans.items()}


def _latest(peer: Ints, start: Ints, dur: Ints) -> tuple[int, int, int] | None:
    """The latest peer of one collective, and from when until when only it was missing."""
    longest = {int(number): int(dur[peer == number].max()) for number in np.unique(peer)}
    if not longest:
        return None
    late = max(longest, key=lambda number: longest[number])
    second = max((ns for number, ns in longest.items() if number != late), default=0)
    row = np.flatnonzero((peer == late) & (dur == longest[late]))[0]
    return late, int(start[row]) + second, int(start[row]) + longest[late]
