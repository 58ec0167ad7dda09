from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from places import DEMO

from npu_advisor import analyze
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


def test_of_two_the_later_one_is_believed() -> None:
    columns = {"kernels": {"start_ns": np.array([5, NOW])}}
    lose_strays(columns, Notes())
    assert columns["kernels"]["start_ns"].tolist() == [-1, NOW]


def test_nothing_is_told_of_sound_or_wholly_lost_times() -> None:
    notes = Notes()
    columns = {"kernels": {"start_ns": np.array([-1, -1])}, "ops": {"start_ns": np.array([], np.int64)}}
    lose_strays(columns, notes)
    lose_strays({"ops": {"start_ns": np.array([3, 4, 5])}}, notes)
    lose_strays({}, notes)
    assert notes == []


def test_one_wild_time_does_not_stretch_the_step(tmp_path: Path) -> None:
    """A flipped digit in the year of one kernel: it still counts, the step lasts as long as before."""
    for folder in DEMO.glob("*_ascend_pt"):
        shutil.copytree(folder, tmp_path / folder.name)
    before = analyze(tmp_path)
    path = next(tmp_path.rglob("kernel_details.csv"))
    header, first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    column = header.split(",").index("Start Time(us)")
    cells = first.split(",")
    cells[column] = cells[column].replace("17", "27", 1)
    path.write_text("".join([header, ",".join(cells), *rest]), encoding="utf-8")
    after = analyze(tmp_path)
    assert [remark.code for remark in after.diagnostics].count("bad_timestamp") == 1
    assert after.facts[0].kernels == before.facts[0].kernels
    assert after.facts[0].kernel_time_us == before.facts[0].kernel_time_us
    assert sum(step.duration_us for step in after.steps) <= sum(step.duration_us for step in before.steps)
