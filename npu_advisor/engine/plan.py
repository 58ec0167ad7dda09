"""A rule made ready to run: checked stages, checked texts, and what they need from a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npu_advisor.engine.expr import Expression
from npu_advisor.engine.pattern import Pattern
from npu_advisor.engine.scope import StaticScope
from npu_advisor.engine.values import Requirement
from npu_advisor.rules.spec import Fix, Rule, SuggestionSpec


@dataclass(frozen=True)
class From:
    """Start from the stacked ``tables``."""

    tables: tuple[str, ...]


@dataclass(frozen=True)
class Where:
    """Keep the rows where the condition holds."""

    condition: Expression


@dataclass(frozen=True)
class Let:
    """Add columns, each may use those before it."""

    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Gaps:
    """Rows become the silences between neighbours on ``lane``, separately for each ``within``."""

    lane: str
    within: str | None


@dataclass(frozen=True)
class CoverColumn:
    """One column of ``cover``: us of each row under the intervals of ``tables`` that satisfy ``condition``."""

    name: str
    tables: tuple[str, ...]
    condition: Expression | None


@dataclass(frozen=True)
class Cover:
    """Add the columns."""

    columns: tuple[CoverColumn, ...]


@dataclass(frozen=True)
class AggregateCall:
    """``name(arguments)`` as the column ``column``; ``table`` is set in ``under``."""

    column: str
    name: str
    arguments: tuple[Expression, ...]
    table: str = ""


@dataclass(frozen=True)
class Under:
    """Aggregate everything below each row's op."""

    columns: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Climb:
    """Add the nearest ancestor op that satisfies ``condition`` as the key ``column``."""

    condition: Expression
    column: str


@dataclass(frozen=True)
class Group:
    """Collapse the rows that agree on ``by``."""

    by: tuple[str, ...]
    columns: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Chain:
    """Rows become the matches of ``pattern`` over the events of a lane; an event has the first symbol that holds."""

    lane: str
    within: str | None
    symbols: tuple[tuple[str, Expression], ...]
    pattern: Pattern


@dataclass(frozen=True)
class Compare:
    """Add what other ranks or runs show of ``value`` where they agree on ``within``."""

    across: Literal["rank", "run"]
    within: tuple[str, ...]
    value: Expression
    rule: Rule


@dataclass(frozen=True)
class Join:
    """Add ``columns`` of the row that ``stages`` lead to and that agrees on ``on``."""

    stages: tuple[Stage, ...]
    on: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Sort:
    """Order by columns; True is descending."""

    by: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Limit:
    """Keep the first ``count`` rows."""

    count: int


Stage = From | Where | Let | Gaps | Cover | Chain | Climb | Under | Group | Compare | Join | Sort | Limit


@dataclass(frozen=True)
class EvidencePlan:
    """A finding's detail rows grouped ``by`` columns, heaviest first."""

    by: tuple[str, ...] = ()
    columns: tuple[AggregateCall, ...] = ()
    top: int = 10


@dataclass(frozen=True)
class FixPlan:
    """The checked edit.

    ``expression`` reads columns of ``table`` or, for ``memory`` and ``per_parameter``, of the finding's row; ``where``
    leaves only some of the rows to edit.
    """

    spec: Fix
    expression: Expression | None = None
    where: Expression | None = None


@dataclass(frozen=True)
class SuggestionPlan:
    """One suggestion and the condition that selects it."""

    spec: SuggestionSpec
    when: Expression | None = None


@dataclass(frozen=True)
class Plan:
    """Everything :mod:`npu_advisor.engine.run` needs."""

    rule: Rule
    stages: tuple[Stage, ...]
    requirements: tuple[Requirement, ...]
    scope: StaticScope
    detail: StaticScope
    at: str | None = None
    via: str = ""
    recorded: str | None = None
    saves: str | None = None
    fix: FixPlan | None = None
    evidence: EvidencePlan | None = None
    suggestions: tuple[SuggestionPlan, ...] = ()

    @property
    def across(self) -> str:
        """What ``compare`` compares: ``rank``, ``run``, or nothing where there is no such stage."""
        return next((stage.across for stage in self.stages if isinstance(stage, Compare)), "")
