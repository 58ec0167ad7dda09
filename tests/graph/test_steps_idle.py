"""Every microsecond of a step has one owner, and it is the right one."""

import pytest
from graph.build import CANN, MAIN, QUEUE, STREAM, TRACKS, arrow, profile

from npu_advisor.derive import derive
from npu_advisor.derive.comm import waits_for_rank


def step(at, us, number=1):
    return {"name": f"ProfilerStep#{number}", "track": MAIN, "at": at, "us": us}


def kernel(at, us, **more):
    return {"name": "Add", "type": "Add", "track": STREAM, "at": at, "us": us, **more}


def owners(found):
    idle = found.table("idle")
    rows = zip(idle.strings("part"), idle.strings("owner"), idle["start_ns"] // 1000, idle["dur_us"], strict=True)
    return [(part, owner, int(at), us) for part, owner, at, us in rows]


def device(**tables):
    return derive(profile(tracks=TRACKS, **tables))


def test_the_ledger_tiles_the_step():
    found = device(
        ops=[step(0, 100)],
        kernels=[kernel(20, 10, step_id=1), kernel(25, 15, step_id=1), kernel(60, 10, step_id=1)],
        comms=[{"name": "hcom_allReduce", "track": STREAM, "at": 35, "us": 15, "step_id": 1}],
    )
    steps = found.table("steps")
    want = {
        "prepare_us": 20,
        "compute_us": 30,
        "comm_us": 15,
        "exposed_comm_us": 10,
        "free_us": 10,
        "after_us": 30,
        "dur_us": 100,
    }
    assert {name: steps[name][0] for name in want} == want


def test_a_device_that_runs_behind_the_host_stretches_the_step():
    found = device(
        ops=[step(0, 40, 1), step(45, 40, 2)],
        kernels=[kernel(10, 100, step_id=1), kernel(120, 60, step_id=2)],
    )
    steps = found.table("steps")
    assert (steps["start_ns"] // 1000).tolist() == [0, 110]
    assert (steps["end_ns"] // 1000).tolist() == [110, 180]
    assert steps["host_us"].tolist() == [40, 40]
    assert steps["prepare_us"].tolist() == [10, 10]
    total = sum(steps[name] for name in ("compute_us", "exposed_comm_us", "free_us", "prepare_us", "after_us"))
    assert total.tolist() == steps["dur_us"].tolist()


def test_without_marks_everything_is_one_window():
    found = device(ops=[{"name": "aten::add", "track": MAIN, "at": 5, "us": 10}], kernels=[kernel(20, 10)])
    assert found.table("steps")["number"].tolist() == [-1]
    assert found.table("steps")["dur_us"].tolist() == [25]
    assert found.table("kernels")["step"].tolist() == [0]
    assert [item.code for item in found.diagnostics] == ["no_step_markers"]


def launched(at, kernels, **more):
    """Kernels whose launches happen at the given host times."""
    points = [
        row
        for i, (when, k) in enumerate(zip(at, kernels, strict=True))
        for row in arrow("HostToDevice", i, (CANN, when), (STREAM, k["at"]))
    ]
    return device(ops=[step(0, 200)], kernels=kernels, flow_points=points, **more)


def test_idle_before_a_late_launch_is_dispatch():
    found = launched([5, 80], [kernel(10, 20, step_id=1), kernel(90, 10, step_id=1)])
    assert owners(found) == [("prepare", "dispatch", 0, 10), ("free", "dispatch", 30, 60)]


def test_idle_before_a_task_that_was_queued_in_time_is_not_dispatch():
    found = launched([0, 1], [kernel(10, 50, step_id=1), kernel(90, 10, step_id=1)])
    assert owners(found)[1] == ("free", "other", 60, 30)


def test_precedence_of_owners():
    apis = [
        {"name": "aclrtSynchronizeStreamWithTimeout", "level": "acl", "track": CANN, "at": 30, "us": 40},
        {"name": "aclopCompileAndExecute", "level": "acl", "track": CANN, "at": 60, "us": 15},
        {"name": "aclrtMalloc", "level": "acl", "track": CANN, "at": 70, "us": 2},
        {"name": "aclrtMemcpyAsync", "level": "acl", "track": CANN, "at": 80, "us": 5},
    ]
    gcs = [{"track": MAIN, "at": 71, "us": 3}]
    found = launched([5, 95], [kernel(10, 20, step_id=1), kernel(100, 10, step_id=1)], apis=apis, gcs=gcs)
    assert owners(found)[1:] == [
        ("free", "sync", 30, 30),
        ("free", "compile", 60, 10),
        ("free", "alloc", 70, 1),
        ("free", "gc", 71, 3),
        ("free", "compile", 74, 1),
        ("free", "sync", 75, 25),  # the device ran dry in the sync, this refills its queue
    ]


def test_a_queue_emptied_by_a_sync_is_refilled_at_its_expense():
    sync = {"name": "aclrtSynchronizeStreamWithTimeout", "level": "acl", "track": CANN, "at": 12, "us": 28}
    found = launched([5, 80], [kernel(10, 20, step_id=1), kernel(90, 10, step_id=1)], apis=[sync])
    assert owners(found)[1:] == [("free", "sync", 30, 10), ("free", "sync", 40, 50)]


def test_a_sync_that_returned_long_before_the_device_ran_dry_is_not_to_blame():
    sync = {"name": "aclrtSynchronizeStreamWithTimeout", "level": "acl", "track": CANN, "at": 2, "us": 6}
    found = launched([9, 80], [kernel(10, 20, step_id=1), kernel(90, 10, step_id=1)], apis=[sync])
    assert owners(found)[-1] == ("free", "dispatch", 30, 60)


def test_what_the_host_does_while_the_next_task_is_queued_is_no_cause():
    sync = {"name": "aclrtSynchronizeStreamWithTimeout", "level": "acl", "track": CANN, "at": 2, "us": 150}
    found = launched([0, 1], [kernel(10, 50, step_id=1), kernel(90, 10, step_id=1)], apis=[sync])
    assert owners(found)[-1] == ("free", "other", 60, 30)


def test_the_loader_owns_the_wait_for_data_and_names_its_line():
    loader = {
        "name": "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        "track": MAIN,
        "at": 1,
        "us": 8,
        "stack": "/home/u/train.py(30): train",
    }
    found = device(
        ops=[step(0, 200), loader],
        kernels=[kernel(20, 10, step_id=1)],
        flow_points=arrow("HostToDevice", 1, (CANN, 15), (STREAM, 20)),
    )
    assert owners(found) == [
        ("prepare", "dispatch", 0, 1),
        ("prepare", "data", 1, 8),
        ("prepare", "dispatch", 9, 11),
    ]
    assert found.table("idle").strings("source")[1] == "/home/u/train.py(30): train"


def test_a_copy_engine_at_work_is_not_dispatch():
    copy = {"name": "MEMCPY_ASYNC", "kind": "copy", "track": STREAM, "at": 40, "us": 20}
    found = launched([5, 80], [kernel(10, 20, step_id=1), kernel(90, 10, step_id=1)], tasks=[copy])
    assert owners(found)[1:] == [("free", "dispatch", 30, 10), ("free", "other", 40, 20), ("free", "dispatch", 60, 30)]


def test_idle_adds_up_to_the_ledger():
    found = launched([5, 80, 81], [kernel(10, 20, step_id=1), kernel(90, 10, step_id=1), kernel(120, 5, step_id=1)])
    steps, idle = found.table("steps"), found.table("idle")
    assert idle["dur_us"].sum() == steps["free_us"][0] + steps["prepare_us"][0]


@pytest.mark.parametrize("culprit", [0, 5])
def test_only_the_latest_peer_is_charged_and_only_beyond_the_second(culprit):
    waits = [
        {"name": "Notify_Wait", "track": STREAM, "at": 10, "us": us, "src_rank": 9, "dst_rank": rank}
        for rank, us in ((1, 6), (culprit, 80), (2, 30), (9, 90))
    ]
    found = device(
        ops=[step(0, 200)],
        kernels=[kernel(50, 10, step_id=1)],
        comms=[{"name": "hcom_allReduce", "track": QUEUE, "at": 10, "us": 90, "step_id": 1}],
        comm_tasks=waits,
    )
    # 80 us wait, others there after 30, and 10 us of it under a kernel.
    assert waits_for_rank(found) == {0: {culprit: 40_000}}


def steps_with_kernels(counts):
    ops, kernels = [], []
    for number, count in enumerate(counts):
        ops.append(step(number * 100, 90, number))
        ops += [{"name": "aten::mm", "track": MAIN, "at": number * 100 + 5 * i + 1, "us": 4} for i in range(4)]
        kernels += [kernel(number * 100 + 20 * i + 10, 5, step_id=number) for i in range(count)]
    return device(ops=ops, kernels=kernels)


@pytest.mark.parametrize(
    ("counts", "complete", "codes"),
    [
        ([4, 4, 4, 4], [True] * 4, []),
        ([1, 4, 4, 4], [False, True, True, True], ["step_incomplete"]),
        ([4, 1, 4, 4], [True] * 4, []),
        ([4, 4, 4, 0], [True, True, True, False], ["step_without_kernels"]),
    ],
)
def test_a_step_at_the_edge_that_lost_kernels_is_not_complete(counts, complete, codes):
    found = steps_with_kernels(counts)
    assert found.table("steps")["complete"].tolist() == complete
    assert [item.code for item in found.diagnostics] == codes
    assert found.frame("profile")["steps"].iloc[0] == sum(complete)


@pytest.mark.parametrize(("told", "codes"), [(20.0, []), (22.0, []), (23.0, ["kernels_lost"])])
def test_computing_that_the_profiler_knows_of_and_no_kernel_shows_is_told(told, codes):
    ledger = [{"step_id": 1, "compute_us": told}]
    found = device(ops=[step(0, 100)], kernels=[kernel(20, 20, step_id=1)], step_trace=ledger)
    assert [item.code for item in found.diagnostics] == codes
