"""The events of a Kineto trace as typed structs.

Times and lists stay raw JSON text: a start is turned into nanoseconds by its digits, and equal lists are parsed once.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from npu_advisor.readers.trace_decode import Dialect, Number

_NONE = msgspec.Raw(b"")


class KinetoArgs(msgspec.Struct, gc=False):
    """The ``args`` that some table needs."""

    sequence: Number = msgspec.field(default=None, name="Sequence number")
    fwd_thread: Number = msgspec.field(default=None, name="Fwd thread id")
    dims: msgspec.Raw = msgspec.field(default=_NONE, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NONE, name="Input type")
    stack: str | None = msgspec.field(default=None, name="Call stack")
    python_id: Number = msgspec.field(default=None, name="Python id")
    python_parent: Number = msgspec.field(default=None, name="Python parent id")
    correlation: Number = None
    device: Number = None
    stream: Number = None
    collective: str | None = msgspec.field(default=None, name="Collective name")
    group: str | None = msgspec.field(default=None, name="Process Group Name")
    size: Number = msgspec.field(default=None, name="Bytes")
    address: Number = msgspec.field(default=None, name="Addr")
    allocated: Number = msgspec.field(default=None, name="Total Allocated")
    reserved: Number = msgspec.field(default=None, name="Total Reserved")
    device_id: Number = msgspec.field(default=None, name="Device Id")
    device_type: Number = msgspec.field(default=None, name="Device Type")
    name: str | None = None
    labels: str | None = None


class KinetoEvent(msgspec.Struct, gc=False):
    """One event as written."""

    ph: str = ""
    name: str = ""
    cat: str | None = None
    id: int | str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: msgspec.Raw = _NONE
    dur: float | str | None = None
    args: KinetoArgs | None = None


_RAW = {"Input Dims", "Input type"}
_TEXTS = {"Call stack", "Collective name", "Process Group Name", "name", "labels"}


def _event(loaded: dict[str, Any]) -> KinetoEvent:
    """An event from an object whose values may be of other types than the writer gives; such values are dropped."""
    event = KinetoEvent()
    for name in ("ph", "name", "cat", "id", "pid", "tid", "dur"):
        value = loaded.get(name)
        if _is_plain(value):
            setattr(event, name, str(value) if name in ("ph", "name", "cat") else value)
    if _is_plain(loaded.get("ts")):
        event.ts = msgspec.Raw(str(loaded["ts"]).encode())
    given = loaded.get("args")
    if isinstance(given, dict):
        event.args = KinetoArgs()
        for field in msgspec.structs.fields(KinetoArgs):
            value = given.get(field.encode_name)
            if field.encode_name in _RAW:
                value = msgspec.Raw(json.dumps(value).encode()) if isinstance(value, list) else _NONE
            elif not _is_plain(value):
                continue
            elif field.encode_name in _TEXTS:
                value = str(value)
            setattr(event.args, field.name, value)
    return event


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


KINETO = Dialect(KinetoEvent, _event)
