"""Peaks of memory and what was alive then."""

from graph.build import MAIN, TRACKS, profile

from npu_advisor.derive import derive
from npu_advisor.derive.facts import memory_peak

MB = 2**20


def sample(component, at, allocated, reserved=None):
    return {
        "component": component,
        "at": at,
        "allocated_bytes": allocated * MB,
        "reserved_bytes": (reserved or allocated) * MB,
    }


def alloc(name, size, at, release=-1, component="PTA"):
    release_ns = release * 1000 if release >= 0 else -1
    us = release - at if release >= 0 else 0
    return {"name": name, "size_bytes": size * MB, "at": at, "us": us, "release_ns": release_ns, "component": component}


def recorded(**tables):
    ops = [
        {"name": "ProfilerStep#1", "track": MAIN, "at": 0, "us": 100},
        {"name": "aten::mm", "track": MAIN, "at": 10, "us": 20, "stack": "/home/u/train.py(42): f"},
        {"name": "aten::empty", "track": MAIN, "at": 14, "us": 4},
    ]
    return derive(profile(tracks=TRACKS, ops=ops, **tables))


def test_the_peak_is_the_first_maximum_of_the_best_component():
    found = recorded(
        memory=[
            sample("PTA", 5, 90.0),
            sample("PTA+GE", 10, 70.0),
            sample("PTA+GE", 20, 80.0),
            sample("PTA+GE", 30, 80.0),
        ]
    )
    assert memory_peak(found, "allocated_bytes") == (80.0 * MB, 20_000)
    assert memory_peak(found, "allocated_bytes", ("PTA",)) == (90.0 * MB, 5_000)
    assert memory_peak(found, "allocated_bytes", ("GE",)) is None


def test_owners_are_what_is_alive_at_the_peak_and_the_rest_is_named():
    found = recorded(
        memory=[sample("PTA", 5, 10.0), sample("PTA", 40, 100.0)],
        allocs=[
            alloc("aten::mm", 30, 12, 60),
            alloc("aten::mm", 20, 13, 39),
            alloc("aten::mm", 5, 12),
            alloc("aten::mm", 7, 50, 70),
            alloc("aten::mm", 4, 30, 40),
        ],
    )
    owners = found.table("peak_owners")
    rows = list(
        zip(owners.strings("name"), owners["size_bytes"] / MB, owners["share"], owners.strings("life"), strict=True)
    )
    assert rows == [
        ("aten::mm", 30.0, 0.30, "temporary"),
        ("aten::mm", 5.0, 0.05, "step"),
        ("(before the recording)", 65.0, 0.65, "step"),
    ]
    assert owners["recorded"].tolist() == [True, True, False]
    assert owners.strings("source").tolist() == ["/home/u/train.py(42): f"] * 2 + [None]


def test_an_allocation_belongs_to_the_op_of_its_name_not_to_an_inner_one():
    found = recorded(memory=[sample("PTA", 40, 9.0)], allocs=[alloc("aten::mm", 1, 15), alloc("aten::add", 1, 15)])
    assert found.table("allocs")["op"].tolist() == [1, -1]


def test_no_samples_no_owners():
    assert len(recorded(allocs=[alloc("aten::mm", 1, 15)]).table("peak_owners")) == 0


def test_the_profile_row_counts_steps_and_time():
    kernels = [
        {"name": "a", "type": "A", "at": 20, "us": 10, "step_id": 1},
        {"name": "a", "type": "A", "at": 25, "us": 15, "step_id": 1},
    ]
    row = recorded(kernels=kernels).frame("profile").iloc[0]
    assert (row["steps"], row["step_us"], row["steps_us"], row["device_busy_us"]) == (1, 100.0, 100.0, 20.0)
