"""Nodes and edges of the constraint graph, as flat int64 arrays.

A node is one end of an event, with its recorded time; an edge says ``t[dst] >= t[src] + w``.  Times are ns since an
origin that all ranks share, so that weights and times fit the same arithmetic.
"""

from __future__ import annotations

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
    number per rank and thread, -1 for other edges).  What only labels nodes and edges is kept narrow.
    """

    rec: Ints
    rank: Numbers
    src: Ints
    dst: Ints
    w: Ints
    kind: Numbers
    lane: Numbers

    def spans(self, edges: Ints) -> tuple[Ints, Ints]:
        """The recorded times ``[low, high)`` that edges span."""
        return self.rec[self.src[edges]], self.rec[self.dst[edges]]


class Into:
    """The edge into each node along its lane, by node number."""

    def __init__(self) -> None:
        self._edge = np.zeros(0, dtype=np.int64)

    def put(self, nodes: Ints, edges: Ints) -> None:
        """Take in the ``edges`` (-1: a lane begins there) into ``nodes``."""
        missing = int(nodes.max(initial=-1)) + 1 - len(self._edge)
        if missing > 0:
            self._edge = np.append(self._edge, np.full(missing, _ON_NO_LANE))
        self._edge[nodes] = edges

    def of(self, nodes: Ints) -> Ints:
        """The edge into each of ``nodes``, -1 where there is none."""
        known = (nodes >= 0) & (nodes < len(self._edge))
        edges: Ints = np.full(len(nodes), -1, dtype=np.int64)
        edges[known] = np.maximum(self._edge[nodes[known]], -1)
        return edges

    def begins(self, node: int) -> bool:
        """Whether a lane begins at ``node``."""
        return node < len(self._edge) and int(self._edge[node]) == -1


class Builder:
    """Collects nodes and edges piece by piece."""

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.size, self.edges = 0, 0
        self._rec: list[Ints] = []
        self._rank: list[npt.NDArray[np.int32]] = []
        self._edges: list[tuple[Ints, ...]] = []

    def nodes(self, at: Ints, rank: int) -> Ints:
        """Numbers of new nodes with recorded times ``at`` (since the origin)."""
        first = self.size
        self.size += len(at)
        self._rec.append(np.asarray(at, dtype=np.int64))
        self._rank.append(np.full(len(at), rank, dtype=np.int32))
        return np.arange(first, self.size, dtype=np.int64)

    def link(self, src: Ints, dst: Ints, w: Ints | int, kind: int, lane: Ints | int = -1) -> Ints:
        """Numbers of new edges; those with a ``lane`` span the recorded time between their ends."""
        src, dst = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
        shape = src.shape
        given = ((w, np.int64), (kind, np.int8), (lane, np.int32))
        columns = [np.broadcast_to(np.asarray(value, dtype=dtype), shape) for value, dtype in given]
        self._edges.append((src, dst, *columns))
        first = self.edges
        self.edges += len(src)
        return np.arange(first, self.edges, dtype=np.int64)

    def span(self, edges: Ints) -> Ints:
        """Recorded time between the ends of edges that exist already."""
        rec = np.concatenate([np.zeros(0, dtype=np.int64), *self._rec])
        src, dst = (np.concatenate([part[column] for part in self._edges]) for column in (0, 1))
        span: Ints = rec[dst[edges]] - rec[src[edges]]
        return span

    def recorded(self, nodes: Ints) -> Ints:
        """Recorded times of nodes."""
        rec: Ints = np.concatenate([np.zeros(0, dtype=np.int64), *self._rec])[nodes]
        return rec

    def source(self, edges: Ints) -> Ints:
        """The nodes that edges come from."""
        src: Ints = np.concatenate([np.zeros(0, dtype=np.int64), *(part[0] for part in self._edges)])[edges]
        return src

    def target(self, edges: Ints) -> Ints:
        """The nodes that edges lead to."""
        dst: Ints = np.concatenate([np.zeros(0, dtype=np.int64), *(part[1] for part in self._edges)])[edges]
        return dst

    def net(self) -> Net:
        """Everything so far."""
        none = np.zeros(0, dtype=np.int8)
        rec, rank = (
            np.concatenate([none.astype(dtype), *parts])
            for parts, dtype in ((self._rec, np.int64), (self._rank, np.int32))
        )
        dtypes = (np.int64, np.int64, np.int64, np.int8, np.int32)
        src, dst, w, kind, lane = (
            np.concatenate([none.astype(dtype), *(part[column] for part in self._edges)])
            for column, dtype in enumerate(dtypes)
        )
        return Net(rec, rank, src, dst, w, kind, lane)
