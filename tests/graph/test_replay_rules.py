"""Every rule of the replay has a run that needs it: with the rule broken, what a cure saves comes out wrong.

Self-replay gives most of these broken models a clean bill, so nothing but such runs can tell them from the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from replay_scenarios import SCENARIOS, device_ahead

from npu_advisor.engine import savings
from npu_advisor.graph.replay import (
    Edit,
    Replayer,
    build,
    collectives,
    depth,
    device,
    edits,
    host,
    replayer,
    syncs,
    waits,
)
from npu_advisor.graph.replay import tasks as device_tasks
from npu_advisor.graph.replay.order import CycleError
from npu_advisor.graph.replay.tasks import COMM, EVENT_WAIT, RECORD

TOLERANCE = 3.0  # us
NONE = np.zeros(0, dtype=np.int64)
Break = Callable[[pytest.MonkeyPatch], None]


def put(module: Any, name: str, value: Any) -> Break:
    return lambda patch: patch.setattr(module, name, value)


def _rigid_syncs(builder: Any, profile: Any, tasks: Any, own: syncs.Syncs, *_: Any) -> np.ndarray:
    return own.end - own.start


def _unjoined(patch: pytest.MonkeyPatch) -> None:
    bursts = host._bursts
    patch.setattr(host, "_bursts", lambda *given: [fork._replace(until=-1) for fork in bursts(*given)])


def _median_latency(delay: np.ndarray, idle: np.ndarray, known: np.ndarray) -> int:
    return int(np.median(delay[known])) if known.any() else 0


def _latency_of_waits(patch: pytest.MonkeyPatch) -> None:
    right = device._launch_weights

    def wrong(tasks: device_tasks.Tasks, *rest: Any) -> np.ndarray:
        return np.where(tasks.kind == EVENT_WAIT, tasks.start - tasks.launch, right(tasks, *rest))

    patch.setattr(device, "_launch_weights", wrong)


def _rigid_wait_starts(patch: pytest.MonkeyPatch) -> None:
    right = replayer.build
    patch.setattr(replayer, "build", lambda profiles: right(profiles)._replace(elastic_start=NONE))


def _nearest_record(builder: Any, tasks: device_tasks.Tasks, found: Any) -> np.ndarray:
    """Whatever ended last before the wait did, on any other stream."""
    pairs = []
    for wait in np.flatnonzero(tasks.kind == EVENT_WAIT):
        records = np.flatnonzero(
            (tasks.kind == RECORD) & (tasks.lane != tasks.lane[wait]) & (tasks.end <= tasks.end[wait])
        )
        if len(records):
            pairs.append((wait, records[np.argmax(tasks.end[records])]))
    matched, record = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.clip(tasks.end[matched] - tasks.end[record], 0, device.RELEASE)
    builder.link(found.task_end[record], found.task_end[matched], weight, device.EVENT)
    return matched


def _serial_sub_tasks(patch: pytest.MonkeyPatch) -> None:
    weights = device._stream_weights
    patch.setattr(device_tasks, "_outside_collectives", lambda profile: np.arange(len(profile.table("tasks"))))
    patch.setattr(device, "_stream_weights", lambda *given: np.maximum(weights(*given), 0))
    _serial_rows(patch)


def _serial_rows(patch: pytest.MonkeyPatch) -> None:
    def wrong(tasks: device_tasks.Tasks) -> tuple[np.ndarray, np.ndarray]:
        same = np.append(False, tasks.lane[1:] == tasks.lane[:-1])
        return np.where(same, np.arange(len(same)) - 1, -1), np.zeros(len(same), dtype=bool)

    patch.setattr(device, "_previous", wrong)


def _stretched_stay(patch: pytest.MonkeyPatch) -> None:
    right = build.full_queues
    patch.setattr(build, "full_queues", lambda *given: (right(*given)[0], []))


def _no_recount(patch: pytest.MonkeyPatch) -> None:
    right = depth.Limit.without
    patch.setattr(depth.Limit, "without", lambda limit, gone: right(limit, np.zeros_like(gone)))


def _units_without_launches(patch: pytest.MonkeyPatch) -> None:
    right = edits.Editor._remove_on

    def wrong(editor: edits.Editor, *given: Any) -> Edit:
        editor.rank.host.direct = np.full_like(editor.rank.host.direct, -1)
        return right(editor, *given)

    patch.setattr(edits.Editor, "_remove_on", wrong)


def _before_the_wrapper(editor: edits.Editor, track: int, start: np.ndarray) -> np.ndarray:
    table = editor.rank.profile.table("ops")
    ends = np.sort(table["end_ns"][~np.array([str(name).startswith("Opt") for name in table.strings("name")])])
    return ends[np.searchsorted(ends, start, side="left") - 1]


def _any_group(profiles: Any, tasks: Any) -> list[list[tuple[int, int]]]:
    """By order over all groups."""
    rows = [np.flatnonzero(own.kind == device_tasks.COMM) for own in tasks]
    rows = [mine[np.argsort(own.start[mine])].tolist() for mine, own in zip(rows, tasks, strict=True)]
    return [list(enumerate(same)) for same in zip(*rows, strict=True)]


def _longest(tasks: Sequence[device_tasks.Tasks], group: list[tuple[int, int]]) -> int:
    return max(int(tasks[rank].end[task] - tasks[rank].start[task]) for rank, task in group)


# What is broken, and the scenario that notices.
MUTANTS: dict[str, tuple[str, Break]] = {
    "syncs are rigid": ("a kernel that the host waits for", put(waits, "sync_waits", _rigid_syncs)),
    "threads are not joined": ("Python of the backward thread", _unjoined),
    "latency is the median of all": (
        "a kernel while the queue gets shorter",
        put(device, "launch_latency", _median_latency),
    ),
    "no inferred waits": ("a copy that nothing names as the cause", put(waits, "inferred_waits", lambda *_: None)),
    "no waits that did not bind": (
        "Python before a collective",
        put(waits, "domain_waits", lambda *_: NONE),
    ),
    "usual waits beside explicit ones": ("Python before a collective with events", put(waits, "EVENT_WAIT", 99)),
    "the start of a wait is a measurement": ("a copy that an event tells of", _rigid_wait_starts),
    "launch latency of waits": ("a copy that an event tells of", _latency_of_waits),
    "the nearest record": ("work before a wait for one of two records", put(build, "event_waits", _nearest_record)),
    "rows one after the other": ("a kernel beside another", _serial_rows),
    "no full stream": ("kernels on a full stream", put(build, "full_queues", lambda *_: ([], []))),
    "no full stream behind the launch": (
        "kernels on a full stream, launches noted early",
        put(build, "full_queues", lambda *_: ([], [])),
    ),
    "no full queue": ("entries of a full queue", put(build, "full_queues", lambda *_: ([], []))),
    "stretched launches are rigid": ("kernels on a full stream", _stretched_stay),
    "stretched Enqueues are rigid": ("entries of a full queue", _stretched_stay),
    "removed entries hold their place": ("small kernels on a full stream", _no_recount),
    "direct calls do not wait for the queue": (
        "an entry before a direct call",
        put(build, "_direct_calls", lambda *_: []),
    ),
    "the wait of a direct call stays when it goes": (
        "a direct call",
        put(edits.Editor, "_not_drained", lambda *_: Edit()),
    ),
    "a blocking copy is no sync": ("a blocking copy", put(syncs, "BLOCKING_COPY", "-")),
    "only item waits at Level0": ("a sync without CANN calls", put(syncs, "SILENT", 10**12)),
    "collectives by order over all groups": ("a slow rank, several groups", put(collectives, "matched", _any_group)),
    "sends are left apart": ("a stage of a pipeline", put(collectives, "_sent", lambda *_: [])),
    "the longest transit": (
        "a slow link",
        put(
            collectives,
            "_transit",
            lambda tasks, group: max(int(tasks[r].end[t] - tasks[r].start[t]) for r, t in group),
        ),
    ),
    "clocks of ranks agree": (
        "a slow rank, clocks apart",
        put(collectives, "_offsets", lambda tasks, group: [0] * len(group)),
    ),
    "launches without a queue belong to nobody": ("an op that launches by itself", _units_without_launches),
    "the Python of a wrapper belongs to the op behind": (
        "an op behind the end of a wrapper",
        put(edits.Editor, "before", _before_the_wrapper),
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_cure_saves_what_the_run_would_have_taken_less(name: str) -> None:
    assert SCENARIOS[name].told() == pytest.approx(SCENARIOS[name].truth, abs=TOLERANCE)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_recording_is_given_back(name: str) -> None:
    made = SCENARIOS[name].replayer()
    assert made.error == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("ahead", [-50, 50])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_device_clock_that_is_off_changes_nothing(name: str, ahead: float) -> None:
    case = SCENARIOS[name]
    made = Replayer([device_ahead(run, ahead).profile() for run in case.runs(False)])
    assert made.price(case.edit(made)) / 1000.0 == pytest.approx(case.truth, abs=2 * TOLERANCE)


def test_sub_tasks_one_after_the_other_do_not_even_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    _serial_sub_tasks(monkeypatch)
    made = SCENARIOS["a collective with sub-tasks"].replayer()
    assert made.error > 0.1


def test_sends_joined_with_sends_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "_DIRECTIONS", ("-", "-"))
    with pytest.raises(CycleError):
        SCENARIOS["a stage of a pipeline"].replayer()


def test_a_collective_lies_on_the_stream_whose_wait_is_issued_before_it() -> None:
    own = SCENARIOS["collectives without sub-tasks"].replayer().graph.ranks[0].tasks
    assert own.lane[own.kind == COMM].tolist() == own.lane[own.kind == EVENT_WAIT][-4:].tolist()


@pytest.mark.parametrize("rule", ["syncs are rigid", "threads are not joined"])
def test_what_only_an_anchor_holds_raises_the_flag(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both broken models give the recording back to the nanosecond."""
    name, break_it = MUTANTS[rule]
    assert SCENARIOS[name].replayer().anchored_share <= savings.RANGE_ANCHORED
    break_it(monkeypatch)
    broken = SCENARIOS[name].replayer()
    assert broken.error < 0.001
    assert broken.anchored_share > savings.RANGE_ANCHORED


@pytest.mark.parametrize("rule", MUTANTS)
def test_without_the_rule_it_comes_out_wrong(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, break_it = MUTANTS[rule]
    truth = SCENARIOS[name].truth
    break_it(monkeypatch)
    assert SCENARIOS[name].told() != pytest.approx(truth, abs=max(2 * TOLERANCE, 0.05 * abs(truth)))
