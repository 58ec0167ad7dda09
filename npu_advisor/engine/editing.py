"""The language of what-if edits: ``scale kernels where type == "MatMulV3" by 0.8``.

    remove TABLE [where CONDITION]
    scale  TABLE [where CONDITION] by SHARE
    cap    TABLE [where CONDITION] at TIME us
    close | overlap | fuse  TABLE [where CONDITION]

CONDITION, SHARE and TIME are expressions of the rule language on the columns of TABLE; the kinds are those of a
rule's ``fix:``. Nothing here needs a profile: an edit is checked before anything is read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from npu_advisor.base.errors import RuleError, RuleProblem
from npu_advisor.engine.expr import Expression, compile_expression
from npu_advisor.engine.grammar import Fault
from npu_advisor.engine.scope import Reads, StaticScope
from npu_advisor.engine.values import Requirement
from npu_advisor.graph.replay import EDITABLE
from npu_advisor.model.schema import SCHEMA
from npu_advisor.rules.source import nearest

# The keyword before the number of an edit, and how such an edit reads.
NUMBER = {"scale": ("by", "by 0.8"), "cap": ("at", "at 5 us")}
_TOKEN = re.compile(r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<open>[(\[])|(?P<close>[)\]])|(?P<word>\w+)""")
_UNIT = re.compile(r"\s+us\s*$")


@dataclass(frozen=True)
class EditPlan:
    """A checked edit: which rows of ``table`` (None: all), the number it needs, and the columns it reads."""

    text: str
    kind: str
    table: str
    condition: Expression | None
    value: Expression | None
    needs: tuple[Requirement, ...]


def parse_edits(texts: Sequence[str]) -> list[EditPlan]:
    """The edits of ``texts``. RuleError with every fault of every edit and where it stands."""
    plans, problems = [], []
    for number, text in enumerate(texts, 1):
        parser = _Parser(re.sub(r"\s", " ", text))
        plan = parser.plan()
        if plan is not None and not parser.faults:
            plans.append(plan)
        problems += [_problem(number, parser.text, fault) for fault in parser.faults]
    if problems:
        raise RuleError(problems)
    return plans


def _problem(number: int, text: str, fault: Fault) -> RuleProblem:
    width = max(1, min(fault.width, len(text) - fault.offset))
    return RuleProblem(f"--edit {number}", 1, fault.offset + 1, fault.message, text, width)


@dataclass(frozen=True)
class _Piece:
    """A stretch of an edit and where it begins."""

    text: str
    offset: int

    def stripped(self) -> _Piece:
        return _Piece(self.text.strip(), self.offset + len(self.text) - len(self.text.lstrip()))


class _Parser:
    """Parses one edit; ``faults`` has what is wrong with it."""

    def __init__(self, text: str) -> None:
        self.text, self.faults = text, list[Fault]()

    def plan(self) -> EditPlan | None:
        head, clauses = self._clauses()
        words = [_Piece(found[0], found.start()) for found in re.finditer(r"\S+", head.text)]
        kind = self._kind(words)
        table = self._table(words, kind) if kind else None
        if kind is None or table is None:
            return None
        wanted = NUMBER.get(kind, ("", ""))[0]
        for name, piece in clauses.items():
            if name not in ("where", wanted):
                self._fault(f"'{kind}' takes no '{name}'", piece.offset - len(name), len(name))
        scope = StaticScope((table,), {}, Reads())
        condition = self._expression(clauses["where"], scope, "bool") if "where" in clauses else None
        value = self._number(kind, clauses, scope) if wanted else None
        return EditPlan(self.text.strip(), kind, table, condition, value, scope.reads.requirements())

    def _fault(self, message: str, offset: int, width: int = 1) -> None:
        self.faults.append(Fault(message, max(0, min(offset, len(self.text) - 1)), width))

    def _clauses(self) -> tuple[_Piece, dict[str, _Piece]]:
        """The text before the first keyword, and what follows each keyword."""
        marks: list[tuple[str, int, int]] = []
        depth = 0
        for found in _TOKEN.finditer(self.text):
            depth += (found["open"] is not None) - (found["close"] is not None)
            if depth <= 0 and found["word"] in ("where", "by", "at"):
                marks.append((found["word"], found.start(), found.end()))
        head = _Piece(self.text[: marks[0][1]] if marks else self.text, 0)
        clauses: dict[str, _Piece] = {}
        for number, (name, start, end) in enumerate(marks):
            until = marks[number + 1][1] if number + 1 < len(marks) else len(self.text)
            if name in clauses:
                self._fault(f"'{name}' stands here a second time", start, len(name))
            clauses[name] = _Piece(self.text[end:until], end)
        return head, clauses

    def _kind(self, words: list[_Piece]) -> str | None:
        if words and words[0].text in EDITABLE:
            return words[0].text
        kinds = ", ".join(EDITABLE)
        if not words:
            self._fault(f"an edit begins with one of {kinds}", 0)
            return None
        first = words[0]
        hint = nearest(first.text, EDITABLE) or f"; an edit begins with one of {kinds}"
        self._fault(f"unknown edit '{first.text}'{hint}", first.offset, len(first.text))
        return None

    def _table(self, words: list[_Piece], kind: str) -> str | None:
        known = EDITABLE[kind]
        if len(words) < 2:
            end = words[0].offset + len(words[0].text)
            self._fault(f"'{kind}' needs a table: {', '.join(known)}", end)
            return None
        name = words[1]
        if len(words) > 2:
            odd = words[2]
            keywords = "where", *filter(None, [NUMBER.get(kind, ("",))[0]])
            hint = nearest(odd.text, keywords) or f"; '{keywords[0]}' or nothing is expected"
            self._fault(f"'{odd.text}' does not belong here{hint}", odd.offset, len(odd.text))
        if name.text in known:
            return name.text
        what = f"'{kind}' cannot edit" if name.text in SCHEMA else "unknown table"
        hint = nearest(name.text, known) or f"; '{kind}' edits {', '.join(known)}"
        self._fault(f"{what} '{name.text}'{hint}", name.offset, len(name.text))
        return None

    def _number(self, kind: str, clauses: dict[str, _Piece], scope: StaticScope) -> Expression | None:
        keyword, example = NUMBER[kind]
        if keyword not in clauses:
            self._fault(f"'{kind}' needs '{keyword}' and a number, as in: {example}", len(self.text.rstrip()) - 1)
            return None
        piece = clauses[keyword]
        if kind == "cap":
            unit = _UNIT.search(piece.text)
            if unit is None:
                end = piece.offset + len(piece.text.rstrip())
                self._fault(f"a time ends with its unit, as in: {example}", end - 1)
                return None
            piece = _Piece(piece.text[: unit.start()], piece.offset)
        made = self._expression(piece, scope, "num")
        if made is not None and isinstance(made.tree, ast.UnaryOp) and isinstance(made.tree.op, ast.USub):
            at = piece.stripped()
            self._fault(f"'{keyword}' needs a number that is not negative", at.offset, len(at.text))
        return made

    def _expression(self, piece: _Piece, scope: StaticScope, want: str) -> Expression | None:
        inner = piece.stripped()
        if not inner.text:
            self._fault("an expression is missing here", piece.offset - 1)
            return None
        faults: list[Fault] = []
        made = compile_expression(inner.text, scope, faults, want)
        for fault in faults:
            self._fault(fault.message, inner.offset + fault.offset, fault.width)
        return made
