#!/usr/bin/env python3
"""How well comparisons explain, tell noise from change, and keep the record: generated twins whose truth is known.

    python benchmarks/comparing.py                     all three tables
    python benchmarks/comparing.py --only attribution  every plant taken out of a run that has all of them: is the top
                                                       entry the plant's own line (its rank's device for slow_rank),
                                                       and how much of the change is left over
    python benchmarks/comparing.py --only noise        pairs of seeds of one run, and of one whose device is 3 % slower
    python benchmarks/comparing.py --only verify       ``npu-advisor verify`` over twins into one ledger, against the
                                                       truth files: both summed up by the same function
    python benchmarks/comparing.py --twins 20          so many of each (pairs, or twins)
    python benchmarks/comparing.py --seed 900          other ones of the same kinds

Figures of attribution: the top entry is that of the rank that holds up the job (others may rightly say that they wait
for it), the remainder that of every pair of ranks. A change below 0.05 % of the step is nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))

from savings import RULES, Pair, pairs_of, summary
from synthetic import HARDER, Settings, generate
from synthetic.script import LINES
from synthetic.settings import PLACES

from npu_advisor import analyze
from npu_advisor.api import compare, recorded, verify
from npu_advisor.comparison import Accuracy, Cause, RankPair, Verification

# Lines that are a plant's own: those its truth names, and the one that uses what it allocates.
SITES = {**PLACES, "mem_peak": ["mem_peak", "mem_peak_use"]}
# Changes below this share of the step are nothing; of larger ones so much may be left over.
NOTHING, LEFT = 0.0005, 0.02
# One rule that needs little: what is compared does not depend on the rules.
QUICK = ["layout-transdata"]
PLANTS = [plant for plant in RULES if plant != "slow_rank"]


class Explained(NamedTuple):
    """One pair of ranks of one twin: what changed, whether the top entry is the plant's, what is left over, and whether
    it is the pair that holds up the job."""

    twin: str
    plant: str
    share: float
    top: bool
    left: float
    leads: bool


def twins(first_seed: int, count: int, **extra: Any) -> Iterator[tuple[str, Settings, str]]:
    """(label, settings of the run with everything, the plant to take out), plant by plant, each round a new seed."""
    shapes = ((1, 1, 0.3), (8, 1, 0.45), (8, 2, 0.45), (2, 2, 0.8))
    rounds = enumerate(itertools.cycle(shapes), first_seed)
    for seed, (world, ranks, scale), plant in ((*each, plant) for each in rounds for plant in RULES):
        if (plant == "slow_rank" and not 1 < ranks == world) or (plant == "unoverlapped_comm" and world < 2):
            continue
        base: dict[str, Any] = {"steps": 3, "truth_steps": 3, "counters": False, "plant": ["all"], **extra}
        settings = Settings(**base, seed=seed, world=world, ranks=ranks, device_scale=scale)
        yield f"seed {seed} world {world} ranks {ranks} scale {scale}", settings, plant
        count -= 1
        if not count:
            return


def pair_of_folders(settings: Settings, plant: str, folder: Path) -> tuple[dict[str, Any], Path, Path]:
    """The truth of the run with everything, its folder, and that of the run without the plant."""
    base, new = folder / "base", folder / "new"
    truth = generate(base, settings)
    generate(new, Settings(**{**settings.__dict__, "without": [plant]}))
    return truth, base, new


def attribution(count: int, seed: int) -> None:
    """The table of what explains the change of each plant."""
    for title, extra in (("plain", {}), ("harder", HARDER)):
        found: list[Explained] = []
        for label, settings, plant in twins(seed, count, **extra):
            with tempfile.TemporaryDirectory() as folder:
                _, base, new = pair_of_folders(settings, plant, Path(folder))
                told = compare(base, new, select=QUICK)
            found += [explained(label, plant, pair, pair is told.main) for pair in told.pairs]
        print(f"--- attribution, {title}")
        print(f"{'plant':20} {'pairs':>5} {'nothing':>7} {'top entry':>9} {'left <= 2 %':>11} {'largest left':>12}")
        for plant in RULES:
            mine = [each for each in found if each.plant == plant]
            real = [each for each in mine if abs(each.share) >= NOTHING]
            leading = [each.top for each in real if each.leads]
            tops = f"{sum(leading)}/{len(leading)}"
            kept = f"{sum(each.left <= LEFT for each in real)}/{len(real)}"
            largest = max((each.left for each in real), default=0.0)
            print(f"{plant:20} {len(mine):5} {len(mine) - len(real):7} {tops:>9} {kept:>11} {100 * largest:11.2f}%")
        for each in found:
            if abs(each.share) >= NOTHING and ((each.leads and not each.top) or each.left > LEFT):
                print(f"    {each.twin}: {each.plant} {each.share:+.2%}, top {each.top}, left {each.left:.1%}")


def explained(label: str, plant: str, pair: RankPair, leads: bool) -> Explained:
    """What a comparison of one rank says of the plant that was taken out."""
    told, step_us = pair.attribution, pair.step.base or 0.0
    left = abs(told.remainder_us) / max(abs(told.change_us), NOTHING * step_us)
    top = bool(told.causes) and is_of(plant, told.causes[0])
    label = f"{label} rank {pair.base_rank}"
    return Explained(label, plant, told.change_us / step_us, top, left, leads)


def is_of(plant: str, cause: Cause) -> bool:
    """Whether a cause is the plant: at one of its lines; the device of a slow rank, or the wait for it."""
    if plant == "slow_rank":
        return cause.kind in ("device", "other_rank")
    return cause.base_location is not None and cause.base_location.line in [LINES[site] for site in SITES[plant]]


def noise(count: int, seed: int) -> None:
    """The table of false alarms and of changes that were seen."""
    print(f"--- noise, ten steps on each side, {count} pairs of seeds")
    for title, scale in (("the same run", 1.0), ("device 3 % slower", 1.03)):
        verdicts, causes, shares = [], [], []
        for one in range(seed, seed + 2 * count, 2):
            with tempfile.TemporaryDirectory() as folder:
                for side, number, factor in (("base", one, 1.0), ("new", one + 1, scale)):
                    settings = Settings(
                        steps=10,
                        layers=6,
                        counters=False,
                        truth_steps=1,
                        world=1,
                        seed=number,
                        device_scale=1.2 * factor,
                        noise_us=1.0,
                    )
                    generate(Path(folder) / side, settings)
                pair = compare(Path(folder) / "base", Path(folder) / "new", select=QUICK).main
            judgement = pair.step.judgement
            verdicts.append(judgement.verdict if judgement else "none")
            causes.append(pair.attribution.causes)
            shares.append(pair.step.share or 0.0)
        named = [each[0].kind for each in causes if each]
        print(
            f"{title:20} step {min(shares):+.2%} to {max(shares):+.2%}: "
            f"difference in {verdicts.count('beyond_noise')} of {count}, causes named in {len(named)}, "
            f"the device first in {named.count('device')}"
        )


def ledger(count: int, seed: int, **extra: Any) -> tuple[Accuracy, Accuracy]:
    """The record of ``verify`` over twins, and the same predictions against the truth files."""
    pairs: list[Pair] = []
    found: Verification | None = None
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "ledger.jsonl"
        for number, (label, settings, plant) in enumerate(twins(seed, count, **extra)):
            truth, base, new = pair_of_folders(settings, plant, Path(folder) / str(number))
            found = recorded(verify(base, new), book)
            every = pairs_of(label, settings, truth, analyze(base).findings)
            pairs += [pair for pair in every if pair.plant == plant and pair.us is not None]
            ours = [f"{each.rule_id} {each.error or 0:+.2%}" for each in found.verified]
            print(f"{number + 1}/{count} {label}, without {plant}: {', '.join(ours) or '-'}", file=sys.stderr)
    if found is None or found.record is None:
        raise SystemExit("no twin")
    return found.record, summary(pairs)


def main() -> None:
    """Generate, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", choices=("attribution", "noise", "verify"), help="one table")
    parser.add_argument("--twins", type=int, default=20, help="how many of each")
    parser.add_argument("--seed", type=int, default=301, help="seed of the first")
    options = parser.parse_args()
    tables = {"attribution": attribution, "noise": noise}
    for name, run in tables.items():
        if options.only in (None, name):
            run(options.twins, options.seed)
    if options.only in (None, "verify"):
        record, truth = ledger(options.twins, options.seed)
        print(f"--- verify, {options.twins} twins")
        for title, figures in (("ledger of verify", record), ("against the truth", truth)):
            print(f"{title:20} {json.dumps(figures.model_dump())}")


if __name__ == "__main__":
    main()
