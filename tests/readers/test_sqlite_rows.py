"""Order, lanes and look-ups that the tables of a database share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.readers import sqlite_rows
from npu_advisor.readers.sqlite_rows import Lanes, alike, instant, span

RUNS = st.lists(st.lists(st.integers(-1, 3), min_size=1, max_size=4))


def numbered(runs: list[list[int]]) -> tuple[list[int], list[int]]:
    starts = np.cumsum([0, *map(len, runs)])[:-1]
    numbers, firsts = alike(np.array([value for run in runs for value in run], np.int32), starts)
    return numbers.tolist(), firsts.tolist()


@pytest.mark.parametrize("odd", [1, sqlite_rows._ODD])
@given(runs=RUNS)
def test_equal_runs_have_one_number(odd: int, runs: list[list[int]]) -> None:
    # Powers of one tell no order: then the sums of different runs are equal, too.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_rows, "_ODD", odd)
        numbers, firsts = numbered(runs)
    met = list(dict.fromkeys(map(tuple, runs)))
    assert numbers == [met.index(tuple(run)) for run in runs]
    assert firsts == [list(map(tuple, runs)).index(run) for run in met]


def test_runs_of_one_sum_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_rows, "_ODD", 1)
    assert numbered([[1, 2], [2, 1], [3], [1, 2], [2, 1]]) == ([0, 1, 2, 0, 1], [0, 1, 2])


def test_times_of_few_bytes_do_not_run_over() -> None:
    start, duration, bad = span(np.array([1, 100], np.int8), np.array([127, 90], np.int8))
    assert start.tolist() == [1, 100] and duration.tolist() == [126, 0] and bad.tolist() == [False, True]
    assert instant(np.array([127, -1], np.int8)).dtype == np.int64


def test_threads_of_few_bytes_are_threads() -> None:
    lanes = Lanes()
    columns = lanes.of_threads("Python", np.array([7, -1, 7], np.int8))
    assert columns["tid"].tolist() == [7, -1, 7] and columns["pid"].tolist() == [0, -1, 0]
    assert lanes.table()["thread"].tolist() == ["Thread 7", "Thread -1"]
