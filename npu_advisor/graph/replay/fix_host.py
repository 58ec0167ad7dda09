"""Fixes of the host side: gaps before Dequeues, ops and calls that need not be made."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints, Mask, covered, subtract, union
from npu_advisor.graph.idle import COMPILE_CALLS, DATA_OPS
from npu_advisor.graph.named import OPTIMIZER_STEP, starting
from npu_advisor.graph.replay.arrays import FORK
from npu_advisor.graph.replay.context import Context, Variants, same
from npu_advisor.graph.replay.edits import Edit, merge
from npu_advisor.graph.replay.host import main_thread
from npu_advisor.graph.replay.tasks import COMM, COPY

# Ops that move a tensor between host and device.
COPY_OPS = ("aten::to", "aten::_to_copy", "aten::copy_")
# From this many repeats in a step of one op at one line on, the line is a loop ...
LOOP = 4
# ... and no loop worth folding runs more ops than this per turn.
BODY = 4
# Shorter stretches without any op are a thread's usual Python.
SILENT = 1_000_000
# Part of its wait that a healthy loader may still need.
LOADER_REST = 0.1


def remove_ops(at: Context, rows: Ints) -> Variants:
    """Ops that need not run: waits for input, copies that need not block, and others."""
    loads, copies = starting(at.ops, DATA_OPS)[rows], starting(at.ops, COPY_OPS)[rows]
    found = [
        make(at, rows[mine])
        for make, mine in ((_loader, loads), (_unblocked, copies & ~loads), (_needless, ~copies & ~loads))
        if mine.any()
    ]
    return Variants(*(merge(edits) for edits in zip(*found, strict=True))) if len(found) > 1 else found[0]


def _no_wait(at: Context, rows: Ints) -> Edit:
    return merge(
        at.edit.no_wait(track, at.ops["start_ns"][mine], at.ops["end_ns"][mine]) for track, mine in at.by_thread(rows)
    )


def _needless(at: Context, rows: Ints) -> Variants:
    """Low: their syncs return at once; else what only feeds them goes with them."""
    whole = at.edit.remove_ops(np.union1d(rows, _only_for(at, rows)))
    return Variants(_no_wait(at, rows), whole, whole)


def _unblocked(at: Context, rows: Ints) -> Variants:
    """Copies are needed. Low: the host does not wait for them; expected: from pinned memory they need no staging
    either; high: they disappear behind other work."""
    low, device = _no_wait(at, rows), at.rank.device
    copies = np.flatnonzero(at.tasks.kind == COPY)
    below = np.zeros(len(at.ops), dtype=bool)
    below[rows] = True
    copies = copies[_under(at, below, at.tasks.op[copies])]
    launch = device.launch_edge[copies]
    launch = launch[launch >= 0]
    direct = Edit(limit=(launch, np.full(len(launch), max(device.latency, 0), dtype=np.int64)))
    return Variants(low, merge([low, direct]), at.edit.remove_ops(rows))


def _under(at: Context, marked: Mask, ops: Ints) -> Mask:
    """Whether each op is marked or lies below a marked one."""
    found, parent, op = np.zeros(len(ops), dtype=bool), at.ops["parent"], ops.copy()
    while (op >= 0).any():
        found |= (op >= 0) & marked[np.maximum(op, 0)]
        op = np.where(op >= 0, parent[np.maximum(op, 0)], -1)
    return found


def _loader(at: Context, rows: Ints) -> Variants:
    """Low: a tenth of the wait stays, as a healthy loader may need."""
    parts = []
    for track, mine in at.by_thread(rows):
        start, end = at.ops["start_ns"][mine], at.ops["end_ns"][mine]
        parts.append(at.edit.cut(track, (start + (end - start) * LOADER_REST).astype(np.int64), end))
    whole = at.edit.remove_ops(rows)
    return Variants(merge(parts), whole, whole)


def _only_for(at: Context, rows: Ints) -> Ints:
    """Units at the lines of ``rows`` that no backward pass needs and that send nothing: they only feed those rows."""
    codes, forward = at.ops["source"].codes, at.ops["forward"]
    lines = np.unique(codes[rows])
    units = at.units_of(np.flatnonzero(np.isin(codes, lines[lines >= 0])))
    needed = at.below(forward[forward >= 0])[units] > 0
    sends = at.below(at.tasks.op[at.tasks.kind == COMM])[units] > 0
    return units[~needed & ~sends]


def remove_calls(at: Context, rows: Ints) -> Variants:
    """CANN calls that need not be made: their time on their thread, and their wait."""
    apis, parts = at.profile.table("apis"), []
    for track in np.unique(apis["track"][rows]).tolist():
        mine = rows[apis["track"][rows] == track]
        thread = at.rank.threads[track]
        start, end = apis["start_ns"][mine], apis["end_ns"][mine]
        parts += [at.edit.cut(int(thread), start, end), at.edit.no_wait(int(thread), start, end)]
    return same(merge(parts))


def causes(at: Context, rows: Ints) -> dict[str, Ints]:
    """The ops behind idle rows, by owner, where an owner is something that the code asks for. Those of the same name
    and line that did not leave the device idle are meant too: after another cure they would."""
    idle, found = at.profile.table("idle"), {}
    owner, op = idle["owner"][rows], idle["op"][rows]
    for kind in ("sync", "data", "compile"):
        ops = np.unique(op[np.asarray(owner == kind) & (op >= 0)])
        # A sync right below the step has no op to remove.
        units = at.units_of(ops) if kind == "sync" else ops
        if len(units):
            found[kind] = _same_calls(at, units)
    return found


def remove_idle(at: Context, rows: Ints, elsewhere: dict[str, Ints] | None = None) -> Variants | None:
    """Idle time goes with what its owner names: a sync, a wait for data, a compilation, a pause, a late launch.

    ``elsewhere`` are more ops to remove, by owner: those that another rank's idle time names. On this rank they may
    hide behind its waits for that one.
    """
    idle = at.profile.table("idle")
    owner, named = idle["owner"][rows], causes(at, rows)
    for kind, ops in (elsewhere or {}).items():
        named[kind] = np.union1d(named.get(kind, ops), ops)
    found: list[Variants] = []
    for kind, ops in named.items():
        found.append(remove_calls(at, _compilations(at, ops)) if kind == "compile" else remove_ops(at, ops))
    late = idle["dequeue"][rows][np.asarray(owner == "dispatch")]
    if len(late):
        found.append(close(at, np.unique(late[late >= 0])))
        found.append(same(_silence(at, rows[np.asarray(owner == "dispatch")])))
    paused = np.asarray((owner == "gc") | (owner == "alloc"))
    if paused.any():
        track = main_thread(at.profile)
        found.append(same(at.edit.cut_all(track, idle["start_ns"][rows][paused], idle["end_ns"][rows][paused])))
    return Variants(*(merge(edits) for edits in zip(*found, strict=True))) if found else None


def _silence(at: Context, rows: Ints) -> Edit:
    """Stretches of idle time in which no thread has an op open go from the main thread, which starts the others: what
    comes next may be another thread's."""
    idle, inner = at.profile.table("idle"), ~at.wrapper
    busy = union(at.ops["start_ns"][inner], at.ops["end_ns"][inner])
    silent = subtract(union(idle["start_ns"][rows], idle["end_ns"][rows]), busy)
    long = silent.end - silent.start >= SILENT
    low, high = silent.start[long], silent.end[long]
    # Where another thread comes next, the way to it is one edge from the main thread's last point.
    net, origin = at.edit.graph.net, at.edit.origin
    edges = np.flatnonzero(net.kind == FORK)
    gone = covered(*net.spans(edges), union(low - origin, high - origin))
    edges, gone = edges[(gone > 0) & at.edit.owns(edges)], gone[(gone > 0) & at.edit.owns(edges)]
    started = Edit(limit=(edges, np.maximum(net.w[edges] - gone, 0)))
    return merge([at.edit.cut_all(main_thread(at.profile), low, high), started])


def _same_calls(at: Context, units: Ints) -> Ints:
    """Every unit with the name and line of one of ``units``: those that did not leave the device idle wait too."""
    key = at.ops["name"].codes.astype(np.int64) * (len(at.ops["source"].categories) + 1) + at.ops["source"].codes
    alike = np.flatnonzero(np.isin(key, key[units]) & (at.ops["source"].codes >= 0))
    return np.union1d(units, np.intersect1d(alike, at.units_of(alike)))


def _compilations(at: Context, ops: Ints) -> Ints:
    apis = at.profile.table("apis")
    return np.flatnonzero(starting(apis, COMPILE_CALLS) & np.isin(apis["op"], ops))


def close(at: Context, rows: Ints) -> Variants:
    """Gaps before Dequeues. Low: the Python before each op falls to the usual. Else loops that no backward pass needs
    run once a step; where there are none, the way from Enqueue to Enqueue falls to the usual."""
    units = at.units_of(at.profile.table("dequeues")["op"][rows])
    units = units[~_below_optimizer(at, units)]
    low = _usual_python(at, units)
    repeats, first = _loops(at, units[~_with_sync(at, units)])
    if not len(repeats):
        usual = _usual_distance(at, rows)
        return Variants(low, usual, usual)
    folded = merge([low, _usual_python(at, first), at.edit.remove_ops(repeats)])
    return Variants(low, folded, folded)


def _usual_distance(at: Context, rows: Ints) -> Edit:
    """What a thread does between two Enqueues shrinks to the usual, before each of these Dequeues' Enqueues."""
    enqueues = at.profile.table("enqueues")
    push = at.profile.table("dequeues")["enqueue"][rows]
    push = push[push >= 0]
    push = push[~_below_optimizer(at, enqueues["op"][push])]
    parts = []
    for track in np.unique(enqueues["track"][push]).tolist():
        every = np.flatnonzero(enqueues["track"] == track)
        every = every[np.argsort(enqueues["start_ns"][every], kind="stable")]
        low, high = enqueues["end_ns"][every[:-1]], enqueues["start_ns"][every[1:]]
        usual = int(np.median(high - low)) if len(low) else 0
        long = np.isin(every[1:], push) & (high - low > usual)
        parts.append(at.edit.cut(track, low[long], high[long] - usual))
    return merge(parts)


def _with_sync(at: Context, units: Ints) -> Mask:
    """Whether a sync stands at the line of each unit: that loop waits for more than the host."""
    codes, op = at.ops["source"].codes, at.rank.syncs.op
    lines = codes[op[op >= 0]]
    return np.isin(codes[units], lines[lines >= 0])


def _below_optimizer(at: Context, ops: Ints) -> Mask:
    """Whether each op lies in an optimizer step, which has a fix of its own."""
    return _under(at, starting(at.ops, OPTIMIZER_STEP), ops)


def _usual_python(at: Context, units: Ints) -> Edit:
    """The Python before each unit shrinks to the usual one of its thread."""
    parts = []
    for track, mine in at.by_thread(units):
        every = at.units_of(np.flatnonzero(at.ops["track"] == track))
        start = at.ops["start_ns"][every]
        usual = int(np.median(start - at.edit.before(track, start)))
        start = at.ops["start_ns"][mine]
        begin = at.edit.before(track, start)
        long = start - begin > usual
        parts.append(at.edit.cut(track, (begin + usual)[long], start[long]))
    return merge(parts)


def _loops(at: Context, units: Ints) -> tuple[Ints, Ints]:
    """Ops of the main thread that repeat one of ``units`` at its line within a step, and the first of each loop."""
    names, lines, steps = at.ops["name"].codes, at.ops["source"].codes, at.ops["step"]
    top = at.units_of(np.flatnonzero(at.ops["track"] == main_thread(at.profile)))
    turn = np.zeros(len(names), dtype=np.int64)
    turn[top[np.argsort(at.ops["start_ns"][top], kind="stable")]] = np.arange(len(top))
    key = names.astype(np.int64) * (len(at.ops["source"].categories) + 1) + lines
    # Without a line, ops of the same name elsewhere are another matter.
    top = top[np.isin(key[top], key[units]) & ((lines[top] >= 0) | np.isin(top, units))]
    # What backward needs is the network itself.
    forward = at.ops["forward"]
    top = top[at.below(forward[forward >= 0])[top] == 0]
    if not len(top):
        return top, top
    top = top[np.lexsort((at.ops["start_ns"][top], key[top], steps[top]))]
    new = np.ones(len(top), dtype=bool)
    new[1:] = (key[top][1:] != key[top][:-1]) | (steps[top][1:] != steps[top][:-1])
    group = np.cumsum(new) - 1
    count, first = np.bincount(group), np.flatnonzero(new)
    last = np.append(first[1:], len(top)) - 1
    # A body of many ops is a loop over layers: real work, which no single op replaces.
    body = (turn[top[last]] - turn[top[first]]) / np.maximum(count - 1, 1)
    looped = ((count >= LOOP) & (body <= BODY))[group]
    return top[looped & ~new], top[looped & new]
