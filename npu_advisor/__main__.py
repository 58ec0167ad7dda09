"""``npu-advisor`` and ``python -m npu_advisor``: the command line. Ctrl-C also ends what still imports it."""

import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from npu_advisor.cli.app import main as run

        return run()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
