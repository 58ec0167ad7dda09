"""A run: the profiles under some paths, judged by the rules, priced and reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from npu_advisor import __version__
from npu_advisor.base.ahead import Ahead
from npu_advisor.base.aside import Aside
from npu_advisor.base.errors import ConfigError, ProfileError
from npu_advisor.base.heap import give_back
from npu_advisor.base.messages import say
from npu_advisor.derive import derive, introduce, tell_chip
from npu_advisor.derive.world import as_ranges, missing_ranks, world_size
from npu_advisor.engine import summary
from npu_advisor.engine.lines import line_costs
from npu_advisor.engine.lint import checked_plans
from npu_advisor.engine.patches import with_fixes
from npu_advisor.engine.places import Roots
from npu_advisor.engine.plan import Plan
from npu_advisor.engine.pricing import Priced, price
from npu_advisor.engine.run import RuleResult, run_rules
from npu_advisor.engine.savings import Run, replay_runs
from npu_advisor.engine.suppress import Results, split, suppressed
from npu_advisor.findings import ProfileFacts, Report, Tool, WhatIf
from npu_advisor.graph.links import link
from npu_advisor.graph.steps import keep_steps
from npu_advisor.model.profile import Diagnostic, Profile, ProfileSet
from npu_advisor.readers import RankSource, locate_all, read_rank
from npu_advisor.results import CHIP, Asked, Paths
from npu_advisor.rules.loader import load_rules

if TYPE_CHECKING:
    from npu_advisor.engine.editing import EditPlan

Progress = Callable[[int, int], None]
R = TypeVar("R", bound=Report)

# Rules of this category judge a whole job by the summaries of its ranks, all others one rank.
JOB = "job"


@dataclass(frozen=True)
class Session:
    """Profiles with the results of the rules."""

    facts: ProfileFacts
    results: list[tuple[Profile, list[RuleResult]]]
    roots: Roots
    graphs: Ahead[list[Run]]

    @property
    def runs(self) -> list[Run]:
        """The graphs of the runs that were recorded, ready to be re-timed."""
        return self.graphs.result

    @cached_property
    def parted(self) -> tuple[Results, Results]:
        """The results that count, and those that a comment in the code leaves out."""
        return split(self.results, self.roots)

    @cached_property
    def priced(self) -> Priced:
        """The findings with what they would save."""
        kept = self.parted[0]
        give_back()
        return price(kept, self.roots, self.runs)

    def answer(self, plans: Sequence[EditPlan]) -> WhatIf:
        """The step with ``plans`` applied."""
        from npu_advisor.engine.whatif import edited

        return WhatIf(
            tool=Tool(version=__version__),
            profile=self.facts,
            runs=edited(self.parted[0], self.runs, plans, self.roots),
            diagnostics=[remark for profile, _ in self.results for remark in summary.remarks(profile)],
        )

    def report(self, kind: type[R], *, whole: bool, fixes: bool) -> R:
        """The report; ``whole`` when no rule was left out, ``fixes`` to look for changes to the code."""
        profiles = [profile for profile, _ in self.results]
        set_aside, priced = self.parted[1], self.priced
        return kind(
            tool=Tool(version=__version__),
            profile=self.facts,
            steps=[
                step
                for number, profile in enumerate(profiles)
                for step in summary.steps(profile, summary.paths_of(number, priced.trusted))
            ],
            facts=[summary.facts(profile) for profile in profiles],
            top_kernels=[kernel for profile in profiles for kernel in summary.top_kernels(profile)],
            lines=line_costs(profiles, self.roots),
            replay=priced.replay,
            saving=priced.saving,
            findings=with_fixes(priced.findings) if fixes else priced.findings,
            suppressed=suppressed(price(set_aside, self.roots, self.runs).findings) if set_aside else [],
            # Rules that were left out might blame what looks harmless.
            not_the_cause=summary.not_the_cause(profiles, priced, self.roots) if whole else [],
            rules=summary.outcomes([outcomes for _, outcomes in self.results]),
            diagnostics=[*(remark for one in profiles for remark in summary.remarks(one)), *priced.remarks],
            profiler_call=summary.profiler_call(self.results),
        )


def read(asked: Asked, cache: str | Path | None = None, progress: Progress | None = None) -> Session:
    """Read the profiles and run the rules; options and errors as for :func:`npu_advisor.api.analyze`."""
    plans = rank_rules(asked.rules, asked.params, asked.select, asked.ignore)
    aside = Aside()
    profiles = load_profiles(
        asked.paths, ranks=asked.ranks, steps=asked.steps, progress=progress, cache=cache, aside=aside
    )
    # The graphs need what is recorded, not what the rules say of it.
    graphs = Ahead(lambda: replay_runs(profiles, aside))
    return Session(
        facts=ProfileFacts(path=_shown(asked.paths), ranks=[summary.rank_info(profile) for profile in profiles]),
        graphs=graphs,
        results=[(profile, _judged(profile, plans, aside)) for profile in profiles],
        roots=Roots.of(asked.source_root),
    )


def _judged(profile: Profile, plans: Sequence[Plan], aside: Aside) -> list[RuleResult]:
    """The results of the rules; the columns that they made are put ``aside`` with the others."""
    found = run_rules(plans, profile)
    _rest(profile, aside)
    return found


def _rest(profile: Profile, aside: Aside) -> None:
    """Nobody asks ``profile`` for anything for some time."""
    profile.put_aside(aside)
    give_back()


def _plans(
    dirs: Sequence[str | Path],
    params: Mapping[str, Mapping[str, Any]] | None,
    select: Sequence[str],
    ignore: Sequence[str],
) -> list[Plan]:
    """The rules that are asked for, ready to run. RuleError when one of them is wrong."""
    return checked_plans(load_rules(dirs=dirs, params=params, select=select, ignore=ignore))


def rank_rules(
    dirs: Sequence[str | Path],
    params: Mapping[str, Mapping[str, Any]] | None,
    select: Sequence[str],
    ignore: Sequence[str],
) -> list[Plan]:
    """The rules on single ranks that are asked for. RuleError when any rule is wrong."""
    return [plan for plan in _plans(dirs, params, select, ignore) if plan.rule.category != JOB]


def job_rules(
    dirs: Sequence[str | Path],
    params: Mapping[str, Mapping[str, Any]] | None,
    select: Sequence[str],
    ignore: Sequence[str],
) -> list[Plan]:
    """The rules on whole jobs that are asked for. RuleError when any rule is wrong."""
    return [plan for plan in _plans(dirs, params, select, ignore) if plan.rule.category == JOB]


def load_profiles(
    path: Paths,
    *,
    ranks: Sequence[int] = (),
    steps: Sequence[int] = (),
    progress: Progress | None = None,
    cache: str | Path | None = None,
    aside: Aside | None = None,
) -> ProfileSet:
    """Every rank found under ``path`` (or only ``ranks``, and only their ``steps``), linked and ready, in rank order.

    ``cache`` is as for :func:`analyze`. Where many ranks are to take little memory, their columns are put ``aside``.
    A rank that cannot be read is left out and named in the diagnostics of the first one that can.
    """
    sources = locate_all(_each(path))
    counter, read = _Bytes(sources, progress), _reader(cache)
    profiles, failures = ProfileSet(), []
    for source in sources:
        try:
            profile = read(source, counter.of(source))
        except ProfileError as error:
            failures.append(error)
            continue
        if not ranks or profile.rank in ranks:
            if aside is not None:
                profile.put_aside(aside)
            profiles.append(finish(profile, steps))
            if aside is not None:
                _rest(profile, aside)
    if not profiles:
        raise failures[0] if failures else _no_such_rank(path, ranks)
    if steps and not any(len(profile.table("steps")) for profile in profiles):
        raise ConfigError(say("error.no_such_step", steps=", ".join(map(str, steps))))
    profiles[0].diagnostics.extend(summary.unreadable(failure) for failure in failures)
    profiles.sort(key=lambda profile: profile.rank)
    if chip := os.environ.get(CHIP):
        tell_chip(profiles, chip)
    introduce(profiles)
    if len(profiles) > 1 and not ranks and (absent := missing_ranks(profiles)):
        profiles[0].diagnostics.append(partial(len(profiles), max(map(world_size, profiles)), absent))
    return profiles


def partial(present: int, world: int, absent: Sequence[int]) -> Diagnostic:
    """The remark that ``present`` of ``world`` ranks were read, without those in ``absent``."""
    message = say("diag.ranks_missing", present=present, world=world, missing=as_ranges(absent))
    return Diagnostic("ranks_missing", "warning", "", message)


def _reader(cache: str | Path | None) -> Callable[[RankSource, Progress | None], Profile]:
    if cache is None:
        return read_rank
    from npu_advisor.readers.cached import Cache

    return Cache(cache).read_rank


def load_profile(path: str | Path, rank: int | None = None) -> Profile:
    """One rank under ``path``: ``rank``, or the lowest. Its tables are pandas DataFrames (``profile.kernels``)."""
    return load_profiles(path, ranks=() if rank is None else (rank,))[0]


def finish(profile: Profile, steps: Sequence[int] = ()) -> Profile:
    """Link a profile as a reader left it, keep only ``steps`` if any are named, and register its derived tables."""
    link(profile)
    # What lies in what is told by the columns now.
    profile.cache.clear()
    give_back()
    if steps:
        keep_steps(profile, steps)
    return derive(profile)


def _each(path: Paths) -> list[str | Path]:
    return [path] if isinstance(path, str | Path) else list(path)


def _shown(path: Paths) -> str:
    return " ".join(str(single) for single in _each(path))


def _no_such_rank(path: Paths, ranks: Sequence[int]) -> ProfileError:
    wanted = ", ".join(str(rank) for rank in ranks)
    return ProfileError(_shown(path), say("error.no_such_rank", path=_shown(path), ranks=wanted), code="no_such_rank")


class _Bytes:
    """Adds up the progress of several ranks."""

    def __init__(self, sources: Sequence[RankSource], progress: Progress | None) -> None:
        self._progress = progress
        self._sizes = {id(source): source.size for source in sources}
        self._total = sum(self._sizes.values())
        self._done = 0

    def of(self, source: RankSource) -> Progress | None:
        """The callback for one rank."""
        if self._progress is None:
            return None
        report, before = self._progress, self._done
        self._done += self._sizes[id(source)]
        return lambda done, total: report(before + min(done, total), self._total)
