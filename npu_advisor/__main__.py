"""``npu-advisor`` and ``python -m npu_advisor``: the command line. Ctrl-C also ends what still imports it."""

import os
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit code."""
    # Its search for plug-ins reads something of every package that is installed, in each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # numpy's library for matrices, of which there are none here, starts a thread for every core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from npu_advisor.cli.app import main as run

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
