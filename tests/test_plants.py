"""Planted bottlenecks are found where they were planted, and where nothing was planted nothing is claimed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import precision
import pytest
from places import DEMO
from synthetic import DEMO as DEMO_SETTINGS
from synthetic import Settings

from npu_advisor import Finding, Report, load_rules
from npu_advisor.base.terms import Severity

RULES = {
    "dispatch": "dispatch-dequeue-gap",
    "native_optimizer": "optimizer-native",
    "top_kernel": "kernel-top-cost",
    "transdata": "layout-transdata",
    "mem_peak": "memory-peak",
    "aicpu": "aicpu-op",
    "dataloader": "data-loader",
    "item": "dispatch-sync-in-step",
    "unoverlapped_comm": "comm-not-overlapped",
}
# As a user runs it, then other seeds, one card alone, a fast and a slow device.
VARIANTS = {
    "default": Settings(steps=3),
    "seed": Settings(steps=2, seed=23),
    "alone": Settings(steps=2, world=1),
    "fast device": Settings(steps=2, device_scale=0.2),
    "slow device": Settings(steps=2, device_scale=0.7),
    "small": Settings(steps=2, layers=4, seed=5),
    "two ranks": Settings(steps=2, layers=4, ranks=2),
    "four ranks": Settings(steps=2, layers=4, ranks=4, seed=3),
}
# Rules that compare ranks have nothing to look at where only one was recorded.
NEEDS_RANKS = {"cluster-slow-rank", "cluster-light-stage", "comm-expert-imbalance"}
# A training run is nothing for these.
ABOUT_INFERENCE = {rule.id for rule in load_rules() if rule.applies and rule.applies.work == "inference"}
# The generator writes no pauses of the garbage collector, no clock, and nothing that tells the chip.
NOT_WRITTEN = {"dispatch-gc", "kernel-clock", "kernel-few-cores", "kernel-low-use"}
# A card alone has no links.
NEEDS_LINKS = {"cluster-slow-link"}

ReportOf = Callable[[Path], Report]
Generated = Callable[[Settings], Path]


def _places(folder: Path, plant: str) -> set[tuple[str, int]]:
    """Where the truth file says the plant is: (file name, line)."""
    where = json.loads((folder / "truth.json").read_text())["plants"][plant]["where"]
    return {(name, int(line)) for name, _, line in (place.partition(":") for place in where)}


def _place(finding: Finding) -> tuple[str, int] | None:
    location = finding.location
    return (Path(location.path).name, location.line) if location else None


def _told(report: Report) -> list[tuple[str, str, tuple[str, int] | None]]:
    return [(finding.rule_id, finding.severity.value, _place(finding)) for finding in report.findings]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("plant", RULES)
def test_a_plant_is_found_where_it_is(plant: str, variant: str, generated: Generated, report_of: ReportOf) -> None:
    if plant not in replace(VARIANTS[variant], plant=[plant]).plants():
        pytest.skip(f"{plant} cannot be planted with {VARIANTS[variant]}")
    folder = generated(replace(VARIANTS[variant], plant=[plant]))
    truth = json.loads((folder / "truth.json").read_text())
    assert truth["plants"][plant]["alone_us_per_step"] > 0
    report = report_of(folder)
    found = [_place(finding) for finding in report.findings if finding.rule_id == RULES[plant]]
    assert found, f"{RULES[plant]} is silent; told: {_told(report)}"
    assert found[0] in _places(folder, plant), _told(report)


def test_a_dispatch_delay_that_the_device_hides_is_no_grave_finding(generated: Generated, report_of: ReportOf) -> None:
    """On a device that is slow enough the host is ahead in time, so the same planted delay costs nothing."""
    folder = generated(Settings(steps=4, device_scale=1.6, plant=["dispatch:us=60"]))
    truth = json.loads((folder / "truth.json").read_text())
    assert truth["plants"]["dispatch"]["saving_share"] < 0.01
    grave = [entry for entry in _told(report_of(folder)) if Severity(entry[1]).order <= Severity.MEDIUM.order]
    assert RULES["dispatch"] not in {rule for rule, *_ in grave}


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_planted_nothing_claimed(variant: str, generated: Generated, report_of: ReportOf) -> None:
    report = report_of(generated(VARIANTS[variant]))
    grave = [entry for entry in _told(report) if Severity(entry[1]).order <= Severity.MEDIUM.order]
    assert grave == []
    idle = {outcome.id for outcome in report.rules if outcome.outcome not in ("clean", "fired")}
    idle -= ABOUT_INFERENCE | NOT_WRITTEN
    excused = set() if VARIANTS[variant].ranks > 1 else set(NEEDS_RANKS)
    if VARIANTS[variant].world == 1:
        excused |= NEEDS_LINKS | {"comm-gather-fragmented"}  # no message has a size
    assert idle - excused == set(), "a rule did not run at all"


@pytest.mark.parametrize(("ranks", "slow", "seed"), [(2, 1, 7), (4, 0, 7), (4, 2, 19)])
def test_a_slow_rank_is_named(ranks: int, slow: int, seed: int, generated: Generated, report_of: ReportOf) -> None:
    """The rank that computes longer, rank 0 included, and none of those that wait for it."""
    folder = generated(Settings(steps=2, ranks=ranks, seed=seed, plant=[f"slow_rank:rank={slow}"]))
    truth = json.loads((folder / "truth.json").read_text())["plants"]["slow_rank"]
    report = report_of(folder)
    (finding,) = [item for item in report.findings if item.rule_id == "cluster-slow-rank"]
    assert finding.rank == slow
    assert finding.saving is not None
    assert finding.saving.us_per_step == pytest.approx(truth["saving_us_per_step"], rel=0.1)
    grave = {rule for rule, severity, _ in _told(report) if Severity(severity).order <= Severity.MEDIUM.order}
    assert grave == {"cluster-slow-rank"}
    waits = [step.waiting_for_rank_us for step in report.steps if step.rank != slow]
    assert all(max(wait, key=lambda peer, us=wait: us[peer]) == str(slow) for wait in waits)


@pytest.mark.parametrize("kind", ["alone", "together"])
def test_what_is_told_is_true(kind: str, generated: Generated, report_of: ReportOf) -> None:
    """The first profiles of the benchmark ``precision.py``, with the judges it uses."""
    chosen = list(precision.profiles(kind, seed=101))[:: 5 if kind == "alone" else 7]
    wrong = {}
    for label, settings in chosen:
        folder = generated(settings)
        wrong[label] = precision.CHECKS[kind](report_of(folder), json.loads((folder / "truth.json").read_text()))
    assert {label: problems for label, problems in wrong.items() if problems} == {}
    assert len(chosen) == (len(precision.RULES) if kind == "alone" else 2)


def test_every_card_fires_on_the_demo(report_of: ReportOf) -> None:
    report = report_of(DEMO)
    told = _told(report)
    for plant, rule in ((plant, rule) for plant, rule in RULES.items() if plant in DEMO_SETTINGS.plants()):
        places = [place for rule_id, _, place in told if rule_id == rule]
        assert set(places) & _places(DEMO, plant), f"{rule}: {told}"
    # The two causes that cost most are told first among those with a time to win.
    assert report.worst() is Severity.HIGH


def test_the_demo_without_its_plants_is_clean(generated: Generated, report_of: ReportOf) -> None:
    told = _told(report_of(generated(replace(DEMO_SETTINGS, plant=[]))))
    assert [entry for entry in told if Severity(entry[1]).order <= Severity.MEDIUM.order] == []


@pytest.mark.parametrize("plant", RULES)
def test_what_a_finding_recorded_is_what_was_planted(plant: str, generated: Generated, report_of: ReportOf) -> None:
    """Kernel times and the memory peak are exact; waits are bounded by what the host was made to do."""
    folder = generated(replace(VARIANTS["default"], plant=[plant]))
    truth = json.loads((folder / "truth.json").read_text())["plants"][plant]
    (finding, *_) = [item for item in report_of(folder).findings if item.rule_id == RULES[plant]]
    if "kernel_time_us" in truth:
        assert finding.recorded_us == pytest.approx(truth["kernel_time_us"], abs=0.001 * truth["kernels"])
    elif plant == "mem_peak":
        (facts,) = report_of(folder).facts
        assert facts.peak_allocated_bytes == pytest.approx(truth["peak_mb"] * 2**20, abs=0.25 * 2**20)
    else:
        assert finding.recorded_us is not None
        assert finding.recorded_us >= 0.5 * truth["saving_us_per_step"]
