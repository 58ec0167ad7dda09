"""What is an expression of the rule language and what is not: text to tree, by :mod:`ast` and bounds on size."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

MAX_TEXT, MAX_NODES, MAX_DEPTH, MAX_LITERAL = 2000, 300, 30, 500
# A letter that no schema name holds stands in for `$`, so that every offset stays what it was.
SIGIL = "ʂ"
_TOKENS = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\$|#|ʂ|:=|\*\*""")
# What Python may warn of: a \\d in a regular expression, a number that runs into a word.
_WARNS = re.compile(r"\\|[0-9][A-Za-z]")
_SPACES = str.maketrans("\r\n\t", "   ")
WORDS = {"true": True, "false": False}


@dataclass(frozen=True)
class Fault:
    """What is wrong with an expression, at which characters of it."""

    message: str
    offset: int = 0
    width: int = 1


class ExprError(Exception):
    """An expression cannot be used; ``fault`` says where and why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The tree of ``text``, not to be changed: equal texts share it. ExprError for what is not an expression of the
    language or is too large."""
    if len(text) > MAX_TEXT:
        raise ExprError(Fault(f"an expression has at most {MAX_TEXT} characters"))
    source = _TOKENS.sub(_substitute, text.translate(_SPACES))
    lead = len(source) - len(source.lstrip())
    try:
        tree = _tree(source[lead:])
    except SyntaxError as error:
        # The parser reports an early end at no offset, or on a line that is not there.
        inside = error.offset if error.lineno == 1 else None
        offset = inside - 1 + lead if inside else len(text) - 1
        raise ExprError(Fault(f"not an expression: {plain(error.msg)}", max(0, min(offset, len(text) - 1)))) from None
    except (ValueError, MemoryError, RecursionError):
        raise ExprError(Fault("not an expression: too large or nested too deep")) from None
    if lead or not source.isascii():
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                node.col_offset = _character(source[lead:], node.col_offset) + lead
                node.end_col_offset = _character(source[lead:], node.end_col_offset or 0) + lead
    # No part is without a character of its own.
    if len(text) > MAX_DEPTH:
        _bound(tree)
    return tree


def _tree(source: str) -> ast.expr:
    if not _WARNS.search(source):
        return ast.parse(source, mode="eval").body
    with warnings.catch_warnings():
        # Python 3.11 and before warn under the other name.
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        return ast.parse(source, mode="eval").body


def _substitute(found: re.Match[str]) -> str:
    token = found[0]
    if found[1]:
        return token
    if token == "$":
        return SIGIL
    if token == "**":
        raise ExprError(Fault("'**' is not part of the language", found.start(), 2))
    raise ExprError(Fault(f"'{token}' is not part of the language", found.start(), len(token)))


def plain(message: str) -> str:
    """``message`` with parameters as they were written."""
    return message.replace(SIGIL, "$")


def _character(line: str, utf8_offset: int) -> int:
    return utf8_offset if line.isascii() else len(line.encode()[:utf8_offset].decode(errors="ignore"))


def _bound(tree: ast.expr) -> None:
    count, layer = 0, [tree]
    for _ in range(MAX_DEPTH):
        count += len(layer)
        layer = [child for node in layer for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        if not layer:
            break
    if layer or count > MAX_NODES:
        raise ExprError(Fault(f"an expression has at most {MAX_NODES} parts, nested {MAX_DEPTH} deep"))


def path_of(node: ast.expr) -> str | None:
    """``op.parent.name`` for nested attributes of a name, None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id.startswith(SIGIL):
        return None
    return ".".join([node.id, *reversed(parts)])


def fault_at(node: ast.expr, message: str) -> ExprError:
    """An error about ``node``."""
    return ExprError(Fault(message, node.col_offset, (node.end_col_offset or node.col_offset + 1) - node.col_offset))
