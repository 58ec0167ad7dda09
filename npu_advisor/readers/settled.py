"""Is a profile still being written? A profiler parses its raw data in the background, file by file."""

from __future__ import annotations

import os
from pathlib import Path

from npu_advisor.readers.discover import RankSource, iter_files

_TAIL_BYTES = 64
# What a JSON trace may end with.
_ENDS = (b"]", b"}")


def signature(source: RankSource) -> tuple[tuple[str, int, int], ...]:
    """Name, size in bytes and time of the last change (ns) of each of its files; equal twice means nothing was
    written in between."""
    found = []
    for path in sorted(iter_files(source)):
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((str(path), status.st_size, status.st_mtime_ns))
    return tuple(found)


def is_whole(source: RankSource) -> bool:
    """Whether none of its files is visibly unfinished: empty, or a JSON trace without its end."""
    files = list(iter_files(source))
    return bool(files) and all(_ends_well(path) for path in files)


def _ends_well(path: Path) -> bool:
    try:
        size = path.stat().st_size
        if path.suffix != ".json":
            return size > 0
        with path.open("rb") as handle:
            handle.seek(max(0, size - _TAIL_BYTES), os.SEEK_SET)
            return handle.read().rstrip().endswith(_ENDS)
    except OSError:
        return False
