"""From the rows behind a finding to the rows that its fix edits, over the foreign keys of the schema.

An op stands for everything below it, a kernel for its Dequeue and Enqueue.
"""

from __future__ import annotations

import heapq
from functools import cache

import numpy as np

from npu_advisor.engine.stages import below
from npu_advisor.engine.values import Array
from npu_advisor.model.profile import Profile
from npu_advisor.model.schema import SCHEMA

# A step or a parent op holds far more than the finding is about.
_NOT_FOLLOWED = {"step", "parent", "forward"}
_FORWARD, _BACK, _DOWN = 1.0, 1.5, 3.0
Hop = tuple[str, str, bool]


@cache
def route(source: str, target: str) -> tuple[Hop, ...] | None:
    """The cheapest hops (table reached, key, forward?) from ``source`` to ``target``; None when there are none."""
    queue: list[tuple[float, str, tuple[Hop, ...]]] = [(0.0, source, ())]
    done: set[str] = set()
    while queue:
        cost, table, hops = heapq.heappop(queue)
        if table == target:
            return hops
        if table in done:
            continue
        done.add(table)
        for reached, key, forward in _neighbours(table):
            step = _FORWARD if forward else _DOWN if table == "ops" else _BACK
            heapq.heappush(queue, (cost + step, reached, (*hops, (reached, key, forward))))
    return None


def _neighbours(table: str) -> list[Hop]:
    keys = [(spec.name, column) for spec in SCHEMA.values() for column in spec.columns if column.kind == "key"]
    forward = [(column.target, column.name, True) for owner, column in keys if owner == table]
    back = [(owner, column.name, False) for owner, column in keys if column.target == table]
    return [hop for hop in forward + back if hop[1] not in _NOT_FOLLOWED]


def carry(profile: Profile, members: dict[str, Array], target: str) -> Array:
    """Ascending positions in ``target`` of the rows that ``members`` (positions by table) stand for."""
    found = [_along(profile, table, positions, target) for table, positions in members.items()]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def _along(profile: Profile, table: str, positions: Array, target: str) -> Array:
    for reached, key, forward in route(table, target) or ():
        if forward:
            positions = profile.table(table)[key][positions]
        elif table == "ops" and key == "op":
            positions = below(profile, reached, positions).items
        else:
            positions = np.flatnonzero(np.isin(profile.table(reached)[key], positions))
        positions = np.unique(positions[positions >= 0])
        table = reached
    return positions if table == target else np.zeros(0, dtype=np.int64)
