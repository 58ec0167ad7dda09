"""What every check of a rule needs: expressions, columns and tables by name, and problems with their place."""

from __future__ import annotations

from dataclasses import dataclass, field

from npu_advisor.base.errors import RuleProblem
from npu_advisor.engine.expr import ExprError, Expression, Fault, compile_expression, parse, path_of
from npu_advisor.engine.scope import Reads, StaticScope
from npu_advisor.engine.values import Type
from npu_advisor.model.schema import SCHEMA
from npu_advisor.rules.source import Place, nearest
from npu_advisor.rules.spec import Rule


@dataclass
class Checker:
    """Checks parts of one rule; faults are collected in ``problems``, what is read in ``reads``."""

    rule: Rule
    problems: list[RuleProblem] = field(default_factory=list)
    reads: Reads = field(default_factory=Reads)

    def report(self, place: Place, message: str, *, key: bool = False) -> None:
        """Add a problem with the value (``key``: with the key) at ``place``."""
        self.problems.append(self.rule.origin.span(place, key=key).problem(message))

    def report_in(self, place: Place, text: str, fault: Fault) -> None:
        """Add a problem inside the expression ``text`` at ``place``."""
        span = self.rule.origin.span(place)
        self.problems.append(span.problem(fault.message, fault.offset, fault.width, text))

    def expression(self, text: str, scope: StaticScope, place: Place, want: str = "") -> Expression | None:
        """``text`` checked; ``want`` is the kind it must have. None after a fault."""
        faults: list[Fault] = []
        made = compile_expression(text, scope, faults, want)
        for fault in faults:
            self.report_in(place, text, fault)
        return made

    def path(self, text: str, scope: StaticScope, place: Place) -> Type:
        """The type of a column named in ``by``, ``sort``, ``lane``, ...; kind ``any`` after a fault."""
        try:
            path: str | None = path_of(parse(text))
        except ExprError:
            path = None
        found = scope.lookup(path) if path else f"'{text}' is not the name of a column"
        if isinstance(found, str):
            self.report(place, found)
            return Type("any")
        return found

    def table(self, name: str, place: Place) -> bool:
        """Whether there is such a table."""
        if name in SCHEMA:
            return True
        self.report(place, f"unknown table '{name}'{nearest(name, SCHEMA)}")
        return False

    def tables(self, names: list[str], place: Place) -> tuple[str, ...]:
        """The known ones of ``names``; noted as required."""
        spread = [(*place, index) for index in range(len(names))]
        known = tuple(name for name, at in zip(names, spread, strict=True) if self.table(name, at))
        if known:
            self.reads.need(known)
        return known

    def need_times(self, scope: StaticScope, place: Place, what: str) -> None:
        """Report rows that are no intervals; their times are required."""
        if not scope.timed:
            self.report(place, f"'{what}' needs rows with start_ns and dur_ns", key=True)
        elif not scope.broken:
            for name in ("start_ns", "dur_ns"):
                scope.lookup(name)

    def need_op(self, scope: StaticScope, place: Place, what: str) -> None:
        """Report rows that have no op; it is required."""
        self.reads.need(("ops",))
        if scope.tables == ("ops",) or scope.broken:
            return
        found = scope.lookup("op")
        if isinstance(found, str) or (found.kind, found.target) not in (("key", "ops"), ("any", "")):
            self.report(place, f"'{what}' needs rows of 'ops' or rows with a key 'op'", key=True)
