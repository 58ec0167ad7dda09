"""Nodes and edges of the constraint graph, as flat int64 arrays.

A node is one end of an event, with its recorded time; an edge says ``t[dst] >= t[src] + w``.  Times are ns since an
origin that all ranks share, so that weights and times fit the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npu_advisor.base.intervals import Ints

# Weight of an edge that an edit drops: far below any time, far from overflow.
DROPPED = -(2**60)
# An edge of this weight never binds, but its target still has one.
LONG_AGO = -(2**50)

HOST, QUEUE, LANE, CALL, LAUNCH, STREAM, TASK, EVENT, SYNC, SYNC_FREE, WAIT, COLLECTIVE, DEPTH, FORK = range(14)
KINDS = (
    "host",
    "queue",
    "lane",
    "call",
    "launch",
    "stream",
    "task",
    "event",
    "sync",
    "sync_free",
    "wait",
    "collective",
    "depth",
    "fork",
)
# How gladly an edge is taken as part of a chain (least first): those along one lane, of which most nodes have one.
_ALONG = (TASK, STREAM, HOST, CALL, LANE, SYNC_FREE, QUEUE)
CHAIN_RANK = np.array([_ALONG.index(kind) if kind in _ALONG else len(_ALONG) for kind in range(len(KINDS))])


# Numbers of nodes and edges, and what labels them, are kept narrow.
Numbers = npt.NDArray[np.signedinteger[Any]]
_ON_NO_LANE = -2


class Net(NamedTuple):
    """The whole graph of all ranks.

    ``rec`` and ``rank`` by node; ``src``, ``dst``, ``w``, ``kind`` by edge.  A rigid host edge lies on ``lane`` (a
    number per rank and thread, -1 for other edges).  All but times are kept narrow.
    """

    rec: Ints
    rank: Numbers
    src: Numbers
    dst: Numbers
    w: Ints
    kind: Numbers
    lane: Numbers

    def spans(self, edges: Numbers) -> tuple[Ints, Ints]:
        """The recorded times ``[low, high)`` that edges span."""
        return self.rec[self.src[edges]], self.rec[self.dst[edges]]


class Into:
    """The edge into each node along its lane, by node number; in the room of the nodes from the first to the last."""

    def __init__(self) -> None:
        self._first, self._edge = 0, np.zeros(0, dtype=np.int32)

    def put(self, nodes: Numbers, edges: Numbers) -> None:
        """Take in the ``edges`` (-1: a lane begins there) into ``nodes``."""
        if not len(nodes):
            return
        first, end = int(nodes.min()), int(nodes.max()) + 1
        if not len(self._edge):
            self._first = first
        before, behind = max(self._first - first, 0), max(end - self._first - len(self._edge), 0)
        if before or behind:
            self._edge = np.pad(self._edge, (before, behind), constant_values=_ON_NO_LANE)
            self._first -= before
        self._edge[nodes - self._first] = edges

    def of(self, nodes: Numbers) -> Ints:
        """The edge into each of ``nodes``, -1 where there is none."""
        spot = nodes - self._first
        known = (nodes >= 0) & (spot >= 0) & (spot < len(self._edge))
        edges: Ints = np.full(len(nodes), -1, dtype=np.int64)
        edges[known] = np.maximum(self._edge[spot[known]], -1)
        return edges

    def begins(self, node: int) -> bool:
        """Whether a lane begins at ``node``."""
        spot = node - self._first
        return 0 <= spot < len(self._edge) and int(self._edge[spot]) == -1


# Of the columns of nodes: recorded time, rank; of edges: source, target, weight, kind, lane.
_NODE = (np.int64, np.int16)
_EDGE = (np.int32, np.int32, np.int64, np.int8, np.int16)


class _Columns:
    """Columns that grow piece by piece, and are put together when they are asked for."""

    def __init__(self, types: Sequence[type[np.signedinteger[Any]]]) -> None:
        self._types = types
        self._parts: list[tuple[Numbers, ...]] = []
        self._whole = tuple(np.zeros(0, dtype) for dtype in types)

    def add(self, first: Numbers, *others: Numbers | int) -> None:
        """Rows, of which columns may hold one value."""
        given = zip((first, *others), self._types, strict=True)
        self._parts.append(tuple(np.broadcast_to(np.asarray(one, dtype), np.shape(first)) for one, dtype in given))

    def whole(self) -> tuple[Any, ...]:
        """All rows so far, column by column."""
        if self._parts:
            self._whole = tuple(np.concatenate(column) for column in zip(self._whole, *self._parts, strict=True))
            self._parts = []
        return self._whole


class Builder:
    """Collects nodes and edges piece by piece."""

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.size, self.edges = 0, 0
        self._nodes, self._edges = _Columns(_NODE), _Columns(_EDGE)

    def nodes(self, at: Ints, rank: int) -> Ints:
        """Numbers of new nodes with recorded times ``at`` (since the origin)."""
        first = self.size
        self.size += len(at)
        self._nodes.add(at, rank)
        return np.arange(first, self.size, dtype=np.int64)

    def link(self, src: Numbers, dst: Numbers, w: Ints | int, kind: int, lane: Ints | int = -1) -> Ints:
        """Numbers of new edges; those with a ``lane`` span the recorded time between their ends."""
        first = self.edges
        self.edges += len(src)
        self._edges.add(src, dst, w, kind, lane)
        return np.arange(first, self.edges, dtype=np.int64)

    def span(self, edges: Numbers) -> Ints:
        """Recorded time between the ends of edges that exist already."""
        return self.recorded(self.target(edges)) - self.recorded(self.source(edges))

    def recorded(self, nodes: Numbers) -> Ints:
        """Recorded times of nodes."""
        rec: Ints = self._nodes.whole()[0][nodes]
        return rec

    def source(self, edges: Numbers) -> Numbers:
        """The nodes that edges come from."""
        nodes: Numbers = self._edges.whole()[0][edges]
        return nodes

    def target(self, edges: Numbers) -> Numbers:
        """The nodes that edges lead to."""
        nodes: Numbers = self._edges.whole()[1][edges]
        return nodes

    def net(self) -> Net:
        """Everything so far."""
        return Net(*self._nodes.whole(), *self._edges.whole())
