"""Full streams and full queues: a call that must wait until an earlier entry is done.

The limits are not in the trace. At the true depth v every stretched call ends a constant time after entry number -v
was done; at v - 1 and v + 1 that distance spreads. Any constant will do, so shifted clocks do not matter.
"""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.replay.arrays import DEPTH, Builder
from npu_advisor.graph.replay.device import DeviceLanes
from npu_advisor.graph.replay.host import HostLanes
from npu_advisor.graph.replay.stats import US
from npu_advisor.graph.replay.tasks import EVENT_WAIT, Tasks
from npu_advisor.model.profile import Profile

STRETCHED, TIMES = 10 * US, 3
NEIGHBOURS = 4
LONG = 300 * US


def full_queues(
    builder: Builder, profile: Profile, tasks: Tasks, host: HostLanes, device: DeviceLanes
) -> list[tuple[Ints, Ints]]:
    """Edges from what holds a place to the call that waited for it; returns new weights of the calls' own edges."""
    changed = []
    for lane in np.unique(tasks.lane[device.launch >= 0]):
        mine = np.flatnonzero((tasks.lane == lane) & (device.launch >= 0) & (tasks.dequeue >= 0))
        mine = mine[np.argsort(tasks.issue[mine], kind="stable")]
        into = _edges_into(device, mine)
        changed += _limit(builder, device.task_end[mine], tasks.end[mine], device.launch[mine], tasks.launch[mine], into)
    return changed


def _edges_into(device: DeviceLanes, tasks: Ints) -> tuple[Ints, Ints]:
    return device.calls[0], device.launch[tasks]


def _limit(
    builder: Builder, done: Ints, end: Ints, call: Ints, at: Ints, into: tuple[Ints, Ints]
) -> list[tuple[Ints, Ints]]:
    return []
