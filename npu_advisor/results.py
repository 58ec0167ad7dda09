"""Reports of earlier runs: what a run on the same input with the same code, rules and options would say again.

A report is named after everything that it follows from but the user's source files, of which only the run itself knows
which it looks at: the entry lists them, also those that were not there, and counts only while all are as they were. So
it is never wrong, only unused.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

import npu_advisor
from npu_advisor.base.shelf import CHANGED, REPORT, BrokenEntryError, Identity, Shelf, identity, state
from npu_advisor.findings import Report
from npu_advisor.rules.loader import LISTS, REFERENCES, plugin_dirs, rule_files, shipped_dir

R = TypeVar("R", bound=Report)
Paths = str | Path | Sequence[str | Path]

# Names the chip where the recording does not, as Ascend910B2.
CHIP = "NPU_ADVISOR_CHIP"
# What the readers may look at, and how deep below a path they go.
_READ = re.compile(r".*\.(json(\.\d+)?|gz|csv|db|db-wal|db-journal|done)", re.IGNORECASE)
_DEPTH = 10
# What lies around the path of a single file or output folder and tells of its rank and chip.
_TELLING = re.compile(r"profiler_(info|metadata).*\.json|info\.json.*")
_BESIDE = re.compile(r"PROF_.*|device_\d+")
_MOST_FILES = 100_000
# Libraries whose versions may show in a figure or a patch.
_LIBRARIES = ("numpy", "pandas", "msgspec", "pydantic", "libcst", "yaml")
# The clock of a file system ticks: what changed within a tick of its reading may look as if it had not.
_TICK_NS = 20_000_000
_DIGEST = hashlib.sha256().digest_size
# Said of input that somebody is still writing: a minute later it would not be.
UNFINISHED = "still_written"


@dataclass(frozen=True)
class Asked:
    """The options that a report follows from, as :func:`npu_advisor.api.analyze` has them."""

    paths: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    source_root: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    fixes: bool = True
    chip: str | None = None

    def of(self, path: Paths, ranks: Sequence[int], steps: Sequence[int]) -> Asked:
        """The same of ``path`` and only these of its ranks and steps."""
        paths = (path,) if isinstance(path, str | Path) else path
        return replace(self, paths=tuple(map(str, paths)), ranks=tuple(ranks), steps=tuple(steps))


class _Entry(msgspec.Struct):
    """``sources`` maps every source file that was looked for to what it was, None: not there."""

    sources: dict[str, Identity | None]
    report: msgspec.Raw


class Results:
    """The report that ``asked`` asks for, on a shelf. Make it before anything is read."""

    def __init__(self, shelf: Shelf, asked: Asked) -> None:
        self._shelf, self._asked = shelf, asked
        self._began = time.time_ns()
        self._name, _ = _name(asked)

    def find(self, kind: type[R]) -> R | None:
        """The report of an earlier run as ``kind``, None where there is none that still counts."""

        def load(file: IO[bytes]) -> R | None:
            digest, told = file.read(_DIGEST), file.read()
            if digest != _digest(told):
                raise BrokenEntryError
            entry = msgspec.json.decode(told, type=_Entry)
            if any(state(path) != known for path, known in entry.sources.items()):
                return None
            return kind.model_validate_json(bytes(entry.report))

        return self._shelf.get(self._name, load) if self._name else None

    def keep(self, report: Report, sources: Mapping[str, Identity | None]) -> None:
        """Put ``report`` there, unless what it follows from has changed meanwhile or could have unnoticed."""
        name, changed = _name(self._asked)
        changed = max([changed, *(known[CHANGED] for known in sources.values() if known)])
        if name is None or name != self._name or changed > self._began - _TICK_NS:
            return
        if any(remark.code == UNFINISHED for remark in report.diagnostics):
            return
        try:
            told = report.model_dump_json().encode()
        except ValueError:  # names of files that are no text
            return
        # Kept only if it comes back to the letter.
        if type(report).model_validate_json(told).model_dump_json().encode() == told:
            entry = msgspec.json.encode(_Entry(dict(sources), msgspec.Raw(told)))
            self._shelf.put(name, lambda file: file.write(_digest(entry) + entry))


def _digest(told: bytes) -> bytes:
    return hashlib.sha256(told).digest()


def _name(asked: Asked) -> tuple[str | None, int]:
    """The entry of what is asked, and when the input changed last (ns); no entry where what it follows from cannot be
    looked at, or is too much to."""
    try:
        files = _files(asked.paths)
        told = (_code(), str(Path.cwd()), asked, sorted(files.items()), _rules(asked.rules))
    except OSError:
        return None, 0
    if len(files) >= _MOST_FILES:
        return None, 0
    digest = _digest(repr(told).encode("utf-8", "surrogateescape"))
    return digest.hex() + REPORT, max((known[CHANGED] for known in files.values() if known), default=0)


def _files(paths: Sequence[str]) -> dict[str, Identity]:
    """Every file and folder that reading ``paths`` may look at, and what it is."""
    found: dict[str, Identity] = {}
    for path in map(Path, paths):
        whole = path.absolute()
        alone = not whole.is_dir()
        found[str(whole)] = identity(whole.stat()) if alone else ()
        todo = [] if alone else [(whole, _DEPTH)]
        for near in list(whole.parents)[:2]:
            around = _note(near, found, _READ if alone and near == whole.parent else _TELLING)
            beside = [folder for folder in around if _BESIDE.fullmatch(folder.name)]
            found.update(dict.fromkeys(map(str, beside), ()))
            todo += [(folder, 2) for folder in beside]
        seen = set()
        while todo and len(found) < _MOST_FILES:
            folder, depth = todo.pop()
            real = os.path.realpath(folder)
            if depth and real not in seen:
                seen.add(real)
                inner = _note(folder, found, _READ)
                # Their times tell of files that do not matter, such as a report that is written there.
                found.update(dict.fromkeys(map(str, inner), ()))
                todo += [(each, depth - 1) for each in inner]
    return found


def _note(folder: Path, found: dict[str, Identity], names: re.Pattern[str]) -> list[Path]:
    """Add the files with such ``names`` in ``folder`` to ``found``; the folders in it."""
    inside = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                inside.append(Path(entry.path))
            elif names.fullmatch(entry.name) and entry.is_file():
                found[entry.path] = identity(entry.stat())
    return [each for each in inside if not each.name.startswith(".")]


def _rules(dirs: Sequence[str]) -> list[tuple[str, bytes]]:
    """Where the rules are, and a digest of their texts."""
    told = []
    for folder in (shipped_dir(), *plugin_dirs(), *map(Path, dirs)):
        shared = [path for path in (folder / LISTS, folder / REFERENCES) if path.is_file()]
        digest = hashlib.sha256()
        for path in (*rule_files(folder), *shared):
            digest.update(repr((str(path), path.read_bytes())).encode("utf-8", "surrogateescape"))
        told.append((str(folder), digest.digest()))
    return told


@cache
def _code() -> str:
    """A digest of the program and what it stands on."""
    digest = hashlib.sha256(f"{npu_advisor.__version__} {sys.version}".encode())
    for path in sorted(Path(npu_advisor.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    for name in _LIBRARIES:
        spec = find_spec(name)
        digest.update(repr((name, spec and spec.origin and identity(Path(spec.origin).stat()))).encode())
    return digest.hexdigest()
