"""Sums of pieces of time by step, place and group of calls, over all recordings of a side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from npu_advisor.base.intervals import Ints
from npu_advisor.compare.calls import Kind
from npu_advisor.compare.match import NOWHERE, Group, Matching, Recording, Site
from npu_advisor.compare.pieces import Pieces
from npu_advisor.model.table import Table

US = 1000.0
Key = tuple[Any, ...]
Cut = Callable[[Recording], Iterable[Pieces]]
# What names a row of a table that no call is known to have asked for.
_TYPED = {"kernels": "type", "comms": "type", "exposed": "type"}


class Place(NamedTuple):
    """What time is told of: a line, else the name of a call whose line is unknown, else what ``kind`` says."""

    site: Site
    name: str | None = None
    kind: Literal["", "other_rank", "device", "host"] = ""


# Numbers of the places that every matching has: time of nobody, waits for other ranks, what is the same everywhere.
UNPLACED, WAITING, DEVICE, HOST = range(4)
_FIXED = (Place(NOWHERE), *(Place(NOWHERE, None, kind) for kind in ("other_rank", "device", "host")))


class Places:
    """Numbers of the places of a matching."""

    def __init__(self) -> None:
        self.places: list[Place] = list(_FIXED)
        self._number: dict[Place, int] = {place: number for number, place in enumerate(_FIXED)}

    def number(self, place: Place) -> int:
        """The number of a place."""
        if place not in self._number:
            self._number[place] = len(self.places)
            self.places.append(place)
        return self._number[place]

    def of(self, matching: Matching, recording: Recording, side: int, pieces: Pieces) -> tuple[Ints, Ints]:
        """The group and the place of each piece: the line of the call it belongs to, else that of its own row, else
        the call's name."""
        table, calls, row = recording.profile.table(pieces.table or "ops"), recording.calls, pieces.row
        op = row if pieces.table in ("", "ops") else np.append(table["op"], -1)[row]
        group = np.append(recording.group, -1)[np.append(calls.of_op, -1)[op]]
        if pieces.table in _TYPED:
            group = self._typed(matching, group, np.append(table[_TYPED[pieces.table]].codes, -1)[row], table)
        if pieces.waits:
            return group, np.full(len(row), WAITING, dtype=np.int64)
        own = table["source"]
        lines = [self.number(Place(matching.site_of(str(text), side))) for text in own.categories]
        by_line = np.array([*lines, UNPLACED], dtype=np.int64)[np.append(own.codes, -1)[row]]
        known = np.array([self.number(place_of(each)) for each in matching.groups] + [UNPLACED], dtype=np.int64)
        at_line = np.array([*(each.site != NOWHERE for each in matching.groups), False], dtype=bool)
        return group, np.where(~at_line[group] & (by_line > UNPLACED), by_line, known[group])

    def _typed(self, matching: Matching, group: Ints, code: Ints, table: Table) -> Ints:
        """Groups by type for rows without a call: both sides have the same one."""
        categories = table["type"].categories
        alone = np.flatnonzero((group < 0) & (code >= 0))
        group = group.copy()
        for one in np.unique(code[alone]).tolist():
            kind = Kind(str(categories[one]), "")
            group[alone[code[alone] == one]] = matching.add(Group(NOWHERE, kind, kind))
        return group


class Tally:
    """Time by part, place and group of one side.

    ``rows`` has the columns sample (number of the step among all ``samples`` of the side), part, place (number in the
    :class:`Places` given), group (of the matching, -1 none), us, count.
    """

    def __init__(self, matching: Matching, places: Places, side: int, cut: Cut) -> None:
        frames, first = [], 0
        for recording in matching.sides[side]:
            sample = np.full(len(recording.profile.table("steps")), -1, dtype=np.int64)
            sample[recording.steps] = np.arange(len(recording.steps)) + first
            first += len(recording.steps)
            for pieces in cut(recording):
                kept = np.flatnonzero(np.append(sample, -1)[pieces.step] >= 0)
                pieces = pieces._replace(row=pieces.row[kept], step=pieces.step[kept], ns=pieces.ns[kept])
                group, place = places.of(matching, recording, side, pieces)
                columns = {"sample": sample[pieces.step], "place": place, "group": group, "us": pieces.ns / US}
                frames.append(pd.DataFrame(columns).assign(part=pieces.part))
        self.samples = first
        keys = ["part", "place", "group", "sample"]
        whole = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*keys, "us"])
        self.rows = whole.groupby(keys, as_index=False, sort=False).agg(us=("us", "sum"), count=("us", "size"))

    def by(self, *keys: str, value: str = "us") -> dict[Key, list[float]]:
        """``value`` per step, one list of samples (0 where a step has none) for every combination of ``keys``."""
        found: dict[Key, list[float]] = {}
        summed = self.rows.groupby([*keys, "sample"], as_index=False, sort=False)[value].sum()
        columns = [summed[name].tolist() for name in (*keys, "sample", value)]
        for *key, sample, amount in zip(*columns, strict=True):
            found.setdefault(tuple(key), [0.0] * self.samples)[sample] = float(amount)
        return found

    def mean(self, *keys: str, value: str = "us") -> dict[Key, float]:
        """The mean of ``value`` over the steps."""
        summed = self.rows.groupby(list(keys), as_index=False, sort=False)[value].sum()
        columns = [summed[name].tolist() for name in (*keys, value)]
        return {tuple(key): float(amount) / max(self.samples, 1) for *key, amount in zip(*columns, strict=True)}


def place_of(group: Group) -> Place:
    """Where the time of a group of calls is told."""
    kind = group.new or group.base
    return Place(group.site) if group.site != NOWHERE or kind is None else Place(NOWHERE, kind.name)


def samples(found: dict[Key, list[float]], key: Key, count: int) -> Sequence[float]:
    """The samples under ``key``, zeros where there are none."""
    return found.get(key) or [0.0] * count
