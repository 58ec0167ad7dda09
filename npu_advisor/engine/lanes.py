"""The stages that look at a lane of events in order of time: ``gaps`` between them and ``chain`` of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu_advisor.engine.intervals import running_end
from npu_advisor.engine.pattern import Pattern
from npu_advisor.engine.plan import Chain, Gaps
from npu_advisor.engine.rows import Picked, Rows, ranges
from npu_advisor.engine.values import Array, number


def times(rows: Rows) -> tuple[Array, Array, Array]:
    """Start and end of each row in ns, and which rows have both."""
    start, duration = rows.column("start_ns"), rows.column("dur_ns")
    known = ~(start.is_missing | duration.is_missing)
    begin = np.where(known, start.data, 0).astype(np.int64)
    return begin, begin + np.where(known, duration.data, 0).astype(np.int64), known


def _timed(rows: Rows, start: Array, end: Array) -> Rows:
    duration = end - start
    return rows.with_columns(
        {
            "start_ns": number(start),
            "dur_ns": number(duration),
            "end_ns": number(end),
            "dur_us": number(duration / 1000.0),
        }
    )


def _lanes(rows: Rows, lane: str, within: str | None) -> tuple[Array, Array]:
    """Rows with a time (and ``within``) lane by lane in order of start, and where a new lane begins."""
    start, _, known = times(rows)
    lanes, parts = rows.column(lane).spread(len(rows)).codes(), np.zeros(len(rows), dtype=np.int64)
    if within is not None:
        parts = rows.column(within).spread(len(rows)).codes()
        known = known & (parts >= 0)
    kept = np.flatnonzero(known)
    order = kept[np.lexsort((start[kept], parts[kept], lanes[kept]))]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (lanes[order][1:] != lanes[order][:-1]) | (parts[order][1:] != parts[order][:-1])
    return order, fresh


def gaps(rows: Rows, stage: Gaps) -> Rows:
    """Silences between neighbours: from the latest end so far on the lane to the next start, where positive.

    A row keeps the columns of the event that ends the silence. Rows without a time or without ``within`` are left out;
    rows without a lane share one.
    """
    start, end, _ = times(rows)
    order, fresh = _lanes(rows, stage.lane, stage.within)
    if not len(order):
        return _timed(rows.take(order), start[order], end[order])
    reach = running_end(np.cumsum(fresh), end[order])
    before = np.concatenate([[0], reach[:-1]])
    silent = np.flatnonzero(~fresh & (start[order] > before))
    silent = silent[np.argsort(order[silent], kind="stable")]
    ending = order[silent]
    return _timed(rows.take(ending), before[silent], start[ending])


def chain(rows: Rows, stage: Chain) -> Rows:
    """Sequences of events of one lane that fit the pattern: leftmost, the longest there, not overlapping.

    Events follow each other in order of start. A row keeps the columns of its first event, ``T1``, ``T2``, ... are its
    events of symbol T, and it lasts from its first start to its latest end.
    """
    start, end, _ = times(rows)
    order, fresh = _lanes(rows, stage.lane, stage.within)
    labels = np.full(len(rows), len(stage.symbols), dtype=np.int64)
    for label in reversed(range(len(stage.symbols))):
        labels[stage.symbols[label][1].evaluate(rows).spread(len(rows)).data] = label
    first, count = stage.pattern.find(labels[order], np.cumsum(fresh))
    by_row = np.argsort(order[first], kind="stable")
    first, count = first[by_row], count[by_row]
    at, offsets = ranges(first, first + count)
    events, owner = order[at], np.repeat(np.arange(len(first)), count)
    latest = np.maximum.reduceat(end[events], offsets[:-1]) if len(first) else first
    return replace(
        _timed(rows.take(order[first]), start[order[first]], latest),
        covered={name: covered.take(events).united(owner, len(first)) for name, covered in rows.covered.items()},
        picked=_picked(rows, stage.pattern, order, labels, first, count),
        detail=rows.detail or rows,
        members=rows.behind(offsets, events),
    )


def _picked(rows: Rows, pattern: Pattern, order: Array, labels: Array, first: Array, count: Array) -> dict[str, Picked]:
    """``T1``, ``T2``, ...: the events of each symbol in each match, by number."""
    picked = {}
    for label, symbol in enumerate(pattern.symbols):
        places = np.flatnonzero(labels[order] == label)
        begin, after = np.searchsorted(places, first), np.searchsorted(places, first + count)
        for nth in range(pattern.most.get(symbol, 0)):
            there = begin + nth < after
            at = np.full(len(first), -1, dtype=np.int64)
            at[there] = order[places[begin[there] + nth]]
            picked[f"{symbol}{nth + 1}"] = Picked(rows, at)
    return picked
