"""Iterations of an inference loop: one forward pass and what follows it until the next one.

Serving frameworks record without ProfilerStep marks, so an iteration is found, in this order of trust, from

``scopes``    ranges that the framework records once per iteration (``prepare input``, ``execute_model``, ``forward``),
``graphs``    replays of captured graphs, and eager stretches that run the kernel types of a replay,
``repeats``   a kernel type that comes back at regular distances, where nothing is captured.

Iterations tile the device's time: each lasts from the end of the one before to its own last kernel, so its gap (idle
before its first kernel) belongs to it. What ran before the first iteration was found belongs to none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask, covered, subtract, union
from npu_advisor.derive.cuts import Kernels, by_graphs, by_repeats, by_scopes, first_dims, most_common
from npu_advisor.derive.work import work_of
from npu_advisor.graph.named import starting
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

# Two iterations run the same model when this share of their kernels has the same types.
SAME_MODEL = 0.8
# Tokens of one iteration beyond which no graph is captured by default: a prompt is being read.
MOST_DECODE_TOKENS = 512
# A decode row of speculative decoding holds at most so many tokens.
MOST_DRAFTS = 8
CAPTURE_CALLS = ("aclmdlRICaptureBegin",)


def iterations(profile: Profile) -> Table:
    """The ``iterations`` table of a linked profile; empty unless it shows an inference loop."""
    nothing = Table.build("iterations", {}, profile.rank)
    if work_of(profile) != "inference" or not len(profile.table("kernels")):
        return nothing
    kernels = Kernels.of(profile)
    for how, cut in (("scopes", by_scopes), ("graphs", by_graphs), ("repeats", by_repeats)):
        starts = cut(profile, kernels)
        if len(starts):
            return Table.build("iterations", _columns(profile, kernels, starts, how), profile.rank)
    return nothing


def unmarked(profile: Profile) -> Table | None:
    """The iterations of a recording that has no ProfilerStep marks but shows a loop of inference; else None."""
    steps = profile.table("steps")
    if len(steps) != 1 or steps["number"][0] >= 0 or work_of(profile) != "inference":
        return None
    table = profile.table("iterations")
    return table if len(table) else None


def per_step(profile: Profile) -> int:
    """Iterations in one row of ``steps``: as many as the window holds where nothing marks them, else 1."""
    table = unmarked(profile)
    return 1 if table is None else len(table)


class _Windows(NamedTuple):
    """Of each iteration: when the one before was done, when its own kernels begin and end, and how long the device
    idled in between (-1 for the first)."""

    before: Ints
    start: Ints
    end: Ints
    gap: Ints


def _columns(profile: Profile, kernels: Kernels, starts: Ints, how: str) -> dict[str, Any]:
    rows = slice(int(starts[0]), None)
    owner = np.searchsorted(starts, np.arange(len(kernels.start))[rows], side="right") - 1
    count = len(starts)
    windows = _windows(profile, kernels, starts)
    size = np.bincount(owner, minlength=count)
    graph = kernels.graph[rows]
    replayed = np.bincount(owner, weights=graph, minlength=count)
    eager_us = np.bincount(owner, weights=np.where(graph, 0, kernels.dur[rows]), minlength=count) / 1000.0
    busy = union(kernels.start, kernels.end)
    tokens = _tokens(profile, kernels, starts)
    kind = np.where(2 * replayed >= size, "graph", "eager").astype(object)
    wall = windows.end - windows.before
    columns: dict[str, Any] = {
        "start_ns": windows.before,
        "dur_ns": wall,
        "how": np.full(count, how, dtype=object),
        "kind": kind,
        "phase": _phase(profile, kernels, starts, windows, tokens),
        "tokens": tokens,
        "kernels": size,
        "replays": _replays(kernels, starts),
        "busy_us": covered(windows.start, windows.end, busy) / 1000.0,
        "span_us": (windows.end - windows.start) / 1000.0,
        "gap_us": np.where(windows.gap < 0, np.nan, windows.gap / 1000.0),
        "eager_us": eager_us,
        "step": np.zeros(count, dtype=np.int64) if len(profile.table("steps")) == 1 else _step(profile, windows.start),
    }
    return columns | _twins(kernels, starts, kind, columns["phase"], tokens, wall)


def _replays(kernels: Kernels, starts: Ints) -> Ints:
    """How many graphs each iteration replays."""
    first = np.flatnonzero((np.diff(np.append(-1, kernels.unit)) != 0) & (kernels.unit >= 0))
    # A replay whose kernels other streams interrupt counts once.
    first = first[np.unique(kernels.unit[first], return_index=True)[1]]
    owner = np.searchsorted(starts, first, side="right") - 1
    return np.bincount(owner[owner >= 0], minlength=len(starts))


def iteration_gaps(profile: Profile) -> Table:
    """The ``iteration_gaps`` table: the idle time before each iteration but the first, and how much is the host's."""
    table, idle, updates = (profile.table(name) for name in ("iterations", "idle", "graph_updates"))
    if not len(table):
        return Table.build("iteration_gaps", {}, profile.rank)
    rows = np.flatnonzero(np.nan_to_num(table["gap_us"]) > 0)
    start = table["start_ns"][rows]
    end = table["end_ns"][rows] - np.round(table["span_us"][rows] * 1000.0).astype(np.int64)
    hosts = np.asarray(idle["owner"] == "dispatch")
    host = subtract(
        union(idle["start_ns"][hosts], idle["end_ns"][hosts]), union(updates["start_ns"], updates["end_ns"])
    )
    columns = {
        "start_ns": start,
        "dur_ns": end - start,
        "host_us": covered(start, end, host) / 1000.0,
        "iteration": rows,
        "step": table["step"][rows],
    }
    return Table.build("iteration_gaps", columns, profile.rank)


def _step(profile: Profile, at: Ints) -> Ints:
    steps = profile.table("steps")
    if not len(steps):
        return np.full(len(at), -1, dtype=np.int64)
    row = np.searchsorted(steps["start_ns"], at, side="right") - 1
    return np.where((row >= 0) & (at < steps["end_ns"][np.maximum(row, 0)]), row, -1)


def _windows(profile: Profile, kernels: Kernels, starts: Ints) -> _Windows:
    start = kernels.start[starts]
    end = np.maximum.accumulate(np.maximum.reduceat(kernels.end, starts))
    # Where streams overlap an iteration may begin before the one ahead of it is done.
    before = np.append(start[0], np.minimum(end[:-1], start[1:]))
    comms = profile.table("comms")
    idle = start - before - covered(before, start, union(comms["start_ns"], comms["end_ns"]))
    idle[0] = -1
    return _Windows(before, start, end, idle)


def _tokens(profile: Profile, kernels: Kernels, starts: Ints) -> Ints:
    """Rows of the activations: the commonest leading dim among matrix products, else among all kernels; -1 unknown."""
    dims = first_dims(profile, kernels)
    product = kernels.named("MatMul", "Matmul")
    found = most_common(np.where(product, dims, -1), starts)
    return np.where(found >= 0, found, most_common(dims, starts))


def _phase(profile: Profile, kernels: Kernels, starts: Ints, windows: _Windows, tokens: Ints) -> Any:
    """``capture``, ``prefill`` (a prompt is read, alone or beside decoding) or ``decode``."""
    apis = profile.table("apis")
    at = np.sort(apis["start_ns"][starting(apis, CAPTURE_CALLS)])
    low = np.searchsorted(at, windows.before)
    capture = np.searchsorted(at, windows.end) > low
    prompt = np.maximum.reduceat(kernels.named("PromptFlashAttention").astype(np.int64), starts) > 0
    long = (tokens > MOST_DECODE_TOKENS) | _mixed(profile, kernels, starts, tokens) | prompt
    return np.where(capture, "capture", np.where(long, "prefill", "decode")).astype(object)


def _mixed(profile: Profile, kernels: Kernels, starts: Ints, tokens: Ints) -> Mask:
    """Iterations whose attention kernels have another number of query rows than sequences (of their block table)."""
    kernel = profile.table("kernels")
    shapes, dtypes = kernel.strings("input_shapes"), kernel.strings("input_dtypes")
    attention = np.flatnonzero(kernels.named("FusedInferAttention", "IncreFlashAttention", "PagedAttention"))
    # One kernel of each iteration will do: all layers see the same batch.
    which = np.searchsorted(attention, starts)
    ends = np.append(starts[1:], len(kernels.start))
    found = np.full(len(starts), -1, dtype=np.int64)
    for row in np.flatnonzero(which < len(attention)):
        at = attention[which[row]]
        if at < ends[row]:
            found[row] = _sequences(shapes[kernels.row[at]], dtypes[kernels.row[at]])
    each = tokens / np.maximum(found, 1)
    return np.asarray((found > 0) & (tokens > 0) & ((tokens % np.maximum(found, 1) != 0) | (each > MOST_DRAFTS)))


def _sequences(shapes: str | None, dtypes: str | None) -> int:
    """First dim of the block table, the one two-dimensional int32 input; -1 without it."""
    for shape, dtype in zip((shapes or "").split(";"), (dtypes or "").split(";"), strict=False):
        dims = shape.split(",")
        if dtype.strip().upper().removeprefix("DT_") == "INT32" and len(dims) == 2 and dims[0].strip().isdigit():
            return int(dims[0])
    return -1


def _twins(kernels: Kernels, starts: Ints, kind: Any, phase: Any, tokens: Ints, wall: Ints) -> dict[str, Any]:
    """For every eager decode iteration the replays of the same model: those of the next larger captured size."""
    count = len(starts)
    twin_us, twin_tokens = np.full(count, np.nan), np.full(count, -1, dtype=np.int64)
    whole = np.arange(count) > 0  # nobody knows how long the device idled before the first one
    replays = np.flatnonzero((kind == "graph") & (phase == "decode"))
    eager = np.flatnonzero((kind == "eager") & (phase == "decode"))
    if len(replays) and len(eager):
        counts = kernels.type_counts(starts)
        same = _alike(counts[eager], np.median(counts[replays], axis=0))
        for batch in np.unique(tokens[eager[same]]):
            larger = replays[tokens[replays] >= batch]
            size = tokens[larger].min() if len(larger) else tokens[replays].max()
            mine = replays[tokens[replays] == size]
            timed = mine[whole[mine]] if whole[mine].any() else mine
            rows = eager[same & (tokens[eager] == batch)]
            twin_us[rows], twin_tokens[rows] = float(np.median(wall[timed])) / 1000.0, size
    return {"twin_us": twin_us, "twin_tokens": twin_tokens}


def _alike(counts: Any, model: Any) -> Mask:
    shared = np.minimum(counts, model).sum(axis=1)
    larger: Any = np.maximum(counts, model).sum(axis=1)
    return np.asarray(shared >= SAME_MODEL * np.maximum(larger, 1))
