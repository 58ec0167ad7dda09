"""What looks slow but is not the cause, asked of the replay: long events whose removal alone saves (almost) nothing.

Host events (functions of the user, ranges, operators, optimizer steps) lose their own time and their waits, while the
device work they ask for stays; kernels and collectives go altogether. The same event goes on every rank, as a change of
the code would have it. What hides an event is what the critical path does meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.base.frame import Frame, parse_frame
from npu_advisor.base.heap import give_back
from npu_advisor.base.intervals import Ints, clip, covered, union
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_us
from npu_advisor.derive.bystanders import MIN_STEP_SHARE, Bystander, eligible, label_of, step_of
from npu_advisor.graph.replay import Edit, Replayer, merge
from npu_advisor.graph.replay.path import StepPath
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

# What an event may save of its own time and of the step before it counts as a cause; savings below the last share of
# the step are not worth a word.
MAX_SAVED, MAX_SAVED_OF_STEP, MIN_SAVED_OF_STEP = 0.1, 0.03, 0.0005
# An event is a finding's own where that much of it is.
CLAIMED = 0.5
# Events are tried from the longest on.
MOST_TRIED = 32
HOST, DEVICE = ("frames", "ops"), ("kernels", "comms")
Label = tuple[str, str]
# Rows of tables.
Claims = Sequence[tuple[str, Ints]]


class _Event(NamedTuple):
    """Rows of one table of one rank (by position) that go by one label."""

    position: int
    table: str
    rows: Ints
    frame: Frame | None


def hidden(
    replayer: Replayer, paths: Sequence[Sequence[StepPath]], claimed: Sequence[Claims], limit: int = 5
) -> list[list[Bystander]]:
    """By rank: the longest events that save nothing, at most ``limit``, longest first.

    ``paths`` and ``claimed`` are of each rank; events that are mostly made of rows which a finding claims to be worth
    something are left out.
    """
    found: list[list[Bystander]] = [[] for _ in replayer.profiles]
    spoken: list[list[tuple[int, int, int]]] = [[] for _ in replayer.profiles]
    step_us = float(np.mean([step.recorded for step in replayer.recorded])) / 1000.0

    def unnamed(events: list[_Event]) -> list[_Event]:
        return [event for event in events if not _inside(replayer, event, spoken[event.position])]

    for groups in _longest_first(replayer.profiles):
        tried = [(name, unnamed(events)) for name, events in groups]
        tried = [
            (name, events)
            for name, events in tried
            if events and not any(_is_claimed(replayer, event, claimed[event.position]) for event in events)
        ]
        prices = replayer.prices([[_removed(replayer, event) for event in events] for _, events in tried])
        for (name, events), saved in zip(tried, prices, strict=True):
            # One that was named just now may hold this one, on some ranks at least.
            left = unnamed(events)
            if not left:
                continue
            if len(left) < len(events):
                saved = replayer.price(_removed(replayer, event) for event in left)
            saved_us, lasts_us = saved / 1000.0, [_us_per_step(replayer, event) for event in left]
            if saved_us > min(MAX_SAVED * max(lasts_us), MAX_SAVED_OF_STEP * step_us):
                continue
            for event, us in zip(left, lasts_us, strict=True):
                spoken[event.position] += _calls(replayer, event)
                reason = _reason(replayer, event, paths[event.position], saved_us)
                found[event.position].append(Bystander(name, event.frame, us, reason, event.table in DEVICE))
    return [sorted(items, key=lambda item: -item.duration_us)[:limit] for items in found]


def _longest_first(profiles: Sequence[Profile]) -> Iterator[list[tuple[str, list[_Event]]]]:
    """Long events by name and line, on whichever ranks have them: those of the host first, as they hold what they
    launch."""
    for tables in (HOST[:1], HOST[1:], DEVICE):
        groups: dict[Label, list[_Event]] = defaultdict(list)
        for position, profile in enumerate(profiles):
            for table in tables:
                for label, event in _events(profile, position, table):
                    groups[label].append(event)
            give_back()
        weight = {label: _ns(profiles, events) for label, events in groups.items()}
        heaviest = sorted(groups.items(), key=lambda item: -weight[item[0]])[:MOST_TRIED]
        yield [(name, events) for (name, _), events in heaviest]


def _ns(profiles: Sequence[Profile], events: list[_Event]) -> int:
    return sum(int(profiles[event.position].table(event.table).at("dur_ns", event.rows).sum()) for event in events)


def _events(profile: Profile, position: int, name: str) -> Iterator[tuple[Label, _Event]]:
    """The events of one table that last a good part of their step, by name and line."""
    table, steps = profile.table(name), profile.table("steps")
    if not len(table):
        return
    # Few of all the events last so long: the others are not looked at.
    rows = np.flatnonzero(table["dur_ns"] >= MIN_STEP_SHARE * steps["dur_ns"].min(initial=np.iinfo(np.int64).max))
    step, dur = step_of(profile, table, rows), table.at("dur_ns", rows)
    step_ns = np.where(step >= 0, steps["dur_ns"][np.maximum(step, 0)], np.iinfo(np.int64).max)
    long_ = (dur >= MIN_STEP_SHARE * step_ns) & (dur < 0.98 * step_ns)
    long_ &= (step >= 0) & steps["complete"][np.maximum(step, 0)]
    if name in HOST:
        long_ &= eligible(table)[rows]
    groups: dict[Label, list[int]] = defaultdict(list)
    frames: dict[Label, Frame | None] = {}
    for row in rows[long_].tolist():
        text, frame = label_of(profile, table, row) if name in HOST else _device_label(table, row)
        frames[text, str(frame)] = frame
        groups[text, str(frame)].append(row)
    for label, members in groups.items():
        yield label, _Event(position, name, np.array(members, dtype=np.int64), frames[label])


def _device_label(table: Table, row: int) -> tuple[str, Frame | None]:
    line = table.text("source", row)
    return str(table.text("type", row) or table.text("name", row)), parse_frame(line) if line else None


def _calls(replayer: Replayer, event: _Event) -> list[tuple[int, int, int]]:
    """Track, start and end of each row."""
    table = replayer.profiles[event.position].table(event.table)
    columns = (table.at(name, event.rows).tolist() for name in ("track", "start_ns", "end_ns"))
    return list(zip(*columns, strict=True))


def _inside(replayer: Replayer, event: _Event, spoken: list[tuple[int, int, int]]) -> bool:
    """Whether all of an event lies in events of its thread that have been named."""
    return all(
        any(lane == track and low <= start and end <= high for lane, low, high in spoken)
        for track, start, end in _calls(replayer, event)
    )


def _is_claimed(replayer: Replayer, event: _Event, claims: Claims) -> bool:
    """Whether rows that a finding claims make up most of an event, or hold it."""
    profile = replayer.profiles[event.position]
    for name, rows in claims:
        table = profile.table(name)
        if not len(rows) or not table.spec.column("track"):
            continue
        if event.table in DEVICE:
            if name == event.table and np.isin(event.rows, rows).any():
                return True
            continue
        track, start, end = (np.array(column) for column in zip(*_calls(replayer, event), strict=True))
        for lane in np.unique(track):
            mine = rows[table.at("track", rows) == lane]
            spans = union(table.at("start_ns", mine), table.at("end_ns", mine))
            here = track == lane
            length = end[here] - start[here]
            if (covered(start[here], end[here], spans) >= CLAIMED * length).any():
                return True
    return False


def _removed(replayer: Replayer, event: _Event) -> Edit:
    """The edit that takes an event away."""
    edit = replayer.editor(event.position)
    table = replayer.profiles[event.position].table(event.table)
    if event.table in DEVICE:
        return edit.remove_tasks(replayer.graph.ranks[event.position].tasks.of(event.table, event.rows))
    parts, tracks = [], table.at("track", event.rows)
    for track in np.unique(tracks).tolist():
        rows = event.rows[tracks == track]
        spans = union(table.at("start_ns", rows), table.at("end_ns", rows))
        parts += [edit.cut(track, spans.start, spans.end), edit.no_wait(track, spans.start, spans.end)]
    return merge(parts)


def _us_per_step(replayer: Replayer, event: _Event) -> float:
    profile = replayer.profiles[event.position]
    lasts = profile.table(event.table).at("dur_us", event.rows)
    return float(lasts.sum()) / int(profile.table("steps")["complete"].sum())


def _reason(replayer: Replayer, event: _Event, paths: Sequence[StepPath], saved_us: float) -> Text:
    """What the critical path does while the event lasts, and what of its time would be saved all the same."""
    profile = replayer.profiles[event.position]
    table, step_us = profile.table(event.table), float(profile.table("steps")["dur_us"].mean())
    row = int(event.rows[np.argmax(table.at("dur_ns", event.rows))])
    low, high = int(table["start_ns"][row]), int(table["end_ns"][row])
    meanwhile: dict[str, int] = defaultdict(int)
    for path in paths:
        for part, ns in path.within(low, high).items():
            meanwhile[part] += ns
    part = max(meanwhile, key=lambda one: meanwhile[one], default="other")
    share = f"{100 * meanwhile[part] / max(high - low, 1):.0f} %"
    peer = _late_rank(profile, low, high) if part == "waiting_for_rank" else -1
    why = say(f"hidden.{'waiting_for_one' if peer >= 0 else part}", share=share, rank=peer)
    if saved_us < MIN_SAVED_OF_STEP * step_us:
        return why
    rest = say("hidden.saves", us=format_us(saved_us))
    return Text(en=f"{why.en}; {rest.en}", zh=f"{why.zh}；{rest.zh}")


def _late_rank(profile: Profile, low: int, high: int) -> int:
    """The rank that alone was waited for during most of the waiting in ``[low, high)``, -1 for none."""
    exposed = profile.table("exposed")
    rows = np.flatnonzero(exposed["late"]) if len(exposed) else np.zeros(0, dtype=np.int64)
    length = [clip(union(exposed["start_ns"][[row]], exposed["end_ns"][[row]]), low, high).total for row in rows]
    by_peer: dict[int, int] = defaultdict(int)
    for peer, ns in zip(exposed["peer"][rows].tolist(), length, strict=True):
        by_peer[peer] += ns
    peer = max(by_peer, key=lambda one: by_peer[one], default=-1)
    return peer if by_peer.get(peer, 0) * 2 > sum(length) else -1
