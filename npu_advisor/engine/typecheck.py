"""The static types of expressions: a walk by whitelist that finds every fault before any data is seen."""

from __future__ import annotations

import ast
from typing import Any, Protocol

from npu_advisor.engine.functions import FUNCTIONS, UNITS
from npu_advisor.engine.grammar import MAX_LITERAL, SIGIL, WORDS, ExprError, Fault, fault_at, path_of, plain
from npu_advisor.engine.regex import regex_fault
from npu_advisor.engine.values import Type
from npu_advisor.rules.source import nearest

_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_EQUAL = (ast.Eq, ast.NotEq)
ANY = Type("any")


class Scope(Protocol):
    """What names mean while checking."""

    def lookup(self, path: str, *, required: bool = True) -> Type | str:
        """The type of a column path, or the text of the error."""

    def named(self, name: str) -> Type | str:
        """The type of ``$name``, or the text of the error."""

    def literal(self, name: str) -> Any:
        """The value of ``$name``."""


def check(tree: ast.expr, scope: Scope, faults: list[Fault]) -> Type:
    """The type of ``tree``; what is wrong is appended to ``faults`` and has type ``any``."""
    return _Checker(scope, faults).type(tree)


KIND_NAMES = {
    "num": "a number",
    "text": "text",
    "bool": "a condition",
    "key": "a key",
    "list": "a list",
    "any": "anything",
    "path": "a column",
}


def _unit(operation: ast.operator, left: str, right: str) -> str:
    """The unit of a result; empty where a plain number may have converted it (``ns / 1000``)."""
    if isinstance(operation, ast.Div):
        return "share" if left and left == right else ""
    if isinstance(operation, ast.Mult):
        return left if right == "share" else right if left == "share" else ""
    return left if left == right else ""


class _Checker:
    """Walks a tree by whitelist and finds every fault in it."""

    def __init__(self, scope: Scope, faults: list[Fault]) -> None:
        self.scope, self.faults = scope, faults

    def type(self, node: ast.expr) -> Type:
        try:
            return self._type(node)
        except ExprError as error:
            self.faults.append(error.fault)
            return ANY

    def _type(self, node: ast.expr) -> Type:
        if isinstance(node, ast.Constant):
            return self._literal(node)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._name(node)
        if isinstance(node, ast.List | ast.Tuple):
            return self._list(node)
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                self._need(part, "bool")
            return Type("bool")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._need(node.operand, "bool")
            return Type("bool")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return self._need(node.operand, "num")
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self._arithmetic(node)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise fault_at(node, f"{_WHAT.get(type(node), 'this')} is not part of the language")

    def _need(self, node: ast.expr, kind: str) -> Type:
        found = self.type(node)
        if found.kind not in (kind, "any"):
            raise fault_at(node, f"this is {KIND_NAMES[found.kind]}, {KIND_NAMES[kind]} is needed")
        return found

    def _literal(self, node: ast.Constant) -> Type:
        if isinstance(node.value, bool):
            return Type("bool")
        if isinstance(node.value, str):
            if len(node.value) > MAX_LITERAL:
                raise fault_at(node, f"a text has at most {MAX_LITERAL} characters")
            return Type("text")
        if isinstance(node.value, int | float) and abs(node.value) < 2**63:
            return Type("num")
        if node.value is None:
            raise fault_at(node, "there is no None; use isnull(x)")
        raise fault_at(node, f"{node.value!r:.30} is not a literal of the language")

    def _name(self, node: ast.Name | ast.Attribute) -> Type:
        if isinstance(node, ast.Name) and node.id in WORDS:
            return Type("bool")
        if isinstance(node, ast.Name) and node.id.startswith(SIGIL):
            found = self.scope.named(node.id[1:])
        else:
            path = path_of(node)
            if path is None:
                raise fault_at(node, "only columns have dotted names")
            found = self.scope.lookup(path)
        if isinstance(found, str):
            raise fault_at(node, found)
        return found

    def _list(self, node: ast.List | ast.Tuple) -> Type:
        kinds = set()
        for item in node.elts:
            if not isinstance(item, ast.Constant):
                raise fault_at(item, "a list holds literals only")
            kinds.add(self._literal(item).kind)
        if len(kinds) > 1:
            raise fault_at(node, "a list holds either texts or numbers")
        return Type("list", item=kinds.pop() if kinds else "any")

    def _arithmetic(self, node: ast.BinOp) -> Type:
        left, right = self.type(node.left), self.type(node.right)
        times = isinstance(node.op, ast.Mult)
        for part, found in ((node.left, left), (node.right, right)):
            if found.kind not in ("num", "any") and not (times and found.kind == "bool"):
                raise fault_at(part, f"this is {KIND_NAMES[found.kind]}, '{_ARITHMETIC[type(node.op)]}' needs a number")
        return Type("num", _unit(node.op, left.unit, right.unit))

    def _comparison(self, node: ast.Compare) -> Type:
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operation, ast.In | ast.NotIn):
                self._membership(left, right)
            elif not isinstance(operation, _ORDER + _EQUAL):
                raise fault_at(node, "'is' is not part of the language; use == or isnull(x)")
            else:
                self._comparable(left, right, ordered=isinstance(operation, _ORDER))
            left = right
        return Type("bool")

    def _membership(self, left: ast.expr, right: ast.expr) -> None:
        item, container = self.type(left), self.type(right)
        if container.kind == "text":
            raise fault_at(right, "'in' needs a list; for a part of a text use contains(text, part)")
        if container.kind not in ("list", "any"):
            raise fault_at(right, f"'in' needs a list, this is {KIND_NAMES[container.kind]}")
        if item.kind not in ("text", "num", "any"):
            raise fault_at(left, f"{KIND_NAMES[item.kind]} cannot be in a list")
        if "any" not in (item.kind, container.kind, container.item) and item.kind != container.item:
            raise fault_at(left, f"this is {KIND_NAMES[item.kind]}, the list holds {_PLURALS[container.item]}")

    def _comparable(self, left: ast.expr, right: ast.expr, *, ordered: bool) -> None:
        one, two = self.type(left), self.type(right)
        if "any" in (one.kind, two.kind):
            return
        if one.kind != two.kind or one.target != two.target:
            key = next((found for found in (one, two) if found.kind == "key"), None)
            hint = f"; name a column of it, such as {_key_example(key)}" if key else ""
            raise fault_at(right, f"cannot compare {KIND_NAMES[one.kind]} with {KIND_NAMES[two.kind]}{hint}")
        if one.kind == "list" or (ordered and one.kind != "num"):
            raise fault_at(
                right,
                f"{KIND_NAMES[one.kind]} has no order" if one.kind != "list" else "lists cannot be compared; use 'in'",
            )

    def _call(self, node: ast.Call) -> Type:
        if not isinstance(node.func, ast.Name):
            raise fault_at(node.func, "only the functions of the language can be called")
        function = FUNCTIONS.get(node.func.id)
        if function is None:
            raise fault_at(node.func, f"unknown function '{plain(node.func.id)}'{nearest(node.func.id, FUNCTIONS)}")
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise fault_at(node, f"'{node.func.id}' takes plain arguments only")
        wanted = list(function.arguments)
        if function.variadic and len(node.args) > len(wanted):
            wanted += [wanted[-1]] * (len(node.args) - len(wanted))
        if len(wanted) != len(node.args):
            raise fault_at(node, f"'{node.func.id}' takes {len(function.arguments)} arguments, not {len(node.args)}")
        units = {self._argument(part, kind).unit for part, kind in zip(node.args, wanted, strict=True)}
        unit = UNITS.get(node.func.id) or (units.pop() if function.result == "num" and len(units) == 1 else "")
        return Type(function.result, unit)

    def _argument(self, node: ast.expr, kind: str) -> Type:
        if kind == "path":
            path = path_of(node)
            found: Type | str = "this is not a column" if path is None else self.scope.lookup(path, required=False)
            if isinstance(found, str):
                raise fault_at(node, found)
            return found
        if kind in ("pattern", "regex"):
            return self._pattern(node, kind)
        found = self.type(node)
        if kind not in ("any", found.kind) and found.kind != "any":
            raise fault_at(node, f"this is {KIND_NAMES[found.kind]}, {KIND_NAMES[kind]} is needed")
        return found

    def _pattern(self, node: ast.expr, kind: str) -> Type:
        literal = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Name) and node.id.startswith(SIGIL):
            found = self._name(node)
            literal = self.scope.literal(node.id[1:])
        else:
            found = self.type(node)
        texts = found.kind == "text" or (kind == "pattern" and found.kind == "list" and found.item in ("text", "any"))
        constant_text = isinstance(node, ast.Constant | ast.List | ast.Tuple) or literal is not None
        if not texts or not constant_text:
            wanted = "a text" if kind == "regex" else "a text or a list of texts"
            raise fault_at(node, f"{wanted} is needed here, written out or as $name")
        if kind == "regex" and (why := regex_fault(str(literal))):
            raise fault_at(node, why)
        return found


_PLURALS = {"text": "texts", "num": "numbers", "bool": "conditions"}
_WHAT: dict[type[ast.AST], str] = {
    ast.IfExp: "'if'",
    ast.Lambda: "a lambda",
    ast.Subscript: "an index",
    ast.JoinedStr: "an f-string",
    ast.Dict: "a mapping",
    ast.Set: "a set",
    ast.ListComp: "a loop",
    ast.SetComp: "a loop",
    ast.DictComp: "a loop",
    ast.GeneratorExp: "a loop",
    ast.BinOp: "this operator",
    ast.UnaryOp: "this operator",
}


def _key_example(key: Type | None) -> str:
    return {"steps": "step.number", "ops": "op.name"}.get(key.target if key else "", "dequeue.name")
