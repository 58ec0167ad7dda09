"""Savings of recordings without step marks are per iteration of the loop that they show."""

from __future__ import annotations

from pathlib import Path

import pytest
from rulekit import make_rule

from npu_advisor.api import finish
from npu_advisor.engine.pricing import price
from npu_advisor.engine.run import run_rule
from npu_advisor.engine.testing import given_profile
from npu_advisor.findings import Saving
from npu_advisor.model.profile import Profile

FIX = """
emit:
  fix: {fix}
  message: {{en: Found it., zh: 已发现。}}
"""


def loop(number: int = -1) -> Profile:
    """Two iterations of 300 us in a window of 700 us, 100 us of each idle."""
    kernels = [{"name": "a", "type": "PagedAttention", "start_us": at, "dur_us": 200} for at in (200, 500)]
    iterations = [
        {"start_us": at, "dur_us": 300, "how": "graphs", "kind": "graph", "phase": "decode", "gap_us": 100}
        for at in (100, 400)
    ]
    steps = [{"number": number, "dur_us": 700}]
    return given_profile({"steps": steps, "kernels": kernels, "iterations": iterations}, finish)


def saving_of(folder: Path, profile: Profile, find: str, fix: str) -> Saving:
    result = run_rule(make_rule(folder, find, emit=FIX.format(fix=fix)), profile)
    (finding,) = price([(profile, [result])], {}).findings
    assert finding.saving is not None
    return finding.saving


KERNELS = "- from: kernels\n- group: {by: []}"


def test_the_window_is_shared_out_over_its_iterations(tmp_path: Path) -> None:
    saving = saving_of(tmp_path, loop(), KERNELS, "{remove: kernels}")
    assert (saving.us_per_step, saving.per) == (200, "iteration")
    assert saving.share == pytest.approx(400 / 700)
    assert saving.assumes is not None
    assert saving.assumes.en.endswith("per iteration: the mean over 2 iterations, told from graph replays")


def test_a_marked_step_stays_a_step(tmp_path: Path) -> None:
    saving = saving_of(tmp_path, loop(number=3), KERNELS, "{remove: kernels}")
    assert (saving.us_per_step, saving.per) == (400, "step")
    assert saving.assumes is not None
    assert "iteration" not in saving.assumes.en


def test_a_shorter_iteration_gives_back_idle_time_only(tmp_path: Path) -> None:
    """60 us less each; 250 us less would take kernels away, and no more than their idle 100 us can go."""
    find = "- from: iterations\n- group: {by: []}"
    assert saving_of(tmp_path, loop(), find, "{cap: iterations, us: dur_us - 60}").us_per_step == pytest.approx(60)
    assert saving_of(tmp_path, loop(), find, "{cap: iterations, us: dur_us - 250}").us_per_step == pytest.approx(100)


@pytest.mark.parametrize(
    ("work", "kernel", "outcome"),
    [
        ("inference", "PagedAttention", "fired"),
        ("inference", "ReluGrad", "skipped"),
        ("inference", "Add", "skipped"),
        ("training", "PagedAttention", "skipped"),
        ("training", "ReluGrad", "fired"),
        ("training", "Add", "fired"),
    ],
)
def test_a_rule_says_which_work_it_is_about(tmp_path: Path, work: str, kernel: str, outcome: str) -> None:
    """Where neither can be told, rules about training run and those about decode loops have nothing to look at."""
    emit = f"applies: {{work: {work}}}\n{FIX.format(fix='{remove: kernels}')}"
    profile = given_profile({"kernels": [{"name": "a", "type": kernel, "dur_us": 5}]}, finish)
    assert run_rule(make_rule(tmp_path, "- from: kernels", emit=emit), profile).outcome == outcome
