"""``npu-advisor show``: the same figures as the report and as pandas gives, in every form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest
from places import DEMO, PROFILES, needs_profiles

from npu_advisor import analyze, load_profile
from npu_advisor.cli.app import main
from npu_advisor.report.listing import render_listing
from npu_advisor.report.options import Options
from npu_advisor.views import TableView, ViewColumn


@pytest.fixture
def shown(capsys):
    def run(*arguments: str) -> str:
        assert main(["show", *arguments, "-q", "--lang", "en"]) == 0
        return capsys.readouterr().out

    return run


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_kernels_by_type_are_those_of_pandas(shown):
    rows = json.loads(shown("kernels", str(DEMO), "-f", "json"))["rows"]
    kernels = load_profile(DEMO).kernels
    sums = kernels.groupby(["type", "core"], observed=True)["dur_us"].agg(["sum", "size", "mean", "max"])
    assert len(rows) == len(sums)
    for row in rows:
        expected = sums.loc[row["type"], row["core"]]
        figures = [row[name] for name in ("dur_us", "calls", "mean_dur_us", "max_dur_us")]
        assert figures == pytest.approx(list(expected), abs=1e-3)
    assert [row["dur_us"] for row in rows] == sorted((row["dur_us"] for row in rows), reverse=True)
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-4)


def test_condition_group_sort_and_top(shown):
    kernels = load_profile(DEMO).kernels
    some = kernels[kernels["dur_us"] > 50]
    text = shown("kernels", str(DEMO), "--where", "dur_us > 50", "--group-by", "none", "--sort", "-dur_us", "-f", "csv")
    assert [float(row["dur_us"]) for row in _rows(text)] == sorted(some["dur_us"].round(3), reverse=True)
    text = shown(
        "kernels", str(DEMO), "--where", "dur_us > 50", "--group-by", "source, op.name", "--top", "2", "-f", "csv"
    )
    rows = _rows(text)
    assert len(rows) == 2 and {"source", "op.name", "calls"} <= set(rows[0])


def test_json_and_csv_hold_the_same(shown):
    for what in ("kernels", "operators", "memory", "steps", "timeline"):
        data = json.loads(shown(what, str(DEMO), "-f", "json"))
        rows = _rows(shown(what, str(DEMO), "-f", "csv"))
        assert data["total"] == len(data["rows"]) == len(rows) > 0
        for one, other in zip(data["rows"], rows, strict=True):
            assert {key: "" if value is None else str(value) for key, value in one.items()} == other


def test_timeline_holds_every_event(shown):
    profile = load_profile(DEMO)
    rows = json.loads(shown("timeline", str(DEMO), "--group-by", "table", "-f", "json"))["rows"]
    assert {row["table"]: row["calls"] for row in rows} == {
        name: len(profile.table(name))
        for name in ("ops", "enqueues", "dequeues", "apis", "kernels", "tasks", "comms")
        if len(profile.table(name))
    }


@needs_profiles
def test_operators_are_those_of_operator_details_on_both_ranks(shown):
    folder = PROFILES / "npu-alexnet-text-l1"
    rows = json.loads(shown("operators", str(folder), "-f", "json"))["rows"]
    path = next(folder.glob("rank0*/*/operator_details.csv"))
    own = pd.read_csv(path).groupby("Name")["Device Total Duration(us)"].sum()
    mine = {
        row["name"]: row["device_total_us"] for row in rows if row["rank"] == 0 and row["device_total_us"] is not None
    }
    assert {name: us for name, us in mine.items() if us} == pytest.approx({k: v for k, v in own.items() if v}, abs=0.01)


def test_terminal_table_keeps_numbers_whole(shown):
    text = shown("kernels", str(DEMO), "--top", "3")
    assert text.splitlines()[0].split() == ["type", "core", "calls", "dur_us", "share", "mean_dur_us", "max_dur_us"]
    assert "3 of" in text and all(len(line) <= 100 for line in text.splitlines())
    table = TableView("x", (ViewColumn("name", "text"), ViewColumn("dur_us", "us")), [["n" * 400 + "\x1b", 1234.5]], 1)
    line = render_listing(table, Options(width=60)).splitlines()[1]
    assert len(line) <= 60 and line.endswith("1.23 ms") and "\x1b" not in line


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["kernls"], 2, "did you mean 'kernels'"),
        (["kernels", "--where", "dur > 5"], 2, "did you mean 'dur_us'"),
        (["kernels", "--where", "dur_us"], 2, "--where"),
        (["kernels", "--group-by", "typ"], 2, "did you mean 'type'"),
        (["kernels", "--sort", "dur"], 2, "--sort"),
        (["kernels", "-f", "xls"], 2, "--format"),
        (["kernels", "-f", "parquet"], 2, "parquet"),
    ],
)
def test_wrong_queries_are_refused(arguments, code, said, capsys):
    assert main(["show", arguments[0], str(DEMO), *arguments[1:], "--lang", "en"]) == code
    assert said in capsys.readouterr().err


def test_what_was_not_recorded_is_said_with_the_switch(tmp_path, capsys):
    trace = tmp_path / "trace_view.json"
    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "Python"}},
        {"ph": "X", "pid": 1, "tid": 1, "ts": "1.0", "dur": 5, "name": "aten::add", "cat": "cpu_op", "args": {}},
    ]
    trace.write_text(json.dumps(events))
    assert main(["show", "memory", str(trace), "--lang", "en"]) == 3
    assert "profile_memory=True" in capsys.readouterr().err


def test_parquet_holds_the_rows(tmp_path: Path, shown):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path / "kernels.parquet"
    shown("kernels", str(DEMO), "-f", "parquet", "-o", str(path))
    rows = json.loads(shown("kernels", str(DEMO), "-f", "json"))["rows"]
    assert parquet.read_table(path).to_pylist() == rows


def test_report_gives_its_tables_to_python_and_notebooks(report_of):
    report = analyze(DEMO)
    profile = load_profile(DEMO)
    assert list(report.tables) == ["kernels", "operators", "memory", "steps", "communication", "timeline"]
    assert report.tables["kernels"]["dur_us"].sum() == pytest.approx(profile.kernels["dur_us"].sum())
    with pytest.raises(KeyError):
        report.tables["nothing"]
    html = report._repr_html_()
    assert html.startswith('<iframe sandbox="allow-scripts"') and html.count("<") == 2
