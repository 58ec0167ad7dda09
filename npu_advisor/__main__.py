"""``npu-advisor`` and ``python -m npu_advisor``: the command line. Ctrl-C also ends what still imports it."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

INTERRUPTED = 130
COMMANDS = (
    *("cache", "cluster", "compare", "fix", "lsp", "open"),
    *("rules", "schema", "show", "verify", "watch", "whatif"),
)


def main() -> int:
    """Run the command line and return its exit code."""
    # Its search for plug-ins reads something of every package that is installed, in each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # numpy's library for matrices, of which there are none here, starts a thread for every core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from npu_advisor.base.heap import seldom_collected

        with _scanning(sys.argv[1:]), seldom_collected():
            from npu_advisor.cli.app import main as run

            return run()
    except KeyboardInterrupt:
        return INTERRUPTED


def _scanning(arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Have other processes scan the trace while this one still imports what reading the command line takes."""
    path = profile_in(arguments)
    if path is None:
        return nullcontext()
    from pathlib import Path

    from npu_advisor.readers.trace_parallel import begun_ahead

    return begun_ahead(Path(path))


def profile_in(arguments: Sequence[str]) -> str | None:
    """The path that ``arguments`` have analysed, if it comes first; None where it may be no trace that is to be read:
    with a cache there may be nothing to scan, and what is still to be parsed is not there yet."""
    if arguments and arguments[0] in COMMANDS:
        return None
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    other = any(argument.partition("=")[0] in ("--cache", "--parse") for argument in arguments)
    return first if first is not None and not other and os.path.exists(first) else None  # noqa: PTH110 (never raises)


if __name__ == "__main__":
    sys.exit(main())
