from __future__ import annotations

import numpy as np

from npu_advisor.readers.notes import Notes
from npu_advisor.readers.numbers import DAY_NS
from npu_advisor.readers.timeline import lose_strays

NOW = 1_736_408_883_000_000_000


def test_a_time_of_another_year_is_lost_and_told() -> None:
    notes = Notes()
    columns = {
        "kernels": {"start_ns": np.array([-1, 5, NOW, NOW + 10, NOW + 2 * DAY_NS])},
        "ops": {"start_ns": np.array([NOW, NOW + DAY_NS, NOW - DAY_NS])},
        "memory": {"start_ns": np.array([7])},
    }
    lose_strays(columns, notes)
    assert columns["kernels"]["start_ns"].tolist() == [-1, -1, NOW, NOW + 10, -1]
    assert columns["ops"]["start_ns"].tolist() == [NOW, NOW + DAY_NS, NOW - DAY_NS]
    assert columns["memory"]["start_ns"].tolist() == [7]
    assert [note.code for note in notes] == ["bad_timestamp"]
    assert "kernels: 2" in notes[0].message.en
    assert "ops" not in notes[0].message.en


def test_nothing_is_told_of_sound_or_wholly_lost_times() -> None:
    notes = Notes()
    columns = {"kernels": {"start_ns": np.array([-1, -1])}, "ops": {"start_ns": np.array([], np.int64)}}
    lose_strays(columns, notes)
    lose_strays({"ops": {"start_ns": np.array([3, 4, 5])}}, notes)
    lose_strays({}, notes)
    assert notes == []
