"""A folder of files that any number of runs share and everything can do without.

An entry appears whole or not at all, one that cannot be used is removed, and the least recently used ones go when the
folder grows too large.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say

AUTO = "auto"
# All entries together, in bytes.
LIMIT = 8 << 30
# Nobody else's files end so: whatever else lies in the folder is not ours to count or remove.
COLUMNS, REPORT, PART = ".npu-advisor-columns", ".npu-advisor-report", ".npu-advisor-part"
# What a run that was killed has left half written.
_STALE_S = 86_400

T = TypeVar("T")
Identity = tuple[int, ...]
# Where in it the time of the last change stands (ns).
CHANGED = 2


class BrokenEntryError(Exception):
    """What stands in an entry is not what was put there."""


class Use(NamedTuple):
    """Number of entries by kind and the bytes of all."""

    columns: int
    reports: int
    size: int


class Shelf:
    """The entries in a folder, or in that of the user for ``auto``. ConfigError when there can be no such folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = user_folder() if folder == AUTO else Path(folder)
        if not str(folder):  # a variable that is not set does not mean the working directory
            raise ConfigError(say("error.no_cache", path="''", error=os.strerror(errno.ENOENT)))
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(say("error.no_cache", path=self.folder, error=error.strerror or error)) from error

    def get(self, name: str, load: Callable[[IO[bytes]], T]) -> T | None:
        """What ``load`` makes of the entry ``name``; None where there is none, or ``load`` finds it broken."""
        path = self.folder / name
        try:
            with path.open("rb") as file:
                found = load(file)
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, BrokenEntryError):
            _remove(path)
            return None
        return found

    def put(self, name: str, save: Callable[[IO[bytes]], object]) -> None:
        """Add an entry; nothing where it cannot be had: a full disk, or a ValueError of ``save``."""
        part = None
        try:
            with tempfile.NamedTemporaryFile(dir=self.folder, suffix=PART, delete=False) as file:
                part = Path(file.name)
                save(file)
            part.replace(self.folder / name)
        except (OSError, ValueError):
            pass
        finally:
            if part is not None:
                _remove(part)
        self._shrink()

    def use(self) -> Use:
        """What is there."""
        kinds = {kind: self._entries(kind) for kind in (COLUMNS, REPORT)}
        size = sum(status.st_size for found in kinds.values() for _, status in found)
        return Use(len(kinds[COLUMNS]), len(kinds[REPORT]), size)

    def clear(self) -> Use:
        """Remove every entry; what there was."""
        before = self.use()
        for path, _ in self._entries(COLUMNS, REPORT):
            _remove(path)
        self._sweep(0)
        return before

    def _shrink(self) -> None:
        self._sweep(_STALE_S)
        left = self.use().size
        for path, status in sorted(self._entries(COLUMNS, REPORT), key=lambda entry: entry[1].st_mtime_ns):
            if left <= LIMIT:
                return
            _remove(path)
            left -= status.st_size

    def _sweep(self, age: float) -> None:
        for path, status in self._entries(PART):
            if time.time() - status.st_mtime >= age:
                _remove(path)

    def _entries(self, *suffixes: str) -> list[tuple[Path, os.stat_result]]:
        found = []
        for path in (path for suffix in suffixes for path in self.folder.glob(f"*{suffix}")):
            with contextlib.suppress(OSError):
                found.append((path, path.stat()))
        return found


def identity(status: os.stat_result) -> Identity:
    """What changes whenever a file does."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_dev, status.st_ino)


def state(path: str | Path) -> Identity | None:
    """The identity of the file at ``path``, None where there is no such file."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return identity(status) if stat.S_ISREG(status.st_mode) else None


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
