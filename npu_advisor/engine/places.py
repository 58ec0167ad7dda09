"""Turn frames into locations: where the file is on this machine, and why there is no line."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from npu_advisor.base.frame import Frame
from npu_advisor.findings import Location

SOURCE_SUFFIXES = (".py", ".pyw", ".pyx")
MAX_SOURCE_BYTES = 16 << 20


def location(frame: Frame | None, how: str, roots: Mapping[str, str]) -> Location | None:
    """The location of ``frame``; ``roots`` maps path prefixes of the training machine to local folders."""
    if frame is None:
        return None
    local = _local(frame, roots)
    return Location(path=frame.path, line=frame.line, function=frame.function, how=how, local_path=local)


def _local(frame: Frame, roots: Mapping[str, str]) -> str | None:
    """The readable local file behind a recorded path; None when there is none, or it is too short for the line."""
    return next((str(path) for path in _candidates(frame.path, roots) if _has_line(path, frame.line)), None)


def _candidates(path: str, roots: Mapping[str, str]) -> list[Path]:
    mapped = []
    for old, new in sorted(roots.items(), key=lambda item: -len(item[0])):
        prefix = old.rstrip("/\\")
        if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("/", "\\", ""):
            rest = path[len(prefix) :].replace("\\", "/").lstrip("/")
            mapped.append(Path(new) / rest if rest else Path(new))
    return mapped or [Path(path)]


def _has_line(path: Path, line: int) -> bool:
    # A recorded path is somebody else's text. It may name a device that never ends, or a file that is nobody's
    # business: a profile from elsewhere must not put lines of private files into a report.
    try:
        if path.suffix not in SOURCE_SUFFIXES or not path.is_file() or path.stat().st_size > MAX_SOURCE_BYTES:
            return False
        with path.open("rb") as handle:
            return sum(1 for _ in islice(handle, line)) == line
    except (OSError, ValueError):
        return False
