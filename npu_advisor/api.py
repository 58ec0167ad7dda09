"""The public functions: read a path, run the rules, price what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from npu_advisor import __version__
from npu_advisor.base.errors import ConfigError, ProfileError, RuleError
from npu_advisor.base.messages import say
from npu_advisor.derive import derive, introduce
from npu_advisor.engine import summary
from npu_advisor.engine.lint import lint_rules
from npu_advisor.engine.places import Roots
from npu_advisor.engine.pricing import price
from npu_advisor.engine.run import run_rules
from npu_advisor.engine.suppress import split, suppressed
from npu_advisor.findings import ProfileFacts, Report, Tool
from npu_advisor.graph.links import link
from npu_advisor.graph.steps import keep_steps
from npu_advisor.model.profile import Profile, ProfileSet
from npu_advisor.readers import RankSource, locate, read_rank
from npu_advisor.rules.loader import load_rules

Paths = str | Path | Sequence[str | Path]
Progress = Callable[[int, int], None]

__all__ = ["analyze", "finish", "load_profile", "load_profiles", "load_rules"]


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
) -> Report:
    """Analyse every rank under ``path`` and return the report.

    ``rules`` are further rule directories and ``params`` maps rule ids to changed parameters; ``select`` and
    ``ignore`` are rule-id globs; ``ranks`` and ``steps`` keep only these numbers; ``source_root`` entries
    ``OLD=NEW`` map paths of the training machine to local ones, and a plain folder is searched for the ends of them;
    ``progress(done, total)`` counts bytes read.
    Raises ProfileError when nothing can be analysed, RuleError and ConfigError for wrong rules and options.
    """
    loaded = load_rules(dirs=rules, params=params, select=select, ignore=ignore)
    if problems := lint_rules(loaded, tests=False):
        raise RuleError(problems)
    profiles = load_profiles(path, ranks=ranks, steps=steps, progress=progress)
    results = [(profile, run_rules(loaded, profile)) for profile in profiles]
    roots = Roots.of(source_root)
    kept, set_aside = split(results, roots)
    priced = price(kept, roots)
    return Report(
        tool=Tool(version=__version__),
        profile=ProfileFacts(path=_shown(path), ranks=[summary.rank_info(profile) for profile in profiles]),
        steps=[step for profile in profiles for step in summary.steps(profile)],
        facts=[summary.facts(profile) for profile in profiles],
        top_kernels=[kernel for profile in profiles for kernel in summary.top_kernels(profile)],
        replay=priced.replay,
        saving=priced.saving,
        findings=priced.findings,
        suppressed=suppressed(price(set_aside, roots).findings) if set_aside else [],
        not_the_cause=[
            # Rules that were left out might blame what looks harmless.
            item
            for profile in ([] if select or ignore else profiles)
            for item in summary.not_the_cause(profile, roots, priced.findings)
        ],
        rules=summary.outcomes([outcomes for _, outcomes in results]),
        diagnostics=[remark for profile in profiles for remark in summary.remarks(profile)],
        profiler_call=summary.profiler_call(results),
    )


def load_profiles(
    path: Paths, *, ranks: Sequence[int] = (), steps: Sequence[int] = (), progress: Progress | None = None
) -> ProfileSet:
    """Every rank found under ``path`` (or only ``ranks``, and only their ``steps``), linked and ready, in rank order.

    A rank that cannot be read is left out and named in the diagnostics of the first one that can.
    """
    sources = [source for single in _each(path) for source in locate(Path(single))]
    counter = _Bytes(sources, progress)
    profiles, failures = ProfileSet(), []
    for source in sources:
        try:
            profile = read_rank(source, counter.of(source))
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
    introduce(profiles)
    return profiles


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
