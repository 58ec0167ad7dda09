"""Scan a stretch of a large trace by compiled code, where numba is installed and the text is plain.

Gives what ``EventSorter.add`` makes of the decoded events, or nothing: then they are to be decoded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.readers.trace_events import COUNTER, FLOW_KINDS, GPU, QUEUE, SLICE_KINDS, EventSorter
from npu_advisor.readers.trace_scanned import Grammar, NotPlainError, Scanned, Tokens
from npu_advisor.readers.trace_spans import LARGE, compiled_wanted

# Asks for every compiled function.
_SAMPLE = b'{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": "1.000", "dur": 1}'


def scanner() -> Text:
    """What scans large traces; the compiled one is compiled now, when that was not yet done."""
    grammar = _grammar() if compiled_wanted(LARGE) else None
    return say("scanner.compiled", compiler=grammar.compiler) if grammar else say("scanner.standard")


@functools.cache
def _grammar() -> Grammar | None:
    try:
        grammar = Grammar()
        _sort(Tokens(grammar, _SAMPLE, 0, len(_SAMPLE)), EventSorter())
    except Exception:
        # Not installed, of another age than numpy, no place to keep compiled code, a platform it cannot compile for.
        return None
    return grammar


def sort(data: bytes, low: int, high: int) -> tuple[EventSorter, int] | None:
    """The events of ``data`` between the two bytes, sorted, and how many they are; None when not all are plain."""
    grammar, sorter = _grammar(), EventSorter()
    if grammar is None:
        return None
    try:
        if not data.isascii():
            data[low:high].decode()
        tokens = Tokens(grammar, data, low, high)
        _sort(tokens, sorter)
    except (NotPlainError, UnicodeDecodeError):
        return None
    return sorter, len(tokens)


def _sort(tokens: Tokens, sorter: EventSorter) -> None:
    every = Scanned(tokens, np.arange(len(tokens)))
    phase = every.letters("ph")
    slices, counters, names = (every.where(phase == letter) for letter in b"XCM")
    flows = every.where((phase == ord("s")) | (phase == ord("f")))
    for event in names.decoded():
        sorter.tracks.name(event, event.args.name if event.args else None)
    kinds = [*sorter.rows]
    kind = np.full(len(tokens), -1, np.int8)

    def put(name: str, events: Scanned) -> None:
        kind[events.rows] = kinds.index(name)

    put("counters", counters.where(counters.tests("name", COUNTER.__eq__)))
    if not flows.tests("cat", bool).all():
        raise NotPlainError
    for categories, events in ((FLOW_KINDS, flows), (SLICE_KINDS, slices)):
        for name in {*categories.values()} - {""}:
            mine = {category for category in categories if categories[category] == name}
            put(name, events.where(events.tests("cat", mine.__contains__)))
    gpu = slices.tests("cat", GPU.__contains__)
    sorter.gpu += int(gpu.sum())
    _tell(slices.where(~gpu & ~slices.tests("cat", SLICE_KINDS.__contains__)), put)
    for number, name in enumerate(kinds):
        rows = np.flatnonzero(kind == number)
        if len(rows):
            sorter.take(name, Scanned(tokens, rows))


def _tell(events: Scanned, put: Callable[[str, Scanned], None]) -> None:
    """Slices without a category, as in ``EventSorter``; a later telling arg is overruled by an earlier one."""
    put("plain", events)
    queue = events.where(events.given("correlation"))
    put("queue", queue.where(queue.tests("name", lambda name: name.startswith(QUEUE))))
    put("comm_tasks", events.where(events.given("comm_task") | events.given("src_rank")))
    put("apis", events.where(events.given("level")))
    put("hardware", events.where(events.given("task_type")))
