"""Add arguments to a call, and take them away."""

from __future__ import annotations

import libcst as cst

from npu_advisor.codemods.code import Code
from npu_advisor.findings import TextEdit


def keyword(call: cst.Call, name: str) -> cst.Arg | None:
    """The keyword argument ``name``."""
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None)


def changed(code: Code, call: cst.Call, drop: list[cst.Arg], add: list[str]) -> list[TextEdit]:
    """The edits that remove ``drop`` (never the first argument) and add ``add`` behind the last one.

    An argument that goes makes room for the first that comes, so that the call keeps its lines.
    """
    drop, add = list(drop), list(add)
    edits = [code.replaced(drop.pop(), ", ".join(add))] if drop and add else []
    if edits:
        add = []
    edits += [_removed(code, call, arg) for arg in drop]
    if add:
        edits.append(_added(code, call, add))
    return edits


def _added(code: Code, call: cst.Call, add: list[str]) -> TextEdit:
    last = call.args[-1]
    place = code.span(last)
    indent = code.line(place.start_line)[: place.start_column - 1]
    # One argument a line stays one argument a line.
    own_line = len(call.args) > 1 and not indent.strip() and place.start_line > code.span(call.args[-2]).end_line
    between = f",\n{indent}" if own_line else ", "
    return code.after(last, "".join(between + text for text in add))


def _removed(code: Code, call: cst.Call, arg: cst.Arg) -> TextEdit:
    """Without the comma before it; a comment there stays, and the comma after it goes instead."""
    index = call.args.index(arg)
    previous, place = code.span(call.args[index - 1]), code.span(arg)
    gap = previous.model_copy(
        update={
            "start_line": previous.end_line,
            "start_column": previous.end_column,
            "end_line": place.start_line,
            "end_column": place.start_column,
        }
    )
    if "#" not in code.between(gap):
        return gap.model_copy(update={"end_line": place.end_line, "end_column": place.end_column})
    if index + 1 < len(call.args):
        following = code.span(call.args[index + 1])
        return place.model_copy(update={"end_line": following.start_line, "end_column": following.start_column})
    rest = code.line(place.end_line)[place.end_column - 1 :]
    comma = len(rest) - len(rest.lstrip()) + 1 if rest.lstrip().startswith(",") else 0
    return place.model_copy(update={"end_column": place.end_column + comma})
