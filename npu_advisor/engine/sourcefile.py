"""A local source file, read once: its lines, and whether one of them can be what a stack frame names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, lru_cache
from pathlib import Path

from npu_advisor.base.shelf import Identity, state

SOURCE_SUFFIXES = (".py", ".pyw", ".pyx")
MAX_SOURCE_BYTES = 16 << 20

_watched: ContextVar[dict[str, Identity | None] | None] = ContextVar("watched", default=None)

# What has a code object of its own, and so a name in a stack frame.
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class SourceFile:
    """The text of one file."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        # Python counts lines by these ends only; str.splitlines() knows more.
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if self.lines[-1] == "":
            self.lines.pop()

    def fits(self, line: int, function: str) -> bool:
        """Whether line ``line`` (from 1) can run code of ``function`` (a frame's: ``main``, ``<module>``; "" unknown).

        The line must hold code and lie in a function of that name. A file that this Python cannot parse is only
        checked for code on the line.
        """
        if not 1 <= line <= len(self.lines):
            return False
        code = self.lines[line - 1].strip()
        if not code or code.startswith("#"):
            return False
        name = function.rpartition(".")[2]
        if self._scopes is None or not name or (name.startswith("<") and name != "<module>"):
            return True
        around = [known for first, last, known in self._scopes if first <= line <= last]
        # A decorator and the "def" line itself belong to the scope outside as well.
        return name in around if name != "<module>" else not around or line in self._heads

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree, None when this Python cannot parse the file."""
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @cached_property
    def _scopes(self) -> list[tuple[int, int, str]] | None:
        if self.tree is None:
            return None
        return [(_head(node), node.end_lineno or node.lineno, node.name) for node in self._definitions]

    @cached_property
    def _definitions(self) -> list[_Scope]:
        nodes = ast.walk(self.tree) if self.tree is not None else ()
        return [node for node in nodes if isinstance(node, _Scope)]

    @cached_property
    def _heads(self) -> set[int]:
        return {line for node in self._definitions for line in _head_lines(node)}


def _head(node: _Scope) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _head_lines(node: _Scope) -> range:
    """From the first decorator to the end of the signature."""
    return range(_head(node), max(node.lineno + 1, node.body[0].lineno))


def open_source(path: Path) -> SourceFile | None:
    """The file, None when it is no readable Python source.

    A recorded path is somebody else's text. It may name a device that never ends, or a file that is nobody's
    business: a profile from elsewhere must not put lines of private files into a report.
    """
    try:
        if path.suffix not in SOURCE_SUFFIXES:
            return None
        _note(path)
        if not path.is_file():
            return None
        status = path.stat()
        if status.st_size > MAX_SOURCE_BYTES:
            return None
        return _read(str(path), status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):
        return None


@contextmanager
def watched() -> Iterator[dict[str, Identity | None]]:
    """Fills with every source file that is looked for meanwhile: what it was at first, None where there was none."""
    seen: dict[str, Identity | None] = {}
    token = _watched.set(seen)
    try:
        yield seen
    finally:
        _watched.reset(token)


def _note(path: Path) -> None:
    seen = _watched.get()
    if seen is not None and (whole := str(path.absolute())) not in seen:
        seen[whole] = state(path)


@lru_cache(maxsize=64)
def _read(path: str, _modified_ns: int, _size: int) -> SourceFile:
    return SourceFile(Path(path), Path(path).read_text(encoding="utf-8-sig", errors="replace"))
