"""The way back from an event to the user's line runs along recorded edges: every hop is one."""

from __future__ import annotations

import numpy as np
import pytest
from build import CANN, MAIN, QUEUE, STREAM, TRACKS, arrow, profile
from places import PROFILES, needs_profiles

from npu_advisor import load_profile
from npu_advisor.derive import derive
from npu_advisor.graph.build import EventGraph, event_graph
from npu_advisor.graph.chain import Hop, chain
from npu_advisor.model.profile import Profile

CALLS = {**TRACKS[2], "thread": "main", "tid": 100}
LINE = "/home/u/train.py(42): step"


def told(hops: list[Hop]) -> list[tuple[str, str]]:
    return [(hop.kind, hop.name) for hop in hops]


def backward() -> Profile:
    """A backward op on another thread: the line is that of its forward op, two hops away."""
    return profile(
        tracks=[*TRACKS, {"process": "Python", "thread": "backward", "pid": 1, "tid": 300}],
        ops=[
            {"name": "aten::mm", "track": MAIN, "at": 10, "us": 50, "stack": LINE},
            {"name": "MmBackward0", "track": 4, "at": 100, "us": 50},
            {"name": "aclnnMm", "track": 4, "at": 105, "us": 20},
        ],
        enqueues=[{"name": "Enqueue", "track": 4, "at": 110, "us": 2, "correlation": 8}],
        dequeues=[{"name": "Dequeue@aclnnMm", "track": QUEUE, "at": 130, "us": 20, "correlation": 8}],
        kernels=[{"name": "MatMul1", "type": "MatMul", "track": STREAM, "at": 200, "us": 40}],
        flow_points=[
            *arrow("fwdbwd", 1, (MAIN, 10), (4, 100)),
            *arrow("HostToDevice", 5, (CANN, 135), (STREAM, 200)),
        ],
    )


def synced() -> Profile:
    """The host sits in a blocking call, and the device runs dry under it and behind it."""
    return derive(
        profile(
            tracks=[*TRACKS, CALLS],
            ops=[
                {"name": "ProfilerStep#1", "track": MAIN, "at": 1, "us": 999},
                {"name": "aten::item", "track": MAIN, "at": 200, "us": 300, "stack": LINE},
                {"name": "aten::mm", "track": MAIN, "at": 600, "us": 30},
            ],
            apis=[
                {"name": "aclrtSynchronizeStream", "level": "acl", "track": 4, "at": 210, "us": 280},
                {"name": "StreamSynchronize", "level": "runtime", "track": 4, "at": 215, "us": 5},
            ],
            kernels=[
                {"name": "a", "type": "A", "track": STREAM, "at": 100, "us": 200, "step_id": 1},
                {"name": "b", "type": "B", "track": STREAM, "at": 700, "us": 100, "step_id": 1},
            ],
            flow_points=[
                *arrow("HostToDevice", 1, (4, 50), (STREAM, 100)),
                *arrow("HostToDevice", 2, (4, 610), (STREAM, 700)),
            ],
        )
    )


def test_a_backward_kernel_comes_from_the_forward_op_that_has_the_line() -> None:
    assert told(chain(backward(), "kernels", 0)) == [
        ("kernel", "MatMul1"),
        ("Dequeue", "Dequeue@aclnnMm"),
        ("Enqueue", "Enqueue"),
        ("op", "aclnnMm"),
        ("op", "MmBackward0"),
        ("forward op", "aten::mm"),
        ("line", LINE),
    ]


def test_a_chain_may_begin_at_any_event() -> None:
    whole = told(chain(backward(), "kernels", 0))
    assert told(chain(backward(), "dequeues", 0)) == whole[1:]
    assert told(chain(backward(), "enqueues", 0)) == whole[2:]
    assert told(chain(backward(), "ops", 2)) == whole[3:]
    assert chain(backward(), "steps", 0) == []


def test_idle_time_of_a_sync_comes_from_the_outermost_call_the_host_sat_in() -> None:
    found = synced()
    idle = found.table("idle")
    row = int(np.flatnonzero(np.asarray(idle["owner"] == "sync"))[0])
    assert told(chain(found, "idle", row)) == [
        ("idle", "sync"),
        ("call", "aclrtSynchronizeStream"),
        ("op", "aten::item"),
        ("line", LINE),
    ]


def edges(graph: EventGraph) -> set[tuple[int, int]]:
    pairs = [zip(kind.src.tolist(), kind.dst.tolist(), strict=True) for kind in graph.edges.values()]
    return {pair for pairs_of_kind in pairs for pair in pairs_of_kind}


@needs_profiles
@pytest.mark.parametrize(
    "name", ["npu-alexnet-text-l1", "npu-alexnet-text-l0", "npu-alexnet-db-l1", "npu-trace-only-2024"]
)
def test_every_hop_of_every_device_task_is_an_edge_of_the_graph(name: str) -> None:
    found = load_profile(PROFILES / name)
    graph = event_graph(found)
    known = edges(graph)
    walked = 0
    for table in ("kernels", "tasks", "comms"):
        for row in range(len(found.table(table))):
            hops = [hop for hop in chain(found, table, row) if hop.kind != "line"]
            nodes = [graph.node(hop.table, hop.row) for hop in hops]
            for at, (cause, effect) in enumerate(zip(nodes[1:], nodes, strict=False)):
                # From an op under evaluate_function to its sibling the way leads down again.
                assert (cause, effect) in known or (effect, cause) in known, (hops[at], hops[at + 1])
                walked += 1
    assert walked > 300


@needs_profiles
def test_three_chains_of_a_recorded_run_as_walked_by_hand() -> None:
    found = load_profile(PROFILES / "npu-alexnet-text-l1/rank0_ascend_pt")
    kernels, comms = found.table("kernels"), found.table("comms")
    conversion = int(np.flatnonzero(kernels.strings("name") == "trans_TransData_24")[0])
    main = "/home/u00000001/imagenet_script/main.py"
    assert told(chain(found, "kernels", conversion)) == [
        ("kernel", "trans_TransData_24"),
        ("launch", "launch"),
        ("Dequeue", "Dequeue@Conv2DBackpropFilter"),
        ("Enqueue", "Enqueue"),
        ("op", "Conv2DBackpropFilter"),
        ("op", "aten::convolution_backward"),
        ("op", "ConvolutionBackward0"),
        ("forward op", "aten::convolution"),
        ("line", f"{main}(354): train"),
    ]
    longest = int(np.argmax(comms["dur_ns"]))
    assert told(chain(found, "comms", longest)) == [
        ("communication", "hcom_allReduce__586_0_1"),
        ("launch", "launch"),
        ("Dequeue", "Dequeue@HcclAllreduce"),
        ("Enqueue", "Enqueue"),
        ("op", "HcclAllreduce"),
        ("line", f"{main}(365): train"),
    ]
    idle = found.table("idle")
    rows = np.flatnonzero(np.asarray(idle["owner"] == "sync"))
    sync = int(rows[np.argmax(idle["dur_ns"][rows])])
    assert told(chain(found, "idle", sync)) == [
        ("idle", "sync"),
        ("call", "aclrtSynchronizeStreamWithTimeout"),
        ("op", "aten::copy_"),
        ("line", f"{main}(350): train"),
    ]
    for row, table in ((conversion, "kernels"), (longest, "comms")):
        starts = [
            hop.start_ns for hop in chain(found, table, row) if hop.kind in ("launch", "Dequeue", "Enqueue", "op")
        ]
        assert starts == sorted(starts, reverse=True), "causes come before what they cause"
