"""Let torch_npu parse what was never parsed: the one place that writes beside the input, and only on demand."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from npu_advisor.base.errors import ProfileError
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.readers.discover import raw_folders

_PARSER = "torch_npu.profiler.profiler"


def parse_raw(path: Path) -> list[Path]:
    """Run ``torch_npu.profiler.profiler.analyse`` on every raw profile under ``path``; which those were.

    What torch_npu prints goes to stderr.  Without a raw profile torch_npu is not even imported.  Raises ProfileError
    (``no_torch_npu``, ``parse_failed``).
    """
    folders = raw_folders(path)
    if folders:
        parser = _parser(path)
        for folder in folders:
            _analyse(parser, folder)
    return folders


def _parser(path: Path) -> ModuleType:
    try:
        return importlib.import_module(_PARSER)
    except (ImportError, OSError) as error:  # OSError: a library of CANN is not there
        found = Text(en=f"{type(error).__name__}: {error}", zh=f"{type(error).__name__}：{error}")
        do = say("do.no_torch_npu", path=path)
        raise ProfileError(path, say("error.no_torch_npu"), found, do, code="no_torch_npu") from error


def _analyse(parser: ModuleType, folder: Path) -> None:
    try:
        with _stdout_to_stderr():
            parser.analyse(str(folder))
    except (RuntimeError, ValueError, TypeError, KeyError, OSError) as error:
        found = Text(en=f"{type(error).__name__}: {error}", zh=f"{type(error).__name__}：{error}")
        raise ProfileError(folder, say("error.parse_failed", path=folder), found, code="parse_failed") from error


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Keep stdout for the report: torch_npu prints its progress, and so do the processes that it starts."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
