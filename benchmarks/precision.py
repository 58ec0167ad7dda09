#!/usr/bin/env python3
"""Whether what is told is true: generated profiles with nothing, one bottleneck, or all of them planted.

    python benchmarks/precision.py               all three tables
    python benchmarks/precision.py --only alone  one of: nothing, alone, together
    python benchmarks/precision.py --seed 900    other profiles of the same kinds; the default seeds have been looked at

- nothing: no plant, ten seeds, one and four ranks: no finding of medium or above;
- alone: each plant with five seeds: the first finding is of its rule, at the place the truth file names;
- together: all plants, five seeds, 12 and 24 layers: every cause that is worth 1 % of the step is told at its place,
  and two whose true savings differ by a factor of two or more stand in that order.

One line for each profile that fails, then how many passed. Exit code 1 if any failed. About four minutes of one core.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))

from savings import RULES
from synthetic import Settings, generate

from npu_advisor import Finding, Report, analyze
from npu_advisor.base.terms import Severity

# A cause is worth telling from this share of the step; two are in order when the truth differs by this factor.
WORTH = 0.01
APART = 2.0


def profiles(kind: str, seed: int) -> Iterator[tuple[str, Settings]]:
    """What to generate for one table: (label, settings)."""
    if kind == "nothing":
        for number, ranks in itertools.product(range(10), (1, 4)):
            yield f"seed {seed + number}, {ranks} ranks", Settings(steps=3, seed=seed + number, ranks=ranks)
    elif kind == "alone":
        for plant, number in itertools.product(RULES, range(5)):
            ranks = 4 if plant == "slow_rank" else 1
            yield (
                f"{plant}, seed {seed + number}",
                Settings(steps=3, seed=seed + number, ranks=ranks, plant=[plant]),
            )
    else:
        for number, layers in itertools.product(range(5), (12, 24)):
            settings = Settings(steps=3, seed=seed + number, layers=layers, ranks=2, plant=["all"])
            yield f"seed {seed + number}, {layers} layers", settings


def nothing(report: Report, _truth: dict[str, Any]) -> list[str]:
    """What is claimed although nothing was planted."""
    grave = [found for found in report.findings if found.severity.order <= Severity.MEDIUM.order]
    return [f"{found.severity.value}: {_label(found)}" for found in grave]


def alone(report: Report, truth: dict[str, Any]) -> list[str]:
    """What is wrong with the first finding, where one plant is the only cause."""
    ((plant, planted),) = truth["plants"].items()
    if not report.findings:
        return ["no finding"]
    first = report.findings[0]
    return [] if is_told(first, plant, planted) else [f"first is {_label(first)}"]


def together(report: Report, truth: dict[str, Any]) -> list[str]:
    """Causes worth telling that are silent or not at their place, and pairs in the wrong order."""
    worth = {
        plant: planted
        for plant, planted in truth["plants"].items()
        if planted["saving_us_per_step"] >= WORTH * truth["step_us"]
    }
    rank = {
        plant: next((at for at, found in enumerate(report.findings) if is_told(found, plant, planted)), None)
        for plant, planted in worth.items()
    }
    wrong = [
        f"{plant} ({worth[plant]['saving_us_per_step'] / truth['step_us']:.1%}) is silent"
        for plant, at in rank.items()
        if at is None
    ]
    for one, other in itertools.permutations(worth, 2):
        first, second = rank[one], rank[other]
        apart = worth[one]["saving_us_per_step"] >= APART * worth[other]["saving_us_per_step"]
        if apart and first is not None and second is not None and first > second:
            wrong.append(f"{other} stands before {one}")
    return wrong


def is_told(found: Finding, plant: str, planted: dict[str, Any]) -> bool:
    """Whether a finding is of the plant's rule and at its place: a file and line, or for a rank its number."""
    if found.rule_id not in RULES[plant]:
        return False
    if not planted["where"]:
        return found.rank == planted["parameters"]["rank"]
    if found.location is None:
        return False
    return f"{Path(found.location.path).name}:{found.location.line}" in {
        ":".join(place.split(":")[:2]) for place in planted["where"]
    }


def _label(found: Finding) -> str:
    place = f" at {Path(found.location.path).name}:{found.location.line}" if found.location else ""
    saving = f", {found.saving.us_per_step:.0f} us" if found.saving else ""
    return f"{found.rule_id}{place}{saving}"


CHECKS = {"nothing": nothing, "alone": alone, "together": together}


def main() -> int:
    """Generate, analyse, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", choices=CHECKS, help="one table")
    parser.add_argument("--seed", type=int, default=101, help="seed of the first profile")
    options = parser.parse_args()
    failed = 0
    for kind in [options.only] if options.only else CHECKS:
        bad, chosen = 0, list(profiles(kind, options.seed))
        for label, settings in chosen:
            with tempfile.TemporaryDirectory() as folder:
                truth = generate(Path(folder), settings)
                wrong = CHECKS[kind](analyze(folder), truth)
            for problem in wrong:
                print(f"{kind}, {label}: {problem}", flush=True)
            bad += bool(wrong)
        print(f"{kind}: {len(chosen) - bad} of {len(chosen)} passed", flush=True)
        failed += bad
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
