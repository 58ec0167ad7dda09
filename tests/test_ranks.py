"""Runs of eight ranks: the culprit is named at its rank, equal ranks are left in peace, and gaps are told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from places import PROFILES, needs_profiles
from synthetic import Settings

from npu_advisor import Report, analyze
from npu_advisor.base.aside import is_aside
from npu_advisor.base.terms import Severity
from npu_advisor.derive.world import as_ranges, group_hash
from npu_advisor.results import Asked
from npu_advisor.session import read

ReportOf = Callable[[Path], Report]
Generated = Callable[[Settings], Path]
SETTINGS = Settings(steps=2, ranks=8)


def _grave(report: Report) -> list[tuple[str, int]]:
    return [(f.rule_id, f.rank) for f in report.findings if f.severity.order <= Severity.MEDIUM.order]


def _truth(folder: Path, plant: str) -> float:
    return float(json.loads((folder / "truth.json").read_text())["plants"][plant]["saving_us_per_step"])


@pytest.mark.parametrize("slow", [0, 5])
def test_the_slow_one_of_eight_is_named(slow: int, generated: Generated, report_of: ReportOf) -> None:
    folder = generated(Settings(steps=2, ranks=8, plant=[f"slow_rank:rank={slow}"]))
    report = report_of(folder)
    assert _grave(report) == [("cluster-slow-rank", slow)]
    saving = report.findings[0].saving
    assert saving is not None
    assert saving.us_per_step == pytest.approx(_truth(folder, "slow_rank"), rel=0.1)


def test_what_nobody_hides_is_priced_over_eight_ranks(generated: Generated, report_of: ReportOf) -> None:
    folder = generated(Settings(steps=2, ranks=8, plant=["unoverlapped_comm"]))
    report = report_of(folder)
    assert [rule for rule, _ in _grave(report)] == ["comm-not-overlapped"]
    saving = report.findings[0].saving
    assert saving is not None
    assert saving.us_per_step == pytest.approx(_truth(folder, "unoverlapped_comm"), rel=0.1)


def test_eight_equal_ranks_are_left_in_peace(generated: Generated, report_of: ReportOf) -> None:
    report = report_of(generated(SETTINGS))
    assert _grave(report) == []
    assert "ranks_missing" not in {remark.code for remark in report.diagnostics}


def test_a_broken_and_a_missing_rank_are_named_and_the_rest_is_analysed(tmp_path: Path, generated: Generated) -> None:
    shutil.copytree(generated(SETTINGS), tmp_path / "job")
    folders = sorted((tmp_path / "job").glob("*_ascend_pt"))
    shutil.rmtree(folders[2])
    for file in folders[6].rglob("*.*"):
        if file.is_file() and not file.name.startswith("profiler_"):
            file.write_bytes(b"\x00broken")
    report = analyze(tmp_path / "job")
    assert [info.rank for info in report.profile.ranks] == [0, 1, 3, 4, 5, 7]
    told = {remark.code: remark for remark in report.diagnostics}
    assert folders[6].name in " ".join(remark.file + remark.message.en for remark in report.diagnostics)
    assert "6 of at least 8 ranks" in told["ranks_missing"].message.en
    assert "2, 6" in told["ranks_missing"].message.en
    assert _grave(report) == []


@needs_profiles
def test_two_of_eight_ranks_say_that_they_are_two_of_eight() -> None:
    report = analyze(PROFILES / "npu-alexnet-text-l1")
    (told,) = [remark for remark in report.diagnostics if remark.code == "ranks_missing"]
    assert "2 of at least 8 ranks" in told.message.en
    assert "2-7" in told.message.en
    # The one that keeps both waiting is among those that nobody recorded.
    assert report.findings[0].rule_id == "cluster-late-rank"
    assert report.findings[0].values["peer"] == 5


def test_runs_of_ranks_are_told_as_ranges() -> None:
    assert as_ranges([2, 3, 4, 7]) == "2-4, 7"
    assert as_ranges(range(0, 40, 2), limit=3) == "0, 2, 4, … (+17)"


def test_a_group_is_called_by_the_hash_of_its_name() -> None:
    """h0 = 29 h0 + c and h1 = 131 h1 + c, by hand for two characters."""
    assert group_hash("ab") == str((97 * 29 + 98) * 2**32 + 97 * 131 + 98)


def test_ranks_that_are_read_and_judged_leave_memory_to_the_next(generated: Generated) -> None:
    session = read(Asked(paths=(str(generated(SETTINGS)),)))
    assert len(session.results) == SETTINGS.ranks
    for profile, _ in session.results:
        tables = [table for table in profile.stored.values() if len(table)]
        # From the reader, and made for a rule.
        assert {"ops", "kernels", "idle", "exposed"} <= {table.spec.name for table in tables}
        stored = [table[name] for table in tables for name in table.stored]
        arrays = [column if isinstance(column, np.ndarray) else column.codes for column in stored]
        # What is kept narrower than it is given out is a copy here.
        whole = [array for array in arrays if not array.flags.owndata]
        assert len(whole) > len(tables)
        assert all(map(is_aside, whole))
    (run,) = session.runs
    assert run.replayer is not None
    assert all(map(is_aside, (run.replayer.graph.net.w, run.replayer.graph.ranks[5].tasks.start)))
