"""Which ranks there are to analyse, under local paths and URLs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npu_advisor.base.errors import ProfileError
from npu_advisor.base.messages import say
from npu_advisor.cluster.rank import Failed, Options, Task, task_name
from npu_advisor.cluster.store import filesystem
from npu_advisor.readers import locate
from npu_advisor.readers.discover import RankSource, iter_files

# What file systems call that which changes with the content of a file.
_CHANGES = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")
_SUFFIXES = ("_ascend_pt", "_ascend_ms")


def find_tasks(paths: Sequence[str], options: Options) -> tuple[list[Task], list[Failed]]:
    """One task a rank, in the order in which ranks are found, and the paths under which there is none."""
    tasks: list[Task] = []
    failed: list[Failed] = []
    for path in paths:
        found = _under(path, options)
        if isinstance(found, Failed):
            failed.append(found)
        else:
            tasks += found
    return tasks, failed


def _under(path: str, options: Options) -> list[Task] | Failed:
    try:
        return _remote(path, options) if "://" in path else _local(path, options)
    except ProfileError as error:
        return Failed(path, error.what, error.code)
    except OSError as error:  # a bucket that is not there, a name node that does not answer
        return Failed(path, say("error.bad_place", place=path, reason=str(error)), "nothing_found")


def _local(path: str, options: Options) -> list[Task]:
    sources = locate(Path(path))
    shared = Counter(str(source.path) for source in sources)
    return [_task(source, shared[str(source.path)] > 1, options) for source in sources]


def _task(source: RankSource, shared: bool, options: Options) -> Task:
    """A rank; where several are in one place (cluster_analysis_output) it is told apart by its number."""
    path, rank = str(source.path.resolve()), source.rank_hint if shared else None
    states = [
        (file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in iter_files(source) if file.is_file()
    ]
    size = sum(size for _, size, _ in states)
    return Task(path, rank, size, task_name(path, rank, states, options))


def _remote(url: str, options: Options) -> list[Task]:
    files, root = filesystem(url)
    folders = [root] if root.endswith(_SUFFIXES) else []
    folders += [found for suffix in _SUFFIXES for found in files.glob(f"{root}/**/*{suffix}")]
    if not folders:
        raise ProfileError(url, say("error.nothing_remote", path=url), None, say("do.remote"), code="nothing_found")
    made = []
    for folder in sorted(set(folders)):
        found = files.find(folder, detail=True)
        states = [(name, int(entry["size"]), _state(entry)) for name, entry in sorted(found.items())]
        name = task_name(folder, None, states, options)
        made.append(Task(files.unstrip_protocol(folder), None, sum(size for _, size, _ in states), name, remote=True))
    return made


def _state(entry: Mapping[str, Any]) -> str:
    return next((str(entry[name]) for name in _CHANGES if entry.get(name)), "")
