"""A second run on the same input gives the report of the first without reading, and any change makes a fresh one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npu_advisor import analyze, results, session
from npu_advisor.base import shelf
from npu_advisor.base.shelf import Shelf
from npu_advisor.cli.app import main

DEMO = Path(__file__).parents[1] / "fixtures" / "demo"
OUTPUT = "node0_3096504_20250109154803000_ascend_pt/ASCEND_PROFILER_OUTPUT"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A profile beside its script, changed long enough ago to be kept."""
    folder = tmp_path / "job"
    shutil.copytree(DEMO, folder)
    settle()
    return folder


def settle() -> None:
    time.sleep(0.03)


class Runs:
    """Runs with one cache; ``fresh`` counts those that read the profile."""

    def __init__(self, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept, self.fresh = kept, 0
        read = session.read

        def counted(*given: Any) -> Any:
            self.fresh += 1
            return read(*given)

        monkeypatch.setattr(session, "read", counted)

    def __call__(self, job: Path, **options: Any) -> str:
        """The report from the cache or into it; the same as one without a cache."""
        options = {"source_root": [str(job)], **options}
        found = analyze(job, cache=self.kept, **options).model_dump_json()
        before = self.fresh
        assert found == analyze(job, **options).model_dump_json()
        self.fresh = before
        return found


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path / "kept", monkeypatch)


def test_the_second_run_reads_nothing(job: Path, runs: Runs) -> None:
    first = runs(job)
    assert "local_path" in first and '"fixes":[{' in first
    assert runs(job) == first
    assert runs.fresh == 1


def _edit_source(job: Path) -> None:
    script = job / "train.py"
    text = script.read_text()
    line = text.splitlines()[83]
    script.write_text(text.replace(line, line + "  # later"))


def _ignore(job: Path) -> None:
    script = job / "train.py"
    lines = script.read_text().splitlines(keepends=True)
    lines[83] = lines[83].rstrip("\n") + "  # npu-advisor: ignore[kernel-top-cost] known\n"
    script.write_text("".join(lines))


def _remove_source(job: Path) -> None:
    (job / "train.py").unlink()


def _add_table(job: Path) -> None:
    (job / OUTPUT / "l2_cache.csv").write_text("Stream Id,Task Id,Hit Rate\n")


def _remove_table(job: Path) -> None:
    (job / OUTPUT / "memory_record.csv").unlink()


def _change(name: str) -> Callable[[Path], None]:
    def change(job: Path) -> None:
        (path,) = job.rglob(name)
        # The same content and length: only the identity tells.
        path.write_bytes(path.read_bytes())

    change.__name__ = name
    return change


FILES = [path.name for path in (DEMO / OUTPUT).iterdir()] + ["profiler_info_0.json", "profiler_metadata.json"]
CHANGES = [_edit_source, _ignore, _remove_source, _add_table, _remove_table, *map(_change, sorted(FILES))]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changed_is_read_again(change: Callable[[Path], None], job: Path, runs: Runs) -> None:
    runs(job)
    settle()
    change(job)
    settle()
    runs(job)
    runs(job)
    assert runs.fresh == 2


def test_a_source_that_appears_is_seen(job: Path, runs: Runs) -> None:
    script = job.parent / "train.py"
    shutil.move(job / "train.py", script)
    settle()
    assert '"local_path":"' not in runs(job)
    shutil.copy(script, job / "train.py")
    settle()
    assert '"local_path":"' in runs(job)
    assert runs.fresh == 2


def _rules(folder: Path, least: float) -> Path:
    rule = (DEMO.parents[1] / "rules" / "kernel" / "kernel-top-cost.yaml").read_text()
    (folder / "mine").mkdir(parents=True, exist_ok=True)
    text = rule.replace("id: kernel-top-cost", "id: mine-top-cost")
    (folder / "mine" / "mine-top-cost.yaml").write_text(text + f"# {least}\n")
    settle()
    return folder


def test_another_text_of_a_rule_is_judged_again(job: Path, runs: Runs, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    assert "mine-top-cost" in runs(job, rules=[_rules(rules, 1)])
    runs(job, rules=[rules])
    assert runs.fresh == 1
    runs(job, rules=[_rules(rules, 2)])
    assert runs.fresh == 2


OPTIONS: list[dict[str, Any]] = [
    {"params": {"kernel-top-cost": {"min_share": 0.9}}},
    {"select": ["kernel-*"]},
    {"ignore": ["kernel-*"]},
    {"source_root": []},
    {"ranks": [0]},
    {"steps": [10]},
    {"fixes": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_other_options_ask_for_another_report(options: dict[str, Any], job: Path, runs: Runs) -> None:
    runs(job)
    runs(job, **options)
    assert runs.fresh == 2


def test_the_chip_that_a_user_names_counts(job: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(job)
    monkeypatch.setenv(results.CHIP, "Ascend910B2")
    runs(job)
    assert runs.fresh == 2


def test_another_working_directory_asks_again(job: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(job)
    monkeypatch.chdir(job)
    runs(job)
    assert runs.fresh == 2


def test_another_version_of_the_program_asks_again(job: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(job)
    monkeypatch.setattr(results, "_code", lambda: "another")
    runs(job)
    assert runs.fresh == 2


def test_what_changes_meanwhile_is_not_kept(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = session.read

    def changing(*given: Any) -> Any:
        found = read(*given)
        _change("op_statistic.csv")(job)
        return found

    monkeypatch.setattr(session, "read", changing)
    analyze(job, cache=tmp_path / "kept")
    assert Shelf(tmp_path / "kept").use().reports == 0


def test_what_changed_a_moment_ago_is_not_kept(job: Path, tmp_path: Path) -> None:
    """Its next change might come within the same tick of the clock."""
    _edit_source(job)
    analyze(job, cache=tmp_path / "kept", source_root=[str(job)])
    assert Shelf(tmp_path / "kept").use().reports == 0


def test_a_damaged_entry_makes_a_fresh_run(job: Path, runs: Runs) -> None:
    first = runs(job)
    (entry,) = runs.kept.glob(f"*{shelf.REPORT}")
    whole = entry.read_bytes()
    for number, bad in enumerate((b"", whole[:-1], whole.replace(b"us_per_step", b"us_per_stop"), whole[:40]), 2):
        entry.write_bytes(bad)
        assert runs(job) == first
        assert runs.fresh == number
        assert entry.read_bytes() == whole


def test_many_runs_may_share_it(job: Path, tmp_path: Path) -> None:
    kept, found = tmp_path / "kept", list[str]()

    def run() -> None:
        found.append(analyze(job, cache=kept).model_dump_json())

    for _ in range(2):
        started = [threading.Thread(target=run) for _ in range(4)]
        for each in started:
            each.start()
        for each in started:
            each.join()
    assert len(found) == 8 and len(set(found)) == 1
    assert sorted(path.suffix for path in kept.iterdir()) == [shelf.COLUMNS, shelf.REPORT]


def test_a_report_from_the_cache_answers_like_any_other(job: Path, runs: Runs) -> None:
    runs(job)
    known = analyze(job, cache=runs.kept, source_root=[str(job)])
    assert runs.fresh == 1
    fresh = analyze(job, source_root=[str(job)], keep=True)
    edit = "remove kernels where true"
    assert known.whatif(edit).model_dump_json() == fresh.whatif(edit).model_dump_json()
    assert known.tables["kernels"].equals(fresh.tables["kernels"])
    assert known.views == fresh.views and known.tracks == fresh.tracks


@pytest.mark.parametrize("form", ["terminal", "json", "html", "trace", "sarif"])
def test_every_form_is_the_same_from_the_cache(
    form: str, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(job)
    said = []
    for options in ([], ["--cache", str(tmp_path / "kept")], ["--cache", str(tmp_path / "kept")]):
        main([".", "-f", form, "-q", *options])
        said.append(capsys.readouterr().out)
    assert said[0] and said[1] == said[0] and said[2] == said[0]


def test_the_settings_of_a_project_count(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(job)
    said = []
    for text in ("", "[tool.npu-advisor.params.kernel-top-cost]\nmin_share = 0.9\n"):
        (job / "pyproject.toml").write_text(text)
        main([".", "-f", "json", "-q", "--cache", str(tmp_path / "kept")])
        said.append(capsys.readouterr().out)
    assert said[0] != said[1]


def test_what_a_database_has_beside_it_counts(tmp_path: Path) -> None:
    """The newest rows may be in the log."""
    path = tmp_path / "db" / "ascend_pytorch_profiler_0.db"
    path.parent.mkdir()
    with sqlite3.connect(path) as database:
        database.execute("create table x (y)")
    before = results._files([str(path)])
    path.with_name(f"{path.name}-wal").write_bytes(b"more")
    assert results._files([str(path)]) != before


def test_what_lies_around_a_single_file_counts(tmp_path: Path) -> None:
    """The output folder's own folder names the rank and, in a raw recording, the chip."""
    output = tmp_path / "x_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    trace = output / "trace_view.json"
    trace.write_text("[]")
    told = [results._files([str(trace)])]
    (output.parent / "profiler_info_0.json").write_text("{}")
    told.append(results._files([str(trace)]))
    device = output.parent / "PROF_000001_2025_X" / "device_0"
    device.mkdir(parents=True)
    told.append(results._files([str(trace)]))
    (device / "info.json.0").write_text("{}")
    told.append(results._files([str(trace)]))
    assert all(one != other for number, one in enumerate(told) for other in told[:number])


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert results._files([str(tmp_path)])


def test_a_report_written_into_the_profile_changes_nothing(job: Path, runs: Runs) -> None:
    runs(job)
    (job / "report.html").write_text("<p>")
    runs(job)
    assert runs.fresh == 1


def test_a_report_that_names_a_path_that_is_no_text_is_not_kept(job: Path, tmp_path: Path) -> None:
    odd = job.rename(tmp_path / os.fsdecode(b"job\xff"))
    settle()
    assert analyze(odd, cache=tmp_path / "kept").findings
    assert Shelf(tmp_path / "kept").use().reports == 0
