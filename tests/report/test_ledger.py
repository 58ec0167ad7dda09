from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.findings import Step
from npu_advisor.report.ledger import bar_cells, ledgers
from npu_advisor.report.theme import PIECES
from npu_advisor.report.verdict import step_range


def step(**changes: object) -> Step:
    fields = {
        "rank": 0,
        "step": 1,
        "duration_us": 100.0,
        "compute_us": 40.0,
        "communication_us": 30.0,
        "exposed_communication_us": 20.0,
        "free_us": 25.0,
        "prepare_us": 10.0,
        "after_last_kernel_us": 5.0,
    }
    return Step.model_validate(fields | changes)


def amounts(*steps: Step) -> dict[str, float]:
    return {piece.key: piece.us for piece in ledgers(steps)[0].pieces}


def test_without_owners_idle_time_is_named_by_place():
    expected = {"compute": 40.0, "communication": 20.0, "free": 25.0, "prepare": 10.0, "after_last": 5.0}
    assert amounts(step()) == expected


def test_owners_replace_the_places_and_what_they_miss_is_other():
    found = amounts(step(idle_owners={"dispatch": 20.0, "gc": 5.0, "new_owner": 4.0}))
    assert found["dispatch"] == 20.0 and found["gc"] == 5.0 and found["other"] == pytest.approx(10.0)
    assert sum(found.values()) == pytest.approx(100.0)


def test_waiting_is_a_part_of_exposed_communication():
    found = amounts(step(waiting_for_rank_us={"2": 3.0, "0": 12.0}))
    assert (found["waiting"], found["waiting_other"], found["communication"]) == (12.0, 3.0, 5.0)
    assert ledgers([step(waiting_for_rank_us={"2": 3.0, "0": 12.0})])[0].waiting_rank == "0"
    assert amounts(step(waiting_for_rank_us={"2": 50.0}))["waiting"] == 20.0


def test_time_nobody_owns_is_shown():
    assert amounts(step(free_us=5.0))["unaccounted"] == pytest.approx(20.0)


def test_mean_of_steps_and_longest_rank_first():
    found = ledgers(
        [step(), step(step=2, duration_us=300.0, free_us=225.0), step(rank=1, duration_us=220.0, free_us=145.0)]
    )
    assert [(ledger.rank, ledger.duration_us) for ledger in found] == [(1, 220.0), (0, 200.0)]
    assert found[1].steps == (1, 2)
    assert sum(piece.share for piece in found[1].pieces) == pytest.approx(1.0)


def test_a_step_without_length_has_no_ledger():
    assert ledgers([step(duration_us=0.0)]) == [] and ledgers([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(14, 120))
def test_bar_fills_its_width(shares, width):
    cells = bar_cells(shares, width)
    assert sum(cells) == (width if sum(shares) > 0 else 0)
    if sum(shares) > 0:
        assert all(cell > 0 for cell, share in zip(cells, shares, strict=True) if share >= 0.001)


def test_neighbours_in_the_bar_look_different():
    for marks in ([mark.glyph for mark in PIECES.values()], [mark.ascii for mark in PIECES.values()]):
        assert all(left != right for left, right in pairwise(marks))


@pytest.mark.parametrize(
    ("steps", "text"),
    [([7], "7"), ([3, 2, 1], "1-3"), ([1, 5], "1, 5"), ([1, 2, 3, 4, 9], "1-9"), ([None], ""), ([], "")],
)
def test_step_range(steps, text):
    assert step_range(steps) == text
