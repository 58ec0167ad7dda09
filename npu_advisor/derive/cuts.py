"""Where the iterations of an inference loop begin, told from kernels in the order the device ran them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints, Mask
from npu_advisor.model.profile import Profile

# Ranges that serving frameworks record once per iteration; the first one that is there counts.
SCOPES = ("prepare input", "prepare_input", "execute_model", "ExecuteModel", "model_forward", "forward")
# An eager stretch is an iteration when this share of a replay's kernel types comes in the replay's order.
SAME_ORDER = 0.8
# Kernels of an iteration below which a returning kernel type says nothing.
FEWEST_KERNELS = 4
# How regular a returning kernel type must be: share of its distances that are the usual one.
REGULAR = 0.6


class Kernels(NamedTuple):
    """Compute kernels in start order.

    ``row`` is the position in ``kernels``, ``type`` the code of the type, ``graph`` whether it was replayed, ``unit``
    numbers the replay it belongs to (-1 eager), ``launch`` when the host launched it (-1 unknown).
    """

    row: Ints
    start: Ints
    end: Ints
    dur: Ints
    type: Ints
    graph: Mask
    unit: Ints
    launch: Ints
    types: tuple[str, ...]

    @classmethod
    def of(cls, profile: Profile) -> Kernels:
        """The kernels of a linked profile whose time is known."""
        table = profile.table("kernels")
        row = np.flatnonzero(table["start_ns"] >= 0)
        row = row[np.argsort(table["start_ns"][row], kind="stable")]
        start, end, model = (table[name][row] for name in ("start_ns", "end_ns", "model"))
        codes = np.asarray(table["type"].codes, dtype=np.int64)[row]
        types = tuple(str(name) for name in table["type"].categories)
        unit = _replays(model, table["api"][row], np.asarray(table["name"].codes, dtype=np.int64)[row])
        return cls(row, start, end, end - start, codes, model >= 0, unit, table["launch_ns"][row], types)

    def named(self, *parts: str) -> Mask:
        """Kernels whose type holds one of ``parts``."""
        match = np.array([*(any(part in name for part in parts) for name in self.types), False], dtype=bool)
        return np.asarray(match[self.type])

    def type_counts(self, starts: Ints) -> Any:
        """Shape (iterations, types): how many kernels of each type."""
        owner = np.searchsorted(starts, np.arange(len(self.start)), side="right") - 1
        counts = np.zeros((len(starts), len(self.types) + 1), dtype=np.int64)
        known = owner >= 0
        np.add.at(counts, (owner[known], self.type[known]), 1)
        return counts[:, :-1]


def _replays(model: Ints, api: Ints, name: Ints) -> Ints:
    """Number of the replay of each kernel, -1 eager: one launch of one graph.

    Where the launches were not recorded a run of one graph is one replay, unless its first kernel (kernels of a graph
    have names of their own) comes back as often as it must if all came back.
    """
    graph = np.flatnonzero(model >= 0)
    unit = np.full(len(model), -1, dtype=np.int64)
    if not len(graph):
        return unit
    fresh = np.ones(len(graph), dtype=bool)
    fresh[1:] = (model[graph][1:] != model[graph][:-1]) | (api[graph][1:] != api[graph][:-1])
    runs = np.append(np.flatnonzero(fresh), len(graph))
    for first, last in pairwise(runs.tolist()):
        if api[graph[first]] < 0:
            names = name[graph[first:last]]
            times = np.unique(names, return_counts=True)[1]
            again = names == names[0]
            if (times % again.sum() == 0).all():
                fresh[first:last] |= again
    unit[graph] = np.cumsum(fresh) - 1
    return unit


def first_dims(profile: Profile, kernels: Kernels) -> Ints:
    """The leading dim of each kernel's first input, -1 unknown."""
    shapes = profile.table("kernels")["input_shapes"]
    heads = [str(text).partition(";")[0].partition(",")[0].strip() for text in shapes.categories]
    dims = np.array([*(int(head) if head.isdigit() and len(head) < 10 else -1 for head in heads), -1], dtype=np.int64)
    return np.asarray(dims[shapes.codes][kernels.row])


def most_common(values: Ints, starts: Ints) -> Ints:
    """The commonest value that is not -1 of each segment; -1 without any. Ties: the smallest."""
    owner = np.searchsorted(starts, np.arange(len(values)), side="right") - 1
    known = np.flatnonzero((values >= 0) & (owner >= 0))
    found = np.full(len(starts), -1, dtype=np.int64)
    if len(known):
        pairs, counts = np.unique(np.stack((owner[known], values[known])), axis=1, return_counts=True)
        order = np.lexsort((pairs[1], -counts, pairs[0]))
        first = order[np.unique(pairs[0][order], return_index=True)[1]]
        found[pairs[0][first]] = pairs[1][first]
    return found


# --- by the framework's own ranges -----------------------------------------------------------------------------------


def by_scopes(profile: Profile, kernels: Kernels) -> Ints:
    """First kernel launched after each range of the framework's loop."""
    ops = profile.table("ops")
    names = [str(name) for name in ops["name"].categories]
    scope = next((names.index(name) for name in SCOPES if name in names), None)
    if scope is None or not (kernels.launch >= 0).any():
        return np.zeros(0, dtype=np.int64)
    marks = np.sort(ops["start_ns"][ops["name"].codes == scope])
    # A kernel without a launch follows the one before it on the device.
    launch = np.maximum.accumulate(kernels.launch)
    number = np.searchsorted(marks, launch, side="right") - 1
    fresh = np.flatnonzero(np.diff(np.append(-1, number)) > 0)
    return fresh.astype(np.int64)


# --- by replays ------------------------------------------------------------------------------------------------------


def by_graphs(profile: Profile, kernels: Kernels) -> Ints:
    """First kernel of each pass of the model: of its first replay, or of an eager stretch that runs the same types."""
    graph = np.flatnonzero(kernels.unit >= 0)
    if not len(graph):
        return np.zeros(0, dtype=np.int64)
    first = graph[np.flatnonzero(np.diff(np.append(-1, kernels.unit[graph])))]
    passes = first[_opens_a_pass(profile, kernels, first)]
    sample = _types_of_a_pass(kernels, passes)
    eager = _eager_passes(kernels, sample)
    return np.unique(np.append(passes, eager)).astype(np.int64)


def _opens_a_pass(profile: Profile, kernels: Kernels, first: Ints) -> Mask:
    """Which replays begin a pass: of the graphs of one pass (pieces of a model) each is replayed once.

    A graph that comes back opens a pass, everywhere. So does another batch size of the same model.
    """
    model = profile.table("kernels")["model"][kernels.row[first]]
    size = most_common(first_dims(profile, kernels), first)
    length = np.diff(np.append(first, len(kernels.start)))
    opening, seen = {int(model[0])}, set[int]()
    for graph in model.tolist():
        if graph in seen:
            opening.add(graph)
            seen.clear()
        seen.add(graph)
    opens = np.isin(model, list(opening))
    similar = np.abs(length[1:] - length[:-1]) <= (1 - SAME_ORDER) * np.maximum(length[1:], length[:-1])
    opens[1:] |= (size[1:] != size[:-1]) & (size[1:] >= 0) & (size[:-1] >= 0) & similar
    opens[0] = True
    return np.asarray(opens)


def _types_of_a_pass(kernels: Kernels, passes: Ints) -> Ints:
    """The replayed kernel types of the first pass, in order."""
    end = int(passes[1]) if len(passes) > 1 else len(kernels.start)
    inside = np.arange(int(passes[0]), end)
    return kernels.type[inside[kernels.graph[inside]]]


def _eager_passes(kernels: Kernels, sample: Ints) -> Ints:
    """Where eager kernels run the types of ``sample``, one pass after the other."""
    eager = np.flatnonzero(~kernels.graph)
    found: list[int] = []
    size, at = len(sample), -1
    if len(eager) < size or not size:
        return np.zeros(0, dtype=np.int64)
    types = kernels.type[eager]
    for start in np.flatnonzero(types == sample[0]).tolist():
        if start >= at and (types[start : start + size] == sample[: len(types) - start]).sum() >= SAME_ORDER * size:
            found.append(start)
            at = start + size
    return eager[np.array(found, dtype=np.int64)]


# --- by what comes back ----------------------------------------------------------------------------------------------


def by_repeats(_: Profile, kernels: Kernels) -> Ints:
    """Every occurrence of the rarest kernel type that comes back at regular distances."""
    counts = np.bincount(kernels.type[kernels.type >= 0], minlength=len(kernels.types))
    for kind in np.argsort(counts, kind="stable"):
        if counts[kind] < 3:
            continue
        at = np.flatnonzero(kernels.type == kind)
        steps = np.diff(at)
        values, times = np.unique(steps, return_counts=True)
        if values[times.argmax()] >= FEWEST_KERNELS and times.max() >= REGULAR * len(steps):
            return at.astype(np.int64)
    return np.zeros(0, dtype=np.int64)
