"""One rank on its own: read, judged by the rules, and written as a summary. Runs in a worker of any engine."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_advisor import __version__
from npu_advisor.base.errors import ProfileError
from npu_advisor.base.terms import Text
from npu_advisor.engine.plan import Plan

if TYPE_CHECKING:
    from npu_advisor.model.profile import Profile

# Changes with what a summary holds, so that older ones are made anew.
FORMAT = 4
_RULES: dict[str, list[Plan]] = {}
_NODE = re.compile(r"^(.+?)_\d+_\d{14,}_ascend_(?:pt|ms)$")


@dataclass(frozen=True)
class Options:
    """What every rank is analysed with."""

    summaries: str
    rules: tuple[str, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One rank to analyse: ``path`` (or URL) of its folder, ``rank`` within it (None: whatever is there), the bytes of
    its files, and the ``name`` of the summary, which is made of what the files are and who reads them."""

    path: str
    rank: int | None
    size: int
    name: str
    remote: bool = False


@dataclass(frozen=True)
class Done:
    """A rank whose summary is written. ``seconds`` are of processor time, ``peak_bytes`` of the worker so far."""

    name: str
    rank: int
    size: int
    seconds: float = 0.0
    peak_bytes: int = 0
    resumed: bool = False


@dataclass(frozen=True)
class Failed:
    """A rank that gave nothing, and why."""

    path: str
    reason: Text
    code: str = "rank_failed"


Result = Done | Failed


def task_name(path: str, rank: int | None, files: Sequence[tuple[str, int, int | str]], options: Options) -> str:
    """The file name of a summary, from (name, bytes, time of change) of its input files, the version and options."""
    given = {key: value for key, value in asdict(options).items() if key != "summaries"}
    told = repr(
        (FORMAT, __version__, Path(path).name, rank, sorted(files), sorted(given.items()), _rule_texts(options.rules))
    )
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(path).name)[:60]
    number = "" if rank is None else f"-{rank:05d}"
    return f"{stem}{number}-{hashlib.sha256(told.encode()).hexdigest()[:16]}.parquet"


@lru_cache
def _rule_texts(dirs: tuple[str, ...]) -> str:
    """A hash of the rules: rules that were edited since make another summary."""
    from npu_advisor.rules.loader import shipped_dir

    folders = [shipped_dir(), *map(Path, dirs)]
    files = sorted(
        file for folder in folders for file in folder.rglob("*.yaml") if not file.name.endswith(".test.yaml")
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def summarize(task: Task, options: Options) -> Result:
    """Analyse one rank and write its summary. A fault of the input is a result; any other error is raised."""
    from npu_advisor.cluster.store import Store

    # The ranks are what runs side by side here.
    os.environ["NPU_ADVISOR_PROCESSES"] = "1"
    began = time.process_time()
    try:
        with _local(task) as path:
            summary = summary_of(path, task, options)
    except ProfileError as error:
        return Failed(task.path, error.what, error.code)
    Store(options.summaries).write(task.name, summary)
    return Done(task.name, summary.rank, task.size, time.process_time() - began, _peak_bytes())


def summary_of(path: str, task: Task, options: Options) -> Any:
    """The summary of the rank in ``path``. ProfileError when it cannot be read."""
    from npu_advisor.cluster.store import Summary
    from npu_advisor.derive.ranks import summary_tables
    from npu_advisor.engine import summary
    from npu_advisor.engine.places import Roots
    from npu_advisor.engine.pricing import price
    from npu_advisor.engine.run import run_rules
    from npu_advisor.engine.suppress import split
    from npu_advisor.session import load_profiles

    profile = load_profiles(path, ranks=() if task.rank is None else (task.rank,))[0]
    results = [(profile, run_rules(_rules(options), profile))]
    roots = Roots()
    priced = price(split(results, roots)[0], roots)
    document = {
        "steps": [step.model_dump(mode="json") for step in summary.steps(profile, summary.paths_of(0, priced.trusted))],
        "facts": summary.facts(profile).model_dump(mode="json"),
        "findings": [finding.model_dump(mode="json") for finding in priced.findings],
        "rules": [outcome.model_dump(mode="json") for outcome in summary.outcomes([results[0][1]])],
        "remarks": [remark.model_dump(mode="json") for remark in summary.remarks(profile)],
    }
    return Summary(meta(profile, task.path), document, summary_tables(profile))


def meta(profile: Profile, path: str) -> dict[str, Any]:
    """What a summary says of its rank as a whole, which was read from ``path``."""
    from npu_advisor.derive.world import experts_of, stage_of, world_size
    from npu_advisor.engine import summary

    info = summary.rank_info(profile).model_copy(update={"path": path})
    return {
        "format": FORMAT,
        "version": __version__,
        "rank": profile.rank,
        "form": profile.info.form,
        "info": info.model_dump(mode="json"),
        "node": _node(path),
        "stage": stage_of(profile),
        "experts": experts_of(profile),
        "world": world_size(profile),
    }


def _rules(options: Options) -> list[Plan]:
    """The rules of ``options``, read and checked once a process."""
    from npu_advisor.session import rank_rules

    key = repr(options)
    if key not in _RULES:
        _RULES[key] = rank_rules(options.rules, options.params, options.select, options.ignore)
    return _RULES[key]


def _node(path: str) -> str | None:
    """The machine in ``node0_3096504_20250109154803000_ascend_pt``."""
    for part in reversed(Path(path).parts):
        if found := _NODE.match(part):
            return found[1]
    return None


@contextmanager
def _local(task: Task) -> Iterator[str]:
    """The folder of the task on this machine; one behind a URL is fetched for as long as it is needed."""
    if not task.remote:
        yield task.path
        return
    import fsspec

    files, root = fsspec.core.url_to_fs(task.path)
    with tempfile.TemporaryDirectory(prefix="npu-advisor-") as folder:
        target = Path(folder) / Path(root).name
        files.get(root.rstrip("/") + "/", f"{target}/", recursive=True)
        yield str(target)


def _peak_bytes() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
