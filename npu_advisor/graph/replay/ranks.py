"""What one rank's finding means for the other ranks of its run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

# What tells two rows of a table apart on every rank of a run; names of kernels and collectives hold counters.
_ALIKE = ("type", "core", "owner", "source")


def same_rows(
    one: Profile, other: Profile, table: str, rows: Ints, values: Floats | None
) -> tuple[Ints, Floats | None]:
    """Rows of ``other`` that are what ``rows`` are on ``one``: the same kind of event at the same line.

    Every rank runs the same code and gets the same cure, also where a finding stayed below its threshold.
    ``values`` go along by kind, the median of each.
    """
    mine, theirs = _kinds(one.table(table)), _kinds(other.table(table))
    wanted = {mine[row] for row in rows.tolist()}
    found = np.array([row for row, kind in enumerate(theirs) if kind in wanted], dtype=np.int64)
    if values is None or not len(found):
        return found, values if values is None else values[:0]
    by_kind: dict[tuple[object, ...], list[float]] = {}
    for row, value in zip(rows.tolist(), values.tolist(), strict=True):
        by_kind.setdefault(mine[row], []).append(value)
    usual = {kind: float(np.nanmedian(several)) for kind, several in by_kind.items()}
    return found, np.array([usual[theirs[row]] for row in found.tolist()])


def same_ops(one: Profile, other: Profile, ops: Ints) -> Ints:
    """The ops of ``other`` that have the name and line of one of ``ops`` of ``one``; those without a line have none."""
    mine, theirs = one.table("ops"), other.table("ops")
    known = set(zip(*(mine.strings(column)[ops].tolist() for column in ("name", "source")), strict=True))
    names, lines = theirs["name"], theirs["source"]
    found = np.zeros(len(theirs), dtype=bool)
    for name, line in known:
        if name is not None and line is not None:
            found |= np.asarray(names == name) & np.asarray(lines == line)
    return np.flatnonzero(found)


def _kinds(table: Table) -> list[tuple[object, ...]]:
    named = [name for name in _ALIKE if table.spec.column(name)]
    if "type" not in named and table.spec.column("name"):
        named.append("name")
    columns = [table.strings(name).tolist() for name in named]
    return list(zip(*columns, strict=True)) if columns else []


def like_the_others(profiles: Sequence[Profile], number: int, rows: Ints) -> Floats:
    """By how much each kernel of a rank would shrink if it ran as on the other ranks; never above 1.

    By type, and where as many ran there, the median of their mean duration over its own. The rank's usual ratio (the
    median by time) tells which types are slow: those that it fits better than 1 does. All of these shrink by the ratio
    of their totals, which is the most certain number there is: single types differ by chance. Totals of everything
    would not do: what takes the same time on every rank hides the difference.
    """
    kernels = [profile.table("kernels") for profile in profiles]
    means = [_means(table) for table in kernels]
    own = means[number]
    factor = {}
    for kind, (count, mean) in own.items():
        others = [
            found[kind][1]
            for place, found in enumerate(means)
            if place != number and kind in found and found[kind][0] == count
        ]
        factor[kind] = min(float(np.median(others)) / mean, 1.0) if others and mean else 1.0
    usual = _weighted_median([(factor[kind], count * mean) for kind, (count, mean) in own.items()])
    slow = [kind for kind, ratio in factor.items() if abs(ratio - usual) < abs(ratio - 1.0)]
    took = {kind: own[kind][0] * own[kind][1] for kind in slow}
    pooled = sum(took[kind] * factor[kind] for kind in slow) / max(sum(took.values()), 1.0)
    factor = {kind: pooled if kind in took else 1.0 for kind in factor}
    names = kernels[number].strings("type").tolist()
    return np.array([factor[names[row]] for row in rows.tolist()])


def _weighted_median(pairs: list[tuple[float, float]]) -> float:
    values, weight = np.array(sorted(pairs)).T
    return float(values[np.searchsorted(np.cumsum(weight), weight.sum() / 2)])


def _means(table: Table) -> dict[object, tuple[int, float]]:
    """(count, mean duration in ns) of each kernel type."""
    codes, names = table["type"].codes, table["type"].categories
    known = codes >= 0
    counts = np.bincount(codes[known], minlength=len(names))
    sums = np.bincount(codes[known], weights=table["dur_ns"][known], minlength=len(names))
    found: dict[object, tuple[int, float]] = {
        str(name): (int(count), float(total) / count)
        for name, count, total in zip(names, counts, sums, strict=True)
        if count
    }
    unknown = ~known
    if unknown.any():
        found[None] = (int(unknown.sum()), float(table["dur_ns"][unknown].mean()))
    return found
