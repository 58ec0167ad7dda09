"""The trace event format, as strictly as its viewers read it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

Event = dict[str, Any]
_TIME = re.compile(r"\d+\.\d{3}")
_META = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}
_KEYS = {"M": {"ph", "name", "pid", "tid", "args"}, "X": {"ph", "name", "pid", "tid", "ts", "dur", "cat", "args"}}


def faults(events: list[Event]) -> list[str]:
    """What is wrong with a list of slices and names: fields, types, tracks without a name, slices that overlap
    without nesting."""
    found = [f"{event}: {fault}" for event in events if (fault := _fault(event))]
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    processes = {event["pid"] for event in events if event["name"] == "process_name"}
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = _ns(event["ts"])
            lanes[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))
    found += [f"track {lane} has no name" for lane in lanes if lane not in named or lane[0] not in processes]
    found += [f"track {lane}: {pair} overlap" for lane, slices in lanes.items() for pair in _crossing(slices)]
    return found


def _fault(event: Event) -> str:
    phase = event.get("ph")
    if phase not in _KEYS:
        return "unknown phase"
    if not event.keys() <= _KEYS[phase] or not _KEYS[phase] - {"args"} <= event.keys():
        return "fields"
    if not isinstance(event["name"], str) or not all(type(event[key]) is int for key in ("pid", "tid")):
        return "types"
    if not all(0 <= event[key] < 1 << 32 for key in ("pid", "tid")):
        return "numbers of more than 32 bits"
    if phase == "M":
        key, kind = _META.get(event["name"], ("", object))
        return "" if list(event["args"]) == [key] and type(event["args"][key]) is kind else "args"
    if not _TIME.fullmatch(event["ts"]) or not event["dur"] >= 0 or not event["cat"]:
        return "times"
    return "" if all(isinstance(value, str) for value in event.get("args", {}).values()) else "args"


def _ns(text: str) -> int:
    whole, _, part = text.partition(".")
    return int(whole) * 1000 + int(part)


def _crossing(slices: list[tuple[int, int]]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of which the second begins inside the first and ends behind it."""
    found, open_ = [], []
    for start, end in sorted(slices, key=lambda each: (each[0], -each[1])):
        while open_ and open_[-1][1] <= start:
            open_.pop()
        if open_ and end > open_[-1][1]:
            found.append((open_[-1], (start, end)))
        open_.append((start, end))
    return found
