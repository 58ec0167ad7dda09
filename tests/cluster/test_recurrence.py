"""The model of a job on figures that can be checked by hand, and against jobs whose true saving is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jobs import job_of
from synthetic import Settings

from npu_advisor.cluster.matching import clock_offsets, matched, numbered
from npu_advisor.cluster.recurrence import Sequences, finish_times, waves
from npu_advisor.derive.ranks import ordinals
from npu_advisor.model.table import Table

Generated = Callable[[Settings], Path]


def _sequences(**changes: object) -> Sequences:
    """Two ranks and two collectives, which move data for 2 and 3 us; rank 1 works 30 us before the first one where
    rank 0 works 10. Rows come by rank here."""
    plain = {
        "rank": np.array([0, 0, 1, 1], dtype=np.int32),
        "instance": np.array([0, 1, 0, 1], dtype=np.int32),
        "lead": np.array([10.0, 5.0, 30.0, 5.0]),
        "lead_busy": np.array([8.0, 5.0, 20.0, 5.0]),
        "advance": np.array([10.0, 5.0, 30.0, 5.0]),
        "advance_busy": np.array([8.0, 5.0, 20.0, 5.0]),
        "blocks": np.ones(4, dtype=bool),
        "serial": np.array([False, True, False, True]),
        **changes,
    }
    order, waves_end = waves(plain["rank"], plain["instance"], 2)  # type: ignore[arg-type]
    return Sequences(
        waves_end=waves_end,
        transit=np.array([2.0, 3.0]),
        offset=np.zeros(2),
        tail=np.array([1.0, 1.0]),
        tail_busy=np.zeros(2),
        **{name: column[order] for name, column in plain.items()},  # type: ignore[index]
    )


def test_the_last_to_arrive_holds_the_others() -> None:
    """30 + 2, then 5 + 3, then 1: both ranks end at 41."""
    assert finish_times(_sequences()).tolist() == [41.0, 41.0]


def test_an_edit_scales_kernels_or_idle_time_of_one_rank() -> None:
    """Rank 1 with half its kernels: 20 + 2, then 5 + 3 (rank 0 still works 5), then 1. Without idle time: 20 as well,
    and nothing at the end."""
    sequences = _sequences()
    assert finish_times(sequences, kernels=np.array([1.0, 0.5])).tolist() == [31.0, 31.0]
    assert finish_times(sequences, idle=np.array([1.0, 0.0])).tolist() == [31.0, 30.0]


def test_what_computes_meanwhile_is_not_held_up() -> None:
    """Where kernels cover the collectives (they block nothing), rank 0 goes its own way: 10 + 5 + 1."""
    assert finish_times(_sequences(blocks=np.array([False, False, True, True]))).tolist() == [16.0, 41.0]


def test_a_collective_moves_data_for_its_own_time_whichever_its_rows_are() -> None:
    """Rank 0 is in three collectives, rank 1 in the last of them only: 10 + 2, 5 + 4, 5 + 8, then 1."""
    sequences = _sequences(
        rank=np.array([0, 0, 0, 1], dtype=np.int32),
        instance=np.array([0, 1, 2, 2], dtype=np.int32),
        lead=np.array([10.0, 5.0, 5.0, 5.0]),
        lead_busy=np.zeros(4),
        advance=np.array([10.0, 5.0, 5.0, 5.0]),
        advance_busy=np.zeros(4),
        serial=np.array([False, True, True, False]),
    )
    assert finish_times(replace(sequences, transit=np.array([2.0, 4.0, 8.0]))).tolist() == [35.0, 35.0]


def test_ranks_that_disagree_on_the_order_do_not_hang_the_model() -> None:
    sequences = _sequences(instance=np.array([0, 1, 1, 0], dtype=np.int32))
    order, waves_end = waves(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), 2)
    assert sorted(order.tolist()) == [0, 1, 2, 3]
    assert waves_end[-1] == 4
    assert np.isfinite(finish_times(sequences)).all()


def test_ordinals_count_what_came_before() -> None:
    assert ordinals(np.array([0, 0, 0, 1, 0]), np.array([7, 8, 7, 7, 7])).tolist() == [0, 0, 1, 0, 2]


def test_waits_are_told_by_durations_and_sends_convict_nobody() -> None:
    """Three ranks in one collective of 10, 7 and 4 us: the last to arrive keeps the next one waiting for 3 us alone."""
    rows = {
        "rank": [0, 1, 2, 0, 1],
        "number": [1] * 5,
        "type": ["allReduce"] * 3 + ["send", "receive"],
        "group": ["g"] * 3 + ["p", "p"],
        "ordinal": [0] * 5,
        "dur_ns": [10_000, 7_000, 4_000, 9_000, 2_000],
    }
    comms = Table.build("rank_comms", rows)
    found = matched(comms)
    assert found.waits(comms).tolist() == [6.0, 3.0, 0.0, 0.0, 0.0]
    assert found.instance[3] == found.instance[4] != found.instance[0]
    assert found.last[found.instance[0]] == 2
    assert found.late[found.instance].tolist() == [3.0, 3.0, 3.0, 0.0, 0.0]


def test_of_a_part_of_the_ranks_none_is_convicted_that_waits_itself() -> None:
    """The first to end took 7 us, the other 12. It is convicted where it waited for less than the 5 us it cost."""
    rows = {
        "rank": [0, 1],
        "number": [1, 1],
        "type": ["allReduce"] * 2,
        "group": ["g"] * 2,
        "ordinal": [0, 0],
        "dur_ns": [12_000, 7_000],
    }
    for transit, late in ((3.0, 5.0), (1.0, 0.0), (np.nan, 0.0)):
        comms = Table.build("rank_comms", {**rows, "transit_us": [transit, transit]})
        assert matched(comms, partial=True).late.tolist() == [late]
        assert matched(comms).late.tolist() == [5.0]
        assert matched(comms).last.tolist() == [1]


def test_combinations_are_numbered_in_their_order_however_far_apart_their_values_are() -> None:
    steps, ordinals_ = np.array([7, 5, 7, 5]), np.array([1, 0, 1, 2])
    assert numbered(steps, ordinals_).tolist() == [2, 0, 2, 1]
    assert numbered(steps * 10**9, ordinals_ * 10**12).tolist() == [2, 0, 2, 1]
    assert numbered(np.arange(300), np.arange(300)).tolist() == list(range(300))


def test_clocks_are_told_apart_by_the_ends_of_collectives() -> None:
    """Rank 1 is 30 us ahead of rank 0, in the middle one of three collectives: 15 us from their mean."""
    rows = {
        "rank": [0, 0, 0, 1, 1, 1],
        "number": [1] * 6,
        "type": ["allReduce"] * 6,
        "group": ["g"] * 6,
        "ordinal": [0, 1, 2] * 2,
        "start_ns": [0, 200_000, 400_000, 20_000, 230_000, 440_000],
        "dur_ns": [10_000] * 6,
    }
    comms = Table.build("rank_comms", rows)
    assert clock_offsets(comms, matched(comms), comms["rank"], 2).tolist() == [-15.0, 15.0]


@pytest.mark.parametrize(
    ("slow", "factor", "more"),
    [(0, 1.3, {}), (5, 1.3, {}), (3, 1.6, {"seed": 19}), (1, 1.15, {"steps": 3}), (2, 1.4, {"device_scale": 1.6})],
)
def test_what_the_job_gains_is_the_truth_within_a_tenth(
    slow: int, factor: float, more: dict[str, float], generated: Generated
) -> None:
    settings = Settings(**{"steps": 2, "ranks": 8, **more}, plant=[f"slow_rank:rank={slow},factor={factor}"])  # type: ignore[arg-type]
    folder = generated(settings)
    truth = json.loads((folder / "truth.json").read_text())["plants"]["slow_rank"]["saving_us_per_step"]
    job = job_of(folder)
    assert job.table("job")["model_error"][0] < 0.02
    ranks = job.table("ranks")
    assert int(np.nanargmax(ranks["late_us"])) == slow
    assert ranks["gain_us"][slow] == pytest.approx(truth, rel=0.1)
    assert ranks["late_steps"][slow] == 1.0


@pytest.mark.parametrize("ranks", [2, 8])
def test_equal_ranks_have_nothing_to_gain(ranks: int, generated: Generated) -> None:
    job = job_of(generated(Settings(steps=2, ranks=ranks)))
    step_us = job.table("job")["step_us"][0]
    assert job.table("ranks")["late_share"].max() < 0.01
    assert np.nanmax(job.table("ranks")["gain_us"]) < 0.005 * step_us
