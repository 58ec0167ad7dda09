"""``on_trace_ready=trace_handler("./result")``: the profiler writes its trace, a child process analyses it."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LOG = logging.getLogger("npu_advisor")
_CHILD = "npu_advisor.hook.child"
_EVERY, _FIRST = "each", "first"


def trace_handler(
    dir_name: str | os.PathLike[str] = "./result",
    worker_name: str | None = None,
    *,
    report: str | Sequence[str] = ("terminal", "json"),
    fail_on: str | None = None,
    ranks: str = _FIRST,
    lang: str = "auto",
    timeout: float = 600.0,
    **writer: Any,
) -> Callable[[Any], None]:
    """A handler for ``on_trace_ready`` of ``torch_npu.profiler.profile`` or ``torch.profiler.profile``.

    It calls the ``tensorboard_trace_handler`` of whichever profiler calls it (``worker_name`` and ``writer`` are its
    arguments), and a child process waits until the profile is parsed, analyses it and writes each kind of ``report``
    beside it: ``terminal``, ``json``, ``sarif``, ``markdown``, ``html``. One line is logged (logger ``npu_advisor``),
    as an error when a finding is at or above ``fail_on``. ``ranks`` is ``first`` (the process whose ``RANK`` is 0 or
    unset) or ``each``. At its end the program waits up to ``timeout`` seconds for reports still being made.

    Nothing that goes wrong in the analysis is raised.
    """
    forms = (report,) if isinstance(report, str) else tuple(report)
    options = [part for form in forms for part in ("--format", form)]
    options += ["--lang", lang, "--timeout", f"{timeout:g}", "--once"]
    options += ["--fail-on", fail_on] if fail_on else []
    folder = Path(dir_name).absolute()
    writers: dict[str, Callable[[Any], object]] = {}

    def handle(profiler: Any) -> None:
        before = _entries(folder)
        module = _profiler_module(profiler)
        if module not in writers:
            writers[module] = _writer(module, str(dir_name), worker_name, writer)
        writers[module](profiler)
        try:
            if ranks == _EVERY or os.environ.get("RANK", "0") in ("", "0"):
                for path in sorted(_entries(folder) - before):
                    _spawn(path, options, timeout)
        except Exception as error:
            LOG.warning("npu-advisor could not start: %s", error)

    return handle


def _profiler_module(profiler: Any) -> str:
    return "torch_npu.profiler" if type(profiler).__module__.startswith("torch_npu") else "torch.profiler"


def _writer(module: str, folder: str, worker_name: str | None, options: dict[str, Any]) -> Callable[[Any], object]:
    import importlib

    make = importlib.import_module(module).tensorboard_trace_handler
    result: Callable[[Any], object] = make(folder, worker_name, **options)
    return result


def _entries(folder: Path) -> set[Path]:
    """What lies in ``folder`` now, reports of earlier profiles apart."""
    return {path for path in folder.iterdir() if ".advisor." not in path.name} if folder.is_dir() else set()


def _spawn(path: Path, options: Sequence[str], timeout: float) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", _CHILD, str(path), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=_environment(),
    )
    listener = threading.Thread(target=_listen, args=(child,), name="npu-advisor", daemon=True)
    listener.start()
    atexit.register(_finish, child, listener, timeout)


def _environment() -> dict[str, str]:
    """The child's: files of the training job's working directory must not be imported in place of ours."""
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])]
    return {
        **os.environ,
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONSAFEPATH": "1",
    }


def _listen(child: subprocess.Popen[str]) -> None:
    """Log what the child has to say: one line."""
    said, complaint = child.communicate()
    told = said.strip().splitlines()
    if told:
        # 1: a finding at or above ``fail_on``; a crash of the interpreter is 1 too, but says nothing on stdout.
        LOG.log(logging.ERROR if child.returncode == 1 else logging.INFO, "npu-advisor: %s", told[0])
        return
    reason = complaint.strip().splitlines() or [f"the analysis ended with exit status {child.returncode}"]
    LOG.warning("npu-advisor: no report: %s", reason[-1] if reason[0].startswith("Traceback") else reason[0])


def _finish(child: subprocess.Popen[str], listener: threading.Thread, timeout: float) -> None:
    listener.join(timeout)
    if listener.is_alive():
        child.kill()
