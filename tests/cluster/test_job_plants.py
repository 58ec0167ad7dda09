"""What is planted in a generated job is named, at its place, and at what it costs; an even job is left in peace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import job_of
from synthetic import HARDER, Settings

from npu_advisor.base.terms import Severity
from npu_advisor.cluster.rank import Options
from npu_advisor.cluster.run import judged
from npu_advisor.findings import Finding

Generated = Callable[[Settings], Path]
PIPELINE = {"steps": 2, "layers": 2, "ranks": 4}
EXPERTS = {"steps": 2, "layers": 3, "ranks": 4, "experts": True}


def _findings(folder: Path) -> list[Finding]:
    return judged(job_of(folder), Options(""))[0]


def _planted(kind: str, settings: Settings, generated: Generated) -> tuple[list[Finding], float]:
    """The findings on the job and the true saving of the plant (us a step)."""
    folder = generated(settings)
    truth = json.loads((folder / "truth.json").read_text())["plants"][kind]
    return _findings(folder), truth["saving_us_per_step"]


def _saves(finding: Finding) -> float:
    assert finding.saving is not None
    return finding.saving.us_per_step


@pytest.mark.parametrize(
    ("stages", "heavy", "factor", "seed"), [(2, 1, 1.4, 7), (4, 2, 1.5, 7), (4, 0, 1.3, 19), (2, 0, 1.2, 3)]
)
def test_the_heavy_stage_of_a_pipeline_is_named(
    stages: int, heavy: int, factor: float, seed: int, generated: Generated
) -> None:
    plant = [f"uneven_stages:stage={heavy},factor={factor}"]
    (found,), truth = _planted("uneven_stages", Settings(**PIPELINE, stages=stages, seed=seed, plant=plant), generated)
    assert (found.rule_id, found.values["stage"]) == ("job-pipeline-bubble", heavy)
    assert found.values["stages"] == stages
    assert _saves(found) == pytest.approx(truth, rel=0.1)
    assert found.values["then_us"] == pytest.approx(found.values["job_us"] - _saves(found))


@pytest.mark.parametrize(("busy", "factor", "seed"), [(1, 1.6, 7), (3, 1.6, 19), (0, 1.4, 3)])
def test_the_rank_with_the_busiest_experts_is_named(busy: int, factor: float, seed: int, generated: Generated) -> None:
    plant = [f"uneven_experts:rank={busy},factor={factor}"]
    (found,), truth = _planted("uneven_experts", Settings(**EXPERTS, seed=seed, plant=plant), generated)
    assert (found.rule_id, found.rank) == ("job-expert-load", busy)
    assert found.values["more_rows"] == pytest.approx(factor - 1, rel=0.02)
    assert _saves(found) == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize(("slow", "factor", "seed"), [(5, 2.0, 7), (0, 3.0, 19), (2, 1.6, 3)])
def test_the_rank_behind_a_slow_link_is_named(slow: int, factor: float, seed: int, generated: Generated) -> None:
    plant = [f"slow_link:rank={slow},factor={factor}"]
    settings = Settings(steps=2, layers=3, ranks=8, seed=seed, plant=plant)
    (found,), truth = _planted("slow_link", settings, generated)
    assert (found.rule_id, found.rank) == ("job-slow-link", slow)
    assert _saves(found) == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize(("slow", "factor", "seed"), [(1, 1.3, 7), (0, 1.2, 19)])
def test_a_machine_of_which_all_ranks_are_slow_is_named(
    slow: int, factor: float, seed: int, generated: Generated
) -> None:
    plant = [f"slow_node:node={slow},factor={factor}"]
    settings = Settings(steps=2, layers=3, ranks=6, node_size=2, seed=seed, plant=plant)
    (found,), truth = _planted("slow_node", settings, generated)
    assert (found.rule_id, found.values["node"]) == ("job-slow-node", f"node{slow}")
    assert _saves(found) == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize(
    "settings",
    [
        *(Settings(steps=2, layers=3, ranks=8, seed=seed) for seed in (3, 19, 41)),
        Settings(steps=2, ranks=8, **HARDER),
        Settings(steps=2, layers=3, ranks=6, node_size=2, seed=19),
        Settings(steps=2, layers=3, ranks=8, noise_us=3.0, clock_us=40.0, seed=5),
        *(Settings(**PIPELINE, stages=stages, seed=19) for stages in (2, 4)),
        *(Settings(**EXPERTS, seed=seed) for seed in (7, 19)),
    ],
    ids=str,
)
def test_an_even_job_is_left_in_peace(settings: Settings, generated: Generated) -> None:
    found, outcomes = judged(job_of(generated(settings)), Options(""))
    assert {outcome.outcome for outcome in outcomes} <= {"clean", "fired"}
    assert [one.rule_id for one in found if one.severity.order <= Severity.MEDIUM.order] == []
