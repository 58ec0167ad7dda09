"""What a person looks at beside the findings: tables, memory curves and the timeline, as plain data.

Views are bounded: tables keep their heaviest rows and say how many there are, timelines merge what lies too close to be
told apart. They are no part of the JSON report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from npu_advisor.base.terms import Text

Cell = str | int | float | bool | None
# What a column holds: text, a line of source (``path(line): function``), a call stack, or a number in this unit.
Unit = Literal["text", "line", "stack", "id", "us", "bytes", "count", "share", "percent", "gbs"]


@dataclass(frozen=True)
class ViewColumn:
    """One column; ``key`` names it in messages (``col.KEY``)."""

    key: str
    unit: Unit


@dataclass(frozen=True)
class TableView:
    """The first ``len(rows)`` of ``total`` rows, in the order that matters; ``file`` holds all of them."""

    name: str
    columns: tuple[ViewColumn, ...]
    rows: list[list[Cell]]
    total: int
    file: str = ""

    def values(self, key: str) -> list[Cell]:
        """One column. KeyError when there is none of that name."""
        names = [column.key for column in self.columns]
        if key not in names:
            raise KeyError(key)
        return [row[names.index(key)] for row in self.rows]


@dataclass(frozen=True)
class Curve:
    """A quantity over time: ``at_us`` after the start of the recording, ``size_bytes`` at that time."""

    component: str
    what: Literal["allocated", "reserved", "active"]
    at_us: list[float]
    size_bytes: list[float]
    samples: int


@dataclass(frozen=True)
class MemoryView:
    """Memory of one rank; the peak is of allocated bytes, as in the report's facts."""

    curves: list[Curve]
    peak_bytes: float | None
    peak_at_us: float | None
    steps_us: list[tuple[float, float]]


@dataclass(frozen=True)
class Lane:
    """One lane of the timeline: marks in time order within each row, all lists of one length.

    ``start_ns`` counts from the start of the recording; ``name`` and ``source`` are positions in
    ``Timeline.names`` (-1 none); ``count`` is how many events a mark stands for (1: itself); ``row`` is the nesting
    depth. ``launch_ns`` and ``op`` (kernels only, else empty) are when and by which op the mark was launched.
    ``label`` tells lanes of one kind apart.
    """

    kind: str
    label: str
    start_ns: list[int]
    dur_ns: list[int]
    name: list[int]
    count: list[int]
    row: list[int]
    source: list[int] = field(default_factory=list)
    launch_ns: list[int] = field(default_factory=list)
    op: list[int] = field(default_factory=list)
    events: int = 0


@dataclass(frozen=True)
class Window:
    """Where a finding is on the timeline: its largest pieces (start, end) in ns; the first is the one to look at."""

    fingerprint: str
    pieces: list[tuple[int, int]]
    total: int


@dataclass(frozen=True)
class Timeline:
    """One rank over time. ``epoch_ns`` is what its times count from; ``events`` how many lie behind the marks."""

    rank: int
    epoch_ns: int
    span_ns: int
    names: list[str]
    lanes: list[Lane]
    steps: list[tuple[int | None, int, int]]
    windows: list[Window]
    events: int


@dataclass(frozen=True)
class Holding:
    """One kind of data that the profile holds (``rows``), or why it does not and what would record it."""

    name: Text
    rows: int
    file: str
    reason: Text | None = None
    enable: str = ""


@dataclass(frozen=True)
class Views:
    """Everything of a run that is looked at. Tables and memory of one rank are of ``rank``, the one with the longest
    step; ``comm_*`` tables hold every rank. ``holdings`` are of ``rank`` too."""

    rank: int
    tables: dict[str, TableView]
    memory: MemoryView | None
    timelines: list[Timeline]
    holdings: list[Holding] = field(default_factory=list)


@dataclass(frozen=True)
class Slice:
    """One stretch of a track; ``start_ns`` counts from the epoch. ``source`` is the line it belongs to, if known."""

    start_ns: int
    dur_ns: int
    name: Text
    source: str = ""


@dataclass(frozen=True)
class Track:
    """A named track of one rank; ``fingerprint`` is that of its finding, if it is one."""

    rank: int
    kind: Literal["finding", "idle", "exposed", "critical"]
    name: Text
    slices: list[Slice]
    fingerprint: str = ""
