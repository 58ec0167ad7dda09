"""A parsed file: statements by line, names by import, spans and edits of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar, cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider, QualifiedNameProvider

from npu_advisor.findings import TextEdit

Compound = cst.If | cst.For | cst.While | cst.With
Statement = cst.SimpleStatementLine | Compound
_COMPOUNDS: tuple[type[Compound], ...] = (cst.If, cst.For, cst.While, cst.With)
_Node = TypeVar("_Node", bound=cst.CSTNode)


@lru_cache(maxsize=32)
def read_code(text: str) -> Code | None:
    """The parsed ``text``, None when it is no Python that libcst knows."""
    try:
        return Code(text)
    except (cst.ParserSyntaxError, RecursionError):
        return None


def parses(text: str) -> bool:
    """Whether ``text`` is Python that libcst knows."""
    try:
        cst.parse_module(text)
    except (cst.ParserSyntaxError, RecursionError):
        return False
    return True


class Code:
    """The syntax tree of one file, with where its nodes lie. Columns count from 1, ends are exclusive."""

    def __init__(self, text: str) -> None:
        # A fresh tree holds no node twice, which is all that the copy would guard against.
        self._wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        self.module = self._wrapper.module
        self._lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._spans = cast("Mapping[cst.CSTNode, CodeRange]", self._wrapper.resolve(PositionProvider))
        # Finding children is what costs: once for all, in the order of the text.
        self._parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._nodes = list(self._walk(self.module))

    # --- places ---------------------------------------------------------------------------------------------------

    def span(self, node: cst.CSTNode) -> TextEdit:
        """The place of ``node`` without brackets around it, as an edit that deletes it."""
        place = self._spans[node]
        start, end = place.start, place.end
        return _edit((start.line, start.column + 1), (end.line, end.column + 1))

    def text(self, node: cst.CSTNode) -> str:
        """The source of ``node``, without brackets around it."""
        return self.between(self.span(node))

    def between(self, place: TextEdit) -> str:
        """The source that an edit replaces."""
        lines = self._lines[place.start_line - 1 : place.end_line]
        lines[-1] = lines[-1][: place.end_column - 1]
        lines[0] = lines[0][place.start_column - 1 :]
        return "\n".join(lines)

    def line(self, number: int) -> str:
        """One line, from 1, without its end."""
        return self._lines[number - 1]

    def replaced(self, node: cst.CSTNode, text: str) -> TextEdit:
        """The edit that puts ``text`` in the place of ``node``."""
        return self.span(node).model_copy(update={"text": text})

    def before(self, node: cst.CSTNode, text: str) -> TextEdit:
        """The edit that inserts ``text`` where ``node`` begins."""
        place = self.span(node)
        at = (place.start_line, place.start_column)
        return _edit(at, at, text)

    def after(self, node: cst.CSTNode, text: str) -> TextEdit:
        """The edit that inserts ``text`` where ``node`` ends."""
        place = self.span(node)
        at = (place.end_line, place.end_column)
        return _edit(at, at, text)

    # --- what is where --------------------------------------------------------------------------------------------

    def nodes(self, kind: type[_Node], under: cst.CSTNode | None = None) -> Iterator[_Node]:
        """Every node of one kind, in the file or below ``under``."""
        nodes = self._nodes if under is None else self._walk(under)
        return (node for node in nodes if isinstance(node, kind))

    def _walk(self, root: cst.CSTNode) -> Iterator[cst.CSTNode]:
        todo = [root]
        while todo:
            node = todo.pop()
            yield node
            children = node.children
            self._parents.update(dict.fromkeys(children, node))
            todo.extend(reversed(children))

    def statement(self, line: int) -> Statement | None:
        """The one simple statement on ``line``, or the compound one whose head (up to its colon) lies there."""
        found: list[Statement] = []
        for simple in self.nodes(cst.SimpleStatementLine):
            place = self.span(simple)
            if place.start_line <= line <= place.end_line and len(simple.body) == 1:
                found.append(simple)
        for kind in _COMPOUNDS:
            found += [node for node in self.nodes(kind) if self._in_head(node, line)]
        return max(found, key=lambda node: self.span(node).start_line, default=None)

    def _in_head(self, node: Compound, line: int) -> bool:
        return self.span(node).start_line <= line <= self.span(_head(node)).end_line

    def around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes that hold ``node``, innermost first, up to the function (or module) it runs in."""
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, cst.FunctionDef | cst.Lambda | cst.Module):
            yield parent
            parent = self._parents.get(parent)

    # --- names ----------------------------------------------------------------------------------------------------

    def full_name(self, node: cst.CSTNode) -> str:
        """The dotted name that ``node`` means by the file's imports (``torch.optim.AdamW``); "" when that is open."""
        names = self._wrapper.resolve(QualifiedNameProvider).get(node, set())
        found = names() if callable(names) else names
        return next(iter(found)).name if found is not None and len(found) == 1 else ""

    def calls(self, *names: str, under: cst.CSTNode | None = None) -> list[cst.Call]:
        """The calls of what has one of these full names."""
        short = {name.rpartition(".")[2] for name in names}
        candidates = (call for call in self.nodes(cst.Call, under) if last_name(call.func))
        return [
            call
            for call in candidates
            # An import may rename; looking up every call of the file would take long.
            if (last_name(call.func) in short or isinstance(call.func, cst.Name)) and self.full_name(call.func) in names
        ]

    def module_name(self, module: str) -> str | None:
        """What ``module`` is called in this file by a plain ``import`` at the top, None when it is not imported."""
        for names in self.nodes(cst.Import):
            if any(isinstance(node, cst.ClassDef) for node in self.around(names)) or not self._at_top(names):
                continue
            for alias in names.names:
                known = dotted(alias.name)
                if known == module and alias.asname is not None:
                    return dotted(cast("cst.Name", alias.asname.name))
                if alias.asname is None and known.split(".")[0] == module:
                    return module
        return None

    def _at_top(self, node: cst.CSTNode) -> bool:
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, cst.Module):
            if isinstance(parent, cst.FunctionDef | cst.ClassDef):
                return False
            parent = self._parents.get(parent)
        return True

    def target_of(self, value: cst.CSTNode) -> str:
        """The last name of what ``value`` is assigned to: ``opt`` for ``self.opt = value``; "" for none."""
        parent = self._parents.get(value)
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            return last_name(parent.targets[0].target)
        return last_name(parent.target) if isinstance(parent, cst.AnnAssign) else ""

    def constructor(self, calls: Sequence[cst.Call], names: set[str]) -> cst.Call | None:
        """Which of ``calls`` makes what is used under one of ``names``: the one assigned to it, or else the only one
        of the file, when nothing else is assigned to these names."""
        named = [call for call in calls if self.target_of(call) in names]
        if not named and not any(self.target_of(call) in names for call in self.nodes(cst.Call)):
            named = list(calls)
        return named[0] if len(named) == 1 else None


def _head(node: Compound) -> cst.CSTNode:
    if isinstance(node, cst.For):
        return node.iter
    return node.items[-1] if isinstance(node, cst.With) else node.test


def last_name(node: cst.CSTNode) -> str:
    """``c`` for ``c`` and ``a.b.c``; "" for anything else."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def dotted(node: cst.CSTNode) -> str:
    """``a.b.c`` for names and attributes of names; "" for anything that computes."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr.value}" if head else ""
    return ""


def _edit(start: tuple[int, int], end: tuple[int, int], text: str = "") -> TextEdit:
    return TextEdit(start_line=start[0], start_column=start[1], end_line=end[0], end_column=end[1], text=text)


def same(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether both are the same dotted name."""
    return bool(dotted(one)) and dotted(one) == dotted(other)


def number(node: cst.BaseExpression) -> float | None:
    """The value of a number as written, with or without a minus."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = number(node.expression)
        return None if inner is None else -inner
    if isinstance(node, cst.Integer | cst.Float):
        return float(node.evaluated_value)
    return None


def is_plain(args: Sequence[cst.Arg]) -> bool:
    """Whether no argument is a ``*`` or ``**`` one."""
    return not any(arg.star for arg in args)
