"""How a part of a trace goes from the process that scanned it to the one that joins the parts.

A mark and a length, and then so many bytes: sizes of buffers, a pickle, and behind it the arrays, which are not copied
again: the other side maps memory of its own for them, which is the system's as soon as the last array of it is gone.
"""

from __future__ import annotations

import mmap
import pickle
from typing import IO, Any

MARK = b"part"
_NUMBER = 8
# Where an array may begin.
_ALIGNED = 64


def send(part: Any, out: IO[bytes]) -> None:
    """Write ``part``. Raises OSError."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(part, protocol=5, buffer_callback=buffers.append)
    pieces = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    sizes = b"".join(_number(size) for size in (len(pieces), *(piece.nbytes for piece in pieces)))
    pieces.insert(0, memoryview(sizes))
    out.write(MARK + _number(sum(_room(piece.nbytes) for piece in pieces)))
    for piece in pieces:
        out.write(piece)
        out.write(bytes(_room(piece.nbytes) - piece.nbytes))
    out.flush()


def receive(source: IO[bytes]) -> Any:
    """What ``send`` wrote. Raises EOFError when it is something else or breaks off, OSError, and as unpickling does."""
    if source.read(len(MARK)) != MARK:
        raise EOFError
    length = int.from_bytes(source.read(_NUMBER), "little")
    memory = memoryview(mmap.mmap(-1, length))
    got = 0
    while got < length:
        more = source.readinto(memory[got:])  # type: ignore[attr-defined]
        if not more:
            raise EOFError
        got += more
    count = int.from_bytes(memory[:_NUMBER], "little")
    sizes = [int.from_bytes(memory[at * _NUMBER : (at + 1) * _NUMBER], "little") for at in range(1, count + 1)]
    at, pieces = _room((count + 1) * _NUMBER), []
    for size in sizes:
        pieces.append(memory[at : at + size])
        at += _room(size)
    return pickle.loads(pieces[0], buffers=pieces[1:])


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER, "little")


def _room(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
