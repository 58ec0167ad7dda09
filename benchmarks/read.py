"""How long a whole run takes beside ``json.load`` of the same trace, and how much memory: run by hand.

    python benchmarks/read.py [--size 50MB] [--runs 3]

Both run in fresh processes, in turn, and the best of the runs counts: the ratio holds on any machine, the times do not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JSON_LOAD = "import json, sys; json.load(open(sys.argv[1], encoding='utf-8'))"
WHOLE_RUN = "import sys; from npu_advisor.cli.app import main; sys.exit(main([sys.argv[1], '-o', sys.argv[2], '-q']))"


def measured(code: str, *arguments: str) -> tuple[float, float]:
    """Seconds and peak MB of a fresh Python that runs ``code``; CalledProcessError when it fails."""
    before = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, code)
    return time.perf_counter() - before, usage.ru_maxrss / 1024


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="50MB")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        generator = ROOT / "fixtures" / "generate.py"
        settings = ["--size", options.size, "--plant", "dispatch", "--truth-steps", "1"]
        command = [sys.executable, generator, folder, *settings]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (trace,) = Path(folder).glob("*/ASCEND_PROFILER_OUTPUT/trace_view.json")
        loads, runs = [], []
        for _ in range(options.runs):
            loads.append(measured(JSON_LOAD, str(trace)))
            runs.append(measured(WHOLE_RUN, folder, str(Path(folder) / "report.txt")))
        size = trace.stat().st_size / 1e6
    (load, load_mb), (run, run_mb) = min(loads), min(runs)
    print(f"trace      {size:8.1f} MB")
    print(f"json.load  {load:8.2f} s {load_mb:8.0f} MB")
    print(f"whole run  {run:8.2f} s {run_mb:8.0f} MB")
    print(f"ratio      {run / load:8.2f}   {run_mb / load_mb:8.2f}")


if __name__ == "__main__":
    main()
