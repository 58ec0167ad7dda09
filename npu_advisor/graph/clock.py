"""How far the device's clock runs behind causality: device times that are later than the host calls that waited."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.named import starting
from npu_advisor.model.profile import Profile

US = 1000
# A call this long may have waited; one that ends within NEAR of the last kernel asked for waited for that one.
WAITED, NEAR = 100 * US, 1000 * US
# Less than this is within what a device may take to tell the host.
VISIBLE = 20 * US
ENOUGH = 3
EVENT_CALLS = ("aclrtSynchronizeEvent", "EventSynchronize", "cudaEventSynchronize")


def device_late(profile: Profile, start: Ints, end: Ints) -> int:
    """By how many ns the recorded times of the device are late, 0 when they fit those of the host.

    ``start`` and ``end`` are host calls that wait for the device (ns since the epoch). A call cannot return before
    the kernel that it waited for has ended, and no kernel starts before its launch: the offset is the usual excess of
    the first, never more than the smallest distance of the second. An early device clock shows in launches alone,
    whose latency it shortens; it needs no correction.
    """
    kernels = profile.table("kernels")
    launch = kernels["launch_ns"]
    asked = _asked(profile, kernels["dequeue"], launch)
    rows = np.flatnonzero((asked >= 0) & (launch >= 0))
    if not len(rows):
        return 0
    most = min(int((kernels["start_ns"][rows] - launch[rows]).min()), NEAR)
    tracks, counts = np.unique(kernels["track"][rows], return_counts=True)
    rows = rows[kernels["track"][rows] == tracks[np.argmax(counts)]]
    rows = rows[np.argsort(asked[rows], kind="stable")]
    waits = np.flatnonzero((end - start >= WAITED) & ~np.isin(start, _event_waits(profile)))
    last = np.searchsorted(asked[rows], start[waits], side="right") - 1
    excess = kernels["end_ns"][rows[last[last >= 0]]] - end[waits[last >= 0]]
    excess = excess[np.abs(excess) <= NEAR]
    if most <= VISIBLE or len(excess) < ENOUGH:
        return 0
    usual = int(np.median(excess))
    return min(usual, most) if usual > VISIBLE else 0


def _event_waits(profile: Profile) -> Ints:
    """Starts of calls that wait for an event: it may lie anywhere before the last kernel asked for."""
    apis = profile.table("apis")
    found: Ints = apis["start_ns"][starting(apis, EVENT_CALLS)]
    return found


def _asked(profile: Profile, dequeue: Ints, launch: Ints) -> Ints:
    """When the host thread asked for each kernel: its Enqueue, else its launch; -1 unknown."""
    entry, pushed = profile.table("dequeues")["enqueue"], profile.table("enqueues")["start_ns"]
    push = np.where(dequeue >= 0, entry[np.maximum(dequeue, 0)], -1) if len(entry) else np.full(len(dequeue), -1)
    return np.where(push >= 0, pushed[np.maximum(push, 0)], launch) if len(pushed) else launch
