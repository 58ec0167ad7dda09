"""Put the constraint graph of one or more ranks together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.graph.clock import device_late
from npu_advisor.graph.links import host_threads
from npu_advisor.graph.replay import collectives, waits
from npu_advisor.graph.replay.arrays import DROPPED, LANE, Builder, Net
from npu_advisor.graph.replay.depth import Limit, full_queues
from npu_advisor.graph.replay.device import DeviceLanes, build_device, event_waits
from npu_advisor.graph.replay.host import HostLanes, build_host
from npu_advisor.graph.replay.syncs import Syncs, syncs_of
from npu_advisor.graph.replay.tasks import EVENT_WAIT, Tasks, tasks_of
from npu_advisor.model.profile import Profile


@dataclass
class RankGraph:
    """What one rank's events became; ``transit`` is the data movement of joined collectives, by task; ``limits`` are
    the queues that were full; ``threads`` is the host thread behind each track; ``edges`` are all but those to and
    from other ranks."""

    profile: Profile
    tasks: Tasks
    syncs: Syncs
    threads: Ints
    host: HostLanes
    device: DeviceLanes
    transit: dict[int, int]
    limits: list[Limit]
    edges: slice


class Graph(NamedTuple):
    """The graph and the ranks in it; ``elastic_start`` are nodes whose recorded time is no measurement."""

    net: Net
    origin: int
    ranks: list[RankGraph]
    elastic_start: Ints


def build(profiles: Sequence[Profile]) -> Graph:
    """The constraint graph of linked profiles of one run."""
    tasks = [_tasks(profile) for profile in profiles]
    origin = min(_first(profile, own) for profile, own in zip(profiles, tasks, strict=True))
    builder = Builder(origin)
    ranks: list[RankGraph] = []
    changed: list[tuple[Ints, Ints]] = []
    lane = 0
    for number, (profile, own) in enumerate(zip(profiles, tasks, strict=True)):
        rank, weights = _rank(builder, profile, number, own, lane)
        lane = max([lane, *(value + 1 for value in rank.host.lanes.values())])
        ranks.append(rank)
        changed += weights
    replaced, transit = collectives.join(
        builder, tasks, [rank.device for rank in ranks], collectives.matched(profiles, tasks)
    )
    for rank, known in zip(ranks, transit, strict=True):
        rank.transit = known
    net = builder.net()
    for edges, weight in changed:
        net.w[edges] = weight
    net.w[replaced] = DROPPED
    starts = [rank.device.task_start[rank.tasks.kind == EVENT_WAIT] for rank in ranks]
    return Graph(net, origin, ranks, np.concatenate(starts))


def _tasks(profile: Profile) -> Tasks:
    """The device tasks, in the host's time where the device's clock is late."""
    tasks = tasks_of(profile)
    syncs = syncs_of(profile, tasks, host_threads(profile))
    late = device_late(profile, syncs.start, syncs.end)
    return tasks._replace(start=tasks.start - late, end=tasks.end - late)


def _first(profile: Profile, tasks: Tasks) -> int:
    parts = [profile.table(name)["start_ns"] for name in ("ops", "enqueues", "dequeues", "steps")] + [tasks.start]
    return min(int(part.min()) for part in parts if len(part))


def _rank(
    builder: Builder, profile: Profile, number: int, tasks: Tasks, lane: int
) -> tuple[RankGraph, list[tuple[Ints, Ints]]]:
    """One rank, and weights to put on edges that exist already."""
    first = builder.edges
    threads = host_threads(profile)
    direct = _direct_threads(profile, tasks, threads)
    syncs = syncs_of(profile, tasks, threads)
    host = build_host(builder, profile, number, tasks, direct, syncs, lane)
    device = build_device(builder, profile, number, tasks, host, lane + len(host.lanes))
    own = waits.sync_waits(builder, profile, tasks, syncs, host, device)
    changed = [(host.sync_edge[host.sync_edge >= 0], own[host.sync_edge >= 0])]
    told = event_waits(builder, tasks, device)
    waiting = waits.domain_waits(builder, profile, tasks, device)
    waits.inferred_waits(builder, tasks, device, np.concatenate((told, waiting)))
    changed += _direct_calls(builder, profile, tasks, syncs, host, device)
    limits, stretched = full_queues(builder, profile, tasks, host, device)
    changed += stretched
    edges = slice(first, builder.edges)
    return RankGraph(profile, tasks, syncs, threads, host, device, {}, limits, edges), changed


def _direct_threads(profile: Profile, tasks: Tasks, threads: Ints) -> Ints:
    """The host thread that launched each task without a queue, -1 for the others."""
    apis, ops = profile.table("apis"), profile.table("ops")
    thread = np.full(len(tasks.start), -1, dtype=np.int64)
    free = (tasks.dequeue < 0) & (tasks.launch >= 0)
    rows = np.flatnonzero(free & (tasks.op >= 0))
    thread[rows] = ops["track"][tasks.op[rows]]
    rows = np.flatnonzero(free & (tasks.api >= 0))
    own = threads[apis["track"][tasks.api[rows]]] if len(rows) else rows
    known = np.isin(own, np.unique(ops["track"]))
    thread[rows[known]] = own[known]
    return thread


def _direct_calls(
    builder: Builder, profile: Profile, tasks: Tasks, syncs: Syncs, host: HostLanes, device: DeviceLanes
) -> list[tuple[Ints, Ints]]:
    launched = np.flatnonzero(host.direct >= 0)
    node = np.concatenate((host.sync_start, host.direct[launched]))
    at = np.concatenate((syncs.start, tasks.launch[launched]))
    op = np.concatenate((syncs.op, tasks.op[launched]))
    edge = host.into.of(node)
    rows = np.flatnonzero(edge >= 0)
    node, at, op, edge = node[rows], at[rows], op[rows], edge[rows]
    span = builder.span(edge)
    entry, own = waits.direct_calls(profile, at, op, at - span)
    held = np.flatnonzero(entry >= 0)
    if not len(held):
        return []
    distance = at[held] - profile.table("dequeues")["end_ns"][entry[held]]
    usual = max(int(np.median(distance)), 0)
    builder.link(device.dequeue_end[entry[held]], node[held], np.minimum(distance, usual), LANE)
    return [(edge[held], own[held])]
