"""Savings as the report tells them, against what leaving a planted cause out saves; and when they are withheld."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from places import DEMO, PROFILES, needs_profiles
from synthetic import Settings
from synthetic.simulation import simulate

from npu_advisor import Report, analyze, load_profile
from npu_advisor.api import load_profiles
from npu_advisor.base.terms import Basis
from npu_advisor.engine import savings
from npu_advisor.graph.replay import Edit, Replayer, host, waits
from npu_advisor.graph.replay.device import DeviceLanes
from npu_advisor.graph.replay.syncs import Syncs
from npu_advisor.report.options import Options
from npu_advisor.report.terminal import render_terminal

RULES = {
    "dispatch": "dispatch-dequeue-gap",
    "native_optimizer": "optimizer-native",
    "top_kernel": "kernel-top-cost",
    "transdata": "layout-transdata",
}
# Share of the true saving that a figure may be off; what the fused optimizer's kernels take, no trace can tell.
TOLERANCE = {"dispatch": 0.02, "native_optimizer": 0.15, "top_kernel": 0.01, "transdata": 0.01}
TWINS = {
    "one card": Settings(steps=2, world=1, seed=31, counters=False, plant=list(RULES), device_scale=0.3),
    "slow device": Settings(steps=2, seed=32, counters=False, plant=list(RULES), device_scale=0.9),
    "two ranks": Settings(steps=2, world=2, ranks=2, seed=33, counters=False, plant=list(RULES)),
}
ReportOf = Callable[[Path], Report]
Generated = Callable[[Settings], Path]


@pytest.mark.parametrize("twin", TWINS)
def test_a_saving_is_what_leaving_the_cause_out_saves(twin: str, generated: Generated, report_of: ReportOf) -> None:
    folder = generated(TWINS[twin])
    truth = json.loads((folder / "truth.json").read_text())
    report = report_of(folder)
    told: list[str] = []
    for plant, rule in RULES.items():
        true_us = truth["plants"][plant]["saving_us_per_step"]
        for finding in [found for found in report.findings if found.rule_id == rule][:1]:
            saving = finding.saving
            assert saving is not None
            assert saving.basis is Basis.REPLAYED
            assert saving.assumes is not None
            margin = 0.005 * truth["step_us"]
            assert saving.low_us_per_step - margin <= true_us <= saving.high_us_per_step + margin, plant
            off = abs(saving.us_per_step - true_us)
            assert off <= max(TOLERANCE[plant] * true_us, 0.002 * truth["step_us"]), (
                plant,
                saving.us_per_step,
                true_us,
            )
            told.append(plant)
    assert len(told) >= 3
    assert all(abs(step.error) < 1e-4 for step in report.replay)
    settings = TWINS[twin]
    left = {plant: value for plant, value in settings.plants().items() if plant not in told}
    cured = simulate(settings, left, settings.steps).makespan / settings.steps / 1000
    true_joint = truth["step_us_truth_run"] - cured
    assert report.saving.joint_us_per_step == pytest.approx(true_joint, rel=0.05)
    assert report.saving.basis is Basis.REPLAYED


def test_the_demo_ranks_its_causes_as_they_cost(report_of: ReportOf) -> None:
    truth = json.loads((DEMO / "truth.json").read_text())
    report = report_of(DEMO)
    told = {finding.rule_id: finding.saving.us_per_step for finding in report.findings if finding.saving}
    ranked = [RULES[plant] for plant in truth["ranked_by_saving"] if plant in RULES]
    assert sorted(ranked, key=lambda rule: -told[rule]) == ranked
    assert told["layout-transdata"] == pytest.approx(0.0, abs=10.0)


def test_what_all_fixes_save_is_no_more_than_the_step(generated: Generated, report_of: ReportOf) -> None:
    report = report_of(generated(TWINS["two ranks"]))
    step_us = max(step.duration_us for step in report.steps)
    assert 0 < report.saving.joint_us_per_step < step_us
    for finding in report.findings:
        if finding.saving:
            assert finding.saving.joint_us_per_step <= report.saving.joint_us_per_step + 1e-6


@needs_profiles
def test_without_links_a_figure_is_a_bound_and_says_why() -> None:
    report = analyze(PROFILES / "npu-csv-only-2023")
    assert report.replay == []
    bounds = [finding.saving for finding in report.findings if finding.saving]
    assert all(saving.basis is Basis.UPPER_BOUND for saving in bounds)
    for saving in bounds:
        assert saving.assumes is not None
        assert "not linked" in saving.assumes.en


@pytest.mark.parametrize(("limit", "reason"), [("MAX_ERROR", "re-timing"), ("MAX_ANCHORED", "silences")])
def test_a_replay_that_is_not_believed_is_withheld(
    limit: str, reason: str, generated: Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savings, limit, -1.0)
    report = analyze(generated(TWINS["one card"]))
    assert report.replay
    told = [finding.saving for finding in report.findings if finding.saving]
    assert told
    assert {saving.basis for saving in told} == {Basis.UPPER_BOUND}
    assert all(saving.assumes and reason in saving.assumes.en for saving in told)
    assert report.saving.basis is Basis.UPPER_BOUND


def test_a_replay_that_fails_half_way_leaves_no_figure_behind(
    generated: Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices, calls = Replayer.prices, []

    def failing(self: Replayer, sets: Sequence[Sequence[Edit]]) -> list[float]:
        calls.append(sets)
        if len(calls) > 1:
            raise ValueError("half way")
        return prices(self, sets)

    monkeypatch.setattr(Replayer, "prices", failing)
    report = analyze(generated(TWINS["one card"]))
    told = [finding.saving for finding in report.findings if finding.saving]
    assert told
    assert {saving.basis for saving in told} == {Basis.UPPER_BOUND}
    assert all(saving.assumes and "half way" in saving.assumes.en for saving in told)
    assert report.saving.joint_us_per_step <= sum(saving.us_per_step for saving in told) + 1e-6
    (remark,) = [remark for remark in report.diagnostics if remark.code == "replay_failed"]
    assert "ValueError: half way" in remark.message.en
    assert "half way" in remark.message.zh
    assert report.replay


@pytest.mark.parametrize("broken", ["fixer", "expect"])
def test_a_replay_that_cannot_be_edited_says_so_and_how_well_it_replays(
    broken: str, generated: Generated, report_of: ReportOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = generated(TWINS["one card"])
    plain = report_of(folder)
    assert "replay_failed" not in {remark.code for remark in plain.diagnostics}

    def failing(*_: object) -> None:
        raise ValueError(broken)

    monkeypatch.setattr(Replayer, broken, failing)
    report = analyze(folder)
    assert "replay_failed" in {remark.code for remark in report.diagnostics}
    assert {finding.saving.basis for finding in report.findings if finding.saving} == {Basis.UPPER_BOUND}
    assert report.replay == plain.replay


def test_a_recording_that_is_partly_anchored_gives_a_range(
    generated: Generated, report_of: ReportOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = generated(TWINS["one card"])
    plain = {finding.fingerprint: finding.saving for finding in report_of(folder).findings}
    monkeypatch.setattr(savings, "RANGE_ANCHORED", -1.0)
    wider = 0
    for finding in analyze(folder).findings:
        before = plain[finding.fingerprint]
        if finding.saving and before:
            assert finding.saving.us_per_step == before.us_per_step
            assert finding.saving.assumes and "silences" in finding.saving.assumes.en
            wider += finding.saving.high_us_per_step > before.high_us_per_step + 1
    assert wider


def test_silence_that_a_finding_names_is_no_anchor(generated: Generated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the finding is about the silence itself, what it saves is known: the silence."""
    profile = load_profile(generated(TWINS["one card"]))
    replayer = Replayer(profile)
    steps = profile.table("steps")
    monkeypatch.setattr(replayer, "_held", [(100_000, 900_000), (2_000_000, 2_500_000)])
    recorded = float(steps["dur_ns"].sum())
    none = np.zeros(0, dtype=np.int64)
    start = np.array([replayer.graph.origin + 2_000_000])
    whole, left = (replayer.anchored_beside(*spans) for spans in ((none, none), (start, start + 400_000)))
    assert (whole - left) * recorded == pytest.approx(400_000)


def _rigid(
    builder: object, profile: object, tasks: object, syncs: Syncs, lanes: object, device: DeviceLanes
) -> np.ndarray:
    del builder, profile, tasks, lanes, device
    return syncs.end - syncs.start


def test_rigid_syncs_raise_the_flag(generated: Generated, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in which waits are fixed replays perfectly and predicts nothing."""
    folder = generated(
        Settings(steps=2, layers=4, seed=34, counters=False, device_scale=0.9, plant=["item", "top_kernel"])
    )
    assert Replayer(load_profile(folder)).anchored_share <= 0.15
    monkeypatch.setattr(waits, "sync_waits", _rigid)
    broken = Replayer(load_profile(folder))
    assert broken.error < 0.001
    assert broken.anchored_share > 0.15


def test_threads_that_are_not_joined_raise_the_flag(generated: Generated, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = generated(Settings(steps=2, layers=6, world=1, seed=35, counters=False, device_scale=0.1))
    assert Replayer(load_profile(folder)).anchored_share <= 0.15
    monkeypatch.setattr(host, "_bursts", lambda *_: [])
    broken = Replayer(load_profile(folder))
    assert broken.anchored_share > 0.15


@pytest.mark.parametrize("shift_us", [-50, 200])
def test_a_shifted_device_clock_changes_little(shift_us: int, generated: Generated) -> None:
    """Host and device clocks differ by tens of us on real machines."""
    folder = generated(TWINS["slow device"])
    profiles = [load_profile(folder) for _ in range(2)]
    for name in ("kernels", "tasks", "comms"):
        table = profiles[1].table(name)
        profiles[1].put(table.with_columns(start_ns=table["start_ns"] + shift_us * 1000))
    figures = []
    for profile in profiles:
        replayer = Replayer(profile)
        rows = np.flatnonzero(profile.table("kernels").strings("type") == "MaskedSelect")
        variants = replayer.fixer(0).variants("cap", "kernels", rows, np.full(len(rows), 5.0))
        assert variants is not None
        assert replayer.error < 0.01
        figures.append(replayer.price(variants.expected))
    assert figures[1] == pytest.approx(figures[0], rel=0.01)


def test_a_few_lost_links_change_little(generated: Generated) -> None:
    folder = generated(TWINS["slow device"])
    (profile,) = load_profiles(folder)
    kernels = profile.table("kernels")
    lost = np.random.default_rng(1).random(len(kernels)) < 0.01
    for column in ("dequeue", "launch_ns"):
        kernels = kernels.with_columns(**{column: np.where(lost, -1, kernels[column])})
    rows = np.flatnonzero(kernels.strings("type") == "MaskedSelect")
    figures = []
    for table in (profile.table("kernels"), kernels):
        profile.put(table)
        replayer = Replayer(profile)
        variants = replayer.fixer(0).variants("cap", "kernels", rows, np.full(len(rows), 5.0))
        assert variants is not None
        figures.append(replayer.price(variants.expected))
    assert lost.any()
    assert figures[1] == pytest.approx(figures[0], rel=0.05)


HIDDEN = Settings(steps=3, world=1, seed=35, counters=False, plant=["dispatch", "aicpu"], device_scale=0.4)


def test_a_fix_that_saves_nothing_now_says_what_it_waits_for(generated: Generated, report_of: ReportOf) -> None:
    """The slow kernel runs under a host that is behind; without the loop that holds the host it costs its time."""
    folder = generated(HIDDEN)
    truth = json.loads((folder / "truth.json").read_text())
    report = report_of(folder)
    by_rule = {found.rule_id: found for found in report.findings}
    hidden, loop = by_rule["aicpu-op"].saving, by_rule["dispatch-dequeue-gap"]
    assert hidden is not None
    assert truth["plants"]["aicpu"]["saving_us_per_step"] < 0.001 * truth["step_us"]
    assert hidden.us_per_step < 0.001 * truth["step_us"]
    first = hidden.after[0]
    assert first.fingerprints == [loop.fingerprint]
    assert first.us_per_step == pytest.approx(truth["plants"]["aicpu"]["alone_us_per_step"], rel=0.1)


def test_only_what_saves_nothing_now_waits_for_others(generated: Generated, report_of: ReportOf) -> None:
    report = report_of(generated(TWINS["two ranks"]))
    steps = {step.rank: step.duration_us for step in report.steps}
    known = {found.fingerprint for found in report.findings}
    for found in report.findings:
        if found.saving is not None and found.saving.after:
            assert found.saving.us_per_step < savings.REAL_SHARE * max(steps.values())
            assert {name for after in found.saving.after for name in after.fingerprints} <= known - {found.fingerprint}


def test_the_joint_range_holds_the_joint_figure(generated: Generated, report_of: ReportOf) -> None:
    for twin in TWINS.values():
        joint = report_of(generated(twin)).saving
        assert joint.basis is Basis.REPLAYED
        assert joint.low_us_per_step <= joint.joint_us_per_step <= joint.high_us_per_step
        assert joint.low_us_per_step < joint.high_us_per_step


def test_a_fix_that_costs_time_keeps_its_sign_in_json_and_prints_as_nothing(
    generated: Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = generated(TWINS["one card"])
    monkeypatch.setattr(Replayer, "price", lambda self, edits: -5000.0)
    monkeypatch.setattr(Replayer, "prices", lambda self, sets: [-5000.0 for _ in sets])
    report = analyze(folder, select=["kernel-top-cost"])
    saving = report.findings[0].saving
    assert saving is not None
    assert saving.us_per_step == saving.low_us_per_step == saving.high_us_per_step == -5.0
    assert saving.share < 0
    assert report.saving.joint_us_per_step == -5.0
    text = render_terminal(report, Options(width=100, show_all=True))
    assert "saves nothing now" in text
    assert "-5" not in text
