"""Columns of profiles that were read before: an opt-in folder, from which a second run starts.

An entry is named after the files it was made of (path, size, times, inode) and the code that read them, so it is never
wrong, only unused.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import IO

import npu_advisor
from npu_advisor.base.shelf import COLUMNS, BrokenEntryError, Shelf, identity
from npu_advisor.model.profile import Profile
from npu_advisor.readers.discover import RankSource, iter_files
from npu_advisor.readers.later import register_later
from npu_advisor.readers.rank import read_rank
from npu_advisor.readers.stored import load, save

# Parts of the program that decide what the columns of a file are.
_READING = ("base", "model", "readers")


class Cache:
    """What ranks were read from the files before, on the shelf in ``folder``."""

    def __init__(self, folder: str | Path) -> None:
        self.shelf = Shelf(folder)

    def read_rank(self, source: RankSource, progress: Callable[[int, int], None] | None = None) -> Profile:
        """As ``read_rank`` of the reader, from the columns of an earlier run where there are any."""
        name = _name(source)
        found = self.shelf.get(name, _loaded) if name else None
        if found is not None:
            if progress:
                progress(source.size, source.size)
            register_later(found, source)
            return found
        profile = read_rank(source, progress)
        # What changed meanwhile may not be what was read.
        if name and name == _name(source) and not is_unfinished(profile):
            self.shelf.put(name, partial(save, profile))
        return profile


def is_unfinished(profile: Profile) -> bool:
    """Whether it says of itself that somebody was still writing it: a minute later it would not."""
    return any(remark.code == "still_written" for remark in profile.diagnostics)


def _loaded(file: IO[bytes]) -> Profile:
    try:
        return load(file)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BrokenEntryError from error


def _name(source: RankSource) -> str | None:
    """The entry of a rank; None where one of its files cannot be looked at."""
    try:
        files = [_identity(path) for path in sorted(iter_files(source))]
    except OSError:
        return None
    told = (_code(), str(source.path.absolute()), source.form, source.rank_hint, source.remarks, files)
    roles = [sorted((role, str(path)) for role, path in source.files.items()), sorted(source.parts.items())]
    return hashlib.sha256(repr((told, roles)).encode("utf-8", "surrogateescape")).hexdigest() + COLUMNS


def _identity(path: Path) -> tuple[str | int, ...]:
    # A database may have its newest rows in a file beside it.
    journal = path.with_name(f"{path.name}-wal")
    beside = (journal.stat().st_size, journal.stat().st_mtime_ns) if journal.exists() else ()
    return (str(path.absolute()), *identity(path.stat()), *beside)


@cache
def _code() -> str:
    """A digest of the code that reads: another version of it may read another thing."""
    digest = hashlib.sha256(npu_advisor.__version__.encode())
    home = Path(npu_advisor.__file__).parent
    for part in _READING:
        for path in sorted((home / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
