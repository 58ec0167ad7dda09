"""Device values are read for logs and checks every hundredth step, and kept on the device in running sums."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from npu_advisor.base.messages import say
from npu_advisor.codemods.code import Code, last_name
from npu_advisor.codemods.patch import Patch
from npu_advisor.findings import JsonValue, TextEdit

EVERY = 100
_LOGGING = frozenset(
    {
        *("print", "write", "info", "debug", "warning", "error", "log", "log_metric", "log_metrics"),
        *("add_scalar", "add_scalars"),
        *("set_postfix", "set_postfix_str", "set_description", "set_description_str"),
    }
)
_READING = frozenset({"item", "tolist"})
_CHECKING = frozenset({"isnan", "isinf", "isfinite"})
_STEPPING = frozenset({"backward", "step"})


def read_rarely(code: Code, line: int, values: Mapping[str, JsonValue]) -> Patch | None:  # noqa: ARG001 (all take them)
    """Puts a log call, or a check that only raises or logs, under ``if step % 100 == 0``; ``+= x.item()`` keeps
    ``x.detach()``. Only in a training loop with a step number, and only where no condition on it is there yet."""
    statement = code.statement(line)
    if isinstance(statement, cst.SimpleStatementLine):
        return _kept_on_device(code, statement) or _logged_rarely(code, statement)
    return _checked_rarely(code, statement) if isinstance(statement, cst.If) else None


def _reads(code: Code, node: cst.CSTNode) -> list[cst.Call]:
    """The calls ``x.item()`` and ``x.tolist()`` in ``node``."""
    calls = code.nodes(cst.Call, node)
    return [call for call in calls if isinstance(call.func, cst.Attribute) and last_name(call.func) in _READING]


def _kept_on_device(code: Code, statement: cst.SimpleStatementLine) -> Patch | None:
    """``total += loss.item()`` and ``losses.append(loss.item())``."""
    part = statement.body[0]
    value: cst.BaseExpression | None = None
    if isinstance(part, cst.AugAssign) and isinstance(part.operator, cst.AddAssign):
        value = part.value
    elif isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) and len(part.value.args) == 1:
        value = part.value.args[0].value if last_name(part.value.func) == "append" else None
    if not isinstance(value, cst.Call) or _reads(code, value) != [value] or last_name(value.func) != "item":
        return None
    assert isinstance(value.func, cst.Attribute)
    if value.args or _loop(code, statement) is None:
        return None
    return Patch("unsafe", say("fix.detach"), (code.replaced(value.func.attr, "detach"),))


def _logged_rarely(code: Code, statement: cst.SimpleStatementLine) -> Patch | None:
    part = statement.body[0]
    if not _is_log(part) or not _reads(code, part):
        return None
    step = _step_name(code, statement)
    if step is None:
        return None
    place = code.span(statement)
    indent = code.line(place.start_line)[: place.start_column - 1]
    if indent.strip():
        return None  # behind the colon of its condition
    unit = code.module.default_indent
    edits = [code.before(statement, f"if {step} % {EVERY} == 0:\n{indent}{unit}")]
    if '"""' not in code.text(statement) and "'''" not in code.text(statement):
        edits += [_indented(number, unit) for number in range(place.start_line + 1, place.end_line + 1)]
    return Patch("unsafe", say("fix.log_rarely", every=EVERY), tuple(edits))


def _indented(line: int, unit: str) -> TextEdit:
    return TextEdit(start_line=line, start_column=1, end_line=line, end_column=1, text=unit)


def _checked_rarely(code: Code, statement: cst.If) -> Patch | None:
    """``if torch.isnan(x).any().item(): raise ...``, which computes nothing that training needs."""
    names = {last_name(call.func) for call in code.nodes(cst.Call, statement.test)}
    if statement.orelse is not None or not names & (_READING | _CHECKING) or not _only_complains(statement.body):
        return None
    step = _step_name(code, statement)
    if step is None:
        return None
    test, condition = statement.test, f"{step} % {EVERY} == 0 and "
    binds_looser = isinstance(test, cst.IfExp | cst.Lambda | cst.NamedExpr) or (
        isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or)
    )
    edits = [code.before(test, f"{condition}(" if binds_looser else condition)]
    if binds_looser:
        edits.append(code.after(test, ")"))
    return Patch("unsafe", say("fix.check_rarely", every=EVERY), tuple(edits))


def _only_complains(body: cst.BaseSuite) -> bool:
    lines = body.body if isinstance(body, cst.IndentedBlock) else [body]
    parts = [part for line in lines for part in getattr(line, "body", [line])]
    return bool(parts) and all(isinstance(part, cst.Raise | cst.Pass) or _is_log(part) for part in parts)


def _is_log(part: cst.CSTNode) -> bool:
    return isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) and last_name(part.value.func) in _LOGGING


def _loop(code: Code, node: cst.CSTNode) -> cst.For | None:
    """The training loop around ``node``: the innermost whose body runs backward or steps an optimizer."""
    for outer in code.around(node):
        if isinstance(outer, cst.For):
            calls = code.nodes(cst.Call, outer.body)
            if any(isinstance(call.func, cst.Attribute) and last_name(call.func) in _STEPPING for call in calls):
                return outer
    return None


def _step_name(code: Code, node: cst.CSTNode) -> str | None:
    """The name that counts the steps of the training loop; None without one, or when ``node`` depends on it already."""
    loop = _loop(code, node)
    name = _counter(code, loop) if loop is not None else None
    if loop is None or name is None:
        return None
    for target in code.nodes(cst.AssignTarget, loop.body):
        if last_name(target.target) == name:
            return None
    for outer in (node, *code.around(node)):
        if outer is loop:
            break
        if isinstance(outer, cst.For) and name in {inner.value for inner in code.nodes(cst.Name, outer.target)}:
            return None
        tested = outer.test if isinstance(outer, cst.If) else None
        if tested is not None and (_counts(code, tested) or name in {n.value for n in code.nodes(cst.Name, tested)}):
            return None
    return name


def _counts(code: Code, test: cst.CSTNode) -> bool:
    return any(isinstance(operation.operator, cst.Modulo) for operation in code.nodes(cst.BinaryOperation, test))


def _counter(code: Code, loop: cst.For) -> str | None:
    """``step`` of ``for step, batch in enumerate(loader)`` (through tqdm as well) and ``for step in range(n)``."""
    calls = {last_name(call.func) for call in code.nodes(cst.Call, loop.iter)}
    target = loop.target
    if "enumerate" in calls and isinstance(target, cst.Tuple) and target.elements:
        first = target.elements[0].value
        return first.value if isinstance(first, cst.Name) else None
    return target.value if "range" in calls and isinstance(target, cst.Name) else None
