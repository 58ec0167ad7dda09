"""Run the stages of a rule one after the other; two of them need more than the rows so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npu_advisor.engine.align import by_label, partner
from npu_advisor.engine.plan import Compare, From, Join, Stage
from npu_advisor.engine.rows import Rows
from npu_advisor.engine.stages import apply
from npu_advisor.engine.values import Value, number
from npu_advisor.model.profile import Profile


def run_stages(profile: Profile, stages: Sequence[Stage], peers: Sequence[Profile] = ()) -> Rows:
    """The rows after the last stage; ``peers`` are the profiles that ``compare`` measures this one against."""
    first = stages[0]
    assert isinstance(first, From)
    rows = Rows.start(profile, first.tables)
    for index, stage in enumerate(stages[1:], 1):
        if isinstance(stage, Compare):
            rows = compare(rows, stage, [_measured(peer, stages[:index], stage) for peer in peers])
        elif isinstance(stage, Join):
            rows = join(rows, stage, run_stages(profile, stage.stages))
        else:
            rows = apply(rows, stage)
    return rows


@dataclass(frozen=True)
class Measured:
    """What one profile has to say in a ``compare``: the columns it is aligned on and its figures (float64)."""

    within: tuple[Value, ...]
    value: Value

    @classmethod
    def of(cls, rows: Rows, stage: Compare) -> Measured:
        """The figures of these rows."""
        within = (by_label(rows.column(path).spread(len(rows)), rows.profile) for path in stage.within)
        return cls(tuple(within), stage.value.evaluate(rows).spread(len(rows)))

    def beside(self, mine: Measured) -> Value:
        """Of each of my rows the figure here, missing where there is no such row."""
        return self.value.take(partner(mine.within, self.within, (len(mine.value), len(self.value))))


def _measured(peer: Profile, stages: Sequence[Stage], stage: Compare) -> Measured:
    """What ``peer`` shows after ``stages``. Every rank asks every other, so it is kept, with its rule."""
    key = f"compare {id(stage.rule)}"
    if key not in peer.cache:
        peer.cache[key] = (stage.rule, Measured.of(run_stages(peer, stages), stage))
    found: Measured = peer.cache[key][1]
    return found


def compare(rows: Rows, stage: Compare, others: Sequence[Measured]) -> Rows:
    """Add what the others show of the same thing: their ``median``, my ``ratio`` to it and ``excess`` over it, and how
    many ``peers`` have it."""
    mine = Measured.of(rows, stage)
    theirs = np.full((len(others), len(rows)), np.nan)
    for index, other in enumerate(others):
        found = other.beside(mine)
        theirs[index] = np.where(found.is_missing, np.nan, found.data)
    known = ~np.isnan(theirs)
    median = np.full(len(rows), np.nan)
    some = known.any(axis=0)
    if some.any():
        median[some] = np.nanmedian(theirs[:, some], axis=0)
    own = np.where(mine.value.is_missing, np.nan, mine.value.data)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = own / median
    return rows.with_columns(
        {
            "median": number(median),
            "ratio": number(ratio),
            "excess": number(own - median),
            "peers": number(known.sum(axis=0)),
        }
    )


def join(rows: Rows, stage: Join, other: Rows) -> Rows:
    """Add the columns of the one row of ``other`` that agrees on ``on``; missing where there is none."""
    left, right = ([side.column(path).spread(len(side)) for path in stage.on] for side in (rows, other))
    found = partner(left, right, (len(rows), len(other)))
    return rows.with_columns({name: other.column(name).spread(len(other)).take(found) for name in stage.columns})
