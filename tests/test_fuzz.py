"""Damaged input of every kind: no traceback, no hang, a sound report or a refusal that says why.

``python tests/fuzz_long.py 20000`` runs many more of the same mutants by hand.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack import TooSlowError, check, rules_read_once, run_product
from mutants import Base, mutant
from places import CASES, PROFILES
from synthetic import Settings, generate

BATCHES, BATCH = 8, 18
# Recorded profiles, each with something that a generated one has not: another form, damage, layouts of other years.
RECORDED = [
    *(CASES / name for name in ("B33*", "B36*", "B37*", "B38*", "B40*", "B45*", "B47*", "B50*", "B52*")),
    *(PROFILES / name for name in ("gpu-vit-h100", "npu-csv-only-2023", "npu-msprof-op-summary-2023", "npu-cluster-*")),
]

SMALL = Settings(
    steps=1, layers=1, world=2, plant=["transdata:ms=1.1,n=2", "mem_peak", "dispatch:us=250,n=3"], truth_steps=1
)


def made_bases(folder: Path) -> list[Base]:
    """Small profiles of our own making; the two-rank one finds out what damage to one rank does to the other."""
    made = {
        "one rank": SMALL,
        "two ranks": Settings(steps=2, layers=1, world=2, ranks=2, counters=False, truth_steps=1),
    }
    for name, settings in made.items():
        generate(folder / name, settings)
    return [Base.of(folder / name, name) for name in made]


def recorded_bases() -> list[Base]:
    """The recorded profiles named above, where there are any."""
    folders = [folder for path in RECORDED for folder in sorted(path.parent.glob(path.name))]
    if sys.version_info < (3, 11):  # its sqlite3 cannot change a database in memory
        folders = [folder for folder in folders if not list(folder.rglob("*.db"))]
    return [base for base in map(Base.of, folders) if base.files]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Base]:
    return [*made_bases(tmp_path_factory.mktemp("bases")), *recorded_bases()]


@pytest.fixture(scope="module", autouse=True)
def _quick_rules() -> Iterator[None]:
    with rules_read_once():
        yield


def test_every_base_is_sound_before_it_is_damaged(bases: list[Base], tmp_path: Path) -> None:
    for number, base in enumerate(bases):
        folder = tmp_path / str(number)
        for name, data in base.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        check(run_product(folder))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_damage_breaks_the_product(batch: int, bases: list[Base], tmp_path: Path) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        made = mutant(seed, bases)
        made.write(tmp_path / "input")
        try:
            check(run_product(tmp_path / "input"))
        except (Exception, TooSlowError) as error:
            error.add_note(str(made)) if hasattr(error, "add_note") else None
            raise
        shutil.rmtree(tmp_path / "input")
