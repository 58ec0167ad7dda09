"""Blocks of JSON text to typed events; what is damaged costs one event, not the file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from npu_advisor.readers.halves import without_halves
from npu_advisor.readers.trace_seams import SEAM, Block

Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The ``args`` of an event that some table needs, in the order in which the writers give them."""

    sequence: Number = msgspec.field(default=None, name="Sequence number")
    fwd_thread: Number = msgspec.field(default=None, name="Fwd thread id")
    dims: str | None = msgspec.field(default=None, name="Input Dims")
    types: str | None = msgspec.field(default=None, name="Input type")
    stack: str | None = msgspec.field(default=None, name="Call stack")
    correlation: Number = msgspec.field(default=None, name="correlation_id")
    python_id: Number = msgspec.field(default=None, name="Python id")
    python_parent: Number = msgspec.field(default=None, name="Python parent id")
    level: str | None = None
    item: str | None = msgspec.field(default=None, name="item_id")
    model: Number = msgspec.field(default=None, name="Model Id")
    task_type: str | None = msgspec.field(default=None, name="Task Type")
    stream: Number = msgspec.field(default=None, name="Physic Stream Id")
    old_stream: Number = msgspec.field(default=None, name="Stream Id")
    task: Number = msgspec.field(default=None, name="Task Id")
    connection: Number = msgspec.field(default=None, name="connection_id")
    comm_task: str | None = msgspec.field(default=None, name="task type")
    src_rank: Number = msgspec.field(default=None, name="src rank")
    dst_rank: Number = msgspec.field(default=None, name="dst rank")
    transport: str | None = msgspec.field(default=None, name="transport type")
    size: Number = msgspec.field(default=None, name="size(Byte)")
    link: str | None = msgspec.field(default=None, name="link type")
    count: Number = None
    data_type: str | None = None
    name: str | int | None = None
    mhz: Number = msgspec.field(default=None, name="MHz")


class Event(msgspec.Struct, gc=False):
    """One trace event, as written; ``ts`` and ``dur`` in us."""

    ph: str = ""
    bp: str | None = None
    name: str = ""
    id: int | str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: str | int | float | None = None
    dur: float | str | None = None
    cat: str | None = None
    args: Args | None = None


E = TypeVar("E")


class Dialect(Generic[E]):
    """How the events of one kind of writer are decoded: the type, and what makes one of a loosely parsed object."""

    def __init__(self, event: type[E], mend: Callable[[dict[str, Any]], E]) -> None:
        self.many, self.one = msgspec.json.Decoder(list[event]), msgspec.json.Decoder(event)  # type: ignore[valid-type]
        self.mend = mend


_ARGS = {field.encode_name for field in msgspec.structs.fields(Args)}
_TEXTS = {field.encode_name for field in msgspec.structs.fields(Args) if field.type == str | None}
_EVENT = [field.name for field in msgspec.structs.fields(Event)]
# Nesting without end is reported in a way of its own.
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_NOT_A_NUMBER = re.compile(r"(:\s*)-?(?:nan|inf)(?=\s*[,}\]])")


@dataclass
class Recovery:
    """What the decoding had to mend: numbers of events, and the byte where the text broke off."""

    events: int = 0
    repaired: int = 0
    escapes: int = 0
    invalid_utf8: int = 0
    lost: int = 0
    cut_at: int | None = None

    def include(self, other: Recovery) -> None:
        """Add what another stretch of the same file needed."""
        for name in ("events", "repaired", "escapes", "invalid_utf8", "lost"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cut_at = other.cut_at if self.cut_at is None else self.cut_at


def decode(block: Block, recovery: Recovery, dialect: Dialect[E]) -> list[E]:
    """The events of ``block``."""
    try:
        events = dialect.many.decode(block.text)
    except _BROKEN:
        events = list(_one_by_one(block, recovery, dialect))
    recovery.events += len(events)
    return events


def _one_by_one(block: Block, recovery: Recovery, dialect: Dialect[E]) -> Iterator[E]:
    data = bytes(block.text[1:-1])
    pieces = list(_pieces(data))
    number = 0
    while number < len(pieces):
        start, end = pieces[number]
        event = _mended(data[start:end], recovery, dialect)
        if event is None:
            # The seam may have been inside a string or a list: try with the next piece before giving up.
            for further in range(number + 1, min(number + 3, len(pieces))):
                event = _mended(data[start : pieces[further][1]], recovery, dialect)
                if event is not None:
                    number = further
                    break
        if event is not None:
            yield event
        elif block.cut and number == len(pieces) - 1:
            recovery.cut_at = block.offset + start
        else:
            recovery.lost += 1
        number += 1


def _pieces(data: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    for seam in SEAM.finditer(data):
        yield start, seam.start() + 1
        start = seam.end() - 1
    yield start, len(data)


def _mended(piece: bytes, recovery: Recovery, dialect: Dialect[E]) -> E | None:
    try:
        return dialect.one.decode(piece)
    except _BROKEN:
        pass
    text = piece.decode("utf-8", "replace")
    broken_utf8 = "\ufffd" in text and "\ufffd".encode() not in piece
    loaded, escaped, odd = _loads(text)
    if not isinstance(loaded, dict):
        return None
    loaded = without_halves(text, loaded)
    recovery.invalid_utf8 += broken_utf8
    recovery.escapes += escaped
    recovery.repaired += odd
    return dialect.mend(loaded)


def _loads(text: str) -> tuple[Any, bool, bool]:
    """``text`` as an object (None: hopeless), whether escapes were mended, whether anything broke the standard."""
    strict = _attempt(text, _STRICT)
    if strict is not None:
        return strict, False, False
    lenient = _attempt(text, _LENIENT)
    if lenient is not None:
        return lenient, False, True
    escaped = _ESCAPE.sub(lambda found: found[0] if len(found[0]) > 1 else "\\\\", text)
    lenient = _attempt(escaped, _LENIENT) if escaped != text else None
    if lenient is None:
        numbers = _NOT_A_NUMBER.sub(r"\1null", escaped)
        lenient = _attempt(numbers, _LENIENT) if numbers != escaped else None
    return lenient, escaped != text, True


def _attempt(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> None:
    raise ValueError(name)


# Made once: a file of garbage asks them for every scrap.
_STRICT, _LENIENT = json.JSONDecoder(parse_constant=_refuse), json.JSONDecoder(strict=False)


def _event(loaded: dict[str, Any]) -> Event:
    """An event from an object whose values may be of other types than the writers give; such values are dropped."""
    event = Event()
    for name in _EVENT:
        value = loaded.get(name)
        if name == "args":
            event.args = _args(value) if isinstance(value, dict) else None
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            setattr(event, name, str(value) if name in ("ph", "bp", "name", "cat") else value)
    return event


def _args(loaded: dict[str, Any]) -> Args:
    kept = {
        name: str(value) if name in _TEXTS or (name == "name" and isinstance(value, float)) else value
        for name, value in loaded.items()
        if name in _ARGS and isinstance(value, (str, int, float)) and not isinstance(value, bool)
    }
    return msgspec.convert(kept, Args)


ASCEND = Dialect(Event, _event)
