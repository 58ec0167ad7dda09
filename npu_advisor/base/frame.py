"""Stack frames as text: ``path(line): function`` as the profiler prints them, and which of them are the user's."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache

# A path may itself hold brackets, so the last "(digits)" counts.
_FRAME = re.compile(r"^(?P<path>.+)\((?P<line>\d{1,9})\)(?::\s*(?P<function>.*))?$", re.DOTALL)
_SHORT = re.compile(r"^(?P<path>.+):(?P<line>\d{1,9})$")
_LIBRARY = re.compile(
    r"(^|[/\\])(site-packages|dist-packages)[/\\]|[/\\]lib(64)?[/\\]python[\d.]*[/\\]|^[A-Za-z]:\\.*[/\\]Lib[/\\]"
)
_NOTEBOOK = re.compile(r"^<ipython-input-|[/\\]ipykernel_\d+[/\\]")


@dataclass(frozen=True)
class Frame:
    """One frame of a Python call stack."""

    path: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.path}({self.line}): {self.function}" if self.function else f"{self.path}:{self.line}"


@lru_cache(maxsize=4096)
def parse_frame(text: str) -> Frame | None:
    """The frame that ``text`` prints (``a.py(3): f`` or ``a.py:3``), or None when it is not one."""
    text = text.strip()
    found = _FRAME.match(text)
    if found:
        return Frame(found["path"], int(found["line"]), (found["function"] or "").strip())
    found = _SHORT.match(text)
    return Frame(found["path"], int(found["line"])) if found else None


def split_stack(stack: str) -> list[str]:
    """The frames of a ``Call stack`` text, innermost first.

    Writers part them by ``;CRLF``, ``;LF`` or ``;`` alone.
    """
    return [part for part in re.split(r";\s*", stack.strip()) if part]


def is_notebook(path: str) -> bool:
    """True for the pseudo path of a notebook cell."""
    return bool(_NOTEBOOK.search(path))


def is_user_path(path: str) -> bool:
    """True when ``path`` is the user's own code: outside the Python installation and site-packages, no ``<string>``."""
    if is_notebook(path):
        return True
    if path.startswith("<") or _LIBRARY.search(path):
        return False
    return bool(path)


def is_user_relative(path: str) -> bool:
    """As :func:`is_user_path` for the *relative* paths of ``python_function`` slices.

    The writer strips ``sys.path`` prefixes there, so ``torch/nn/modules/module.py`` and ``mypkg/model.py`` look
    alike: only a bare file name that is no standard-library module is taken for the user's.
    """
    if path.startswith(("/", "<")) or re.match(r"^[A-Za-z]:\\", path):
        return is_user_path(path)
    if "/" in path or "\\" in path or not path.endswith(".py"):
        return False
    return path[:-3] not in sys.stdlib_module_names


def user_frame(stack: str) -> Frame | None:
    """The innermost frame of ``stack`` that is the user's code, or None."""
    for text in split_stack(stack):
        frame = parse_frame(text)
        if frame is not None and is_user_path(frame.path):
            return frame
    return None
