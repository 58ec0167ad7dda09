"""``npu-advisor whatif``: re-time a step with edits applied."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from npu_advisor.base.errors import ConfigError, ProfileError
from npu_advisor.base.lang import Lang, choose_language
from npu_advisor.base.messages import say
from npu_advisor.cli.choices import LANGUAGES, choice
from npu_advisor.cli.notices import remarks_text
from npu_advisor.cli.output import can_show_glyphs, note, use_color, width_of, write_report
from npu_advisor.cli.progress import ProgressBar
from npu_advisor.findings import WhatIf
from npu_advisor.rules.choice import chosen_rules

FORMATS = ("terminal", "json")


@dataclass(frozen=True)
class Question:
    """The options of one run, as given."""

    paths: tuple[str, ...]
    edits: tuple[str, ...]
    form: str = "terminal"
    output: str | None = None
    lang: str = "auto"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    show_all: bool = False
    cache: str | None = None
    quiet: bool = False

    def check(self) -> None:
        """ConfigError for a value that no run can use."""
        choice("--lang", self.lang, LANGUAGES)
        choice("--format", self.form, FORMATS)
        if not self.paths:
            raise ConfigError(say("error.no_path"), None, say("error.no_path_do"))
        if not self.edits:
            raise ConfigError(say("whatif.no_edit"), None, say("whatif.no_edit_do"))


def run(question: Question) -> int:
    """Answer and write; 0, or as for an unreadable profile when the replay of no rank can be believed."""
    from npu_advisor.api import whatif

    question.check()
    lang = choose_language(question.lang, os.environ)
    rules = chosen_rules(question.rules, question.select, question.ignore)
    with ProgressBar(lang, question.quiet) as progress:
        answer = whatif(
            question.paths[0] if len(question.paths) == 1 else list(question.paths),
            *question.edits,
            rules=rules.dirs,
            params=rules.params,
            select=rules.select,
            ignore=rules.ignore,
            ranks=question.ranks,
            steps=question.steps,
            progress=progress,
            cache=question.cache,
        )
    if not question.quiet:
        note(remarks_text(answer.diagnostics, lang))
    _write(question, answer, lang)
    return 0 if answer.believed else ProfileError.exit_code


def _write(question: Question, answer: WhatIf, lang: Lang) -> None:
    if question.form == "json":
        from npu_advisor.report.json import render_whatif as render_json

        write_report(render_json(answer), question.output, utf8=True)
        return
    from npu_advisor.report.options import Options
    from npu_advisor.report.whatif import render_whatif

    stream = sys.stdout if question.output in (None, "-") else None
    options = Options(
        lang=lang,
        width=width_of(stream),
        color=use_color(stream, os.environ),
        utf8=can_show_glyphs(stream),
        show_all=question.show_all,
        base=str(Path.cwd()),
    )
    write_report(render_whatif(answer, options), question.output)
