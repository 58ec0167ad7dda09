from __future__ import annotations

from pathlib import Path

import pytest
from rulekit import profile_of

from npu_advisor import analyze, load_profile
from npu_advisor.engine.lines import line_costs
from npu_advisor.engine.places import Roots

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"


def test_kernels_and_collectives_are_summed_by_line_and_step():
    profile = profile_of(
        steps=[{"dur_us": 100}, {"start_us": 100, "dur_us": 300}],
        kernels=[
            {"start_us": 1, "dur_us": 20, "step": 0, "source": "a.py:3"},
            {"start_us": 120, "dur_us": 40, "step": 1, "source": "a.py:3"},
            {"start_us": 200, "dur_us": 10, "step": 1, "source": "b.py:9"},
            {"start_us": 900, "dur_us": 99, "step": -1, "source": "b.py:9"},
            {"start_us": 210, "dur_us": 10, "step": 1},
        ],
        comms=[{"start_us": 300, "dur_us": 60, "step": 1, "source": "b.py:9"}],
    )
    first, second = line_costs([profile], Roots())
    assert (second.path, second.line, second.kernels) == ("a.py", 3, 1)
    assert (second.device_us_per_step, second.communication_us_per_step, second.share) == (30, 0, 0.15)
    assert (first.path, first.line, first.kernels) == ("b.py", 9, 0.5)
    assert (first.device_us_per_step, first.communication_us_per_step, first.share) == (5, 30, 0.025)


def test_of_two_ranks_the_one_where_the_line_takes_longer_is_shown():
    ranks = [
        profile_of(steps=[{"dur_us": 100}], kernels=[{"start_us": 1, "dur_us": us, "step": 0, "source": "a.py:3"}])
        for us in (5, 8)
    ]
    (cost,) = line_costs(ranks, Roots())
    assert cost.device_us_per_step == 8


def test_no_steps_no_lines():
    assert line_costs([profile_of(kernels=[{"dur_us": 5, "source": "a.py:3"}])], Roots()) == []


def test_the_lines_of_the_demo_hold_its_kernel_time_inside_the_steps():
    report = analyze(DEMO, source_root=[str(DEMO)])
    kernels = load_profile(DEMO).kernels
    inside = kernels[(kernels["step"] >= 0) & kernels["source"].notna()]
    total = sum(line.device_us_per_step for line in report.lines) * len(report.steps)
    assert total == pytest.approx(inside["dur_us"].sum())
    assert sum(line.kernels for line in report.lines) * len(report.steps) == pytest.approx(len(inside))
    top = report.lines[0]
    assert "masked_select" in (top.text or "")
    assert top.share == pytest.approx(top.device_us_per_step / (sum(step.duration_us for step in report.steps) / 2))
