"""A networkx view of a *bounded* neighbourhood of the event graph, for evidence, explanation and export.

Never of the whole trace: a million edges cost networkx half a gigabyte.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from npu_advisor.graph.build import EDGE_KINDS, NODE_KINDS, EventGraph

if TYPE_CHECKING:
    import networkx as nx

MAX_NODES = 500


def to_networkx(graph: EventGraph, table: str, row: int, hops: int = 4, limit: int = MAX_NODES) -> nx.MultiDiGraph[int]:
    """The events within ``hops`` edges (either direction) of one event, nearest first, at most ``limit`` of them.

    Nodes carry kind, table, row, name, start_ns, dur_us; edges carry kind, which is also their key.
    """
    import networkx as nx

    near = _near(graph, graph.node(table, row), hops, limit)
    view: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    for node in near:
        name, at = graph.locate(node)
        rows = graph.profile.table(name)
        text = rows["name"]
        label = str(text.categories[text.codes[at]]) if text.codes[at] >= 0 else ""
        attributes = {
            "name": label,
            "start_ns": int(rows["start_ns"][at]),
            "dur_us": float(rows["dur_ns"][at]) / 1000.0,
        }
        view.add_node(node, kind=NODE_KINDS[name], table=name, row=at, **attributes)
    out = graph.neighbours()
    for node in near:
        for index in range(int(out.offset[node]), int(out.offset[node + 1])):
            target = int(out.target[index])
            if target in view:
                kind = EDGE_KINDS[int(out.kind[index])]
                view.add_edge(node, target, key=kind, kind=kind)
    return view


def _near(graph: EventGraph, start: int, hops: int, limit: int) -> list[int]:
    """Nodes in breadth-first order."""
    sides = (graph.neighbours(forward=True), graph.neighbours(forward=False))
    seen, queue = {start: 0}, deque([start])
    while queue and len(seen) < limit:
        node = queue.popleft()
        if seen[node] == hops:
            continue
        for side in sides:
            for target in side.target[side.offset[node] : side.offset[node + 1]].tolist():
                if target not in seen and len(seen) < limit:
                    seen[target] = seen[node] + 1
                    queue.append(target)
    return list(seen)
