"""Run many mutants and list what broke: ``python tests/fuzz_long.py COUNT [--from SEED] [--base FOLDER ...]``.

Without ``--base`` the mutants are those of ``test_fuzz.py``. One line a failure, a summary at the end; the exit code
is 1 when anything failed. ``--keep FOLDER`` writes the failing inputs there.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fixtures")]

from attack import TooSlowError, check, rules_read_once, run_product  # noqa: E402
from mutants import Base, Mutant, mutant  # noqa: E402
from test_fuzz import made_bases, recorded_bases  # noqa: E402

GIGABYTES = 4


def main() -> int:
    """Run the seeds and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--base", type=Path, action="append", default=[])
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    # An input that asks for more memory than this fails with MemoryError instead of bringing the machine down.
    resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, GIGABYTES << 30))
    with tempfile.TemporaryDirectory() as scratch, rules_read_once():
        folder = Path(scratch)
        bases = [Base.of(base) for base in options.base] or [*made_bases(folder / "bases"), *recorded_bases()]
        began, slowest, failures = time.monotonic(), 0.0, Counter[str]()
        codes = Counter[int]()
        for seed in range(options.first, options.first + options.count):
            made = mutant(seed, bases)
            try:
                code, seconds = attack(made, folder / "input")
            except (Exception, TooSlowError) as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                failures[f"{type(error).__name__} {Path(where.filename).name}:{where.lineno}"] += 1
                print(f"{made}\n    {type(error).__name__}: {str(error)[:300]}", flush=True)
                traceback.print_exc(limit=-4, file=sys.stdout)
                if options.keep:
                    made.write(options.keep / str(seed))
                continue
            codes[code] += 1
            if codes.total() % 500 == 0:
                print(f"{codes.total()} sound after {time.monotonic() - began:.0f} s", flush=True)
            slowest = max(slowest, seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{options.count} mutants of {len(bases)} bases in {time.monotonic() - began:.0f} s; slowest {slowest:.2f} s;"
    )
    print(f"peak memory {peak:.0f} MB; exit codes {dict(codes)}; failures {dict(failures) or 'none'}")
    return 1 if failures else 0


def attack(made: Mutant, folder: Path) -> tuple[int, float]:
    """Write one mutant, run the product over it, check; exit code and seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    made.write(folder)
    run = run_product(folder)
    check(run)
    return run.exit_code, run.seconds


if __name__ == "__main__":
    sys.exit(main())
