"""Where text goes: the report to stdout or a file, everything else to stderr; and what each of them can show."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.report.options import DEFAULT_WIDTH


def use_color(stream: TextIO | None, env: Mapping[str, str]) -> bool:
    """Whether to colour what goes to ``stream`` (None: a file). ``NO_COLOR`` wins over ``FORCE_COLOR``."""
    if env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream is not None and stream.isatty() and env.get("TERM") != "dumb"


def can_show_glyphs(stream: TextIO | None) -> bool:
    """Whether ``stream`` (None: a file, which is written in UTF-8) carries the glyphs of the report."""
    if stream is None:
        return True
    try:
        "▲◆●○✔◐✘█▓▞▒▚░·│─…".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def width_of(stream: TextIO | None) -> int:
    """The width in cells: of the terminal, of ``COLUMNS``, or the one the report was designed for."""
    if stream is None or not stream.isatty():
        return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns if os.environ.get("COLUMNS") else DEFAULT_WIDTH
    return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns


def write_report(text: str, path: str | None, *, utf8: bool = False) -> None:
    """Write the report to ``path`` or stdout; ``utf8`` forces UTF-8 on stdout (JSON is nothing else).

    ConfigError when the file cannot be written. A reader that closes the pipe early is no error.
    """
    if path is not None and path != "-":
        try:
            # A path that is no UTF-8 reaches the report with what Python makes of its bytes.
            Path(path).write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(say("error.cannot_write", path=path, reason=reason)) from error
        return
    if sys.stdout is None:
        # It was closed before the program began: nobody wants to see the report.
        return
    encoding = "utf-8" if utf8 else (sys.stdout.encoding or "utf-8")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(encoding, "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Write to stderr whatever its encoding can carry."""
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(text.encode(encoding, "replace").decode(encoding))
