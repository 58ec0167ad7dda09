"""The host/device event graph of one profile: nodes are events, edges are typed pairs of integer arrays.

A node is a row of a table; its number is the table's offset plus the row.  Nothing here is an object per event.

======== ============================================================================
calls    op -> child op, op -> Enqueue, Dequeue -> CANN call, op -> CANN call
queue    Enqueue -> Dequeue
launch   CANN call (or Dequeue, or op) -> device task
forward  forward op -> backward op
stream   device task -> the next task on the same stream
comm     collective -> its sub-tasks
======== ============================================================================
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from npu_advisor.base.frame import split_stack
from npu_advisor.base.intervals import Ints
from npu_advisor.graph.chain import KINDS, Hop, chain
from npu_advisor.graph.links import first_known
from npu_advisor.graph.steps import DEVICE_TABLES
from npu_advisor.model.profile import Profile

NODE_TABLES = ("ops", "enqueues", "dequeues", "apis", "kernels", "tasks", "comms", "comm_tasks")
EDGE_KINDS = ("calls", "queue", "launch", "forward", "stream", "comm")
NODE_KINDS = {name: KINDS[name] for name in NODE_TABLES}


class Edges(NamedTuple):
    """Edges of one kind: node numbers of sources and targets."""

    src: Ints
    dst: Ints


class Csr(NamedTuple):
    """Neighbours by node: those of node n are ``target[offset[n]:offset[n + 1]]``; ``kind`` indexes EDGE_KINDS."""

    offset: Ints
    target: Ints
    kind: Ints


class EventGraph:
    """Nodes, edges and the way back from a kernel to the user's line."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.offset: dict[str, int] = {}
        self.size = 0
        for name in NODE_TABLES:
            self.offset[name] = self.size
            self.size += len(profile.table(name))
        self._csr: dict[bool, Csr] = {}

    @cached_property
    def edges(self) -> dict[str, Edges]:
        """All edges, by kind: most reports need none of them."""
        profile = self.profile
        return {
            "calls": self._calls(),
            "queue": self._keyed("enqueues", profile.table("dequeues")["enqueue"], "dequeues"),
            "launch": _join([self._launches(name) for name in DEVICE_TABLES]),
            "forward": self._keyed("ops", profile.table("ops")["forward"], "ops"),
            "stream": _join([self._streams()]),
            "comm": self._keyed("comms", profile.table("comm_tasks")["comm"], "comm_tasks"),
        }

    def node(self, table: str, row: int) -> int:
        """Node number of a row."""
        return self.offset[table] + row

    def locate(self, node: int) -> tuple[str, int]:
        """Table and row of a node number. IndexError outside the graph."""
        if not 0 <= node < self.size:
            raise IndexError(f"no node {node}; the graph has {self.size}")
        name = next(name for name in reversed(NODE_TABLES) if self.offset[name] <= node)
        return name, node - self.offset[name]

    def chain(self, row: int, table: str = "kernels") -> list[Hop]:
        """The hops from a row back to the user's line, along recorded edges."""
        return chain(self.profile, table, row)

    def stack(self, op: int) -> list[str]:
        """Frames of the stack behind an op's line, innermost first: its own, an ancestor's, or its forward op's."""
        ops = self.profile.table("ops")
        stacks = ops["stack"]
        seen: set[int] = set()
        while op >= 0 and op not in seen:
            seen.add(op)
            if stacks.codes[op] >= 0:
                return split_stack(str(stacks.categories[stacks.codes[op]]))
            forward, parent = int(ops["forward"][op]), int(ops["parent"][op])
            op = forward if forward >= 0 else parent
        return []

    def neighbours(self, *, forward: bool = True) -> Csr:
        """All edges as CSR, outgoing (``forward``) or incoming; built on first use."""
        if forward not in self._csr:
            pairs = [self.edges[kind] if forward else Edges(*self.edges[kind][::-1]) for kind in EDGE_KINDS]
            src = np.concatenate([pair.src for pair in pairs])
            dst = np.concatenate([pair.dst for pair in pairs])
            kind = np.repeat(np.arange(len(pairs)), [len(pair.src) for pair in pairs])
            order = np.argsort(src, kind="stable")
            offset = np.concatenate(([0], np.cumsum(np.bincount(src, minlength=self.size))))
            self._csr[forward] = Csr(offset, dst[order], kind[order])
        return self._csr[forward]

    def _keyed(self, source: str, keys: Ints, target: str) -> Edges:
        """Edges from ``source`` rows named by a key column to the rows of ``target`` that hold it."""
        rows = np.flatnonzero(keys >= 0)
        return Edges(keys[rows] + self.offset[source], rows + self.offset[target])

    def _calls(self) -> Edges:
        ops, apis = self.profile.table("ops"), self.profile.table("apis")
        in_queue = apis["dequeue"] >= 0
        return _join(
            [
                self._keyed("ops", ops["parent"], "ops"),
                self._keyed("ops", self.profile.table("enqueues")["op"], "enqueues"),
                self._keyed("dequeues", apis["dequeue"], "apis"),
                self._keyed("ops", np.where(in_queue, -1, apis["op"]), "apis"),
            ]
        )

    def _launches(self, name: str) -> Edges:
        table = self.profile.table(name)
        nodes = [
            np.where(table[key] >= 0, table[key] + self.offset[other], -1)
            for key, other in (("api", "apis"), ("dequeue", "dequeues"), ("op", "ops"))
        ]
        source = first_known(*nodes)
        rows = np.flatnonzero(source >= 0)
        return Edges(source[rows], rows + self.offset[name])

    def _streams(self) -> Edges:
        tables = [self.profile.table(name) for name in DEVICE_TABLES]
        track = np.concatenate([table["track"] for table in tables])
        start = np.concatenate([table["start_ns"] for table in tables])
        node = np.concatenate([np.arange(len(t)) + self.offset[n] for n, t in zip(DEVICE_TABLES, tables, strict=True)])
        order = np.lexsort((start, track))
        same = (track[order][1:] == track[order][:-1]) & (track[order][1:] >= 0)
        return Edges(node[order][:-1][same], node[order][1:][same])


def event_graph(profile: Profile) -> EventGraph:
    """The graph of a linked profile, built once."""
    if "graph" not in profile.cache:
        profile.cache["graph"] = EventGraph(profile)
    graph = profile.cache["graph"]
    assert isinstance(graph, EventGraph)
    return graph


def _join(parts: list[Edges]) -> Edges:
    return Edges(np.concatenate([part.src for part in parts]), np.concatenate([part.dst for part in parts]))
