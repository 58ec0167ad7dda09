#!/usr/bin/env python3
"""How much of the savings' quality is left when a recording is worse than a generated one.

    robust.py              the grid of savings.py, clean and in every worse form, as one table
    robust.py --twins 12   only the first twelve of them

Forms: without CANN calls and without the columns that Level0 leaves out; the device clock 50 us early and 200 us late;
device tasks that start up to some us late (exponential, mean 3 us); one percent of the arrows, Enqueues and
connection ids lost. Tables are changed as the readers leave them, so that linking works with what is left.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
from savings import SMALL, Pair, order, pairs_of, twins
from synthetic import Settings, generate

from npu_advisor.api import finish
from npu_advisor.derive import introduce
from npu_advisor.engine.places import Roots
from npu_advisor.engine.pricing import Priced, price
from npu_advisor.engine.run import run_rules
from npu_advisor.model.profile import Profile
from npu_advisor.model.schema import SCHEMA
from npu_advisor.model.table import Table
from npu_advisor.readers import locate, read_rank
from npu_advisor.rules.loader import load_rules

DEVICE = ("kernels", "tasks", "comms", "comm_tasks")
NOISE_NS = 3000
LOST = 0.01
# What Level0 leaves out of the device tables, and tables that need CANN calls or collectives' details.
LEVEL0_COLUMNS = {
    "kernels": ("input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes", "output_formats"),
    "comms": ("bytes", "transit_us", "wait_us", "sync_us", "idle_us"),
}
LEVEL0_TABLES = ("apis", "links", "api_statistic")
Change = Callable[[Profile, np.random.Generator], None]


def level0(profile: Profile, random: np.random.Generator) -> None:
    """As Level0 text records it: no CANN calls, no launches of event tasks, no shapes, no sizes of collectives."""
    del random
    for name in LEVEL0_TABLES:
        profile.put(Table(SCHEMA[name], {}, 0))
    for name, left_out in LEVEL0_COLUMNS.items():
        table = profile.table(name)
        kept = {column: table[column] for column in table.present - set(left_out) - {"rank", "end_ns", "dur_us"}}
        profile.put(Table.build(name, kept, table.rank))


def clock(shift_us: int) -> Change:
    """The device's clock runs ``shift_us`` late."""
    return lambda profile, _: _moved(profile, lambda table: np.full(len(table), shift_us * 1000, dtype=np.int64))


def noise(profile: Profile, random: np.random.Generator) -> None:
    """Device tasks seem to start late; their ends stay."""

    def late(table: Table) -> np.ndarray:
        return np.minimum(random.exponential(NOISE_NS, len(table)).astype(np.int64), table["dur_ns"] // 2)

    before = {name: profile.table(name)["end_ns"] for name in DEVICE}
    _moved(profile, late)
    for name, end in before.items():
        table = profile.table(name)
        if len(table):
            profile.put(table.with_columns(dur_ns=end - table["start_ns"]))


def lost(profile: Profile, random: np.random.Generator) -> None:
    """Arrows, Enqueues and connection ids go missing."""
    points = profile.table("flow_points")
    ids = np.unique(points["id"])
    profile.put(points.rows(np.flatnonzero(~np.isin(points["id"], ids[random.random(len(ids)) < LOST]))))
    pushes = profile.table("enqueues")
    profile.put(pushes.rows(np.flatnonzero(random.random(len(pushes)) >= LOST)))
    for name in ("kernels", "tasks", "apis"):
        table = profile.table(name)
        if "connection" in table.present:
            gone = random.random(len(table)) < LOST
            profile.put(table.with_columns(connection=np.where(gone, -1, table["connection"])))


FORMS: dict[str, Change | None] = {
    "clean": None,
    "Level0 form": level0,
    "clock -50 us": clock(-50),
    "clock +200 us": clock(200),
    "starts +3 us": noise,
    "1 % of the links lost": lost,
}


def _moved(profile: Profile, by: Callable[[Table], np.ndarray]) -> None:
    """Move the starts of device events, and the arrows that end at them."""
    points = profile.table("flow_points")
    at = points["start_ns"].copy()
    for name in DEVICE:
        table = profile.table(name)
        if not len(table):
            continue
        shift = by(table)
        moved = dict(zip(zip(table["track"].tolist(), table["start_ns"].tolist(), strict=True), shift, strict=True))
        for row, key in enumerate(zip(points["track"].tolist(), points["start_ns"].tolist(), strict=True)):
            at[row] = key[1] + moved[key] if key in moved else at[row]
        profile.put(table.with_columns(start_ns=table["start_ns"] + shift))
    if len(points):
        profile.put(points.with_columns(start_ns=at))


def priced(folder: Path, change: Change | None, seed: int = 0) -> Priced:
    """The findings on a folder whose recording was changed."""
    profiles = []
    for source in locate(folder):
        profile = read_rank(source)
        if change is not None:
            change(profile, np.random.default_rng(seed))
        profiles.append(finish(profile))
    profiles.sort(key=lambda profile: profile.rank)
    introduce(profiles)
    rules = load_rules()
    return price([(profile, run_rules(rules, profile)) for profile in profiles], Roots())


def compared(twin: list[tuple[str, Settings]], forms: dict[str, Change | None]) -> dict[str, list[Pair]]:
    """For each form the pairs of every twin."""
    found: dict[str, list[Pair]] = {form: [] for form in forms}
    for name, settings in twin:
        with tempfile.TemporaryDirectory() as folder:
            truth = generate(Path(folder), settings)
            for form, change in forms.items():
                found[form] += pairs_of(name, settings, truth, priced(Path(folder), change, settings.seed).findings)
    return found


class Figures:
    """How one form does on savings of at least 1 % of the step: errors of those told, and who is silent."""

    def __init__(self, pairs: list[Pair]) -> None:
        large = [pair for pair in pairs if pair.truth_us >= SMALL * pair.step_us]
        told = [pair for pair in large if pair.us is not None]
        self.count, self.silent = len(large), len(large) - len(told)
        errors = np.abs([(pair.us or 0.0) / pair.truth_us - 1 for pair in told])
        self.median, self.p90 = (float(np.quantile(errors, share)) if told else 0.0 for share in (0.5, 0.9))
        self.right, self.wrong = order(large)
        self.replayed = sum(pair.basis == "replayed" for pair in told)

    def __str__(self) -> str:
        return (
            f"{self.count:4} {self.silent:6} {self.replayed:8} {100 * self.median:7.2f}% {100 * self.p90:7.2f}% "
            f"{self.right:4} of {self.right + self.wrong}"
        )


def main() -> None:
    """Generate, change, analyse, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--twins", type=int, help="only so many of the grid")
    chosen = list(islice(twins(), parser.parse_args().twins))
    found = compared(chosen, FORMS)
    print(
        f"{'savings >= 1 % of the step':28} {'n':>4} {'silent':>6} {'replayed':>8} {'median':>8} {'p90':>8}  in order"
    )
    for form, pairs in found.items():
        print(f"{form:28} {Figures(pairs)}")
    print(f"{len(chosen)} twins", file=sys.stderr)


if __name__ == "__main__":
    main()
