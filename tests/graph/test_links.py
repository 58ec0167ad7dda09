"""Kernel -> launch -> Dequeue -> Enqueue -> op -> line, and what happens where a hop is missing."""

from graph.build import CANN, MAIN, QUEUE, STREAM, TRACKS, arrow, profile

from npu_advisor.graph.build import event_graph
from npu_advisor.graph.view import to_networkx

STACK = "/venv/site-packages/torch/nn/m.py(5): call;\r\n/home/u/train.py(42): step;\r\n/home/u/train.py(9): main"


def queued(**changes):
    """One op whose kernel goes through the task queue; ``changes`` replace tables."""
    tables = {
        "tracks": TRACKS,
        "ops": [
            {"name": "ProfilerStep#3", "track": MAIN, "at": 0, "us": 500, "stack": "/home/u/train.py(99): prof"},
            {"name": "aten::mm", "track": MAIN, "at": 10, "us": 50, "stack": STACK},
            {"name": "aclnnMm", "track": MAIN, "at": 15, "us": 20},
        ],
        "enqueues": [{"name": "Enqueue", "track": MAIN, "at": 20, "us": 2, "correlation": 8}],
        "dequeues": [{"name": "Dequeue@aclnnMm", "track": QUEUE, "at": 30, "us": 20, "correlation": 8}],
        "apis": [{"name": "launch", "level": "node", "track": CANN, "at": 38, "us": 5, "connection": 77}],
        "kernels": [{"name": "MatMul1", "type": "MatMul", "track": STREAM, "at": 100, "us": 40, "connection": 77}],
        "flow_points": [
            *arrow("HostToDevice", 5, (CANN, 40), (STREAM, 100)),
            *arrow("async_npu", 6, (MAIN, 15), (STREAM, 100)),
        ],
    }
    return profile(**(tables | changes))


def test_the_whole_chain():
    found = queued()
    hops = event_graph(found).chain(0)
    assert [(hop.kind, hop.name) for hop in hops] == [
        ("kernel", "MatMul1"),
        ("launch", "launch"),
        ("Dequeue", "Dequeue@aclnnMm"),
        ("Enqueue", "Enqueue"),
        ("op", "aclnnMm"),
        ("op", "aten::mm"),
        ("line", "/home/u/train.py(42): step"),
    ]
    assert found.table("kernels")["launch_ns"].tolist() == [40_000]
    assert found.table("kernels").strings("source_how").tolist() == ["ancestor"]
    assert found.table("steps")["number"].tolist() == [3]
    assert found.table("kernels")["step"].tolist() == [0]


def test_connection_id_serves_where_the_arrow_is_missing():
    found = queued(flow_points=[])
    assert found.table("kernels")["op"].tolist() == [2]
    assert found.table("kernels")["dequeue"].tolist() == [0]


def test_async_npu_serves_last():
    found = queued(apis=[], flow_points=arrow("async_npu", 6, (MAIN, 15), (STREAM, 100)))
    assert found.table("kernels")["op"].tolist() == [2]
    assert found.table("kernels")["dequeue"].tolist() == [-1]


def test_the_queue_wins_over_an_arrow_that_blames_another_op():
    wrong = [*arrow("HostToDevice", 5, (CANN, 40), (STREAM, 100)), *arrow("async_npu", 6, (MAIN, 10), (STREAM, 100))]
    assert queued(flow_points=wrong).table("kernels")["op"].tolist() == [2]


def test_no_task_queue_links_to_the_op_that_launches():
    found = queued(
        enqueues=[],
        dequeues=[],
        tracks=[*TRACKS[:2], {"process": "CANN", "thread": "main", "pid": 2, "tid": 100}, TRACKS[3]],
        flow_points=arrow("HostToDevice", 5, (CANN, 20), (STREAM, 100)),
        apis=[],
    )
    assert found.table("kernels")["op"].tolist() == [2]


def test_a_stream_number_is_no_thread_number():
    tracks = [*TRACKS[:3], {"process": "Ascend Hardware", "thread": "Stream 100", "pid": 3, "tid": 100}]
    assert queued(tracks=tracks).table("kernels")["op"].tolist() == [2]


def test_an_unlinked_kernel_has_no_op_and_no_line():
    found = queued(kernels=[{"name": "Add", "type": "Add", "track": STREAM, "at": 300, "us": 4}])
    assert found.table("kernels")["op"].tolist() == [-1]
    assert found.table("kernels").strings("source").tolist() == [None]
    assert [hop.kind for hop in event_graph(found).chain(0)] == ["kernel"]


def test_prof_step_is_never_the_line_of_the_work_inside():
    bare = [
        {"name": "ProfilerStep#3", "track": MAIN, "at": 0, "us": 500, "stack": "/home/u/train.py(99): prof"},
        {"name": "aclnnMm", "track": MAIN, "at": 15, "us": 20},
    ]
    assert queued(ops=bare).table("kernels").strings("source").tolist() == [None]


def test_a_running_python_function_is_the_last_resort():
    bare = [{"name": "aclnnMm", "track": MAIN, "at": 15, "us": 20}]
    frames = [
        {"name": "main.py(5): main", "track": MAIN, "at": 0, "us": 400, "python_id": 1, "python_parent": 0},
        {
            "name": "torch/nn/modules/module.py(9): call",
            "track": MAIN,
            "at": 5,
            "us": 90,
            "python_id": 2,
            "python_parent": 1,
        },
    ]
    kernels = queued(ops=bare, frames=frames).table("kernels")
    assert kernels.strings("source").tolist() == ["main.py(5): main"]
    assert kernels.strings("source_how").tolist() == ["python"]


def backward(**columns):
    ops = [
        {"name": "aten::mm", "track": MAIN, "at": 10, "us": 50, "stack": STACK, "sequence": 4, "fwd_thread": 0},
        {"name": "autograd::engine::evaluate_function: Mm", "track": QUEUE, "at": 100, "us": 100},
        {"name": "MmBackward0", "track": QUEUE, "at": 105, "us": 20, **columns},
        {"name": "aten::sum", "track": QUEUE, "at": 150, "us": 20},
    ]
    return [{"sequence": -1, "fwd_thread": -1, **op} for op in ops]


def test_backward_takes_the_forward_line_by_arrow_and_by_sequence():
    arrowed = profile(tracks=TRACKS, ops=backward(), flow_points=arrow("fwdbwd", 1, (MAIN, 10), (QUEUE, 105)))
    numbered = profile(tracks=TRACKS, ops=backward(sequence=4, fwd_thread=1))
    for found in (arrowed, numbered):
        ops = found.table("ops")
        assert ops["forward"].tolist() == [-1, -1, 0, -1]
        assert ops.strings("source_how").tolist() == ["own", "sibling", "forward", "sibling"]
        assert set(ops.strings("source")[[2, 3]]) == {"/home/u/train.py(42): step"}


def test_networkx_view_is_bounded_and_typed():
    graph = event_graph(queued())
    whole = to_networkx(graph, "kernels", 0)
    kinds = {data["kind"] for _, _, data in whole.edges(data=True)}
    assert kinds == {"calls", "queue", "launch"}
    assert {data["kind"] for _, data in whole.nodes(data=True)} == {"kernel", "launch", "Dequeue", "Enqueue", "op"}
    assert len(to_networkx(graph, "kernels", 0, limit=2)) == 2
    assert len(to_networkx(graph, "kernels", 0, hops=0)) == 1


def test_most_kernels_without_a_launch_make_the_links_absent_not_empty():
    lost = [{"name": f"Add{i}", "type": "Add", "track": STREAM, "at": 300 + i, "us": 1} for i in range(3)]
    linked = {"name": "MatMul1", "type": "MatMul", "track": STREAM, "at": 100, "us": 40, "connection": 77}
    found = queued(kernels=[{"connection": -1, **row} for row in (linked, *lost)])
    assert found.missing("kernels", "op").reason.en.startswith("only 1 of 4 kernels")
    assert found.missing("idle") is not None
    assert queued().missing("kernels", "op") is None
