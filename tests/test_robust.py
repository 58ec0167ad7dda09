"""Worse recordings of the same runs: errors at most double, and the order of savings stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import robust
import savings
from synthetic import Settings

from npu_advisor.api import load_profile
from npu_advisor.graph.clock import device_late
from npu_advisor.graph.links import host_threads
from npu_advisor.graph.replay.syncs import syncs_of
from npu_advisor.graph.replay.tasks import tasks_of

PLANTS = ["dispatch", "native_optimizer", "top_kernel", "item", "aicpu"]
TWINS = {
    "host bound": Settings(steps=3, layers=6, world=1, seed=51, counters=False, plant=PLANTS, device_scale=0.3),
    "device bound": Settings(steps=3, layers=6, world=8, seed=52, counters=False, plant=PLANTS, device_scale=0.9),
}
# Plants whose rule needs what Level0 does not record.
NEEDS_MORE = {"Level0 form": {"item"}}
# Error below this share of a saving is none: it may grow by any factor.
LEAST = 0.005
Generated = Callable[[Settings], Path]


@pytest.mark.parametrize("twin", TWINS)
def test_worse_recordings_at_most_double_the_error(twin: str, generated: Generated) -> None:
    settings = TWINS[twin]
    folder = generated(settings)
    truth = json.loads((folder / "truth.json").read_text())
    pairs = {
        form: savings.pairs_of(twin, settings, truth, robust.priced(folder, change, settings.seed).findings)
        for form, change in robust.FORMS.items()
    }
    for form in robust.FORMS:
        left_out = NEEDS_MORE.get(form, set())
        clean, figures = (
            robust.Figures([pair for pair in pairs[name] if pair.plant not in left_out]) for name in ("clean", form)
        )
        assert clean.right > 2
        assert figures.silent == 0, form
        assert figures.replayed == figures.count, form
        assert figures.median <= max(2 * clean.median, LEAST), form
        assert figures.wrong == 0, form


@pytest.mark.parametrize("shift_us", [0, 30, 200, 400])
def test_a_late_clock_is_found_and_an_early_one_left_alone(shift_us: int, generated: Generated) -> None:
    for sign in (1, -1):
        profile = load_profile(generated(TWINS["device bound"]))
        robust.clock(sign * shift_us)(profile, np.random.default_rng(0))
        tasks = tasks_of(profile)
        syncs = syncs_of(profile, tasks, host_threads(profile))
        late = device_late(profile, syncs.start, syncs.end)
        assert late <= max(sign * shift_us, 0) * 1000
        if sign * shift_us >= 200:
            assert late >= (sign * shift_us - 60) * 1000


def test_every_form_changes_the_profile(generated: Generated) -> None:
    folder = generated(TWINS["device bound"])
    for form, change in robust.FORMS.items():
        if change is None:
            continue
        plain, worse = load_profile(folder), load_profile(folder)
        change(worse, np.random.default_rng(1))
        same = all(
            len(plain.table(name)) == len(worse.table(name))
            and np.array_equal(plain.table(name)["start_ns"], worse.table(name)["start_ns"])
            for name in ("kernels", "apis", "flow_points", "enqueues")
        )
        assert not same, form
