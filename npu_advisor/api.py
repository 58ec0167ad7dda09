"""The public functions: read a path, run the rules, price what they find."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from npu_advisor import __version__
from npu_advisor.base.errors import ConfigError, ProfileError, RuleError
from npu_advisor.base.heap import give_back
from npu_advisor.base.messages import say
from npu_advisor.derive import derive, introduce, tell_chip
from npu_advisor.engine import summary
from npu_advisor.engine.editing import EditPlan, parse_edits
from npu_advisor.engine.lint import lint_rules
from npu_advisor.engine.places import Roots
from npu_advisor.engine.pricing import price
from npu_advisor.engine.run import RuleResult, run_rules
from npu_advisor.engine.savings import Run, replay_runs
from npu_advisor.engine.suppress import split, suppressed
from npu_advisor.engine.whatif import edited
from npu_advisor.findings import ProfileFacts, Report, Tool, WhatIf
from npu_advisor.graph.links import link
from npu_advisor.graph.steps import keep_steps
from npu_advisor.model.profile import Profile, ProfileSet
from npu_advisor.readers import RankSource, locate, read_rank
from npu_advisor.rules.loader import load_rules
from npu_advisor.rules.spec import Rule

Paths = str | Path | Sequence[str | Path]
Progress = Callable[[int, int], None]

# Names the chip where the recording does not, as Ascend910B2.
CHIP = "NPU_ADVISOR_CHIP"

__all__ = ["Analysis", "analyze", "finish", "load_profile", "load_profiles", "load_rules", "whatif"]


class Analysis(Report):
    """The report on a path, which also answers what-if questions about it."""

    _inputs: _Inputs = PrivateAttr()

    def whatif(self, *edits: str) -> WhatIf:
        """The step with ``edits`` applied, such as ``scale kernels where type == "MatMulV3" by 0.8``.

        Reports do not hold profiles: the first question reads the path again, later ones are answered at once.
        RuleError for an edit that is wrong, ProfileError when the path cannot be read any more.
        """
        plans = parse_edits(edits)
        return self._inputs.session.answer(plans)


def analyze(
    path: Paths,
    *,
    rules: Sequence[str | Path] = (),
    params: Mapping[str, Mapping[str, Any]] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    source_root: Sequence[str] = (),
    ranks: Sequence[int] = (),
    steps: Sequence[int] = (),
    progress: Progress | None = None,
    cache: str | Path | None = None,
) -> Analysis:
    """Analyse every rank under ``path`` and return the report.

    ``rules`` are further rule directories and ``params`` maps rule ids to changed parameters; ``select`` and
    ``ignore`` are rule-id globs; ``ranks`` and ``steps`` keep only these numbers; ``source_root`` entries
    ``OLD=NEW`` map paths of the training machine to local ones, and a plain folder is searched for the ends of them;
    ``progress(done, total)`` counts bytes read; ``cache`` is a folder that keeps the columns for the next run, ``auto``
    the user's own.
    Raises ProfileError when nothing can be analysed, RuleError and ConfigError for wrong rules and options.
    """
    loaded = _rules(rules, params, select, ignore)
    inputs = _Inputs(path, loaded, tuple(source_root), tuple(ranks), tuple(steps), cache)
    session = inputs.read(progress)
    results, roots = session.results, session.roots
    profiles = [profile for profile, _ in results]
    kept, set_aside = split(results, roots)
    give_back()
    priced = price(kept, roots)
    report = Analysis(
        tool=Tool(version=__version__),
        profile=session.facts,
        steps=[
            step
            for number, profile in enumerate(profiles)
            for step in summary.steps(profile, summary.paths_of(number, priced.trusted))
        ],
        facts=[summary.facts(profile) for profile in profiles],
        top_kernels=[kernel for profile in profiles for kernel in summary.top_kernels(profile)],
        replay=priced.replay,
        saving=priced.saving,
        findings=priced.findings,
        suppressed=suppressed(price(set_aside, roots).findings) if set_aside else [],
        # Rules that were left out might blame what looks harmless.
        not_the_cause=[] if select or ignore else summary.not_the_cause(profiles, priced, roots),
        rules=summary.outcomes([outcomes for _, outcomes in results]),
        diagnostics=[remark for profile in profiles for remark in summary.remarks(profile)],
        profiler_call=summary.profiler_call(results),
    )
    report._inputs = inputs
    return report


def whatif(
    path: Paths,
    *edits: str,
    rules: Sequence[str | Path] = (),
    params: Mapping[str, Mapping[str, Any]] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    source_root: Sequence[str] = (),
    ranks: Sequence[int] = (),
    steps: Sequence[int] = (),
    progress: Progress | None = None,
    cache: str | Path | None = None,
) -> WhatIf:
    """What ``edits`` make of the step of every run under ``path``; options as in :func:`analyze`."""
    plans = parse_edits(edits)
    loaded = _rules(rules, params, select, ignore)
    inputs = _Inputs(path, loaded, tuple(source_root), tuple(ranks), tuple(steps), cache)
    return inputs.read(progress).answer(plans)


@dataclass(frozen=True)
class _Session:
    """Profiles with the results of the rules."""

    facts: ProfileFacts
    results: list[tuple[Profile, list[RuleResult]]]
    roots: Roots

    @cached_property
    def runs(self) -> list[Run]:
        return replay_runs([profile for profile, _ in self.results])

    def answer(self, plans: Sequence[EditPlan]) -> WhatIf:
        """The step with ``plans`` applied."""
        return WhatIf(
            tool=Tool(version=__version__),
            profile=self.facts,
            runs=edited(split(self.results, self.roots)[0], self.runs, plans, self.roots),
            diagnostics=[remark for profile, _ in self.results for remark in summary.remarks(profile)],
        )


@dataclass(frozen=True)
class _Inputs:
    """What a session is read from. Equal inputs make equal reports."""

    path: Paths
    rules: list[Rule]
    source_root: tuple[str, ...]
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    cache: str | Path | None

    @cached_property
    def session(self) -> _Session:
        return self.read()

    def read(self, progress: Progress | None = None) -> _Session:
        profiles = load_profiles(self.path, ranks=self.ranks, steps=self.steps, progress=progress, cache=self.cache)
        return _Session(
            facts=ProfileFacts(path=_shown(self.path), ranks=[summary.rank_info(profile) for profile in profiles]),
            results=[(profile, run_rules(self.rules, profile)) for profile in profiles],
            roots=Roots.of(self.source_root),
        )


def _rules(
    dirs: Sequence[str | Path],
    params: Mapping[str, Mapping[str, Any]] | None,
    select: Sequence[str],
    ignore: Sequence[str],
) -> list[Rule]:
    """The rules that are asked for. RuleError when one of them is wrong."""
    loaded = load_rules(dirs=dirs, params=params, select=select, ignore=ignore)
    if problems := lint_rules(loaded, tests=False):
        raise RuleError(problems)
    return loaded


def load_profiles(
    path: Paths,
    *,
    ranks: Sequence[int] = (),
    steps: Sequence[int] = (),
    progress: Progress | None = None,
    cache: str | Path | None = None,
) -> ProfileSet:
    """Every rank found under ``path`` (or only ``ranks``, and only their ``steps``), linked and ready, in rank order.

    ``cache`` is as for :func:`analyze`. A rank that cannot be read is left out and named in the diagnostics of the
    first one that can.
    """
    sources = [source for single in _each(path) for source in locate(Path(single))]
    counter, read = _Bytes(sources, progress), _reader(cache)
    profiles, failures = ProfileSet(), []
    for source in sources:
        try:
            profile = read(source, counter.of(source))
        except ProfileError as error:
            failures.append(error)
            continue
        if not ranks or profile.rank in ranks:
            profiles.append(finish(profile, steps))
    if not profiles:
        raise failures[0] if failures else _no_such_rank(path, ranks)
    if steps and not any(len(profile.table("steps")) for profile in profiles):
        raise ConfigError(say("error.no_such_step", steps=", ".join(map(str, steps))))
    profiles[0].diagnostics.extend(summary.unreadable(failure) for failure in failures)
    profiles.sort(key=lambda profile: profile.rank)
    if chip := os.environ.get(CHIP):
        tell_chip(profiles, chip)
    introduce(profiles)
    return profiles


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
