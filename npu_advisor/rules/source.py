"""YAML that remembers where everything stood, read by YAML 1.2's rules.

PyYAML alone keeps the last of two equal keys, reads ``no`` as false, ``0777`` as 511, ``12:30`` as 750 and ``1e6`` as
text; here duplicates are faults, and scalars follow the YAML 1.2 core schema.  Aliases are refused: nine of them can
unfold to a billion nodes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from npu_advisor.base.errors import RuleProblem

Place = tuple[str | int, ...]
MAX_BYTES, MAX_DEPTH = 1_000_000, 40
# Marks that may begin something nested: no text with so few of them nests too deep for libyaml.
_MOST_NESTED = 2_000

_INT = re.compile(r"^[-+]?[0-9]+$")
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_CONSTANTS: dict[str, Any] = {"": None, "~": None, "true": True, "false": False}
_CONSTANTS |= dict.fromkeys(("null", "Null", "NULL"))
_CONSTANTS |= {word: word.lower() == "true" for word in ("True", "TRUE", "False", "FALSE")}
# A list or mapping in flow style takes a comma for its own, even inside the brackets of a call.
_OPEN_CALL = re.compile(r"\([^()]*$")


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the known name closest to ``name``, else an empty text."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


class Span(NamedTuple):
    """A stretch of a file's text, ``start`` to ``end`` as offsets into it."""

    file: str
    text: str
    start: int
    end: int

    def problem(self, message: str, offset: int = 0, width: int = 0, value: str | None = None) -> RuleProblem:
        """A fault here; with ``value``, at that scalar's character ``offset``, whatever its quotes and indents."""
        at = self._raw(value, offset) if value is not None else self.start
        line_start = self.text.rfind("\n", 0, at) + 1
        line_end = self.text.find("\n", at)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)].rstrip("\r")
        if not width:
            width = self.end - at
        column = at - line_start + 1
        return RuleProblem(
            file=self.file,
            line=self.text.count("\n", 0, at) + 1,
            column=column,
            message=message,
            text=line.replace("\t", " "),
            width=max(1, min(width, len(line) - column + 1)),
        )

    def _raw(self, value: str, offset: int) -> int:
        """Where the value's character number ``offset`` stands in the file.

        The value's visible characters occur in the raw text in the same order, with quotes, escapes, indents and
        line breaks between them.
        """
        at = self.start
        if self.text[at : at + 1] in ("|", ">"):
            at = self.text.find("\n", at) + 1
        elif self.text[at : at + 1] in ("'", '"'):
            at += 1
        for position, character in enumerate(value):
            if character.isspace() and position != offset:
                continue
            found = at if character.isspace() else self.text.find(character, at, self.end)
            if found < 0:
                return self.start
            if position >= offset:
                return found
            at = found + 1
        return at


class Places(NamedTuple):
    """Where the keys and values of a document stand."""

    keys: dict[Place, Span]
    values: dict[Place, Span]


class Written(NamedTuple):
    """The text of a document, and its file as messages name it."""

    file: str
    text: str


@dataclass(frozen=True)
class Origin:
    """Where a rule was written: its file, and the documents that make it, of which later ones change earlier ones.

    Places are looked up when one is asked for: of a rule without faults nobody does.
    """

    path: Path = Path()
    documents: tuple[Written, ...] = ()

    @cached_property
    def _places(self) -> Places:
        places = Places({}, {})
        for document in self.documents:
            node = _composed(document.text)
            if node is not None:
                _Walker(document, places).value(node, ())
        return places

    def knows(self, place: Place) -> bool:
        """Whether something was written at ``place``."""
        return place in self._places.keys or place in self._places.values

    def span(self, place: Place, *, key: bool = False) -> Span:
        """The span of the value (or key) at ``place``, or of the nearest thing around it."""
        keys, values = self._places
        for depth in range(len(place), -1, -1):
            for spans in (keys, values) if key and depth == len(place) else (values, keys):
                if place[:depth] in spans:
                    return spans[place[:depth]]
        return Span(str(self.path), "", 0, 0)

    def merged(self, over: Origin) -> Origin:
        """This, with the places that ``over`` knows taken from there."""
        return Origin(over.path, (*self.documents, *over.documents))


@dataclass
class Document:
    """A parsed file: plain data, the places of its parts, and what is wrong with it."""

    data: Any
    origin: Origin
    problems: list[RuleProblem]


def scalar(text: str) -> Any:
    """A plain scalar by the YAML 1.2 core schema, without octal and hexadecimal numbers."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.match(text) and len(text) <= 19 and not re.match(r"^[-+]?0[0-9]", text):
        return int(text)
    if _FLOAT.match(text) and not re.match(r"^[-+]?0[0-9]", text):
        return float(text)
    return text


class _Walker:
    """Turns a node tree into data, noting faults, and ``places`` where they are wanted."""

    def __init__(self, document: Written, places: Places | None = None) -> None:
        self._document, self._places = document, places
        self.problems: list[RuleProblem] = []
        self._seen: set[int] = set()

    def span(self, node: yaml.Node) -> Span:
        return Span(*self._document, node.start_mark.index, node.end_mark.index)

    def value(self, node: yaml.Node, place: Place) -> Any:
        if self._places is not None:
            self._places.values[place] = self.span(node)
        if id(node) in self._seen:
            self.problems.append(self.span(node).problem("an alias (*name) is not allowed here; write the value out"))
            return None
        self._seen.add(id(node))
        if len(place) > MAX_DEPTH:
            self.problems.append(self.span(node).problem(f"nested more than {MAX_DEPTH} deep"))
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            self._unbalanced(node, [item for item in node.value if isinstance(item, yaml.ScalarNode)])
            return [self.value(item, (*place, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return node.value if node.style else scalar(node.value)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        out: dict[str, Any] = {}
        split = self._unbalanced(node, [value for _, value in node.value if isinstance(value, yaml.ScalarNode)])
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(self.span(key).problem("a key must be text"))
                continue
            if key.value in out:
                self.problems.append(self.span(key).problem(f"duplicate key '{key.value}'"))
                continue
            if self._places is not None:
                self._places.keys[(*place, key.value)] = self.span(key)
            value = self.value(child, (*place, key.value))
            if split and value is None and ")" in key.value:
                continue  # the second half of the call that the comma split; already explained
            out[key.value] = value
        return out

    def _unbalanced(self, node: yaml.CollectionNode, scalars: list[yaml.ScalarNode]) -> bool:
        """Report a call that a comma of the surrounding ``{ }`` or ``[ ]`` has cut in two."""
        if not node.flow_style:
            return False
        cut = [item for item in scalars if not item.style and _OPEN_CALL.search(item.value)]
        for item in cut:
            brackets = "{ }" if isinstance(node, yaml.MappingNode) else "[ ]"
            message = (
                f"unbalanced '(': inside {brackets} the comma ends the value; quote the expression or use block style"
            )
            self.problems.append(self.span(item).problem(message, item.value.rindex("("), 1, item.value))
        return bool(cut)


def read_document(path: Path, file: str) -> Document:
    """Read ``path``; faults are collected under the name ``file``, none is raised."""
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        return Document(None, Origin(path), [RuleProblem(file, 1, 1, f"cannot read this file: {reason}")])
    if len(raw) > MAX_BYTES:
        return Document(None, Origin(path), [RuleProblem(file, 1, 1, f"larger than {MAX_BYTES:,} bytes")])
    return parse_document(text, file, path)


def parse_document(text: str, file: str, path: Path) -> Document:
    """Parse YAML ``text``; faults are collected under the name ``file``."""
    walker = _Walker(Written(file, text))
    try:
        node = _composed(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = min(mark.index, len(text)) if mark else 0
        problem = Span(file, text, at, at + 1).problem(f"not YAML: {error.problem or error.context}")
        return Document(None, Origin(path), [problem])
    except yaml.YAMLError as error:
        return Document(None, Origin(path), [RuleProblem(file, 1, 1, f"not YAML: {str(error).splitlines()[0]}")])
    except RecursionError:
        return Document(None, Origin(path), [RuleProblem(file, 1, 1, f"nested more than {MAX_DEPTH} deep")])
    data = None if node is None else walker.value(node, ())
    return Document(data, Origin(path, (Written(file, text),)), walker.problems)


def _composed(text: str) -> yaml.Node | None:
    """The nodes of ``text``, by libyaml where PyYAML was built with it; what it refuses the plain loader words."""
    # Until PyYAML 6.0.4 what nests deep enough overflows the stack there, and ends the process.
    fast = _fast_loader() if sum(map(text.count, "[{-?")) <= _MOST_NESTED else None
    if fast is not None:
        try:
            return yaml.compose(text, Loader=fast)
        except (yaml.YAMLError, UnicodeError):
            pass
    return yaml.compose(text, Loader=yaml.SafeLoader)


@cache
def _fast_loader() -> Any:
    """libyaml without the search for a scalar's kind, which costs as much as all the rest: ``scalar`` knows it."""
    base = getattr(yaml, "CSafeLoader", None)
    if base is None:
        return None
    # Formatting "" takes any arguments, does nothing with them, and is not written in Python.
    return type("_Untold", (base,), dict.fromkeys(("resolve", "descend_resolver", "ascend_resolver"), "".format))
