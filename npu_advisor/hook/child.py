"""The process that analyses on behalf of a training job: it yields to the job and reports like ``watch``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

_NICENESS = 10


def main() -> int:
    """Run ``npu-advisor watch`` with the arguments of this process, at a low priority."""
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(_NICENESS)
    return subprocess.run([sys.executable, "-m", "npu_advisor", "watch", *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
