"""Ranks are analysed apart, in processes or on dask, and what comes of it is the same; what fails is named."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from places import PROFILES, needs_profiles
from synthetic import Settings

pytest.importorskip("pyarrow", reason="no pyarrow: the extra [cluster] is not installed")
pytest.importorskip("fsspec", reason="no fsspec: the extra [cluster] is not installed")

from npu_advisor.cli.app import main
from npu_advisor.cluster.engines import run_dask, run_local
from npu_advisor.cluster.rank import Done, Failed, Options, Result, Task, summarize
from npu_advisor.cluster.run import Engine, analyze_cluster, job_report
from npu_advisor.cluster.store import Store
from npu_advisor.cluster.tasks import find_tasks
from npu_advisor.findings import Report

Generated = Callable[[Settings], Path]
SETTINGS = Settings(steps=2, layers=4, ranks=4, plant=["slow_rank:rank=2"])
LOCAL = Engine(memory=1 << 30, workers=2)
ALONE = Engine(memory=1 << 30, workers=1)  # starting a process is what takes most of the time here


@pytest.fixture(scope="session")
def job(generated: Generated) -> Path:
    return generated(SETTINGS)


@pytest.fixture(scope="session")
def local(job: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    folder = tmp_path_factory.mktemp("summaries")
    report, done = analyze_cluster([str(job)], Options(str(folder)), LOCAL)
    assert [one.resumed for one in done] == [False] * 4
    return folder, report


def dies_once(task: Task, options: Options) -> Result:
    """As a worker that is killed from outside in the middle of its first rank."""
    marker = Path(options.summaries) / "died"
    if "154803001" in task.path and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return summarize(task, options)


def always_dies(task: Task, options: Options) -> Result:
    if "154803001" in task.path:
        os.kill(os.getpid(), signal.SIGKILL)
    return summarize(task, options)


def breaks(task: Task, options: Options) -> Result:
    if "154803001" in task.path:
        raise RuntimeError("no such luck")
    return summarize(task, options)


def _reported(results: Iterator[Result], job: Path, folder: Path) -> Report:
    every = list(results)
    done = [one.name for one in every if isinstance(one, Done)]
    failed = [one for one in every if isinstance(one, Failed)]
    return job_report(Store(str(folder)), done, failed, str(job), Options(str(folder)))


def test_a_resumed_run_reads_nothing_and_says_the_same(job: Path, local: tuple[Path, Report]) -> None:
    folder, report = local
    again, done = analyze_cluster([str(job)], Options(str(folder)), ALONE)
    assert all(one.resumed for one in done)
    assert again == report


def test_a_run_that_was_cut_off_goes_on(job: Path, local: tuple[Path, Report], tmp_path: Path) -> None:
    folder, report = local
    kept = sorted(folder.glob("*.parquet"))
    for file in kept[:2]:
        shutil.copy(file, tmp_path)
    (tmp_path / f".{kept[2].name}.0.part").write_bytes(kept[2].read_bytes()[:100])
    again, done = analyze_cluster([str(job)], Options(str(tmp_path)), ALONE)
    assert sorted(one.resumed for one in done) == [False, False, True, True]
    assert again == report
    assert all((tmp_path / file.name).read_bytes() == file.read_bytes() for file in kept)


def test_other_files_rules_or_parameters_make_other_summaries(job: Path, tmp_path: Path) -> None:
    names = set()
    for options in (Options("x"), Options("x", select=("dispatch-*",)), Options("x", params={"a": {"b": 1}})):
        names.add(find_tasks([str(job)], options)[0][0].name)
    shutil.copytree(job, tmp_path / "job")
    touched = next((tmp_path / "job").rglob("trace_view.json"))
    os.utime(touched, ns=(0, 0))
    names |= {
        task.name for task in find_tasks([str(tmp_path / "job")], Options("x"))[0] if str(task.path) in str(touched)
    }
    assert len(names) == 4


def test_a_worker_that_dies_costs_no_rank(job: Path, local: tuple[Path, Report], tmp_path: Path) -> None:
    tasks, _ = find_tasks([str(job)], Options(str(tmp_path)))
    report = _reported(run_local(tasks, Options(str(tmp_path)), 1 << 30, 2, dies_once), job, tmp_path)
    assert (tmp_path / "died").exists()
    assert report == local[1]


def test_a_rank_that_kills_every_worker_is_named_and_the_rest_delivered(job: Path, tmp_path: Path) -> None:
    tasks, _ = find_tasks([str(job)], Options(str(tmp_path)))
    report = _reported(run_local(tasks, Options(str(tmp_path)), 1 << 30, 2, always_dies), job, tmp_path)
    assert [info.rank for info in report.profile.ranks] == [0, 2, 3]
    (told,) = [remark for remark in report.diagnostics if remark.code == "worker_died"]
    assert "154803001" in told.file
    assert any(remark.code == "ranks_missing" for remark in report.diagnostics)


def test_a_rank_on_which_the_analysis_fails_is_named(job: Path, tmp_path: Path) -> None:
    tasks, _ = find_tasks([str(job)], Options(str(tmp_path)))
    report = _reported(run_local(tasks, Options(str(tmp_path)), 1 << 30, 2, breaks), job, tmp_path)
    assert [info.rank for info in report.profile.ranks] == [0, 2, 3]
    assert "RuntimeError: no such luck" in "".join(remark.message.en for remark in report.diagnostics)


def test_a_broken_rank_is_named_and_the_rest_delivered(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job, tmp_path / "job")
    broken = sorted((tmp_path / "job").glob("*_ascend_pt"))[3]
    for file in broken.rglob("*.*"):
        if file.is_file() and not file.name.startswith("profiler_"):
            file.write_bytes(b"\x00broken")
    report, _ = analyze_cluster([str(tmp_path / "job")], Options(str(tmp_path / "out")), ALONE)
    assert [info.rank for info in report.profile.ranks] == [0, 1, 2]
    assert any(remark.severity == "error" and broken.name in remark.file for remark in report.diagnostics)


def test_ranks_behind_a_url_are_fetched(job: Path, local: tuple[Path, Report], tmp_path: Path) -> None:
    report, _ = analyze_cluster([f"file://{job}"], Options(f"file://{tmp_path}"), ALONE)
    assert len(list(tmp_path.glob("*.parquet"))) == 4
    assert report.findings == local[1].findings


@pytest.fixture
def bucket(job: Path) -> Iterator[Any]:
    """A store of objects with the ranks of the job under ``memory://job``, in this process only."""
    import fsspec

    files = fsspec.filesystem("memory")
    files.put(f"{job}/", "/job/", recursive=True)
    yield files
    for path in ("/job", "/summaries", "/tables"):
        if files.exists(path):
            files.rm(path, recursive=True)


def test_ranks_and_summaries_live_in_a_store_of_objects(bucket: Any, local: tuple[Path, Report]) -> None:
    options = Options("memory://summaries")
    tasks, failed = find_tasks(["memory://job"], options)
    assert ([task.remote for task in tasks], failed) == ([True] * 4, [])
    names = [one.name for one in (summarize(task, options) for task in tasks) if isinstance(one, Done)]
    report = job_report(Store(options.summaries), names, [], "memory://job", options, ["memory://tables"])
    assert report.findings == local[1].findings
    assert bucket.exists("/tables/ranks.parquet")
    again, done = analyze_cluster(["memory://job"], options, ALONE)
    assert (again, [one.resumed for one in done]) == (report, [True] * 4)
    changed = next(path for path in bucket.find("/job") if path.endswith("profiler_metadata.json"))
    bucket.pipe(changed, b"{}")
    after, _ = find_tasks(["memory://job"], options)
    assert sum(task.name not in names for task in after) == 1


def test_a_place_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise FileNotFoundError("no such bucket")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.glob", refused)
    _, (failed,) = find_tasks(["memory://none"], Options("x"))
    assert failed.path == "memory://none"
    assert "no such bucket" in failed.reason.en


def test_the_command_writes_the_report(
    job: Path, local: tuple[Path, Report], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["cluster", str(job), "--summaries", str(local[0]), "--lang", "en"]
    assert main([*arguments, "-f", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["findings"][0]["rule_id"] == "job-slow-rank"
    assert "ranks: 4 (0 analysed, 4 taken from summaries, 0 failed)" in err
    assert main([*arguments, "--fail-on", "high", "-q"]) == 1
    out, err = capsys.readouterr()
    assert "Rank 2 computes longest, and the job waits for it" in out
    assert err == ""


def test_a_bound_that_one_rank_exceeds_is_told(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = str(next(job.glob("*_ascend_pt")))
    for memory, told in (("300MB", True), ("2GB", False)):
        assert main(["cluster", one, "--memory", memory, "--workers", "1", "--lang", "en", "-f", "json"]) == 0
        assert ("ranks are analysed one at a time" in capsys.readouterr().err) is told


def test_the_tables_of_the_job_are_for_other_tools(
    job: Path, local: tuple[Path, Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as parquet

    arguments = ["cluster", str(job), "--summaries", str(local[0]), "-q", "--lang", "en"]
    assert main([*arguments, "-f", "parquet", "-o", f"{tmp_path}/alone"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*arguments, "-o", f"parquet={tmp_path}/beside"]) == 0
    assert "Rank 2 computes longest" in capsys.readouterr().out
    read = {file.stem: parquet.read_table(file) for file in (tmp_path / "alone").iterdir()}
    assert set(read) == {"job", "ranks", "rank_steps", "rank_kernels", "rank_lines", "rank_comms", "rank_links"}
    assert {file.name for file in (tmp_path / "beside").iterdir()} == {f"{name}.parquet" for name in read}
    (found,) = [one for one in local[1].findings if one.rule_id == "job-slow-rank"]
    slow = read["ranks"].to_pylist()[2]
    assert (slow["rank"], slow["late_us"]) == (2, found.values["late_us"])
    steps = read["rank_steps"].to_pylist()
    assert [(row["rank"], row["number"]) for row in steps] == [(rank, step) for rank in range(4) for step in (10, 11)]
    assert sum(row["kernel_us"] for row in steps if row["rank"] == 2) / 2 == pytest.approx(slow["kernel_us"])
    assert {row["type"] for row in read["rank_comms"].to_pylist()} == {"allReduce"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--memory", "much"], "no amount of memory"),
        (["--engine", "dask"], "--scheduler"),
        (["--engine", "dask", "--scheduler", "tcp://127.0.0.1:1"], "--summaries"),
        (["--engine", "ray"], "ray"),
        (["-f", "parquet"], "-o DIR"),
        (["-o", "parquet=-"], "-o DIR"),
    ],
)
def test_options_that_no_run_can_use(
    job: Path, arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", str(job), "--lang", "en", *arguments]) == 2
    assert word in capsys.readouterr().err


@needs_profiles
def test_a_cluster_tool_output_alone_is_a_job_of_eight(tmp_path: Path) -> None:
    report, _ = analyze_cluster([str(PROFILES / "npu-cluster-output-8r-2023")], Options(str(tmp_path)), ALONE)
    assert len(report.profile.ranks) == 8
    assert {rule.outcome for rule in report.rules} <= {"fired", "clean", "skipped"}
    # Rank 1 arrives last at the broadcasts, and only its idle time is longer than that of the others.
    assert [(finding.rule_id, finding.rank) for finding in report.findings] == [("job-late-host", 1)]


@needs_profiles
def test_a_profile_that_names_no_rank_lacks_none(tmp_path: Path) -> None:
    report, _ = analyze_cluster([str(PROFILES / "npu-trace-only-2024")], Options(str(tmp_path)), ALONE)
    assert [info.rank for info in report.profile.ranks] == [-1]
    assert "ranks_missing" not in {remark.code for remark in report.diagnostics}


@needs_profiles
def test_two_of_eight_ranks_do_not_blame_each_other_for_the_fifth(tmp_path: Path) -> None:
    report, _ = analyze_cluster([str(PROFILES / "npu-alexnet-text-l1")], Options(str(tmp_path)), ALONE)
    assert "job" not in {finding.category for finding in report.findings}
    assert report.findings[0].values["peer"] == 5
    assert "ranks_missing" in {remark.code for remark in report.diagnostics}


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed", reason="no dask: the extra [cluster] is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


class TestDask:
    """A scheduler and workers in processes of their own, on loopback."""

    def test_it_says_what_a_local_run_says(
        self, job: Path, local: tuple[Path, Report], scheduler: str, tmp_path: Path
    ) -> None:
        engine = Engine(memory=1 << 30, scheduler=scheduler, name="dask")
        report, _ = analyze_cluster([str(job)], Options(str(tmp_path)), engine)
        assert report == local[1]
        assert all((tmp_path / file.name).read_bytes() == file.read_bytes() for file in local[0].glob("*.parquet"))

    def test_a_worker_killed_in_mid_run_costs_no_rank(
        self, job: Path, local: tuple[Path, Report], scheduler: str, tmp_path: Path
    ) -> None:
        tasks, _ = find_tasks([str(job)], Options(str(tmp_path)))
        report = _reported(run_dask(tasks, Options(str(tmp_path)), scheduler, dies_once), job, tmp_path)
        assert (tmp_path / "died").exists()
        assert report == local[1]

    def test_a_rank_that_fails_is_named_and_the_rest_delivered(self, job: Path, scheduler: str, tmp_path: Path) -> None:
        tasks, _ = find_tasks([str(job)], Options(str(tmp_path)))
        report = _reported(run_dask(tasks, Options(str(tmp_path)), scheduler, breaks), job, tmp_path)
        assert [info.rank for info in report.profile.ranks] == [0, 2, 3]
        assert "no such luck" in "".join(remark.message.en for remark in report.diagnostics)

    def test_nobody_at_the_address_is_a_clear_error(self, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("distributed", reason="no dask: the extra [cluster] is not installed")
        arguments = ["--engine", "dask", "--scheduler", "nonsense://x", "--summaries", "memory://s", "--lang", "en"]
        assert main(["cluster", str(job), *arguments]) == 2
        assert "no dask scheduler answers" in capsys.readouterr().err
