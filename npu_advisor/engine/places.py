"""Turn frames into locations: where the file is on this machine, the code around the line, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from npu_advisor.base.frame import Frame
from npu_advisor.engine.sourcefile import SourceFile, open_source
from npu_advisor.findings import CodeFrame, Location

# Lines shown before and after the one that matters.
CONTEXT = 2
# A minified file must not put a megabyte into the report.
_LONGEST_LINE = 400


@dataclass(frozen=True)
class Roots:
    """Where recorded paths lie on this machine.

    ``prefixes`` maps path prefixes of the training machine to local folders; ``folders`` are searched for the longest
    end of a recorded path that exists there.
    """

    prefixes: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[str]) -> Roots:
        """From ``OLD=NEW`` (a prefix and its local folder) and ``DIR`` (a folder to search) entries."""
        pairs = [entry.partition("=") for entry in entries]
        return cls(
            prefixes={old: new for old, equals, new in pairs if equals},
            folders=tuple(folder for folder, equals, _ in pairs if not equals),
        )


def location(frame: Frame | None, how: str, roots: Roots) -> Location | None:
    """The location of ``frame``.

    A file found by prefix, or as recorded, counts even when the code there does not fit the frame (``code.fits`` says
    so); one found by the end of its path must fit.
    """
    if frame is None:
        return None
    source = _find(frame, roots)
    return Location(
        path=frame.path,
        line=frame.line,
        function=frame.function,
        how=how,
        local_path=str(source.path) if source else None,
        code=_code(source, frame) if source else None,
    )


def _find(frame: Frame, roots: Roots) -> SourceFile | None:
    """The readable local file behind a recorded path; None when there is none, or it is too short for the line."""
    for path in _mapped(frame.path, roots.prefixes):
        if source := _with_line(path, frame):
            return source
    for folder in roots.folders:
        for path in _suffixes(frame.path, folder):
            source = _with_line(path, frame)
            if source and source.fits(frame.line, frame.function):
                return source
    return None


def _with_line(path: Path, frame: Frame) -> SourceFile | None:
    source = open_source(path)
    return source if source is not None and frame.line <= len(source.lines) else None


def _mapped(path: str, prefixes: Mapping[str, str]) -> list[Path]:
    mapped = []
    for old, new in sorted(prefixes.items(), key=lambda item: -len(item[0])):
        prefix = old.rstrip("/\\")
        if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("/", "\\", ""):
            rest = path[len(prefix) :].replace("\\", "/").lstrip("/")
            mapped.append(Path(new) / rest if rest else Path(new))
    return mapped or [Path(path)]


def _suffixes(path: str, folder: str) -> Iterator[Path]:
    """The longer ends of ``path`` first; an end that climbs out of ``folder`` is none."""
    parts = [part for part in PurePosixPath(path.replace("\\", "/")).parts if part not in ("/", ".")]
    for first in range(len(parts)):
        if ".." not in parts[first:]:
            yield Path(folder).joinpath(*parts[first:])


def _code(source: SourceFile, frame: Frame) -> CodeFrame:
    first = max(1, frame.line - CONTEXT)
    lines = source.lines[first - 1 : frame.line + CONTEXT]
    return CodeFrame(
        first_line=first,
        lines=[line[:_LONGEST_LINE] for line in lines],
        fits=source.fits(frame.line, frame.function),
    )
