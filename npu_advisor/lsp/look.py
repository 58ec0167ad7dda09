"""A cheap look at the folder that the editor follows: did anything change, and is the newest file a report?

It opens nothing and imports nothing: what the files mean is for the process that reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import time_ns

from npu_advisor.report.options import MARK

# Nothing was written for this long: nobody is writing.
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True)
class Look:
    """``stamp`` changes whenever a file does; ``report`` is the newest file, where that is a report."""

    stamp: frozenset[tuple[str, int, int]]
    written_ns: int
    report: Path | None

    def is_settled(self, before: Look | None) -> bool:
        """Whether nothing was written for a while, or since the last look."""
        return time_ns() - self.written_ns > _SETTLED_NS or (before is not None and before.stamp == self.stamp)


def look(path: Path) -> Look | None:
    """What is at ``path``: a folder, or one file. None when that is nothing."""
    stamp = frozenset(_files(path))
    if not stamp:
        return None
    # Of files as old as each other the report counts: it was made from the others.
    name, _, written = max(stamp, key=lambda item: (item[2], item[0].endswith(f"{MARK}.json")))
    is_report = name.endswith(f"{MARK}.json") or (path.is_file() and _holds_report(path))
    return Look(stamp, written, Path(name) if is_report else None)


def _files(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of the last change of each file; other forms of reports do not matter."""
    names = (os.path.join(folder, name) for folder, _, files in os.walk(path) for name in files)  # noqa: PTH118 (speed)
    for name in [str(path)] if path.is_file() else names:
        if MARK in os.path.basename(name) and not name.endswith(f"{MARK}.json"):  # noqa: PTH119 (speed)
            continue
        try:
            status = os.stat(name)  # noqa: PTH116 (speed)
        except OSError:
            continue  # it went while we looked
        yield name, status.st_size, status.st_mtime_ns


def _holds_report(path: Path) -> bool:
    if path.suffix != ".json":
        return False
    try:
        with path.open("rb") as handle:
            return b'"schema_version"' in handle.read(64)
    except OSError:
        return False
