"""``npu-advisor watch DIR``: analyse profiles as they appear, and write each report beside its profile."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from npu_advisor.base.errors import AdvisorError, ProfileError
from npu_advisor.base.lang import Lang, choose_language
from npu_advisor.base.messages import say
from npu_advisor.cli.analyze import FINE, UNREADABLE, exit_code
from npu_advisor.cli.choices import LANGUAGES, SEVERITIES, choice
from npu_advisor.cli.formats import FORMATS, VIEWED, write
from npu_advisor.cli.notices import error_text
from npu_advisor.cli.output import note
from npu_advisor.report.options import MARK
from npu_advisor.rules.choice import chosen_rules

if TYPE_CHECKING:
    from npu_advisor.readers import RankSource

# Between two looks at the folder; a profile counts as written when nothing changed from one look to the next.
POLL_SECONDS = 1.0
SUFFIXES = {
    "terminal": ".txt",
    "json": ".json",
    "sarif": ".sarif",
    "markdown": ".md",
    "html": ".html",
    "trace": ".trace.json",
}


@dataclass(frozen=True)
class Watch:
    """The options of one watch, as given. ``timeout`` is in seconds, 0 for none."""

    folder: str
    forms: tuple[str, ...] = ("terminal", "json")
    once: bool = False
    timeout: float = 0.0
    lang: str = "auto"
    rules: tuple[str, ...] = ()
    source_root: tuple[str, ...] = ()
    fail_on: str | None = None

    def check(self) -> None:
        """ConfigError for a value that no watch can use."""
        choice("--lang", self.lang, LANGUAGES)
        for form in self.forms:
            choice("--format", form, [kind for kind in FORMATS if kind in SUFFIXES])
        if self.fail_on is not None:
            choice("--fail-on", self.fail_on, SEVERITIES)


@dataclass
class _Seen:
    """What the last look found: files with size and time of each profile, and the ones reported already."""

    before: dict[Path, object] = field(default_factory=dict)
    reported: dict[Path, object] = field(default_factory=dict)

    def settled(self, sources: Sequence[RankSource]) -> tuple[list[RankSource], bool]:
        """The sources that are whole and did not change since the last look, and whether others are being written."""
        from npu_advisor.readers.settled import is_whole, signature

        now = {source.path: signature(source) for source in sources}
        ready, pending = [], False
        for source in sources:
            if self.reported.get(source.path) == now[source.path]:
                continue
            if now[source.path] == self.before.get(source.path) and is_whole(source):
                ready.append(source)
            else:
                pending = True
        self.before = dict(now)
        return ready, pending


def watch(request: Watch, pause: Callable[[float], None] = sleep) -> int:
    """Analyse what appears until interrupted, or (``once``) until everything there has been analysed; the exit code.

    After ``timeout`` seconds it gives up: 3 when nothing could be analysed by then.
    """
    request.check()
    lang = choose_language(request.lang, os.environ)
    seen, until = _Seen(), monotonic() + request.timeout
    worst: int | None = None
    while True:
        ready, pending = seen.settled(_sources(request.folder))
        # Ranks of one recording are read together: what one waits for, another shows.
        if ready and not pending:
            worst = max(worst or FINE, _report(request, ready, lang))
            seen.reported.update({source.path: seen.before[source.path] for source in ready})
            if request.once:
                return worst
        if request.timeout and monotonic() >= until:
            if worst is None:
                note(say("watch.nothing", folder=request.folder, seconds=f"{request.timeout:g}").pick(lang) + "\n")
            return UNREADABLE if worst is None else worst
        pause(POLL_SECONDS)


def _sources(folder: str) -> list[RankSource]:
    from npu_advisor.readers import locate

    try:
        return [source for source in locate(Path(folder)) if MARK not in source.path.name]
    except ProfileError:
        return []  # not there yet, or not parsed yet


def _report(request: Watch, sources: Sequence[RankSource], lang: Lang) -> int:
    """Analyse ``sources`` together and write the reports beside the first; what goes wrong is said, never raised."""
    from npu_advisor.api import analyze
    from npu_advisor.report.line import render_line
    from npu_advisor.report.options import Options

    paths = list(dict.fromkeys(str(source.path) for source in sources))
    try:
        rules = chosen_rules(request.rules)
        report = analyze(
            paths,
            rules=rules.dirs,
            params=rules.params,
            select=rules.select,
            ignore=rules.ignore,
            source_root=(*request.source_root, str(Path.cwd())),
            keep=any(form in VIEWED for form in request.forms),
        )
        written = [str(_beside(sources, form)) for form in request.forms]
        for form, path in zip(request.forms, written, strict=True):
            write(report, form, path, lang, show_all=False, baseline=None)
    except AdvisorError as error:
        note(error_text(error, lang))
        return error.exit_code
    summary = render_line(report, Options(lang=lang, base=str(Path.cwd()))).rstrip("\n")
    print(say("watch.report", summary=summary, files=", ".join(written)).pick(lang), flush=True)
    return exit_code(report, request.fail_on, strict=False)


def _beside(sources: Sequence[RankSource], form: str) -> Path:
    """The report's file: next to the profile, never in its folder."""
    first = sources[0].path
    others = f"+{len(sources) - 1}" if len(sources) > 1 else ""
    name = first.name
    for ending in (".gz", ".json", ".pt.trace"):
        name = name.removesuffix(ending)
    return first.parent / f"{name}{others}{MARK}{SUFFIXES[form]}"
