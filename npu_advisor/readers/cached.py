"""Columns of profiles that were read before: an opt-in folder, from which a second run starts.

An entry is named after the files it was made of (path, size, times, inode) and the code that read them, so it is never
wrong, only unused. It appears whole or not at all, and the least recently used ones go when the folder grows too large;
so any number of runs may share it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import npu_advisor
from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.model.profile import Profile
from npu_advisor.readers.discover import RankSource, iter_files
from npu_advisor.readers.later import register_later
from npu_advisor.readers.rank import read_rank
from npu_advisor.readers.stored import load, save

AUTO = "auto"
# All entries together, in bytes.
LIMIT = 8 << 30
ENTRY, PART = ".npz", ".part"
# What a run that was killed has left half written.
_STALE_S = 86_400
# Parts of the program that decide what the columns of a file are.
_READING = ("base", "model", "readers")
_BROKEN = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


class Use(NamedTuple):
    """Number of entries and their size in bytes."""

    entries: int
    size: int


class Cache:
    """The cache in a folder, or that of the user for ``auto``. ConfigError when there can be no such folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = user_folder() if folder == AUTO else Path(folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(say("error.no_cache", path=self.folder, error=error.strerror or error)) from error

    def read_rank(self, source: RankSource, progress: Callable[[int, int], None] | None = None) -> Profile:
        """As ``read_rank`` of the reader, from the columns of an earlier run where there are any."""
        name = _name(source)
        found = self._found(name) if name else None
        if found is not None:
            if progress:
                progress(source.size, source.size)
            register_later(found, source)
            return found
        profile = read_rank(source, progress)
        # What changed meanwhile may not be what was read.
        if name and name == _name(source):
            self._keep(name, profile)
        return profile

    def use(self) -> Use:
        """What is there."""
        sizes = [status.st_size for _, status in self._entries()]
        return Use(len(sizes), sum(sizes))

    def clear(self) -> Use:
        """Remove every entry; what there was."""
        before = self.use()
        for path, _ in self._entries():
            _remove(path)
        self._sweep(0)
        return before

    def _found(self, name: str) -> Profile | None:
        path = self.folder / name
        try:
            with path.open("rb") as file:
                profile = load(file)
            os.utime(path)
        except FileNotFoundError:
            return None
        except _BROKEN:
            _remove(path)
            return None
        return profile

    def _keep(self, name: str, profile: Profile) -> None:
        part = None
        try:
            with tempfile.NamedTemporaryFile(dir=self.folder, suffix=PART, delete=False) as file:
                part = Path(file.name)
                save(profile, file)
            part.replace(self.folder / name)
        except (OSError, ValueError):
            # A full disk, or texts that cannot be kept: then the next run reads again.
            pass
        finally:
            if part is not None:
                _remove(part)
        self._shrink()

    def _shrink(self) -> None:
        self._sweep(_STALE_S)
        left = self.use().size
        for path, status in sorted(self._entries(), key=lambda entry: entry[1].st_mtime_ns):
            if left <= LIMIT:
                return
            _remove(path)
            left -= status.st_size

    def _sweep(self, age: float) -> None:
        for path, status in self._entries(PART):
            if time.time() - status.st_mtime >= age:
                _remove(path)

    def _entries(self, suffix: str = ENTRY) -> list[tuple[Path, os.stat_result]]:
        found = []
        for path in self.folder.glob(f"*{suffix}"):
            with contextlib.suppress(OSError):
                found.append((path, path.stat()))
        return found


def user_folder() -> Path:
    """Where this system keeps what its user's programs can do without."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "npu-advisor"


def _remove(path: Path) -> None:
    """Another run may have been faster, or still be reading it where that keeps a file."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _name(source: RankSource) -> str | None:
    """The entry of a rank; None where one of its files cannot be looked at."""
    try:
        files = [_identity(path) for path in sorted(iter_files(source))]
    except OSError:
        return None
    told = (_code(), str(source.path.absolute()), source.form, source.rank_hint, source.remarks, files)
    roles = [sorted((role, str(path)) for role, path in source.files.items()), sorted(source.parts.items())]
    return hashlib.sha256(repr((told, roles)).encode("utf-8", "surrogateescape")).hexdigest() + ENTRY


def _identity(path: Path) -> tuple[str | int, ...]:
    status = path.stat()
    # A database may have its newest rows in a file beside it.
    journal = path.with_name(f"{path.name}-wal")
    beside = (journal.stat().st_size, journal.stat().st_mtime_ns) if journal.exists() else ()
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (str(path.absolute()), status.st_size, *times, status.st_dev, status.st_ino, *beside)


@cache
def _code() -> str:
    """A digest of the code that reads: another version of it may read another thing."""
    digest = hashlib.sha256(npu_advisor.__version__.encode())
    home = Path(npu_advisor.__file__).parent
    for part in _READING:
        for path in sorted((home / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
