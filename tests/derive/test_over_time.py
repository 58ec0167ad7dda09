"""Memory over time, steps that resemble each other, transfers and pipeline waits."""

from __future__ import annotations

import math

import pytest
from places import PROFILES, needs_profiles
from rulekit import profile_of

from npu_advisor import load_profile
from npu_advisor.api import finish
from npu_advisor.derive import introduce
from npu_advisor.derive.pipeline import ideal_share
from npu_advisor.model.profile import Profile
from npu_advisor.model.schema import STEPS


def finished(**tables: list[dict[str, object]]) -> Profile:
    return finish(profile_of(**tables))


def samples(*rows: tuple[float, float, float], component: str = "PTA") -> list[dict[str, object]]:
    names = ("start_us", "allocated_bytes", "reserved_bytes")
    return [{"component": component, **dict(zip(names, row, strict=True))} for row in rows]


def test_of_several_samples_with_the_largest_pool_the_fullest_speaks_for_it() -> None:
    memory = [*samples((0, 10, 100), (5, 60, 100), (9, 20, 90)), *samples((1, 1, 999), component="APP")]
    table = finished(steps=[{"dur_us": 10}], memory=memory).table("fragmentation")
    assert table["most_reserved"].tolist() == [False, True, False]
    assert table["unused_bytes"].tolist() == [90, 40, 70]
    assert table["dur_us"].tolist() == [5, 4, 0]


def test_what_a_step_leaves_behind() -> None:
    steps = [{"number": number, "dur_us": 10, "complete": True} for number in (3, 4, 5)]
    memory = samples((0, 100, 0), (5, 400, 0), (9, 150, 0), (15, 500, 0), (19, 200, 0))
    work = [{"type": "Mul", "start_us": 10 * row + 2, "dur_us": 5, "step": row} for row in range(3)]
    profile = finished(steps=steps, memory=memory, kernels=work)
    table = profile.table("step_memory")
    # The third step has no sample of its own.
    assert table["step"].tolist() == [0, 1]
    assert table["growth_bytes"].tolist() == [50, 50]
    assert profile.table("profile")["memory_growth_bytes"].tolist() == [50]


def test_what_one_step_leaves_behind_takes_another_step_to_tell() -> None:
    profile = finished(steps=[{"number": 3, "dur_us": 10, "complete": True}], memory=samples((0, 100, 0), (5, 400, 0)))
    introduce([profile])
    lack = profile.missing("profile", "memory_growth_bytes")
    assert lack is not None and lack.enable == STEPS


def kernels(*steps: str) -> list[dict[str, object]]:
    shaped = {"input_shapes": "8", "input_dtypes": "FLOAT"}
    return [{"type": kind, "step": row, "dur_us": 1, **shaped} for row, kinds in enumerate(steps) for kind in kinds]


def test_steps_are_compared_place_by_place() -> None:
    steps = [{"number": number, "dur_us": 10} for number in range(4)]
    table = finished(steps=steps, kernels=kernels("ABC", "ABC", "ABCD", "XBCD")).table("sequences")
    assert table["kernels"].tolist() == [3, 3, 4, 4]
    assert math.isnan(table["alike"][0])
    assert table["alike"].tolist()[1:] == [1.0, 0.75, 0.75]


def test_one_step_alone_cannot_tell_whether_steps_are_alike() -> None:
    profile = finished(steps=[{"number": 1, "dur_us": 10}], kernels=kernels("ABC"))
    missing = profile.missing("sequences", "alike")
    assert missing is not None
    assert "active=2" in missing.enable


def transfer(start: float, dur: float, size: float, **more: object) -> dict[str, object]:
    base = {"name": "Memcpy", "transport": "SDMA", "link": "HCCS", "comm": 0}
    return {**base, "start_us": start, "dur_us": dur, "bytes": size, **more}


def test_only_what_leaves_the_card_is_a_transfer_and_uneven_ones_are_compared_with_even_ones() -> None:
    tasks = [
        transfer(0, 10, 51200),
        transfer(20, 15, 51201),
        transfer(40, 9, 51200, link="ON_CHIP"),
        transfer(50, 9, 0),
        transfer(60, 30, 51201, link="PCIE"),
    ]
    comms = [{"name": "hcom_allReduce__1", "type": "allReduce", "start_us": 0, "dur_us": 100}]
    work = [{"type": "Mul", "start_us": 5, "dur_us": 20}]
    profile = finished(steps=[{"dur_us": 200}], kernels=work, comms=comms, comm_tasks=tasks)
    table = profile.table("transfers")
    assert table["bytes"].tolist() == [51200, 51201, 51201]
    assert table["gbs"][0] == pytest.approx(5.12)
    assert table["beside_us"].tolist() == [5, 5, 0]
    assert table["excess_us"][:2] == pytest.approx([0, 5], abs=0.01)
    assert math.isnan(table["excess_us"][2])  # no even one over that link
    split = profile.table("comm_split")
    assert (split["exposed_us"][0], split["hidden_us"][0], split["late_us"][0]) == (80, 20, 0)
    assert (split["largest_bytes"][0], split["transfers"][0]) == (51201, 3)


PLAIN = {"pipeline_model_parallel_size": 4, "global_batch_size": 16, "micro_batch_size": 2, "data_parallel_size": 1}
CHUNKS = {"virtual_pipeline_model_parallel_size": 2, "pipeline_parallel_size": "2", "global_batch_size": 8}
CHUNKS |= {"micro_batch_size": 1, "data_parallel_size": 2}


def test_a_card_alone_has_no_transfers_and_one_whose_transfers_were_not_recorded_says_so() -> None:
    work = [{"type": "Mul", "start_us": 5, "dur_us": 20}]
    alone = finished(steps=[{"dur_us": 200}], kernels=work)
    assert alone.missing("transfers", "excess_us") is None
    assert alone.missing("comm_split", "largest_bytes") is None
    assert len(alone.table("comm_split")) == len(alone.table("transfers")) == 0
    comms = [{"name": "hcom_allReduce__1", "type": "allReduce", "start_us": 0, "dur_us": 100}]
    bare = finished(steps=[{"dur_us": 200}], kernels=work, comms=comms)
    assert len(bare.table("comm_split")) == 1
    for table, column in (("transfers", "bytes"), ("comm_split", "largest_bytes"), ("comm_split", "bytes")):
        missing = bare.missing(table, column)
        assert missing is not None
        assert missing.enable == "profiler_level=Level1"


@pytest.mark.parametrize(("told", "share"), [(PLAIN, 3 / 11), (CHUNKS, 1 / 9)])
def test_an_even_pipeline(told: dict[str, object], share: float) -> None:
    assert ideal_share({"distributed_args": told}) == pytest.approx(share)


@pytest.mark.parametrize("metadata", [{}, {"distributed_args": 3}, {"distributed_args": {"global_batch_size": 8}}])
def test_an_even_pipeline_that_nobody_described(metadata: dict[str, object]) -> None:
    assert math.isnan(ideal_share(metadata))


def test_pipeline_waits_are_told_step_by_step() -> None:
    steps = [{"number": 1, "dur_us": 100}, {"number": 2, "dur_us": 100}]
    comms = [
        {"name": "hcom_receive__1", "type": "receive", "start_us": 10, "dur_us": 30, "step": 0},
        {"name": "hcom_batchSendRecv__2", "type": "batchSendRecv", "start_us": 50, "dur_us": 20, "step": 0},
        {"name": "hcom_allReduce__3", "type": "allReduce", "start_us": 120, "dur_us": 50, "step": 1},
        {"name": "hcom_send__4", "type": "send", "start_us": 180, "dur_us": 5, "step": 1},
    ]
    work = [{"type": "Mul", "start_us": 0, "dur_us": 15, "step": 0}]
    table = finished(steps=steps, kernels=work, comms=comms).table("bubbles")
    assert table["wait_us"].tolist() == [45, 5]
    assert table["share"].tolist() == [0.45, 0.05]
    assert table["comm"].tolist() == [0, 3]


@needs_profiles
def test_alexnet_waits_far_longer_in_its_collectives_than_it_moves_data() -> None:
    split = load_profile(PROFILES / "npu-alexnet-text-l1").table("comm_split")
    assert len(split) == 4
    assert split["late_us"].sum() == pytest.approx(97_947, rel=0.01)
    assert split["transit_us"].sum() == pytest.approx(3_683, rel=0.01)
    assert split["transfers"].tolist() == [14] * 4
