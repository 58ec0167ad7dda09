"""The public functions: read a path, run the rules, price what they find."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from pydantic import PrivateAttr

from npu_advisor import __version__
from npu_advisor.base.errors import ConfigError, ProfileError, RuleError
from npu_advisor.base.heap import give_back
from npu_advisor.base.messages import say
from npu_advisor.derive import derive, introduce, tell_chip
from npu_advisor.derive.world import as_ranges, missing_ranks, world_size
from npu_advisor.engine import summary
from npu_advisor.engine.editing import EditPlan, parse_edits
from npu_advisor.engine.lines import line_costs
from npu_advisor.engine.lint import lint_rules
from npu_advisor.engine.listing import LISTINGS, ROWS, Query, checked, listed
from npu_advisor.engine.patches import with_fixes
from npu_advisor.engine.places import Roots
from npu_advisor.engine.pricing import Priced, price
from npu_advisor.engine.run import RuleResult, run_rules
from npu_advisor.engine.savings import Run, replay_runs
from npu_advisor.engine.suppress import Results, split, suppressed
from npu_advisor.engine.whatif import edited
from npu_advisor.findings import ProfileFacts, Report, Tool, WhatIf
from npu_advisor.graph.links import link
from npu_advisor.graph.steps import keep_steps
from npu_advisor.model.profile import Diagnostic, Profile, ProfileSet
from npu_advisor.readers import RankSource, locate, read_rank
from npu_advisor.rules.loader import load_rules
from npu_advisor.rules.spec import Rule

# What a plain report does without is imported where it is needed: each costs some ten milliseconds of every start.
if TYPE_CHECKING:
    from npu_advisor.compare.sides import Analysed
    from npu_advisor.comparison import Comparison, Verification
    from npu_advisor.views import TableView, Track, Views

Paths = str | Path | Sequence[str | Path]
Progress = Callable[[int, int], None]

# Names the chip where the recording does not, as Ascend910B2.
CHIP = "NPU_ADVISOR_CHIP"

# Rules of this category judge a whole job by the summaries of its ranks, all others one rank.
JOB = "job"

__all__ = [
    "Analysis",
    "Only",
    "analyze",
    "compare",
    "finish",
    "listing",
    "load_profile",
    "load_profiles",
    "load_rules",
    "recorded",
    "verify",
    "whatif",
]


class Only(NamedTuple):
    """The ranks and steps (numbers) of a path to look at; all of them where none is named."""

    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


ALL = Only()


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

    @property
    def views(self) -> Views:
        """Tables, curves and timelines to look at. As for :meth:`whatif`, the first question reads the path again,
        unless ``analyze(..., keep=True)`` kept the profiles."""
        if self._views is None:
            from npu_advisor.engine.views import build_views

            session = self._inputs.session
            self._views = build_views(session.results, self.findings, session.priced.trusted)
        return self._views

    @property
    def tracks(self) -> list[Track]:
        """Findings, idle owners, waits and the critical path on the profile's own clock; read again as for views."""
        from npu_advisor.engine.views.overlay import build_overlay

        session = self._inputs.session
        return build_overlay(session.results, self.findings, session.priced.trusted)

    @property
    def tables(self) -> Tables:
        """Kernels, operators, memory, steps, communication and timeline as DataFrames; read again as for views."""
        return Tables([profile for profile, _ in self._inputs.session.results])

    def _repr_html_(self) -> str:
        """The HTML report inside a notebook, in a frame of its own that cannot reach the notebook."""
        from npu_advisor.report.html import render_html
        from npu_advisor.report.options import Options

        page = escape(render_html(self, Options(base=str(Path.cwd()))), quote=True)
        return f'<iframe sandbox="allow-scripts" width="100%" height="900" srcdoc="{page}"></iframe>'


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
    keep: bool = False,
    progress: Progress | None = None,
    fixes: bool = True,
    cache: str | Path | None = None,
) -> Analysis:
    """Analyse every rank under ``path`` and return the report.

    ``rules`` are further rule directories and ``params`` maps rule ids to changed parameters; ``select`` and
    ``ignore`` are rule-id globs; ``ranks`` and ``steps`` keep only these numbers; ``source_root`` entries
    ``OLD=NEW`` map paths of the training machine to local ones, and a plain folder is searched for the ends of them;
    ``keep`` holds on to the profiles, so that what the report answers later is not read again;
    ``progress(done, total)`` counts bytes read; without ``fixes`` no change to the code is worked out; ``cache`` is a
    folder that keeps the columns for the next run, ``auto`` the user's own.
    Raises ProfileError when nothing can be analysed, RuleError and ConfigError for wrong rules and options.
    """
    loaded = rank_rules(rules, params, select, ignore)
    inputs = _Inputs(path, loaded, tuple(source_root), tuple(ranks), tuple(steps), cache)
    session = inputs.read(progress)
    if keep:
        inputs.kept = session
    return _report(inputs, session, whole=not (select or ignore), fixes=fixes)


def _report(inputs: _Inputs, session: _Session, *, whole: bool, fixes: bool) -> Analysis:
    """The report on what was read; ``whole`` when no rule was left out, ``fixes`` to look for changes to the code."""
    results, roots = session.results, session.roots
    profiles = [profile for profile, _ in results]
    set_aside, priced = session.parted[1], session.priced
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
        lines=line_costs(profiles, roots),
        replay=priced.replay,
        saving=priced.saving,
        findings=with_fixes(priced.findings) if fixes else priced.findings,
        suppressed=suppressed(price(set_aside, roots, session.runs).findings) if set_aside else [],
        # Rules that were left out might blame what looks harmless.
        not_the_cause=summary.not_the_cause(profiles, priced, roots) if whole else [],
        rules=summary.outcomes([outcomes for _, outcomes in results]),
        diagnostics=[remark for profile in profiles for remark in summary.remarks(profile)],
        profiler_call=summary.profiler_call(results),
    )
    report._inputs = inputs
    return report


def compare(
    base: Paths,
    new: Paths,
    *,
    rules: Sequence[str | Path] = (),
    params: Mapping[str, Mapping[str, Any]] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    source_root: Sequence[str] = (),
    base_only: Only = ALL,
    new_only: Only = ALL,
    progress: Progress | None = None,
) -> Comparison:
    """What changed from ``base`` to ``new``, whatever form and device each is of; other options as in :func:`analyze`.

    ``base_only`` and ``new_only`` keep some ranks and steps of a side, so that ranks or steps of one profile can be
    compared. Several profiles of one rank under a path are runs of it: their steps together are the side's sample.
    """
    from npu_advisor.compare.sides import compare as compare_sides

    loaded = rank_rules(rules, params, select, ignore)
    sides = _both_sides(base, new, loaded, tuple(source_root), (base_only, new_only), progress)
    return compare_sides(*sides)


def verify(
    base: Paths,
    new: Paths,
    *,
    rules: Sequence[str | Path] = (),
    params: Mapping[str, Mapping[str, Any]] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    source_root: Sequence[str] = (),
    base_only: Only = ALL,
    new_only: Only = ALL,
    progress: Progress | None = None,
) -> Verification:
    """What was fixed between ``base`` and ``new``: the saving that was predicted, and the one that came; options as in
    :func:`compare`."""
    from npu_advisor.compare.verify import verify as verify_sides

    loaded = rank_rules(rules, params, select, ignore)
    sides = _both_sides(base, new, loaded, tuple(source_root), (base_only, new_only), progress)
    return verify_sides(*sides)


def recorded(found: Verification, ledger: str | Path) -> Verification:
    """``found`` appended to the ledger file, with the accuracy of everything that the file holds then."""
    from npu_advisor.compare.verify import accuracy, append

    return found.model_copy(update={"record": accuracy(append(Path(ledger), found.verified))})


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
    loaded = rank_rules(rules, params, select, ignore)
    inputs = _Inputs(path, loaded, tuple(source_root), tuple(ranks), tuple(steps), cache)
    return inputs.read(progress).answer(plans)


def listing(
    path: Paths,
    query: Query,
    *,
    ranks: Sequence[int] = (),
    steps: Sequence[int] = (),
    progress: Progress | None = None,
) -> TableView:
    """What ``query`` asks of every rank under ``path``. ConfigError and RuleError for a wrong query."""
    checked(query)
    found = listed(load_profiles(path, ranks=ranks, steps=steps, progress=progress), query)
    from npu_advisor.engine.views.tables import table_view

    whole = table_view(query.what, found.frame, found.units, limit=None)
    return replace(whole, total=found.total)


class Tables(Mapping[str, pd.DataFrame]):
    """The listings of a run as DataFrames, every row of them: ``report.tables["kernels"]``."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._profiles = profiles

    def __getitem__(self, name: str) -> pd.DataFrame:
        """One row per event; KeyError for a name that is none of ``LISTINGS``, ProfileError when not recorded."""
        if name not in LISTINGS:
            raise KeyError(name)
        return listed(self._profiles, Query(name, by=(ROWS,))).frame

    def __iter__(self) -> Iterator[str]:
        return iter(LISTINGS)

    def __len__(self) -> int:
        return len(LISTINGS)


@dataclass(frozen=True)
class _Session:
    """Profiles with the results of the rules."""

    facts: ProfileFacts
    results: list[tuple[Profile, list[RuleResult]]]
    roots: Roots

    @cached_property
    def runs(self) -> list[Run]:
        return replay_runs([profile for profile, _ in self.results])

    @cached_property
    def parted(self) -> tuple[Results, Results]:
        """The results that count, and those that a comment in the code leaves out."""
        return split(self.results, self.roots)

    @cached_property
    def priced(self) -> Priced:
        kept = self.parted[0]
        give_back()
        return price(kept, self.roots, self.runs)

    def answer(self, plans: Sequence[EditPlan]) -> WhatIf:
        """The step with ``plans`` applied."""
        return WhatIf(
            tool=Tool(version=__version__),
            profile=self.facts,
            runs=edited(self.parted[0], self.runs, plans, self.roots),
            diagnostics=[remark for profile, _ in self.results for remark in summary.remarks(profile)],
        )


@dataclass
class _Inputs:
    """What a session is read from. Equal inputs make equal reports."""

    path: Paths
    rules: list[Rule]
    source_root: tuple[str, ...]
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    cache: str | Path | None = None
    kept: _Session | None = field(default=None, compare=False, repr=False)

    @property
    def session(self) -> _Session:
        self.kept = self.kept or self.read()
        return self.kept

    def read(self, progress: Progress | None = None) -> _Session:
        profiles = load_profiles(self.path, ranks=self.ranks, steps=self.steps, progress=progress, cache=self.cache)
        return _Session(
            facts=ProfileFacts(path=_shown(self.path), ranks=[summary.rank_info(profile) for profile in profiles]),
            results=[(profile, run_rules(self.rules, profile)) for profile in profiles],
            roots=Roots.of(self.source_root),
        )


def _both_sides(
    base: Paths,
    new: Paths,
    rules: list[Rule],
    source_root: tuple[str, ...],
    only: tuple[Only, Only],
    progress: Progress | None,
) -> tuple[Analysed, Analysed]:
    """Both sides read and analysed."""
    from npu_advisor.compare.sides import Analysed

    made = []
    for path, kept in zip((base, new), only, strict=True):
        inputs = _Inputs(path, rules, source_root, kept.ranks, kept.steps)
        session = inputs.read(progress)
        made.append(Analysed(_report(inputs, session, whole=False, fixes=False), session.results, session.roots))
    return made[0], made[1]


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


def rank_rules(
    dirs: Sequence[str | Path],
    params: Mapping[str, Mapping[str, Any]] | None,
    select: Sequence[str],
    ignore: Sequence[str],
) -> list[Rule]:
    """The rules on single ranks that are asked for. RuleError when any rule is wrong."""
    return [rule for rule in _rules(dirs, params, select, ignore) if rule.category != JOB]


def job_rules(
    dirs: Sequence[str | Path],
    params: Mapping[str, Mapping[str, Any]] | None,
    select: Sequence[str],
    ignore: Sequence[str],
) -> list[Rule]:
    """The rules on whole jobs that are asked for. RuleError when any rule is wrong."""
    return [rule for rule in _rules(dirs, params, select, ignore) if rule.category == JOB]


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
