"""A selection by mask becomes ``torch.where``, where the result is the same."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from npu_advisor.base.messages import say
from npu_advisor.codemods.code import Code, dotted, last_name, number, same
from npu_advisor.codemods.patch import Patch
from npu_advisor.findings import JsonValue

_CHECKS = ("torch.isfinite", "torch.isnan", "torch.isinf")


def keep_shape(code: Code, line: int, values: Mapping[str, JsonValue]) -> Patch | None:  # noqa: ARG001 (all take them)
    """``torch.masked_select(x, m).view_as(x)`` -> ``torch.where(m, x, 0)``, with ``m`` computed from ``x`` alone.

    The view only fits when every element was selected, and ``m`` has the shape of ``x``: so both are ``x``. A sum of
    what is selected is the sum of ``torch.where`` as well, but for the order in which it rounds: unsafe.
    """
    statement = code.statement(line)
    torch = code.module_name("torch")
    if not isinstance(statement, cst.SimpleStatementLine) or torch is None:
        return None
    found = [(call, made) for call in code.nodes(cst.Call, statement) if (made := _rewritten(code, call, torch))]
    if len(found) != 1:
        return None
    call, (text, exact) = found[0]
    if "#" in code.text(call):
        return None  # a comment would be lost
    title = say("fix.where" if exact else "fix.where_sum")
    return Patch("safe" if exact else "unsafe", title, (code.replaced(call, text),))


def _rewritten(code: Code, call: cst.Call, torch: str) -> tuple[str, bool] | None:
    """The new text of ``call`` and whether it is equal to the last bit."""
    if not isinstance(call.func, cst.Attribute):
        return None
    selection = _selection(code, call.func.value)
    if selection is None:
        return None
    x, mask = selection
    if not _elementwise(code, mask, x):
        return None
    where = f"{torch}.where({code.text(mask)}, {code.text(x)}, 0)"
    name = call.func.attr.value
    if name == "sum" and not call.args:
        return f"{where}.sum()", False
    if len(call.args) == 1 and _has_shape_of(name, call.args[0], x):
        return where, True
    return None


def _has_shape_of(name: str, arg: cst.Arg, x: cst.BaseExpression) -> bool:
    if arg.keyword is not None or arg.star:
        return False
    if name in ("view_as", "reshape_as"):
        return same(arg.value, x)
    shape = isinstance(arg.value, cst.Attribute) and arg.value.attr.value == "shape" and same(arg.value.value, x)
    return name in ("view", "reshape") and shape


def _selection(code: Code, node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Tensor and mask of ``torch.masked_select(x, m)``, ``x.masked_select(m)`` or ``x[m]``."""
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        return (node.value, index.value) if isinstance(index, cst.Index) and index.star is None else None
    if not isinstance(node, cst.Call) or any(arg.keyword or arg.star for arg in node.args):
        return None
    if len(node.args) == 2 and code.full_name(node.func) == "torch.masked_select":
        return node.args[0].value, node.args[1].value
    if len(node.args) == 1 and isinstance(node.func, cst.Attribute) and last_name(node.func) == "masked_select":
        return node.func.value, node.args[0].value
    return None


def _elementwise(code: Code, mask: cst.BaseExpression, x: cst.BaseExpression) -> bool:
    """Whether ``mask`` is a bool of the shape of ``x`` for certain: comparisons of ``x`` with itself or a number."""
    if not dotted(x):
        return False
    if isinstance(mask, cst.UnaryOperation) and isinstance(mask.operator, cst.BitInvert):
        return _elementwise(code, mask.expression, x)
    if isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd | cst.BitOr):
        return _elementwise(code, mask.left, x) and _elementwise(code, mask.right, x)
    if isinstance(mask, cst.Call):
        one = len(mask.args) == 1 and mask.args[0].keyword is None and not mask.args[0].star
        return one and same(mask.args[0].value, x) and code.full_name(mask.func) in _CHECKS
    if not isinstance(mask, cst.Comparison) or len(mask.comparisons) != 1:
        return False
    operator, other = mask.comparisons[0].operator, mask.comparisons[0].comparator
    if isinstance(operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
        return False
    sides = (mask.left, other)
    return any(same(side, x) for side in sides) and all(same(side, x) or number(side) is not None for side in sides)
