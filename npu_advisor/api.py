"""The public functions: read a path, run the rules, price what they find.

What a report of an earlier run can answer needs none of the layers below, so they are imported where they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import PrivateAttr

from npu_advisor.base.shelf import Shelf
from npu_advisor.findings import Report, WhatIf
from npu_advisor.results import CHIP, Asked, Paths, Results

if TYPE_CHECKING:
    from npu_advisor.compare.sides import Analysed
    from npu_advisor.comparison import Comparison, Verification
    from npu_advisor.engine.listing import Query, Tables
    from npu_advisor.rules.loader import load_rules
    from npu_advisor.session import Session, finish, load_profile, load_profiles
    from npu_advisor.views import TableView, Track, Views

Progress = Callable[[int, int], None]

_HOMES = dict.fromkeys(("finish", "load_profile", "load_profiles"), "npu_advisor.session")
_HOMES["load_rules"] = "npu_advisor.rules.loader"

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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Only(NamedTuple):
    """The ranks and steps (numbers) of a path to look at; all of them where none is named."""

    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


ALL = Only()


@dataclass
class _Origin:
    """What a report was made from; equal ones make equal reports."""

    asked: Asked
    cache: str | Path | None
    kept: Session | None = field(compare=False, repr=False)

    @property
    def session(self) -> Session:
        """The profiles with the results of the rules, read once more unless they were kept."""
        if self.kept is None:
            from npu_advisor.session import read

            self.kept = read(self.asked, self.cache)
        return self.kept


class Analysis(Report):
    """The report on a path, which also answers what-if questions about it."""

    _origin: _Origin = PrivateAttr()

    def whatif(self, *edits: str) -> WhatIf:
        """The step with ``edits`` applied, such as ``scale kernels where type == "MatMulV3" by 0.8``.

        Reports do not hold profiles: the first question reads the path again, later ones are answered at once.
        RuleError for an edit that is wrong, ProfileError when the path cannot be read any more.
        """
        from npu_advisor.engine.editing import parse_edits

        plans = parse_edits(edits)
        return self._origin.session.answer(plans)

    @property
    def views(self) -> Views:
        """Tables, curves and timelines to look at. As for :meth:`whatif`, the first question reads the path again,
        unless ``analyze(..., keep=True)`` kept the profiles."""
        if self._views is None:
            from npu_advisor.engine.views import build_views

            session = self._origin.session
            self._views = build_views(session.results, self.findings, session.priced.trusted)
        return self._views

    @property
    def tracks(self) -> list[Track]:
        """Findings, idle owners, waits and the critical path on the profile's own clock; read again as for views."""
        from npu_advisor.engine.views.overlay import build_overlay

        session = self._origin.session
        return build_overlay(session.results, self.findings, session.priced.trusted)

    @property
    def tables(self) -> Tables:
        """Kernels, operators, memory, steps, communication and timeline as DataFrames; read again as for views."""
        from npu_advisor.engine.listing import Tables

        return Tables([profile for profile, _ in self._origin.session.results])

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
    folder that keeps the columns and the report for the next run, ``auto`` the user's own.
    Raises ProfileError when nothing can be analysed, RuleError and ConfigError for wrong rules and options.
    """
    asked = _asked(rules, params, select, ignore, source_root, fixes).of(path, ranks, steps)
    kept = None if cache is None else Results(Shelf(cache), asked)
    report = None if kept is None else kept.find(Analysis)
    session = None
    if report is None:
        from npu_advisor.engine.sourcefile import watched
        from npu_advisor.session import read

        with watched() as sources:
            session = read(asked, cache, progress)
            report = session.report(Analysis, whole=not (select or ignore), fixes=fixes)
        if kept is not None:
            kept.keep(report, sources)
    report._origin = _Origin(asked, cache, session if keep else None)
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

    asked = _asked(rules, params, select, ignore, source_root)
    sides = _both_sides((base, base_only), (new, new_only), asked, progress)
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

    asked = _asked(rules, params, select, ignore, source_root)
    sides = _both_sides((base, base_only), (new, new_only), asked, progress)
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
    from npu_advisor.engine.editing import parse_edits
    from npu_advisor.session import read

    plans = parse_edits(edits)
    asked = _asked(rules, params, select, ignore, source_root).of(path, ranks, steps)
    return read(asked, cache, progress).answer(plans)


def listing(
    path: Paths,
    query: Query,
    *,
    ranks: Sequence[int] = (),
    steps: Sequence[int] = (),
    progress: Progress | None = None,
) -> TableView:
    """What ``query`` asks of every rank under ``path``. ConfigError and RuleError for a wrong query."""
    from npu_advisor.engine.listing import checked, listed
    from npu_advisor.engine.views.tables import table_view
    from npu_advisor.session import load_profiles

    checked(query)
    found = listed(load_profiles(path, ranks=ranks, steps=steps, progress=progress), query)
    whole = table_view(query.what, found.frame, found.units, limit=None)
    return replace(whole, total=found.total)


def _both_sides(
    base: tuple[Paths, Only], new: tuple[Paths, Only], asked: Asked, progress: Progress | None
) -> tuple[Analysed, Analysed]:
    """Both sides read and analysed."""
    from npu_advisor.compare.sides import Analysed
    from npu_advisor.session import read

    made = []
    for path, only in (base, new):
        session = read(asked.of(path, only.ranks, only.steps), None, progress)
        made.append(Analysed(session.report(Report, whole=False, fixes=False), session.results, session.roots))
    return made[0], made[1]


def _asked(
    rules: Sequence[str | Path],
    params: Mapping[str, Mapping[str, Any]] | None,
    select: Sequence[str],
    ignore: Sequence[str],
    source_root: Sequence[str],
    fixes: bool = True,
) -> Asked:
    """What is asked of any path."""
    return Asked(
        rules=tuple(map(str, rules)),
        params=params or {},
        select=tuple(select),
        ignore=tuple(ignore),
        source_root=tuple(source_root),
        fixes=fixes,
        chip=os.environ.get(CHIP),
    )
