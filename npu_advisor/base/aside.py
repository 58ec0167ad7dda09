"""Arrays put aside in a file, mapped into memory: only what is being read takes room, and is read from there again."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from npu_advisor.base.heap import also_give_back

T = TypeVar("T")
Array = npt.NDArray[Any]
# Where arrays begin in the file.
_ALIGNED = 64
# Where files may be large and outlast memory: /tmp is itself memory on many systems.
_LARGE = Path("/var/tmp")
_MAPS: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_ONE_AT_A_TIME = threading.Lock()


class Aside:
    """A file without a name: it goes with the last of its arrays, or with the process, however that ends."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def put(self, arrays: Sequence[Array]) -> list[Array]:
        """The same arrays from the file, to be read only.

        They are as they were where it cannot be written, where they hold objects, or are there already.
        """
        kept, rows = list(arrays), [row for row, array in enumerate(arrays) if _movable(array)]
        try:
            with _ONE_AT_A_TIME:
                moved = self._written([kept[row] for row in rows]) if rows else []
        except OSError:
            return kept
        for row, array in zip(rows, moved, strict=True):
            kept[row] = array
        return kept

    def put_parts(self, thing: T) -> T:
        """The same with the arrays in it from the file: those of lists, tuples and dataclasses, however deep. What is
        there several times is one thing there, too."""
        arrays: list[Array] = []

        def met(array: Array) -> Array:
            arrays.append(array)
            return array

        _changed(thing, met, {})
        moved = iter(self.put(arrays))
        made: T = _changed(thing, lambda _: next(moved), {})
        return made

    def _written(self, arrays: Sequence[Array]) -> list[Array]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=_folder())  # noqa: SIM115 (its arrays read it)
            weakref.finalize(self, _close, self._file)
        first = _up(self._file.seek(0, os.SEEK_END), mmap.ALLOCATIONGRANULARITY)
        places, end = [], first
        for array in arrays:
            places.append(_up(end, _ALIGNED))
            end = places[-1] + array.nbytes
        for place, array in zip(places, arrays, strict=True):
            self._file.seek(place)
            self._file.write(np.ascontiguousarray(array).data.cast("B"))
        self._file.flush()
        made = mmap.mmap(self._file.fileno(), end - first, access=mmap.ACCESS_READ, offset=first)
        _MAPS.add(made)
        return [
            np.frombuffer(made, array.dtype, array.size, place - first).reshape(array.shape)
            for place, array in zip(places, arrays, strict=True)
        ]


def is_aside(array: Array) -> bool:
    """Whether an array is in such a file."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, memoryview) and isinstance(owner.obj, mmap.mmap)


@also_give_back
def _rest() -> None:
    """Let all the memory go that reading what is put aside has taken (where the system can)."""
    if hasattr(mmap, "MADV_DONTNEED"):
        with _ONE_AT_A_TIME:
            for one in _MAPS:
                one.madvise(mmap.MADV_DONTNEED)


def _close(file: IO[bytes]) -> None:
    # Where there was no room for all of it, there is none for the rest either.
    with contextlib.suppress(OSError):
        file.close()


def _movable(array: Array) -> bool:
    return bool(array.nbytes) and not array.dtype.hasobject and not is_aside(array)


def _changed(thing: Any, change: Callable[[Array], Array], known: dict[int, Any]) -> Any:
    """``known`` is what became of the things met before, by their id."""
    if id(thing) not in known:
        known[id(thing)] = _made(thing, change, known)
    return known[id(thing)]


def _made(thing: Any, change: Callable[[Array], Array], known: dict[int, Any]) -> Any:
    if isinstance(thing, np.ndarray):
        return change(thing)
    if isinstance(thing, list | tuple):
        parts = [_changed(part, change, known) for part in thing]
        return thing._make(parts) if hasattr(thing, "_make") else type(thing)(parts)
    if is_dataclass(thing) and not isinstance(thing, type):
        return replace(thing, **{one.name: _changed(getattr(thing, one.name), change, known) for one in fields(thing)})
    return thing


def _up(place: int, step: int) -> int:
    return -(-place // step) * step


def _folder() -> str | None:
    """None: the folder for temporary files."""
    named = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return str(_LARGE) if not named and os.access(_LARGE, os.W_OK | os.X_OK) else None
