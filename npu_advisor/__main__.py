"""``python -m npu_advisor``: the command line, where the console script is not on the path."""

import sys

from npu_advisor.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
