"""The comparison of two analysed inputs, rank by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npu_advisor import __version__
from npu_advisor.base.errors import ConfigError, ProfileError
from npu_advisor.base.intervals import Spans
from npu_advisor.base.messages import say
from npu_advisor.compare.findings import finding_changes
from npu_advisor.compare.pair import Run, compare_runs
from npu_advisor.comparison import Comparison, Setting
from npu_advisor.derive.comm import waits_for_others
from npu_advisor.derive.facts import switches
from npu_advisor.engine.places import Roots
from npu_advisor.engine.run import RuleResult
from npu_advisor.engine.savings import replay_runs
from npu_advisor.findings import Report, Tool
from npu_advisor.graph.replay.path import StepPath, run_paths, waiting
from npu_advisor.model.profile import Profile, ProfileInfo


@dataclass(frozen=True)
class Analysed:
    """One side: its report, and the profiles with the results of the rules that it was made from."""

    report: Report
    results: Sequence[tuple[Profile, Sequence[RuleResult]]]
    roots: Roots


def compare(base: Analysed, new: Analysed) -> Comparison:
    """What changed from ``base`` to ``new``.

    Ranks are paired by number; where no number is on both sides in order, a single rank with the first of the others.
    Profiles of one rank are runs of it.
    ConfigError where the sides have no ranks that could be paired, ProfileError where a side has no step.
    """
    sides = [_by_rank(side) for side in (base, new)]
    pairs = [compare_runs(one, other, new.roots) for one, other in _paired(*sides)]
    devices = [side.results[0][0].info.device_kind for side in (base, new)]
    return Comparison(
        tool=Tool(version=__version__),
        base=base.report.profile,
        new=new.report.profile,
        base_device=devices[0],
        new_device=devices[1],
        settings=settings(*(side.results[0][0].info for side in (base, new))),
        pairs=pairs,
        findings=finding_changes(base.report, new.report),
        diagnostics=[
            *base.report.diagnostics,
            *(each for each in new.report.diagnostics if each not in base.report.diagnostics),
        ],
    )


def settings(base: ProfileInfo, new: ProfileInfo) -> list[Setting]:
    """What of the recording, the versions and the environment differs, as far as both sides tell it."""
    told = [
        {"device": info.device, "torch_npu": info.torch_npu, "cann": info.cann, **switches(info)}
        for info in (base, new)
    ]
    found = [(name, value, told[1].get(name)) for name, value in told[0].items()]
    known = [each for each in found if None not in each]
    if base.env and new.env:
        known += [(f"env.{name}", base.env.get(name), new.env.get(name)) for name in sorted({**base.env, **new.env})]
    return [
        Setting(name=name, base=None if one is None else str(one), new=None if other is None else str(other))
        for name, one, other in known
        if one != other
    ]


def _by_rank(side: Analysed) -> dict[int, list[Run]]:
    profiles = [profile for profile, _ in side.results]
    paths, waits = _paths(profiles)
    found: dict[int, list[Run]] = {}
    for profile in profiles:
        if len(profile.table("steps")):
            found.setdefault(profile.rank, []).append(Run(profile, paths.get(id(profile)), waits[id(profile)]))
    if not found:
        raise ProfileError(side.report.profile.path, say("error.nothing_recorded", path=side.report.profile.path))
    return found


def _paths(profiles: Sequence[Profile]) -> tuple[dict[int, Sequence[StepPath]], dict[int, Spans]]:
    """By profile (``id``): its critical path through the run, where the replay can be trusted; and its waits for other
    ranks."""
    paths: dict[int, Sequence[StepPath]] = {}
    waits = {id(profile): waits_for_others(profile) for profile in profiles}
    for run in replay_runs(profiles):
        replayer = run.replayer
        if run.reason is not None or replayer is None:
            continue
        graph = replayer.graph
        told = [waiting(rank, waits[id(rank.profile)]) for rank in graph.ranks]
        for rank, path, wait in zip(graph.ranks, run_paths(graph, replayer.calibrated, told), told, strict=True):
            paths[id(rank.profile)], waits[id(rank.profile)] = path, wait
    return paths, waits


def _paired(base: dict[int, list[Run]], new: dict[int, list[Run]]) -> list[tuple[list[Run], list[Run]]]:
    common = sorted(base.keys() & new.keys())
    if common:
        return [(base[rank], new[rank]) for rank in common]
    if 1 in (len(base), len(new)):
        return [(base[min(base)], new[min(new)])]
    if len(base) != len(new):
        ranks = [", ".join(map(str, sorted(side))) for side in (base, new)]
        raise ConfigError(say("compare.no_pair", base=ranks[0], new=ranks[1]), None, say("compare.no_pair_do"))
    return [(base[one], new[other]) for one, other in zip(sorted(base), sorted(new), strict=True)]
