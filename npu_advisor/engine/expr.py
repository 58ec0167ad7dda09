"""The expression language: parsed by :mod:`ast`, walked by a whitelist, typed, evaluated on whole columns.

Literals, ``$param`` and ``$list``, columns (dotted paths follow foreign keys), ``and or not in``, comparisons,
``+ - * /`` and the functions of :mod:`npu_advisor.engine.functions`; nothing else.  A comparison with a missing value
is false, arithmetic with one is missing.  A condition multiplied with a number counts as 1 or 0.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from npu_advisor.engine.functions import FUNCTIONS, divide
from npu_advisor.engine.grammar import SIGIL, WORDS, ExprError, Fault, fault_at, parse, path_of
from npu_advisor.engine.typecheck import KIND_NAMES, Scope, check
from npu_advisor.engine.values import Array, Type, Value, boolean, constant, number, same_text

__all__ = ["Environment", "ExprError", "Expression", "Fault", "compile_expression", "compile_tree", "parse", "path_of"]

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Environment(Protocol):
    """What names mean while evaluating."""

    def column(self, path: str) -> Value:
        """The values of a column path."""

    def recorded(self, path: str) -> bool:
        """Whether the profile holds this column."""


@dataclass(frozen=True)
class Expression:
    """A checked expression."""

    text: str
    tree: ast.expr
    type: Type
    literals: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, rows: Environment) -> Value:
        """The values on ``rows`` (0-d for a constant)."""
        return _Evaluator(rows, self.literals).value(self.tree)


def compile_expression(text: str, scope: Scope, faults: list[Fault], want: str = "") -> Expression | None:
    """Parse and check ``text``; ``want`` is the kind it must have. None when there were faults."""
    try:
        tree = parse(text)
    except ExprError as error:
        faults.append(error.fault)
        return None
    return compile_tree(tree, text, scope, faults, want)


def compile_tree(tree: ast.expr, text: str, scope: Scope, faults: list[Fault], want: str = "") -> Expression | None:
    """As :func:`compile_expression` for a part of a parsed expression."""
    before = len(faults)
    found = check(tree, scope, faults)
    if len(faults) == before and want and found.kind not in (want, "any"):
        faults.append(fault_at(tree, f"this is {KIND_NAMES[found.kind]}, {KIND_NAMES[want]} is needed").fault)
    if len(faults) > before:
        return None
    named = ast.walk(tree) if "$" in text else ()
    names = {node.id for node in named if isinstance(node, ast.Name) and node.id.startswith(SIGIL)}
    return Expression(text, tree, found, {name: scope.literal(name[1:]) for name in names})


class _Evaluator:
    """Evaluates a checked tree."""

    def __init__(self, rows: Environment, literals: dict[str, Any]) -> None:
        self.rows, self.literals = rows, literals

    def value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant):
            return constant(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name | ast.Attribute):
            return self._name(node)
        if isinstance(node, ast.BoolOp):
            parts = [self.value(part).data for part in node.values]
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            out = parts[0]
            for part in parts[1:]:
                out = join(out, part)
            return boolean(out)
        if isinstance(node, ast.UnaryOp):
            operand = self.value(node.operand)
            if isinstance(node.op, ast.Not):
                return boolean(~operand.data)
            return number(-operand.data if isinstance(node.op, ast.USub) else operand.data, operand.missing)
        if isinstance(node, ast.BinOp):
            return _arithmetic(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Compare):
            return boolean(np.logical_and.reduce(np.broadcast_arrays(*self._comparisons(node))))
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return self._call(node.func.id, node.args)

    def _name(self, node: ast.Name | ast.Attribute) -> Value:
        if isinstance(node, ast.Name) and node.id in WORDS:
            return constant(WORDS[node.id])
        if isinstance(node, ast.Name) and node.id in self.literals:
            return constant(self.literals[node.id])
        path = path_of(node)
        assert path is not None
        return self.rows.column(path)

    def _items(self, node: ast.expr) -> list[Any]:
        if isinstance(node, ast.List | ast.Tuple):
            return [item.value for item in node.elts if isinstance(item, ast.Constant)]
        assert isinstance(node, ast.Name)
        return list(self.literals[node.id])

    def _is_list(self, node: ast.expr) -> bool:
        named = isinstance(node, ast.Name) and isinstance(self.literals.get(node.id), list | tuple)
        return named or isinstance(node, ast.List | ast.Tuple)

    def _call(self, name: str, arguments: list[ast.expr]) -> Value:
        if name == "has":
            return constant(self.rows.recorded(path_of(arguments[0]) or ""))
        values: list[Any] = [self._items(part) if self._is_list(part) else self.value(part) for part in arguments]
        return FUNCTIONS[name].call(*values)

    def _comparisons(self, node: ast.Compare) -> Iterator[Array]:
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operation, ast.In | ast.NotIn):
                value = self.value(left)
                inside = _isin(value, self._items(right))
                yield inside if isinstance(operation, ast.In) else ~inside & ~value.is_missing
            else:
                yield _compare(operation, self.value(left), self.value(right))
            left = right


def _isin(value: Value, items: list[Any]) -> Array:
    if value.kind == "text":
        assert value.categories is not None
        wanted = {str(item) for item in items}
        truth = np.fromiter((name in wanted for name in value.categories), bool, len(value.categories))
        return np.asarray(np.append(truth, False)[value.data])
    return np.isin(value.data, items) & ~value.is_missing


def _compare(operation: ast.cmpop, left: Value, right: Value) -> Array:
    absent = left.is_missing | right.is_missing
    if left.kind == "text":
        same = same_text(left, right)
        return same if isinstance(operation, ast.Eq) else ~same & ~absent
    with np.errstate(invalid="ignore"):
        return np.asarray(_COMPARE[type(operation)](left.data, right.data)) & ~absent


def _arithmetic(operation: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(operation, ast.Div):
        return divide(left, right)
    absent = np.asarray(left.is_missing | right.is_missing)
    if isinstance(operation, ast.Add):
        return number(left.data + right.data, absent)
    if isinstance(operation, ast.Sub):
        return number(left.data - right.data, absent)
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.multiply(left.data, right.data, dtype=np.float64)
    whole = all(value.data.dtype.kind in "ib" for value in (left, right))
    if whole and (product.size == 0 or np.abs(product).max() < 2**53):
        return number(product.astype(np.int64), absent)
    return number(product, absent)
