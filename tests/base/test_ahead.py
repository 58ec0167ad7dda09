from __future__ import annotations

import subprocess
import sys
from threading import Event, get_ident

import pytest

from npu_advisor.base.ahead import Ahead, processes

INTERRUPTED = """
import time
from npu_advisor.base.ahead import Ahead

Ahead(lambda: time.sleep(600))
raise KeyboardInterrupt
"""


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", "2")


@pytest.mark.usefixtures("several")
def test_work_begins_before_it_is_asked_for() -> None:
    begun = Event()
    ahead = Ahead(lambda: (begun.set(), get_ident())[1])
    assert begun.wait(60)
    assert ahead.result != get_ident()
    assert ahead.result == ahead.result


def test_on_one_core_it_is_done_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", "1")
    done: list[int] = []
    ahead = Ahead(lambda: done.append(get_ident()))
    assert done == []
    assert ahead.result is ahead.result
    assert done == [get_ident()]


@pytest.mark.parametrize("cores", ["1", "2"])
def test_what_goes_wrong_is_told_where_the_result_is_asked_for(cores: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", cores)
    ahead = Ahead(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            _ = ahead.result


@pytest.mark.usefixtures("several")
def test_a_program_that_is_interrupted_does_not_wait_for_it() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=60, check=False)
    assert ended.stderr.endswith(b"KeyboardInterrupt\n")


def test_as_many_cores_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", "3")
    assert processes() == 3
    monkeypatch.delenv("NPU_ADVISOR_PROCESSES")
    assert processes() >= 1
