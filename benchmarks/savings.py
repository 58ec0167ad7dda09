#!/usr/bin/env python3
"""How well savings are predicted: generated twins, analysed as a user would, against what leaving a cause out saves.

    python benchmarks/savings.py                   two tables over every plant, seed, world, size and length of a grid
    python benchmarks/savings.py --only harder     the second one: as real machines record (HARDER of the generator:
                                                   event tasks, a second stream, waits inside collectives, noise, GC
                                                   pauses, a clock offset)
    python benchmarks/savings.py --seed 900        other twins of the same kinds; the default seeds have been looked at
    python benchmarks/savings.py --twins 12        only the first twelve of each
    python benchmarks/savings.py --set gc_ms=8     the first table with one setting of the generator changed
    python benchmarks/savings.py --json out.json   every pair of figures too

A twin's truth file holds the wall time that leaving each planted cause out saves, found by simulating the run again
without it. The advisor gets the profile and nothing else, as ``npu-advisor PATH -f json`` does. Figures:

- median, p90, max: error of the told saving as a share of the true one, over savings worth at least 1 % of the step;
- silent: causes that nothing was told about;
- inside: truth within [low, high], give or take half a percent of the step;
- smaller ones: error as a share of the step; together: the joint figure, against leaving all that was told out;
- order: pairs of one twin whose true savings differ by more than a tenth.

About two minutes of one core.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))

from synthetic import HARDER, Settings, generate
from synthetic.simulation import simulate

from npu_advisor import Finding, analyze
from npu_advisor.compare.verify import INSIDE, accuracy, against
from npu_advisor.compare.verify import SMALLEST as SMALL
from npu_advisor.comparison import Accuracy, Verified

RULES = {
    "dispatch": ("dispatch-dequeue-gap",),
    "native_optimizer": ("optimizer-native",),
    "top_kernel": ("kernel-top-cost",),
    "transdata": ("layout-transdata",),
    "mem_peak": ("memory-peak",),
    "aicpu": ("aicpu-op",),
    "dataloader": ("data-loader",),
    "item": ("dispatch-sync-in-step",),
    "slow_rank": ("cluster-slow-rank",),
    "unoverlapped_comm": ("comm-not-overlapped",),
}
# The harder profiles have pauses of the garbage collector. They are no plant, so no run without them tells what they
# cost, and the joint figure must do without them too.
NOT_PLANTED = ["dispatch-gc"]
APART = 0.10


class Pair(NamedTuple):
    """One saving: what the twin says and what the advisor said (None: no finding at the planted place)."""

    twin: str
    plant: str
    step_us: float
    truth_us: float
    us: float | None
    low_us: float
    high_us: float
    basis: str


def twins(first_seed: int, extra: dict[str, Any]) -> Iterator[tuple[str, Settings]]:
    """The grid: every plant by itself and all together, seeds, worlds 1/2/4/8, device speeds, sizes, lengths.

    ``extra`` are settings of the generator for all of them.
    """
    base: dict[str, Any] = {"steps": 3, "counters": False, **extra}
    seeds = itertools.count(first_seed)
    for world, ranks, scale in ((1, 1, 0.3), (8, 1, 0.45), (4, 2, 0.45), (8, 1, 0.8), (2, 2, 0.2), (8, 4, 0.6)):
        everything = {**base, "world": world, "ranks": ranks, "device_scale": scale}
        yield "all", Settings(**everything, layers=12, seed=next(seeds), plant=["all"])
        yield (
            "all, fast input",
            Settings(**everything, layers=12, seed=next(seeds), plant=["all"], without=["dataloader"]),
        )
        yield "all, small", Settings(**everything, layers=6, seed=next(seeds), plant=["all"], without=["dataloader"])
    for plant, (world, ranks, scale) in itertools.product(
        RULES, ((1, 1, 0.3), (8, 1, 0.45), (4, 2, 0.8), (2, 2, 0.45))
    ):
        if (plant == "slow_rank" and ranks < 2) or (plant == "unoverlapped_comm" and world < 2):
            continue
        one = {**base, "world": world, "ranks": ranks, "device_scale": scale}
        yield plant, Settings(**one, layers=12, seed=next(seeds), plant=[plant])
    for steps, layers in ((2, 24), (6, 8)):
        for world, ranks, scale in ((1, 1, 0.6), (8, 2, 0.5)):
            one = {**base, "steps": steps, "layers": layers, "world": world, "ranks": ranks, "device_scale": scale}
            yield f"all, {layers} layers, {steps} steps", Settings(**one, seed=next(seeds), plant=["all"])
    yield (
        "deep queue",
        Settings(
            **{**base, "steps": 12},
            world=1,
            layers=12,
            seed=next(seeds),
            device_scale=1.5,
            log_every=100,
            plant=["top_kernel", "aicpu", "transdata", "native_optimizer"],
        ),
    )


def compare(name: str, settings: Settings, folder: Path) -> tuple[list[Pair], tuple[float, float, float]]:
    """The pairs of one twin, and (step, true joint, predicted joint) in us."""
    truth = generate(folder, settings)
    report = analyze(folder, ignore=NOT_PLANTED)
    pairs = pairs_of(name, settings, truth, report.findings)
    # Together, what was told must save what leaving just that out saves.
    told = {pair.plant for pair in pairs if pair.us is not None}
    left = {plant: value for plant, value in settings.plants().items() if plant not in told}
    cured = simulate(settings, left, truth["truth_steps"]).makespan / truth["truth_steps"] / 1000
    return pairs, (truth["step_us"], truth["step_us_truth_run"] - cured, report.saving.joint_us_per_step)


def pairs_of(name: str, settings: Settings, truth: dict[str, Any], findings: list[Finding]) -> list[Pair]:
    """What one twin says and what was told, for each of its plants."""
    label = f"{name} seed {settings.seed} world {settings.world} ranks {settings.ranks} scale {settings.device_scale}"
    return [
        Pair(label, plant, truth["step_us"], found["saving_us_per_step"], *_told(findings, plant))
        for plant, found in truth["plants"].items()
    ]


def summary(pairs: list[Pair]) -> Accuracy:
    """The figures of what was told, summed up as ``npu-advisor verify`` sums up its ledger."""
    return accuracy([_entry(pair) for pair in pairs if pair.us is not None])


def _entry(pair: Pair) -> Verified:
    figures = against(pair.us or 0.0, (pair.low_us, pair.high_us), pair.truth_us, pair.step_us)
    told = {"rule_id": RULES[pair.plant][0], "location": None, "step_us": pair.step_us, "basis": pair.basis}
    return Verified(time="", base=pair.twin, new=f"without {pair.plant}", fingerprint="", how="step", **told, **figures)


def _told(findings: list[Finding], plant: str) -> tuple[float | None, float, float, str]:
    """The largest saving of the plant's rules."""
    savings = [found.saving for found in findings if found.rule_id in RULES[plant] and found.saving]
    if not savings:
        return None, 0.0, 0.0, "none"
    best = max(savings, key=lambda saving: saving.us_per_step)
    return best.us_per_step, best.low_us_per_step, best.high_us_per_step, best.basis.value


def _quantiles(errors: list[float]) -> str:
    if not errors:
        return f"{'-':>8} {'-':>8} {'-':>8}"
    values = np.abs(errors)
    return " ".join(f"{100 * value:7.2f}%" for value in (np.median(values), np.quantile(values, 0.9), values.max()))


def table(pairs: list[Pair], joints: list[tuple[float, float, float]]) -> str:
    """The figures of all twins as text."""
    lines = [
        f"{'savings >= 1 % of the step':28} {'n':>4} {'silent':>6} {'median':>8} {'p90':>8} {'max':>8} {'inside':>7}"
    ]
    large = [pair for pair in pairs if pair.truth_us >= SMALL * pair.step_us]
    for plant in [*RULES, "together"]:
        mine = [pair for pair in large if plant in (pair.plant, "together")]
        told = [pair for pair in mine if pair.us is not None]
        errors = [(pair.us or 0.0) / pair.truth_us - 1 for pair in told]
        inside = [
            pair.low_us - INSIDE * pair.step_us <= pair.truth_us <= pair.high_us + INSIDE * pair.step_us
            for pair in told
        ]
        share = f"{sum(inside)}/{len(inside)}"
        lines.append(f"{plant:28} {len(mine):4} {len(mine) - len(told):6} {_quantiles(errors)} {share:>7}")
    small = [pair for pair in pairs if pair.truth_us < SMALL * pair.step_us]
    off = [((pair.us or 0.0) - pair.truth_us) / pair.step_us for pair in small]
    lines.append(f"{'smaller ones, of the step':28} {len(small):4} {'':6} {_quantiles(off)}")
    errors = [told / true - 1 for step_us, true, told in joints if true > SMALL * step_us]
    lines.append(f"{'all that was told, together':28} {len(errors):4} {'':6} {_quantiles(errors)}")
    right, wrong = order(large)
    lines.append(f"pairs that differ by > {APART:.0%} in order: {right} of {right + wrong}")
    lines.append(
        f"replayed: {sum(pair.basis == 'replayed' for pair in pairs)} of {sum(pair.us is not None for pair in pairs)}"
    )
    return "\n".join(lines)


def order(pairs: list[Pair]) -> tuple[int, int]:
    """How many pairs of savings in one twin that differ by more than a tenth are in the right order, or not."""
    right = wrong = 0
    for one, other in itertools.combinations([pair for pair in pairs if pair.us is not None], 2):
        if one.twin == other.twin and abs(one.truth_us - other.truth_us) > APART * max(one.truth_us, other.truth_us):
            same = (one.truth_us > other.truth_us) == ((one.us or 0.0) > (other.us or 0.0))
            right, wrong = right + same, wrong + (not same)
    return right, wrong


def main() -> None:
    """Generate, analyse, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--twins", type=int, help="only so many of each grid")
    parser.add_argument("--seed", type=int, default=101, help="seed of the first twin")
    parser.add_argument("--only", choices=("plain", "harder"), help="one table")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the generator")
    parser.add_argument("--json", type=Path, help="write every pair there")
    options = parser.parse_args()
    changed = {name: json.loads(value) for name, _, value in (text.partition("=") for text in options.set)}
    grids = {"plain": changed, "harder": {**HARDER, **changed}}
    told: dict[str, dict[str, Any]] = {}
    for title, extra in grids.items():
        if (options.only or title) == title and not (changed and options.only is None and title == "harder"):
            print(f"--- {title}{''.join(f' {name}={value}' for name, value in extra.items())}")
            told[title] = run(list(twins(options.seed, extra))[: options.twins])
    if options.json:
        options.json.write_text(json.dumps(told, indent=1))


def run(chosen: list[tuple[str, Settings]]) -> dict[str, Any]:
    """Compare these twins and print their table; returns every figure."""
    pairs: list[Pair] = []
    joints = []
    begin = time.process_time()
    for number, (name, settings) in enumerate(chosen, 1):
        with tempfile.TemporaryDirectory() as folder:
            found, joint = compare(name, settings, Path(folder))
        pairs += found
        joints.append((found[0].twin, joint))
        print(f"{number}/{len(chosen)} {found[0].twin}", file=sys.stderr)
    print(table(pairs, [joint for _, joint in joints]))
    print(f"{len(chosen)} twins, {time.process_time() - begin:.0f} s of processor time")
    together = [{"twin": name, "step_us": joint[0], "truth_us": joint[1], "us": joint[2]} for name, joint in joints]
    return {"pairs": [pair._asdict() for pair in pairs], "together": together}


if __name__ == "__main__":
    main()
