"""A whole run (read, link, all rules, replayed savings, terminal report) beside ``json.load`` of the same trace.

    python benchmarks/read.py                      100 MB and 1 GB, three runs each
    python benchmarks/read.py --size 50MB --runs 5
    python benchmarks/read.py --size 100MB --profile    also where the time of one run goes
    python benchmarks/read.py --size 100MB --ranks 8    what further ranks of a run cost beside one

All run in fresh processes, in turn, and the best of the runs counts, so the ratios hold on any machine; the times do
not. "same as SQLite" reads the same content from the databases that the exporter can write instead. "second run" asks
once more what ``--cache`` kept; "other rules" starts from the columns alone, as a run with other rules does. Memory is
the peak of all processes of a run together, as far as samples every few milliseconds see it.
Where ``msprof-analyze`` is installed, its advisor runs beside.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from npu_advisor.base.shelf import REPORT

ROOT = Path(__file__).resolve().parent.parent
JSON_LOAD = "import json, sys; json.load(open(sys.argv[1], encoding='utf-8'))"
PROFILED = """
import cProfile, pstats, sys
from npu_advisor.cli.app import main
profile = cProfile.Profile()
profile.runcall(main, [sys.argv[1], '-o', sys.argv[2], '-q'])
pstats.Stats(profile).sort_stats('cumtime').print_stats('npu_advisor', 40)
pstats.Stats(profile).sort_stats('tottime').print_stats(20)
"""
OTHER_RULES = "other rules"
# How often the memory of the processes is looked at, in seconds.
EVERY = 0.01


class Cost(NamedTuple):
    """Wall and CPU seconds, and peak MB, of a process and all it started."""

    wall: float
    cpu: float
    mb: float


def measured(command: list[str]) -> Cost:
    """What a fresh process costs; CalledProcessError when it fails."""
    before = time.perf_counter()
    # Whoever installs a package has its modules compiled.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, env=env)
    peak = 0.0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, sum(map(_resident_mb, _tree(process.pid))))
        time.sleep(EVERY)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    # Children that it waited for are in its usage; the largest single process bounds the sum from below.
    return Cost(time.perf_counter() - before, usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss / 1024))


def _tree(pid: int) -> list[int]:
    """A process and its descendants (Linux; elsewhere the process alone)."""
    found = [pid]
    for one in found:
        for tasks in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, tasks.read_text().split())
    return found


def _resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _best(costs: list[Cost]) -> Cost:
    return Cost(*(min(values) for values in zip(*costs, strict=True)))


def _commands(folder: str, settings: list[str], trace: Path) -> dict[str, list[str]]:
    """By name."""
    output = str(Path(folder) / "report.txt")
    whole = [sys.executable, "-m", "npu_advisor", folder, "-o", output, "-q"]
    database = _generated(Path(folder).with_name("database"), [*settings, "--form", "db"])
    kept = [*whole, "--cache", str(_kept(folder))]
    found = {
        "json.load": [sys.executable, "-c", JSON_LOAD, str(trace)],
        "npu-advisor": whole,
        "trace as .gz": [*whole[:3], str(_zipped(folder, trace)), *whole[4:]],
        "same as SQLite": [*whole[:3], database, *whole[4:]],
        OTHER_RULES: kept,
        "second run": kept,
    }
    other = shutil.which("msprof-analyze")
    if other:
        found["msprof-analyze"] = [other, "advisor", "all", "-d", folder, "-o", str(Path(folder) / "msprof")]
    return found


def _generated(place: Path, settings: list[str], ranks: int = 1) -> str:
    """Profiles with these settings of the generator; where they are."""
    generator = [sys.executable, str(ROOT / "fixtures" / "generate.py"), str(place)]
    subprocess.run([*generator, *settings, "--ranks", str(ranks)], check=True, stdout=subprocess.DEVNULL)
    return str(place)


def _zipped(folder: str, trace: Path) -> Path:
    """The same profile, its trace zipped."""
    twin = Path(folder).with_name("zipped")
    shutil.copytree(folder, twin, copy_function=os.link, ignore=shutil.ignore_patterns(trace.name))
    into = twin / trace.relative_to(folder)
    with trace.open("rb") as plain, gzip.open(f"{into}.gz", "wb", compresslevel=6) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    return twin


def _kept(folder: str) -> Path:
    return Path(folder).with_name("kept")


def benchmark(size: str, runs: int, profile: bool) -> None:
    """Generate a profile of ``size``, measure, print."""
    with tempfile.TemporaryDirectory() as root:
        settings = ["--size", size, "--plant", "all", "--truth-steps", "1"]
        folder = _generated(Path(root) / "profile", settings)
        (trace,) = Path(folder).glob("*/ASCEND_PROFILER_OUTPUT/trace_view.json")
        commands = _commands(folder, settings, trace)
        # The first run, which fills the cache, does not count.
        measured(commands["second run"])
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                for report in _kept(folder).glob(f"*{REPORT}") if name == OTHER_RULES else ():
                    report.unlink()
                costs[name].append(measured(command))
        _print(trace.stat().st_size / 1e6, {name: _best(each) for name, each in costs.items()})
        if profile:
            subprocess.run(
                [sys.executable, "-c", PROFILED, folder, str(Path(folder) / "report.txt")], check=True, cwd=ROOT
            )


def benchmark_ranks(size: str, runs: int, ranks: int) -> None:
    """Generate ``ranks`` profiles of ``size`` of one run, measure runs on one, half and all of them, print."""
    with tempfile.TemporaryDirectory() as root:
        job = Path(_generated(Path(root) / "job", ["--size", size, "--plant", "all", "--truth-steps", "1"], ranks))
        found = sorted(job.glob("*_ascend_pt"))
        counts = sorted({1, max(ranks // 2, 1), ranks})
        commands = {
            count: [sys.executable, "-m", "npu_advisor", *map(str, found[:count]), "-o", f"{root}/report.txt", "-q"]
            for count in counts
        }
        costs: dict[int, list[Cost]] = {count: [] for count in counts}
        for _ in range(runs):
            for count, command in commands.items():
                costs[count].append(measured(command))
    base = _best(costs[1])
    print(f"ranks of {size} each")
    print(f"{'ranks':>6}{'wall s':>9}{'of one':>8}{'CPU s':>9}{'of one':>8}{'peak MB':>9}{'a further rank':>16}")
    for count in counts:
        cost = _best(costs[count])
        shares = f"{cost.wall:9.2f}{cost.wall / base.wall:8.2f}{cost.cpu:9.2f}{cost.cpu / base.cpu:8.2f}{cost.mb:9.0f}"
        print(f"{count:6}{shares}" + (f"{(cost.mb - base.mb) / (count - 1):16.1f}" if count > 1 else ""), flush=True)


def _print(megabytes: float, costs: dict[str, Cost]) -> None:
    base = costs["json.load"]
    print(f"trace_view.json of {megabytes:.0f} MB")
    print(f"{'':16}{'wall s':>9}{'ratio':>7}{'CPU s':>9}{'ratio':>7}{'peak MB':>9}{'of file':>9}")
    for name, cost in costs.items():
        shares = f"{cost.wall:9.2f}{cost.wall / base.wall:7.2f}{cost.cpu:9.2f}{cost.cpu / base.cpu:7.2f}"
        print(f"{name:16}{shares}{cost.mb:9.0f}{cost.mb / megabytes:9.2f}", flush=True)


def main() -> None:
    """Measure every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", help="100MB, 1GB, ...; may be repeated")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="also print where our time goes")
    options = parser.parse_args()
    for size in options.size or ["100MB", "1GB"]:
        if options.ranks > 1:
            benchmark_ranks(size, options.runs, options.ranks)
        else:
            benchmark(size, options.runs, options.profile)


if __name__ == "__main__":
    main()
