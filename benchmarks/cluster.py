"""What jobs of many ranks cost: ``python benchmarks/cluster.py ranks`` and ``python benchmarks/cluster.py rules``.

``ranks`` generates ranks of a size, analyses them as ``npu-advisor cluster`` does, and compares processor time with
ranks analysed one after the other in one process, and the memory of all processes together with ``--memory``.
``rules`` writes simulated summaries (groups of eight for tensor parallelism, the others for data parallelism; one slow
rank) and times the judgement of the job alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np

from npu_advisor import analyze
from npu_advisor.cluster.rank import Options, summarize
from npu_advisor.cluster.run import Engine, analyze_cluster, job_report
from npu_advisor.cluster.store import Store, Summary
from npu_advisor.cluster.tasks import find_tasks
from npu_advisor.model.table import Table

ROOT = Path(__file__).resolve().parent.parent
WRITERS = 4
KINDS = ("MatMulV3", "FlashAttentionScore", "Add", "Mul", "Cast", "LayerNorm", "Gelu", "Softmax", "Transpose", "Adam")


def simulated(
    rank: int, steps: int, collectives: int, world: int, slow: int, document: Mapping[str, object]
) -> Summary:
    """The summary of one rank of a job in which rank ``slow`` computes a third longer; not one event behind it.

    ``document`` is what was found inside it.
    """
    rng = np.random.default_rng(rank)
    pace = 1.33 if rank == slow else 1.0
    work = np.tile(np.full(collectives, 800.0), steps) * rng.normal(1.0, 0.003, steps * collectives)
    tensor = np.arange(steps * collectives) % 4 != 3
    # Everybody waits in the data-parallel collectives for the slow rank, its own tensor group in all of them.
    lag = 800.0 * 0.33 * (rank != slow) * np.where(tensor, rank // 8 == slow // 8, 4 if rank // 8 != slow // 8 else 1)
    dur = 100.0 + np.maximum(lag + (work.mean() - work), 0.0)
    own = work * pace
    start = np.cumsum(own + dur) - dur
    number = np.repeat(np.arange(steps), collectives)
    ends = (start + dur).reshape(steps, collectives)[:, -1] + 500.0
    begins = np.append(0.0, ends[:-1])
    lead = own.copy()
    lead[collectives::collectives] -= 500.0
    group = np.where(tensor, f"tp{rank // 8}", f"dp{rank % 8}").astype(object)
    place = np.where(tensor, np.cumsum(tensor), np.cumsum(~tensor)) - 1
    per_step = np.where(tensor, collectives - collectives // 4, collectives // 4)
    kernel = own.reshape(steps, collectives).sum(axis=1)
    comms = {
        "number": number,
        "type": np.where(tensor, "allReduce", "reduceScatter").astype(object),
        "group": group,
        "ordinal": place % per_step,
        "start_ns": (start * 1000).astype(np.int64),
        "dur_ns": (dur * 1000).astype(np.int64),
        "bytes": np.full(len(dur), 5e7),
        "wait_us": dur - 100,
        "transit_us": np.full(len(dur), 100.0),
        "exposed_us": dur,
        "lead_us": lead,
        "lead_busy_us": lead * 0.97,
        "under_us": np.zeros(len(dur)),
        "under_busy_us": np.zeros(len(dur)),
        "blocks": np.ones(len(dur), dtype=bool),
    }
    rows = {
        "number": np.arange(steps),
        "start_ns": (begins * 1000).astype(np.int64),
        "dur_ns": ((ends - begins) * 1000).astype(np.int64),
        "compute_us": kernel,
        "kernel_us": kernel,
        "comm_us": dur.reshape(steps, collectives).sum(axis=1),
        "exposed_us": dur.reshape(steps, collectives).sum(axis=1),
        "free_us": np.full(steps, 300.0),
        "prepare_us": np.full(steps, 200.0),
        "after_us": np.zeros(steps),
        "tail_us": np.full(steps, 500.0),
        "tail_busy_us": np.full(steps, 450.0),
        "calls": np.full(steps, 3000),
        "mhz": np.full(steps, 1800.0 / pace),
        "elements": np.full(steps, 4e9),
        "expert_us": np.zeros(steps),
        **{f"idle_{owner}_us": np.full(steps, 50.0) for owner in ("dispatch", "data", "sync", "other")},
    }
    share = rng.dirichlet(np.full(len(KINDS), 50.0))
    lines = np.array([f"/job/train.py({line}): step" for line in range(40, 50)], dtype=object)
    kernels = {
        "type": np.array(KINDS, dtype=object),
        "calls": np.full(len(KINDS), 300 * steps),
        "total_us": kernel.sum() / len(KINDS) * (1 + 0.01 * share),
        "line": lines,
    }
    links = {
        "transport": np.array(["HCCS"] * 7, dtype=object),
        "src": np.full(7, rank % 8),
        "dst": np.delete(np.arange(8), rank % 8),
        "bytes": np.full(7, 1e9),
        "transit_us": np.full(7, 1e5) * rng.normal(1.0, 0.02),
        "steps": np.full(7, steps),
        "step_us": np.full(7, float((ends - begins).mean())),
    }
    meta = {
        "rank": rank,
        "stage": -1,
        "world": world,
        "node": f"node{rank // 8}",
        "form": "text",
        "info": {"rank": rank, "path": f"/job/rank{rank}", "form": "text"},
    }
    tables = {
        "rank_steps": rows,
        "rank_kernels": kernels,
        "rank_lines": {"line": lines, "calls": kernels["calls"], "total_us": kernels["total_us"]},
        "rank_comms": comms,
        "rank_links": links,
    }
    return Summary(meta, document, [Table.build(name, columns, rank) for name, columns in tables.items()])


def rules(arguments: argparse.Namespace) -> None:
    """Judge a simulated job; the process that does so does nothing else."""
    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="summaries-"))
    store = Store(str(folder))
    names = [f"rank{rank:06d}.parquet" for rank in range(arguments.ranks)]
    if not (folder / "written").exists():
        # In processes of their own, so that what it takes is not counted.
        writers = [os.fork() or _write(store, names, part, arguments) for part in range(WRITERS)]
        for writer in writers:
            os.waitpid(writer, 0)
        (folder / "written").touch()
    sizes = [file.stat().st_size for file in folder.glob("*.parquet")]
    print(f"summaries: {np.mean(sizes) / 1024:.1f} KiB each")
    wall, cpu = time.perf_counter(), time.process_time()
    report = job_report(store, names, [], str(folder), Options(str(folder)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    for finding in report.findings:
        saves = finding.saving.us_per_step if finding.saving else float("nan")
        print(f"{finding.severity.value}: {finding.rule_id}, rank {finding.rank}, saves {saves:.0f} us a step")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{arguments.ranks} ranks x {arguments.steps} steps: {wall:.1f} s ({cpu:.1f} s of cpu), peak {peak:.0f} MiB")


def _write(store: Store, names: list[str], part: int, arguments: argparse.Namespace) -> NoReturn:
    """Write every WRITERS-th summary, with the findings of the demo inside, and end the process."""
    report = analyze(ROOT / "fixtures" / "demo").model_dump(mode="json")
    document = {key: report[key] for key in ("steps", "findings", "rules")} | {
        "facts": report["facts"][0],
        "remarks": [],
    }
    for rank in range(part, len(names), WRITERS):
        shape = (arguments.steps, arguments.collectives, arguments.ranks, arguments.slow)
        store.write(names[rank], simulated(rank, *shape, document))
    os._exit(0)


def ranks(arguments: argparse.Namespace) -> None:
    """Analyse generated ranks in a pool and one by one."""
    sys.path.insert(0, str(ROOT / "fixtures"))
    from synthetic import Settings, generate

    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="ranks-"))
    if not (folder / "truth.json").exists():
        slow = f"slow_rank:rank={arguments.slow}"
        generate(folder, Settings(ranks=arguments.ranks, steps=arguments.steps, plant=[slow]))
    with tempfile.TemporaryDirectory() as out:
        options = Options(out)
        tasks, _ = find_tasks([str(folder)], options)
        single = [summarize(task, Options(f"{out}/single")) for task in tasks[: arguments.single]]
        each = [one.seconds for one in single]  # the first one imports and warms up
        with _Watch() as watch:
            wall = time.perf_counter()
            report, done = analyze_cluster([str(folder)], options, Engine(arguments.memory << 20, arguments.workers))
            wall = time.perf_counter() - wall
        sizes = [file.stat().st_size for file in Path(out).glob("*.parquet")]
    cpu = sum(one.seconds for one in done)
    print(
        json.dumps(
            {
                "ranks": len(done),
                "mbytes_each": round(np.mean([task.size for task in tasks]) / 1e6, 1),
                "wall_s": round(wall, 1),
                "cpu_of_ranks_s": round(cpu, 1),
                "cpu_single_s": round(float(np.mean(each[1:])), 3),
                "cpu_ratio": round(cpu / len(done) / float(np.mean(each[1:])), 3),
                "peak_all_processes_mib": watch.peak >> 20,
                "peak_worker_mib": max(one.peak_bytes for one in done) >> 20,
                "summary_kib": round(float(np.mean(sizes)) / 1024, 1),
                "found": [(one.rule_id, one.rank) for one in report.findings[:1]],
            }
        )
    )


class _Watch:
    """The memory of this process and its children together, looked at 20 times a second (Linux): their proportional
    set sizes, in which pages that several share count once."""

    def __enter__(self) -> _Watch:
        self.peak, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self.peak = max(self.peak, sum(map(_pss, _family(os.getpid()))))


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += _family(int(child))
    return found


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ranks", "rules"))
    parser.add_argument("--folder", help="where the generated input is kept and found again")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--slow", type=int, default=37)
    parser.add_argument("--collectives", type=int, default=40, help="a step and rank (rules)")
    parser.add_argument("--memory", type=int, default=2048, help="MiB (ranks)")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--single", type=int, default=4, help="ranks analysed one by one for comparison")
    arguments = parser.parse_args()
    {"ranks": ranks, "rules": rules}[arguments.what](arguments)


if __name__ == "__main__":
    main()
