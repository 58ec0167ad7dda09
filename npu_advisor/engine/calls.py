"""The checks of aggregate calls: ``sum(dur_us)`` in a group, ``count(kernels)`` below an op."""

from __future__ import annotations

import ast
from dataclasses import replace

from npu_advisor.engine import plan as p
from npu_advisor.engine.aggregates import AGGREGATES, Aggregate
from npu_advisor.engine.checking import Checker
from npu_advisor.engine.expr import ExprError, Fault, compile_tree, parse, path_of
from npu_advisor.engine.scope import StaticScope
from npu_advisor.engine.values import Type
from npu_advisor.model.schema import SCHEMA
from npu_advisor.rules.source import Place, nearest


def checked_aggregate(
    checker: Checker, column: str, text: str, scope: StaticScope, place: Place, *, under: bool = False
) -> tuple[p.AggregateCall | None, Type]:
    """``sum(dur_us)`` checked, with its type."""
    scope = replace(scope, reads=checker.reads.apart())
    try:
        tree = parse(text)
        call, definition = _aggregate_call(tree)
    except ExprError as error:
        checker.report_in(place, text, error.fault)
        return None, Type("any")
    table = ""
    arguments = call.args
    if under:
        found = _under_table(checker, call, text, place)
        if found is None:
            return None, Type("any")
        table, arguments = found
        scope = StaticScope((table,), scope.names, scope.reads, prefix=table)
        scope.reads.need((table,))
    return _checked_call(checker, column, call, definition, arguments, text, scope, place, table)


def _checked_call(
    checker: Checker,
    column: str,
    call: ast.Call,
    definition: Aggregate,
    arguments: list[ast.expr],
    text: str,
    scope: StaticScope,
    place: Place,
    table: str,
) -> tuple[p.AggregateCall | None, Type]:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    wanted = len(definition.arguments)
    if len(arguments) != wanted and not (definition.optional and not arguments):
        fault = Fault(f"'{name}' takes {wanted} arguments, not {len(arguments)}", call.col_offset, len(name))
        checker.report_in(place, text, fault)
        return None, Type("any")
    if name == "busy":
        inner = replace(scope, prefix="")
        checker.need_times(inner, place, "busy")
    faults: list[Fault] = []
    made = [compile_tree(argument, text, scope, faults) for argument in arguments]
    for argument, expression, kind in zip(arguments, made, definition.arguments, strict=False):
        if expression and expression.type.kind not in ("any", *kind.split("|")) and kind != "any":
            width = (argument.end_col_offset or 0) - argument.col_offset
            faults.append(Fault(f"'{name}' needs a number here", argument.col_offset, width))
    for fault in faults:
        checker.report_in(place, text, fault)
    checked = tuple(expression for expression in made if expression)
    if faults or len(checked) < len(arguments):
        return None, Type("any")
    result = definition.type([expression.type for expression in checked], name)
    return p.AggregateCall(column, name, checked, table), replace(result, reads=frozenset(scope.reads.required))


def _under_table(checker: Checker, call: ast.Call, text: str, place: Place) -> tuple[str, list[ast.expr]] | None:
    """The table that an aggregate of ``under`` is about, and its arguments without a bare table name."""
    heads = dict.fromkeys(
        path.partition(".")[0]
        for argument in call.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Name | ast.Attribute) and (path := path_of(node)) and not _is_function(node, argument)
    )
    names = [name for name in heads if name not in ("true", "false")]
    if len(names) != 1:
        message = (
            "name one table: count(kernels) or sum(kernels.dur_us)"
            if not names
            else "an aggregate looks at one table only"
        )
        checker.report_in(place, text, Fault(message, call.col_offset, len(text)))
        return None
    table = names[0]
    at = next(n.col_offset for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name) and n.id == table)
    if table not in SCHEMA:
        checker.report_in(place, text, Fault(f"unknown table '{table}'{nearest(table, SCHEMA)}", at, len(table)))
        return None
    if table != "ops":
        checker.reads.need((table,), "op")
    key = SCHEMA[table].column("op")
    if table != "ops" and (key is None or key.kind != "key"):
        checker.report_in(place, text, Fault(f"rows of table '{table}' have no op to be under", at, len(table)))
        return None
    bare = len(call.args) == 1 and path_of(call.args[0]) == table
    return table, [] if bare else call.args


def _aggregate_call(tree: ast.expr) -> tuple[ast.Call, Aggregate]:
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)):
        names = ", ".join(AGGREGATES)
        raise ExprError(Fault(f"an aggregate is needed: one of {names}", tree.col_offset, _width(tree)))
    definition = AGGREGATES.get(tree.func.id)
    if definition is None:
        message = f"unknown aggregate '{tree.func.id}'{nearest(tree.func.id, AGGREGATES)}"
        raise ExprError(Fault(message, tree.col_offset, len(tree.func.id)))
    if tree.keywords or any(isinstance(argument, ast.Starred) for argument in tree.args):
        raise ExprError(Fault(f"'{tree.func.id}' takes plain arguments only", tree.col_offset, _width(tree)))
    return tree, definition


def _width(node: ast.expr) -> int:
    return (node.end_col_offset or node.col_offset + 1) - node.col_offset


def _is_function(node: ast.expr, root: ast.expr) -> bool:
    return any(isinstance(call, ast.Call) and call.func is node for call in ast.walk(root))
