"""One rank over time as lanes of marks, for a picture that can be zoomed.

From top to bottom: the line of the user's script, Python modules, ops of each host thread, task queue, CANN calls that
hold the device up, kernels and copies by stream, collectives, exposed communication, and idle time by owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npu_advisor.base.frame import is_user_relative, parse_frame
from npu_advisor.base.intervals import Ints, Mask, Spans, union
from npu_advisor.engine.views.thin import shares, thin
from npu_advisor.graph.idle import ALLOC_CALLS, BLOCKING_COPY, COMPILE_CALLS, SYNC_CALLS
from npu_advisor.graph.named import STEP_MARK, WRAPPERS, starting
from npu_advisor.graph.nesting import Nesting
from npu_advisor.graph.replay.path import PARTS, StepPath
from npu_advisor.graph.source import ENGINE_MARK
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table
from npu_advisor.views import Lane, Timeline, Window

MAX_MARKS = 36_000
MAX_THREADS, MAX_STREAMS, MAX_ROWS, MAX_STEPS = 4, 6, 5, 400
LONGEST_NAME = 120
_MODULE = "nn.Module:"


@dataclass
class _Source:
    """The events of one lane before they are thinned; ``names`` are the distinct ones that ``name`` points into."""

    kind: str
    label: str
    start: Ints
    end: Ints
    row: Ints
    names: Sequence[str]
    name: Ints
    table: Table | None = None
    rows: Ints | None = None


class _Names:
    """The distinct texts of a timeline, numbered as they come."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, texts: Sequence[str], codes: Ints) -> list[int]:
        """The numbers of ``texts[code]`` for every code; -1 stays."""
        made = np.full(len(texts) + 1, -1, dtype=np.int64)
        for code in np.unique(codes[codes >= 0]).tolist():
            name = str(texts[code])
            short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}…{name[-LONGEST_NAME // 2 :]}"
            made[code] = self.known.setdefault(short, len(self.known))
        return [int(number) for number in made[codes]]


def timeline(
    profile: Profile, windows: Sequence[Window], epoch_ns: int, most: int, paths: Sequence[StepPath] = ()
) -> Timeline:
    """The lanes of one rank in at most about ``most`` marks; the median step and the windows keep most detail."""
    found = [lane for lane in _lanes(profile) if len(lane.start)]
    if paths:
        found.insert(1 if found and found[0].kind == "line" else 0, _critical(paths))
    focus = _focus(profile, windows, epoch_ns)
    names = _Names()
    lanes = [
        _lane(profile, lane, budget, focus, epoch_ns, names)
        for lane, budget in zip(found, shares([len(lane.start) for lane in found], most), strict=True)
    ]
    steps = profile.table("steps")
    ends = [int(lane.end.max()) for lane in found] + steps["end_ns"].tolist()
    return Timeline(
        rank=profile.rank,
        epoch_ns=epoch_ns,
        span_ns=max(ends, default=epoch_ns) - epoch_ns,
        names=list(names.known),
        lanes=lanes,
        steps=[
            (int(number) if number >= 0 else None, int(start) - epoch_ns, int(dur))
            for number, start, dur in zip(
                *(steps[name][:MAX_STEPS] for name in ("number", "start_ns", "dur_ns")), strict=True
            )
        ],
        windows=list(windows),
        events=sum(lane.events for lane in lanes),
    )


def epoch(profile: Profile) -> int:
    """What the times of a rank's views count from: the start of its first step, else its first event."""
    steps = profile.table("steps")
    if len(steps):
        return int(steps["start_ns"].min())
    starts = [lane.start.min() for lane in _lanes(profile) if len(lane.start)]
    memory = profile.table("memory")["start_ns"]
    return int(min([*starts, *memory[:1]], default=0))


def median_step(profile: Profile) -> tuple[int, int] | None:
    """Start and end of the step of median length, which stands for all of them; None without steps."""
    steps = profile.table("steps")
    if not len(steps):
        return None
    middle = int(np.argsort(steps["dur_ns"], kind="stable")[len(steps) // 2])
    return int(steps["start_ns"][middle]), int(steps["end_ns"][middle])


def _focus(profile: Profile, windows: Sequence[Window], epoch_ns: int) -> Spans:
    """The median step, and what lies around the first piece of every finding."""
    step = median_step(profile)
    start, end = ([step[0]], [step[1]]) if step else ([], [])
    most = (step[1] - step[0]) // 4 if step else 10**9
    for low, high in (window.pieces[0] for window in windows):
        around = min(high - low, most)
        start.append(epoch_ns + low - around)
        end.append(epoch_ns + low + 2 * around)
    return union(np.array(start, dtype=np.int64), np.array(end, dtype=np.int64))


def _lane(profile: Profile, lane: _Source, budget: int, focus: Spans, epoch_ns: int, names: _Names) -> Lane:
    marks = thin(lane.start, lane.end, lane.row, max(budget, 1), focus)
    made = Lane(
        kind=lane.kind,
        label=lane.label,
        start_ns=(marks.start - epoch_ns).tolist(),
        dur_ns=(marks.end - marks.start).tolist(),
        name=names.of(lane.names, lane.name[marks.event]),
        count=marks.holds.tolist(),
        row=lane.row[marks.event].tolist(),
        events=len(lane.start),
    )
    if lane.table is None or lane.rows is None:
        return made
    rows = lane.rows[marks.event]
    source = lane.table["source"]
    made = replace(made, source=names.of(source.categories, source.codes[rows].astype(np.int64)))
    if lane.table.spec.name != "kernels":
        return made
    launch, op = lane.table["launch_ns"][rows], lane.table["op"][rows]
    ops = profile.table("ops")["name"]
    asked = np.append(ops.codes, -1).astype(np.int64)[op]
    return replace(
        made,
        launch_ns=np.where((launch >= 0) & (marks.holds == 1), launch - epoch_ns, -1).tolist(),
        op=names.of(ops.categories, asked),
    )


# --- lanes ----------------------------------------------------------------------------------------------------------


def _lanes(profile: Profile) -> Iterator[_Source]:
    ops = profile.table("ops")
    kept = np.flatnonzero(~starting(ops, STEP_MARK))
    threads, counts = np.unique(ops["track"][kept], return_counts=True)
    busiest = threads[np.argsort(-counts, kind="stable")][:MAX_THREADS].tolist()
    main = _main_thread(ops, busiest)
    yield _lines(ops, kept[ops["track"][kept] == main])
    yield _modules(profile.table("frames"))
    for track in sorted(busiest, key=lambda each: each != main):
        yield _thread(profile, ops, kept[ops["track"][kept] == track], track, main)
    dequeues = profile.table("dequeues")
    yield _plain(dequeues, "dequeue", np.arange(len(dequeues)), sourced=True)
    apis = profile.table("apis")
    holding = starting(apis, (*SYNC_CALLS, *COMPILE_CALLS, *ALLOC_CALLS), BLOCKING_COPY)
    yield _plain(apis, "cann", np.flatnonzero(holding))
    gcs = profile.table("gcs")
    yield _named("gc", gcs, ["gc"], np.zeros(len(gcs), dtype=np.int64))
    yield from _streams(profile)
    yield _collectives(profile.table("comms"))
    yield _exposed(profile)
    idle = profile.table("idle")
    yield _named("idle", idle, list(idle["owner"].categories), idle["owner"].codes.astype(np.int64), sourced=True)


def path_stretches(paths: Sequence[StepPath]) -> tuple[Ints, Ints, Ints]:
    """Start, end (ns since the epoch) and part (position in ``PARTS``) of every stretch of the paths, in time order."""
    spans = [(path.parts[part], number) for path in paths for number, part in enumerate(PARTS)]
    none = np.zeros(0, dtype=np.int64)
    start = np.concatenate([none, *(one.start for one, _ in spans)])
    end = np.concatenate([none, *(one.end for one, _ in spans)])
    part = np.concatenate([none, *(np.full(len(one.start), number) for one, number in spans)])
    order = np.argsort(start, kind="stable")
    return start[order], end[order], part[order]


def _critical(paths: Sequence[StepPath]) -> _Source:
    start, end, part = path_stretches(paths)
    return _Source("critical", "", start, end, np.zeros(len(start), dtype=np.int64), PARTS, part)


def _main_thread(ops: Table, tracks: list[int]) -> int:
    """The thread of the step marks; without marks the busiest that autograd does not own."""
    marked = ops["track"][starting(ops, STEP_MARK)]
    if len(marked):
        return int(np.bincount(np.maximum(marked, 0)).argmax())
    engine = set(ops["track"][starting(ops, ENGINE_MARK)].tolist())
    return next((track for track in tracks if track not in engine), tracks[0] if tracks else -1)


def _lines(ops: Table, rows: Ints) -> _Source:
    """The user's line over time: a line lasts from its first op to the end of its last before another line begins."""
    wrapper = starting(ops, WRAPPERS)
    rows = rows[(ops["source"].codes[rows] >= 0) & ~wrapper[rows]]
    rows = rows[np.argsort(ops["start_ns"][rows], kind="stable")]
    codes = ops["source"].codes[rows].astype(np.int64)
    new = np.flatnonzero(np.append(True, np.diff(codes) != 0)[: len(rows)])
    end = np.maximum.reduceat(ops["end_ns"][rows], new) if len(new) else rows
    start = ops["start_ns"][rows][new]
    # A nested op of another line cuts its caller's line short.
    end = np.minimum(end, np.append(start[1:], np.iinfo(np.int64).max)) if len(new) else end
    flat = np.zeros(len(new), dtype=np.int64)
    return _Source("line", "", start, end, flat, list(ops["source"].categories), codes[new])


def _modules(frames: Table) -> _Source:
    """Modules, and functions of the user's own files."""
    rows = np.flatnonzero(starting(frames, _MODULE) | _own_functions(frames))
    nested = Nesting(frames["track"][rows], frames["start_ns"][rows], frames["end_ns"][rows])
    keep = nested.depth < MAX_ROWS
    return _plain(frames, "module", rows[keep], row=nested.depth[keep].astype(np.int64))


def _own_functions(frames: Table) -> Mask:
    parsed = [parse_frame(str(name)) for name in frames["name"].categories]
    own = [frame is not None and is_user_relative(frame.path) for frame in parsed]
    mask: Mask = np.array([*own, False], dtype=bool)[frames["name"].codes]
    return mask


def _thread(profile: Profile, ops: Table, rows: Ints, track: int, main: int) -> _Source:
    depth = ops["depth"][rows]
    depth = depth - (depth.min() if len(depth) else 0)
    rows, depth = rows[depth < MAX_ROWS], depth[depth < MAX_ROWS]
    backward = starting(ops, ENGINE_MARK)[rows].any()
    kind = "main" if track == main else "autograd" if backward else "thread"
    return replace(_plain(ops, kind, rows, row=depth, sourced=True), label=_thread_name(profile, track))


def _thread_name(profile: Profile, track: int) -> str:
    tracks = profile.table("tracks")
    return str(tracks.strings("thread")[track] or "") if 0 <= track < len(tracks) else ""


def _streams(profile: Profile) -> Iterator[_Source]:
    """Kernels by stream, busiest first; the streams beyond the first ones share a lane. Copies follow."""
    kernels, tasks = profile.table("kernels"), profile.table("tasks")
    streams = np.unique(kernels["stream"])
    busy = [int(kernels["dur_ns"][kernels["stream"] == stream].sum()) for stream in streams]
    order = streams[np.argsort(-np.array(busy, dtype=np.int64), kind="stable")]
    for stream in order[:MAX_STREAMS].tolist():
        rows = np.flatnonzero(kernels["stream"] == stream)
        yield replace(_kernels(kernels, rows), label=str(stream) if stream >= 0 else "")
    if len(order) > MAX_STREAMS:
        rows = np.flatnonzero(~np.isin(kernels["stream"], order[:MAX_STREAMS]))
        yield replace(_kernels(kernels, rows), label="…")
    yield _plain(tasks, "copy", np.flatnonzero(np.asarray(tasks["kind"] == "copy")))


def _kernels(kernels: Table, rows: Ints) -> _Source:
    kinds = kernels["type"]
    made = _plain(kernels, "kernel", rows, sourced=True)
    return replace(made, names=list(kinds.categories), name=kinds.codes[rows].astype(np.int64))


def _collectives(comms: Table) -> _Source:
    tracks = np.unique(comms["track"])
    row = np.minimum(np.searchsorted(tracks, comms["track"]), MAX_ROWS - 1)
    made = _plain(comms, "comm", np.arange(len(comms)), row=row.astype(np.int64), sourced=True)
    kinds = comms["type"]
    return replace(made, names=list(kinds.categories), name=kinds.codes.astype(np.int64))


def _exposed(profile: Profile) -> _Source:
    """Communication that no kernel hides: the wait for one late rank (named by it), for several, or transfer."""
    table = profile.table("exposed")
    names = ["transfer", "late", *(str(peer) for peer in np.unique(table["peer"][table["peer"] >= 0]).tolist())]
    place = {name: index for index, name in enumerate(names)}
    code = np.where(table["late"], 1, 0).astype(np.int64)
    for peer in names[2:]:
        code[table["peer"] == int(peer)] = place[peer]
    return _named("exposed", table, names, code)


def _plain(table: Table, kind: str, rows: Ints, row: Ints | None = None, sourced: bool = False) -> _Source:
    names = table["name"]
    return _Source(
        kind,
        "",
        table["start_ns"][rows],
        table["end_ns"][rows],
        np.zeros(len(rows), dtype=np.int64) if row is None else row,
        list(names.categories),
        names.codes[rows].astype(np.int64),
        table if sourced else None,
        rows if sourced else None,
    )


def _named(kind: str, table: Table, names: Sequence[Any], code: Ints, sourced: bool = False) -> _Source:
    rows = np.arange(len(table))
    flat = np.zeros(len(table), dtype=np.int64)
    start, end = table["start_ns"], table["end_ns"]
    return _Source(kind, "", start, end, flat, names, code, table if sourced else None, rows if sourced else None)
