"""A generated profile as SQLite: the content of its text form, in the tables that torch_npu writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from places import PROFILES, needs_profiles
from synthetic import HARDER, Settings, generate

from npu_advisor import Report, analyze
from npu_advisor.api import load_profiles
from npu_advisor.model.profile import Profile

FORMS = ("text", "db")
PLANTED: dict[str, Any] = {"steps": 3, "layers": 2, "plant": ["all"], "truth_steps": 1}
STAGES: dict[str, Any] = {"steps": 2, "layers": 2, "ranks": 4, "stages": 2, "plant": ["slow_link"], "truth_steps": 1}
RUNS = {"planted": PLANTED, "harder": PLANTED | HARDER | {"ranks": 2}, "stages": STAGES}
TABLES = (
    "ops",
    "frames",
    "enqueues",
    "dequeues",
    "kernels",
    "comms",
    "comm_tasks",
    "apis",
    "allocs",
    "memory",
    "links",
)

# What the forms tell differently: (table or "", column) -> why.
DIFFERENT = {
    ("", "track"): "numbers of lanes in the order in which they are met",
    ("", "pid"): "the trace makes a process of each lane",
    ("comms", "tid"): "as the lanes",
    ("comm_tasks", "tid"): "as the lanes",
    ("frames", "python_id"): "a database has no ids of Python functions",
    ("frames", "python_parent"): "as python_id",
    ("enqueues", "correlation"): "one space of numbers with the connection ids",
    ("dequeues", "correlation"): "as enqueues",
    ("kernels", "launch_ns"): "an arrow starts within a launch, a connection id is that of all of it",
    ("kernels", "launch_delay_us"): "as launch_ns",
    ("kernels", "wait_us"): "the generator does not count collectives, which the profiler does",
    ("kernels", "cube_utilization"): "a database has no such metric",
    ("comms", "group"): "the text form has the number of a communicator only, a database its name",
    ("links", "op"): "as comms",
    ("apis", "item"): "a database names no collective beside its launch",
}


@pytest.fixture(scope="module", params=RUNS)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp(request.param)
    for form in FORMS:
        generate(folder / form, Settings(form=form, **RUNS[request.param]))
    yield {form: folder / form for form in FORMS}


def _columns(profile: Profile, table: str) -> pd.DataFrame:
    frame = profile.table(table).frame
    same = [name for name in frame if not {("", name), (table, name)} & set(DIFFERENT)]
    return frame[same].astype(object)


def test_the_tables_are_those_of_the_text_form(runs: dict[str, Path]) -> None:
    for text, database in zip(*(load_profiles(runs[form]) for form in FORMS), strict=True):
        assert (text.info.form, database.info.form) == ("text", "db")
        for table in (*TABLES, "steps", "gcs"):
            pd.testing.assert_frame_equal(_columns(text, table), _columns(database, table), check_like=True, obj=table)
        assert len(text.kernels) > 100


def _told(report: Report) -> list[dict[str, Any]]:
    names = {"rule_id", "location", "saving", "saving_by_rank", "severity", "message", "rank", "step", "recorded_us"}
    return [finding.model_dump(include=names) for finding in report.findings]


def test_the_findings_are_those_of_the_text_form(runs: dict[str, Path]) -> None:
    text, database = (analyze(runs[form]) for form in FORMS)
    assert _told(database) == _told(text)
    assert len(text.findings) >= 3
    outcomes = [{rule.id: rule.outcome for rule in report.rules} for report in (text, database)]
    assert outcomes[0] == outcomes[1]


def test_databases_stand_in_place_of_the_text_files(runs: dict[str, Path]) -> None:
    for number, folder in enumerate(sorted(runs["db"].glob("*_ascend_pt"))):
        output = sorted(path.name for path in (folder / "ASCEND_PROFILER_OUTPUT").iterdir())
        assert output == ["analysis.db", f"ascend_pytorch_profiler_{number}.db"]
        assert '"_export_type": "db"' in (folder / f"profiler_info_{number}.json").read_text()


def _schema(path: Path) -> dict[str, dict[str, str]]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: {column[1]: column[2] for column in connection.execute(f"PRAGMA table_info({name})")}
            for name in names
        }


@needs_profiles
@pytest.mark.parametrize("name", ["ascend_pytorch_profiler_1.db", "analysis.db"])
def test_the_schema_is_that_of_a_recorded_database(tmp_path: Path, name: str) -> None:
    generate(tmp_path, Settings(steps=1, layers=1, ranks=2, gc_ms=5.0, form="db"))
    (recorded,) = (PROFILES / "npu-alexnet-db-l1").rglob(name)
    (ours,) = tmp_path.glob(f"*001_ascend_pt/ASCEND_PROFILER_OUTPUT/{name}")
    real, made = _schema(recorded), _schema(ours)
    # Later exporters call blocks by another name, and write two more columns and the pauses of the collector.
    renamed = {"blockDim": "blockNum", "mixBlockDim": "mixBlockNum"}
    added = {"opState": "INTEGER", "hf32Eligible": "INTEGER"}
    assert set(made) - set(real) == ({"GC_RECORD"} if "PYTORCH_API" in made else set())
    for table in set(made) & set(real):
        expected = {renamed.get(column, column): kind for column, kind in real[table].items()}
        assert made[table] == expected | (added if table == "COMPUTE_TASK_INFO" else {}), table
