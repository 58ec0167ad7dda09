"""``npu-advisor compare`` and ``verify``: two profiles side by side, and predictions against what came."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from npu_advisor.base.lang import Lang, choose_language
from npu_advisor.cli.choices import LANGUAGES, choice
from npu_advisor.cli.notices import remarks_text
from npu_advisor.cli.output import can_show_glyphs, note, use_color, width_of, write_report
from npu_advisor.cli.progress import ProgressBar
from npu_advisor.comparison import Comparison, Verification
from npu_advisor.report.options import Options
from npu_advisor.rules.choice import chosen_rules

FORMATS = ("terminal", "html", "json", "markdown")
VERIFY_FORMATS = ("terminal", "json")
Found = TypeVar("Found", Comparison, Verification)


class CompareSide(NamedTuple):
    """A path, and the ranks and steps of it that are asked for (none named: all)."""

    path: str
    ranks: tuple[int, ...]
    steps: tuple[int, ...]


class RuleOptions(NamedTuple):
    """Which rules run, and where recorded paths lie on this machine."""

    rules: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    source_root: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """How and where the answer is written."""

    form: str = "terminal"
    outputs: tuple[str, ...] = ()
    lang: str = "auto"
    show_all: bool = False
    quiet: bool = False

    def language(self) -> Lang:
        """The language to write in; ConfigError for an unknown one."""
        return choose_language(choice("--lang", self.lang, LANGUAGES), os.environ)

    def targets(self) -> list[tuple[str, str | None]]:
        """What is written where: (kind, file), a None file being stdout."""
        named = [self._target(output) for output in self.outputs]
        replaced = any(path == output for output, (_, path) in zip(self.outputs, named, strict=True))
        return named if replaced else [(self.form, None), *named]

    def _target(self, output: str) -> tuple[str, str | None]:
        kind, equals, path = output.partition("=")
        return (kind, path) if equals and kind in FORMATS else (self.form, output)


Sides = tuple[CompareSide, CompareSide]


def compare(sides: Sides, shown: Shown, rules: RuleOptions) -> int:
    """Compare and write; 0."""
    choice("--format", shown.form, FORMATS)
    from npu_advisor.api import compare as run

    _write(_asked(run, sides, shown, rules), shown)
    return 0


def verify(sides: Sides, shown: Shown, rules: RuleOptions, ledger: str | None) -> int:
    """Compare predictions with what came, write, and keep the record; 0."""
    choice("--format", shown.form, VERIFY_FORMATS)
    from npu_advisor.api import recorded
    from npu_advisor.api import verify as run

    found = _asked(run, sides, shown, rules)
    _write(recorded(found, ledger) if ledger is not None else found, shown)
    return 0


def _asked(run: Callable[..., Found], sides: Sides, shown: Shown, rules: RuleOptions) -> Found:
    """What ``run`` (compare or verify of the API) finds between the two sides."""
    from npu_advisor.api import Only

    chosen = chosen_rules(rules.rules, rules.select, rules.ignore)
    base, new = sides
    with ProgressBar(shown.language(), shown.quiet) as progress:
        return run(
            base.path,
            new.path,
            rules=chosen.dirs,
            params=chosen.params,
            select=chosen.select,
            ignore=chosen.ignore,
            source_root=(*rules.source_root, str(Path.cwd())),
            base_only=Only(base.ranks, base.steps),
            new_only=Only(new.ranks, new.steps),
            progress=progress,
        )


def _write(found: Comparison | Verification, shown: Shown) -> None:
    lang = shown.language()
    if not shown.quiet:
        note(remarks_text(found.diagnostics, lang))
    for form, path in shown.targets():
        write_report(_rendered(found, form, _options(path, shown, lang)), path, utf8=form in ("html", "json"))


def _options(path: str | None, shown: Shown, lang: Lang) -> Options:
    stream = sys.stdout if path in (None, "-") else None
    return Options(
        lang=lang,
        width=width_of(stream),
        color=use_color(stream, os.environ),
        utf8=can_show_glyphs(stream),
        show_all=shown.show_all,
        base=str(Path.cwd()),
    )


def _rendered(found: Comparison | Verification, form: str, options: Options) -> str:
    if form == "json":
        from npu_advisor.report.json import render_comparison as render_json

        return render_json(found)
    if isinstance(found, Verification):
        from npu_advisor.report.verification import render_verification

        return render_verification(found, options)
    if form == "html":
        from npu_advisor.report.html.comparison import render_comparison as render_page

        return render_page(found, options)
    if form == "markdown":
        from npu_advisor.report.comparison_markdown import render_markdown

        return render_markdown(found, options)
    from npu_advisor.report.comparison import render_comparison

    return render_comparison(found, options)
