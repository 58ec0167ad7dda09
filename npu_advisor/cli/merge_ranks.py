"""Traces of several ranks in one file: their processes and arrows kept apart, and named by rank.

Each trace numbers processes and flows as if it were alone. Events are read block by block and written again value for
value: only process numbers that are taken, the ids of flows, and names and order of processes change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from npu_advisor.base.errors import ConfigError, ProfileError
from npu_advisor.base.messages import say
from npu_advisor.readers.notes import UnreadableFileError
from npu_advisor.readers.packed import head_of
from npu_advisor.readers.trace_blocks import EventBlocks
from npu_advisor.readers.trace_seams import MARK, PADDING

# Viewers keep process numbers in 32 bits. Linux gives out none from here on.
_FREE = 1 << 23
# The processes of one rank stand together; torch_npu sorts them by up to some twenty.
_SORT_STEP = 1000

_Event = dict[str, msgspec.Raw]
_decode = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_encode = msgspec.json.encode


def merged_ranks(traces: Mapping[int, Path], taken: Collection[int]) -> Iterator[bytes]:
    """The events of the trace of every rank, as pieces of one JSON list without its brackets; no process gets a number
    in ``taken``.

    ConfigError for a trace that is no plain list of events, ProfileError for one that is cut or damaged.
    """
    for path in traces.values():
        if not head_of(path).removeprefix(MARK).lstrip(PADDING).startswith(b"["):
            raise ConfigError(say("trace.no_list", path=str(path)), None, say("trace.many_do"))
    numbers, used = count(_FREE), {_encode(number) for number in taken}
    gap = b""
    for place, (rank, path) in enumerate(traces.items()):
        apart = _Apart(rank, place, used, numbers)
        for events in _blocks(path):
            if events:
                yield gap + _encode([apart.event(event) for event in events])[1:-1]
                gap = b",\n"
        used |= apart.numbers()


def _blocks(path: Path) -> Iterator[list[_Event]]:
    blocks = EventBlocks(path)
    try:
        for block in blocks:
            yield _decode(block.text)
    except (UnreadableFileError, msgspec.DecodeError) as error:
        raise ProfileError(path, say("trace.damaged", path=str(path)), code="file_unreadable") from error
    if not blocks.complete or blocks.damaged:
        raise ProfileError(path, say("trace.no_end", path=str(path)), code="trace_truncated")


class _Apart:
    """What makes the events of one rank differ from those of all others; ``place`` is its place among the ranks."""

    def __init__(self, rank: int, place: int, used: Collection[bytes], numbers: Iterator[int]) -> None:
        self.rank, self.place = rank, place
        self._used, self._numbers = used, numbers
        self._pids: dict[bytes, msgspec.Raw] = {}

    def numbers(self) -> set[bytes]:
        """The process numbers that are taken now."""
        return {bytes(pid) for pid in self._pids.values()}

    def event(self, event: _Event) -> _Event:
        """The event with what must change."""
        if "pid" in event:
            event["pid"] = self._pid(event["pid"])
        for key in ("id", "bind_id"):
            if self.place and key in event:
                event[key] = self._flow(event[key])
        name = bytes(event.get("name", b""))
        if name == b'"process_name"':
            event["args"] = self._changed(event["args"], "name", lambda text: f"rank {self.rank}: {text}")
        elif name == b'"process_sort_index"':
            event["args"] = self._changed(event["args"], "sort_index", lambda at: int(at) + _SORT_STEP * self.place)
        return event

    def _pid(self, raw: msgspec.Raw) -> msgspec.Raw:
        key = bytes(raw)
        if key not in self._pids:
            mine = {bytes(pid) for pid in self._pids.values()}
            number = key
            while number in self._used or number in mine:
                number = _encode(next(self._numbers))
            self._pids[key] = msgspec.Raw(number)
        return self._pids[key]

    def _flow(self, raw: msgspec.Raw) -> msgspec.Raw:
        """Hexadecimal: Perfetto reads text ids as such."""
        text = bytes(raw).strip(b'"') + b"@" + str(self.rank).encode()
        return msgspec.Raw(_encode(blake2b(text, digest_size=7).hexdigest()))

    def _changed(self, raw: msgspec.Raw, key: str, change: Callable[[Any], Any]) -> msgspec.Raw:
        args = msgspec.json.decode(raw)
        return msgspec.Raw(_encode({**args, key: change(args[key])})) if key in args else raw
