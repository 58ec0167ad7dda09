"""Long host events that cost nothing are named, those that cost are not."""

from graph.build import CANN, MAIN, STREAM, TRACKS, arrow, profile

from npu_advisor.derive import derive
from npu_advisor.derive.bystanders import bystanders

STACK = "/venv/site-packages/torch/_t.py(3): item;\r\n/home/u/main.py(467): update;\r\n/home/u/main.py(373): train"


def recorded(*, busy_until=900, frames=(), optimizer=300):
    ops = [
        {"name": "ProfilerStep#1", "track": MAIN, "at": 0, "us": 1000},
        {
            "name": "Optimizer.step#SGD.step",
            "track": MAIN,
            "at": 100,
            "us": optimizer,
            "stack": "/home/u/main.py(366): train",
        },
        {"name": "aten::item", "track": MAIN, "at": 520, "us": 200, "stack": STACK},
    ]
    kernels = [
        {"name": "a", "type": "A", "track": STREAM, "at": 50, "us": busy_until - 50, "step_id": 1},
        {"name": "b", "type": "B", "track": STREAM, "at": 950, "us": 10, "step_id": 1},
    ]
    flows = [*arrow("HostToDevice", 1, (CANN, 10), (STREAM, 50)), *arrow("HostToDevice", 2, (CANN, 940), (STREAM, 950))]
    return derive(profile(tracks=TRACKS, ops=ops, kernels=kernels, flow_points=flows, frames=list(frames)))


def test_an_optimizer_step_under_a_busy_device_is_no_cause():
    names = {item.name: (str(item.frame), item.duration_us) for item in bystanders(recorded())}
    assert names["SGD.step"] == ("/home/u/main.py(366): train", 300.0)


def test_the_same_step_over_an_idle_device_is_not_excused():
    assert "SGD.step" not in {item.name for item in bystanders(recorded(busy_until=120))}


def test_a_step_whose_kernels_were_lost_excuses_nothing():
    ops = [{"name": f"ProfilerStep#{number}", "track": MAIN, "at": 1000 * number, "us": 1000} for number in (1, 2)] + [
        {"name": "Optimizer.step#SGD.step", "track": MAIN, "at": at, "us": 300} for at in (1100, 2100)
    ]
    kernel = {"name": "a", "type": "A", "track": STREAM, "at": 1050, "us": 900, "step_id": 1}
    found = bystanders(derive(profile(tracks=TRACKS, ops=ops, kernels=[kernel])))
    assert [(item.name, item.duration_us, item.reason.en) for item in found] == [
        ("SGD.step", 300.0, "the device computes during 100 % of it")
    ]


def test_a_short_event_is_not_worth_a_word():
    assert "SGD.step" not in {item.name for item in bystanders(recorded(optimizer=30))}


def test_a_function_is_named_by_the_line_that_calls_it_and_speaks_for_what_it_contains():
    frame = {"name": "main.py(460): update", "track": MAIN, "at": 500, "us": 300, "python_id": 1, "python_parent": 0}
    found = bystanders(recorded(frames=[frame]))
    assert [(item.name, str(item.frame)) for item in found if item.name == "update"] == [
        ("update", "/home/u/main.py(373): train")
    ]


def test_equal_durations_with_different_reasons_are_no_contest():
    """One call over a computing device, one of the same length over a communicating one."""
    ops = [
        {"name": "ProfilerStep#1", "track": MAIN, "at": 0, "us": 1000},
        *({"name": "work", "track": MAIN, "at": at, "us": 300, "stack": "/home/u/main.py(9): f"} for at in (100, 600)),
    ]
    kernels = [{"name": "a", "type": "A", "track": STREAM, "at": 50, "us": 450, "step_id": 1}]
    comms = [{"name": "hcom_allReduce", "track": STREAM, "at": 500, "us": 450, "step_id": 1}]
    found = bystanders(derive(profile(tracks=TRACKS, ops=ops, kernels=kernels, comms=comms)))
    assert [(item.name, item.duration_us) for item in found] == [("work", 600)]
    assert "100 %" in found[0].reason.en
