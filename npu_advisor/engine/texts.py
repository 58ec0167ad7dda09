"""Messages of rules: ``{column}`` and ``{column:format}``, nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from npu_advisor.base.terms import Text
from npu_advisor.base.units import FORMATS, format_field
from npu_advisor.engine.expr import Fault
from npu_advisor.rules.source import nearest

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_FIELD = re.compile(r"^([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::(\w*))?$")


class Field(NamedTuple):
    """One field of a text: the column, its format, and where it stands."""

    path: str
    format: str
    offset: int
    width: int


@lru_cache(maxsize=4096)
def fields_of(text: str) -> tuple[tuple[Field, ...], tuple[Fault, ...]]:
    """The fields of ``text`` and what is wrong with them."""
    fields, faults = [], []
    for part in _PART.finditer(text):
        if part[0] in ("{{", "}}"):
            continue
        found = _FIELD.match(part[1]) if part[1] is not None else None
        if found is None:
            message = f"'{part[0]}' is not a field; write {{column}} or {{column:format}}, and {{{{ for a brace"
            faults.append(Fault(message, part.start(), len(part[0])))
            continue
        spec = found[2] or ""
        if spec and spec not in FORMATS:
            message = f"unknown format '{spec}'; use {', '.join(FORMATS)}{nearest(spec, FORMATS)}"
            faults.append(Fault(message, part.start() + 2 + len(found[1]), len(spec)))
            continue
        fields.append(Field(found[1], spec, part.start() + 1, len(found[1])))
    return tuple(fields), tuple(faults)


def render(text: Text, value: Callable[[str], object]) -> Text:
    """``text`` with every field filled in; ``value`` gives a column's scalar."""
    return Text(en=_fill(text.en, value), zh=_fill(text.zh, value))


def filled(code: str | None, value: Callable[[str], object]) -> str | None:
    """Suggested code with every field filled in, None where there is none."""
    return None if code is None else _fill(code, value)


def _fill(text: str, value: Callable[[str], object]) -> str:
    def fill(part: re.Match[str]) -> str:
        if part[0] in ("{{", "}}"):
            return part[0][0]
        path, _, spec = (part[1] or "").partition(":")
        return format_field(value(path), spec)

    return _PART.sub(fill, text)
