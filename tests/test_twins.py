"""The same script recorded once as text and once as a database: what must be equal, and what cannot be and why.

The pairs are different runs, so times differ by some percent; what was launched, from where, and what is wrong with it
does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from places import PROFILES, needs_profiles

from npu_advisor import Report, load_profile
from npu_advisor.model.profile import Profile

pytestmark = needs_profiles

# Level, and a rank that both forms have (Level1 was kept of rank 1 only).
PAIRS = (("l0", 0), ("l0", 1), ("l1", 1), ("l2", 0))
COUNTED = ("ops", "frames", "enqueues", "dequeues", "kernels", "comms", "allocs", "module_memory", "counters", "links")

# Rows that one form has more of: (level, table) -> why. Everything else is equal in number.
UNEQUAL = {
    ("l0", "apis"): "a text export prunes CANN calls at Level0, a database does not",
    ("l1", "apis"): "how often the host polls the device differs from run to run",
    ("l2", "apis"): "as l1",
    ("l2", "module_memory"): "sampled every 20 ms, so as often as the run is long",
    ("l1", "counters"): "the trace has the first and last sample only",
    ("l2", "counters"): "as l1",
}
# Columns of kernels that only one form can fill: column -> why.
TEXT_ONLY = {
    "state": "this version of the database has no opState",
    "cube_utilization": "the database has no such metric",
}
# Tables that only the text form has.
TEXT_TABLES = {
    "op_statistic": "sums of kernels",
    "api_statistic": "sums of calls",
    "l2_cache": "a database has no table of rates per kernel",
    "op_details": "sums per op",
    "overlap": "unions of kernels and collectives, which the graph computes itself",
}
# Findings of one form only: (level, rule) -> why.
UNEQUAL_FINDINGS = {
    ("l0", rule): "needs CANN calls, which the text form of Level0 does not have"
    for rule in (
        *("dispatch-sync-in-step", "dispatch-compile-online", "dispatch-explicit-sync", "dispatch-silent-host"),
        *("dispatch-sync-per-launch", "memory-alloc-calls"),
    )
}


@lru_cache(maxsize=16)
def _profile(form: str, level: str, rank: int) -> Profile:
    return load_profile(PROFILES / f"npu-alexnet-{form}-{level}" / f"rank{rank}_ascend_pt")


@pytest.fixture(params=PAIRS, ids=[f"{level}-rank{rank}" for level, rank in PAIRS])
def twins(request: pytest.FixtureRequest) -> tuple[str, Profile, Profile]:
    level, rank = request.param
    return level, _profile("text", level, rank), _profile("db", level, rank)


def _counts(profile: Profile, table: str, column: str) -> Counter[str]:
    return Counter(profile.frame(table)[column].dropna().astype(str))


def test_as_many_rows(twins: tuple[str, Profile, Profile]) -> None:
    level, text, db = twins
    unequal = {name for name in (*COUNTED, "tasks", "apis") if len(text.table(name)) != len(db.table(name))}
    assert unequal <= {name for key, name in UNEQUAL if key == level}
    assert len(text.table("comm_tasks")) == len(db.table("comm_tasks"))


def test_every_exception_is_needed() -> None:
    for level, name in UNEQUAL:
        ranks = [rank for key, rank in PAIRS if key == level]
        sizes = [[len(_profile(form, level, rank).table(name)) for form in ("text", "db")] for rank in ranks]
        assert any(one != other for one, other in sizes), (level, name)


def test_the_same_kernels(twins: tuple[str, Profile, Profile]) -> None:
    level, text, db = twins
    assert _counts(text, "kernels", "name") == _counts(db, "kernels", "name")
    assert _counts(text, "kernels", "type") == _counts(db, "kernels", "type")
    assert _counts(db, "kernels", "type")["TransData"] == 57
    for column in ("block_dim", "input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_formats"):
        both = [column in profile.kernels for profile in (text, db)]
        assert both == [level != "l0"] * 2
        if level != "l0":
            assert _counts(text, "kernels", column) == _counts(db, "kernels", column)
    if level != "l0":
        assert _counts(text, "kernels", "core") == _counts(db, "kernels", "core")
        busy = [(profile.kernels["core_us"] / profile.kernels["dur_us"]).median() for profile in (text, db)]
        assert busy[0] == pytest.approx(busy[1], rel=0.05) and 0.8 < busy[0] < 0.9
    assert text.kernels["dur_us"].sum() == pytest.approx(db.kernels["dur_us"].sum(), rel=0.02)


def test_only_these_columns_are_missing(twins: tuple[str, Profile, Profile]) -> None:
    level, text, db = twins
    gone = set(text.kernels) - set(db.kernels)
    assert gone == (set(TEXT_ONLY) if level != "l0" else set())
    for name in ("ops", "enqueues", "dequeues", "tasks", "comms", "allocs", "memory", "steps", "step_trace"):
        assert set(text.frame(name)) - set(db.frame(name)) == set(), name


def test_only_these_tables_are_missing(twins: tuple[str, Profile, Profile]) -> None:
    _, text, db = twins
    tables = ("ops", "frames", "apis", "kernels", "tasks", "comms", "comm_tasks", "allocs", "memory", "links", "steps")
    gone = {name for name in (*tables, *TEXT_TABLES) if text.has(name) and not db.has(name)}
    assert gone <= set(TEXT_TABLES)


def test_the_same_links(twins: tuple[str, Profile, Profile]) -> None:
    _, text, db = twins
    assert (db.kernels["op"] >= 0).sum() == 187 and (db.kernels["source"].notna()).sum() == 164
    for table in ("kernels", "dequeues", "allocs"):
        assert _counts(text, table, "source") == _counts(db, table, "source")
    assert _counts(text, "kernels", "source_how") == _counts(db, "kernels", "source_how")
    assert _counts(text, "tasks", "kind") == _counts(db, "tasks", "kind")
    for name in ("ops", "dequeues"):
        assert _counts(text, name, "name") == _counts(db, name, "name")
    assert _launched_by(text, "kernels") == _launched_by(db, "kernels")
    assert _launched_by(text, "comms", "type") == _launched_by(db, "comms", "type")
    assert _backward(text) == _backward(db)


def _launched_by(profile: Profile, table: str, column: str = "name") -> Counter[tuple[str, str]]:
    rows, ops = profile.frame(table), profile.ops["name"].astype(str).to_numpy()
    return Counter(zip(rows[column].astype(str), ops[rows["op"]], strict=True))


def _backward(profile: Profile) -> Counter[tuple[str, str]]:
    ops = profile.ops
    names, forward = ops["name"].astype(str).to_numpy(), ops["forward"].to_numpy()
    return Counter((names[row], names[forward[row]]) for row in range(len(ops)) if forward[row] >= 0)


def test_the_same_memory(twins: tuple[str, Profile, Profile]) -> None:
    _, text, db = twins
    peaks = [profile.memory.groupby("component", observed=True)["allocated_bytes"].max() for profile in (text, db)]
    assert set(peaks[0].index) == set(peaks[1].index) == {"APP", "GE", "PTA", "PTA+GE"}
    assert peaks[0]["PTA"] == peaks[1]["PTA"] and peaks[0]["GE"] == peaks[1]["GE"]
    for column in ("name", "component"):
        assert _counts(text, "allocs", column) == _counts(db, "allocs", column)
    sizes = [sorted(profile.allocs["size_bytes"]) for profile in (text, db)]
    assert sizes[0] == sizes[1]
    assert [(profile.allocs["release_ns"] < 0).sum() for profile in (text, db)] == [24, 24]


def test_the_same_collectives(twins: tuple[str, Profile, Profile]) -> None:
    level, text, db = twins
    assert [len(profile.comms) for profile in (text, db)] == [4, 4]
    if level == "l0":
        assert "transit_us" not in text.comms and "transit_us" not in db.comms
        return
    assert list(text.comms["bytes"]) == pytest.approx(list(db.comms["bytes"]))
    for column in ("name", "transport", "link", "src_rank", "dst_rank"):
        assert _counts(text, "comm_tasks", column) == _counts(db, "comm_tasks", column)
    for comms in (text.comms, db.comms):
        parts = comms["transit_us"] + comms["wait_us"] + comms["idle_us"]
        assert list(parts) == pytest.approx(list(comms["dur_us"]), abs=0.01)
        assert comms["group"].astype(str).str.fullmatch(r"\d{15,20}").all()


def test_group_names_are_the_ones_of_the_reports() -> None:
    """The hash of a communicator's full name, computed by us, is the number in analysis.db."""
    import sqlite3

    for level, rank in (("l1", 1), ("l2", 0)):
        folder = PROFILES / f"npu-alexnet-db-{level}" / f"rank{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        uri = f"{(folder / 'analysis.db').as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True)
        (told,) = connection.execute("SELECT DISTINCT group_name FROM CommAnalyzerTime").fetchall()
        connection.close()
        assert set(_profile("db", level, rank).comms["group"]) == {told[0]}


# ---- findings -------------------------------------------------------------------------------------------------

ReportOf = Callable[[Path], Report]


def _found(report: Report) -> set[tuple[str, Any]]:
    places = [(finding.rule_id, finding.location) for finding in report.findings]
    return {(rule, (Path(at.path).name, at.line) if at else None) for rule, at in places}


def _graded(report: Report) -> dict[str, str]:
    """The severest finding of each rule."""
    order = ("info", "low", "medium", "high")
    grades: dict[str, str] = {}
    for finding in report.findings:
        before = grades.get(finding.rule_id, "info")
        grades[finding.rule_id] = max(before, finding.severity.value, key=order.index)
    return grades


def _reports(level: str, rank: int, report_of: ReportOf) -> tuple[Report, Report]:
    paths = [PROFILES / f"npu-alexnet-{form}-{level}" / f"rank{rank}_ascend_pt" for form in ("text", "db")]
    return report_of(paths[0]), report_of(paths[1])


@pytest.mark.parametrize(("level", "rank"), PAIRS)
def test_the_same_findings_at_the_same_lines(level: str, rank: int, report_of: ReportOf) -> None:
    text, db = (_found(report) for report in _reports(level, rank, report_of))
    excused = {rule for key, rule in UNEQUAL_FINDINGS if key == level}
    assert {item for item in text ^ db if item[0] not in excused} == set()
    assert {"layout-transdata", "dispatch-dequeue-gap"} <= {rule for rule, _ in text & db}


@pytest.mark.parametrize(("level", "rank"), PAIRS)
def test_findings_are_as_severe(level: str, rank: int, report_of: ReportOf) -> None:
    text, db = (_graded(report) for report in _reports(level, rank, report_of))
    assert text.keys() & db.keys()
    assert {rule for rule in text.keys() & db.keys() if text[rule] != db[rule]} == set()


@pytest.mark.parametrize(("level", "rank"), PAIRS)
def test_the_same_rules_can_be_checked(level: str, rank: int, report_of: ReportOf) -> None:
    text, db = (
        {rule.id for rule in report.rules if rule.outcome == "skipped"} for report in _reports(level, rank, report_of)
    )
    assert db <= text
    assert text - db <= {rule for key, rule in UNEQUAL_FINDINGS if key == level}
    assert not [
        rule.id for report in _reports(level, rank, report_of) for rule in report.rules if rule.outcome == "failed"
    ]
