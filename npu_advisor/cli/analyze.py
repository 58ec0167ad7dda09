"""The main command: analyse, render, write, and say by the exit code how it went."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import npu_advisor
from npu_advisor.base.errors import ConfigError, ProfileError
from npu_advisor.base.lang import Lang, choose_language
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Severity
from npu_advisor.budgets import check, violated
from npu_advisor.cli.budget import chosen_budgets
from npu_advisor.cli.choices import LANGUAGES, SEVERITIES, choice
from npu_advisor.cli.formats import DATA, FORMATS, VIEWED, targets, write
from npu_advisor.cli.merge import traces_of
from npu_advisor.cli.notices import error_text, remarks_text
from npu_advisor.cli.output import note
from npu_advisor.cli.progress import ProgressBar
from npu_advisor.findings import ProfileFacts, Remark, Report, Tool
from npu_advisor.report.damage import is_damaged
from npu_advisor.rules.choice import chosen_rules

FINE, FOUND, BAD_RULE, UNREADABLE = 0, 1, 2, 3


@dataclass(frozen=True)
class Request:
    """The options of one run, as given."""

    paths: tuple[str, ...]
    form: str = "terminal"
    outputs: tuple[str, ...] = ()
    lang: str = "auto"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    source_root: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    show_all: bool = False
    fail_on: str | None = None
    baseline: str | None = None
    budget: str | None = None
    strict: bool = False
    parse: bool = False
    merge: bool = False
    cache: str | None = None
    quiet: bool = False

    def check(self) -> None:
        """ConfigError for a value that no run can use."""
        choice("--lang", self.lang, LANGUAGES)
        choice("--format", self.form, FORMATS)
        if self.fail_on is not None:
            choice("--fail-on", self.fail_on, SEVERITIES)
        if not self.paths:
            raise ConfigError(say("error.no_path"), None, say("error.no_path_do"))
        if self.merge and not any(form == "trace" and path for form, path in targets(self.form, self.outputs)):
            raise ConfigError(say("trace.merge_what"), None, say("trace.merge_what_do"))
        for root in self.source_root:
            old, equals, new = root.partition("=")
            if not old or bool(equals) != bool(new):
                raise ConfigError(say("error.bad_source_root", value=root), None, say("error.bad_source_root_do"))


def run(request: Request) -> int:
    """Analyse and write the report; the exit code."""
    request.check()
    lang = choose_language(request.lang, os.environ)
    baseline = read_baseline(request.baseline) if request.baseline else None
    budgets = chosen_budgets(request.budget)
    traces = traces_of(request.paths, request.ranks) if request.merge else None
    try:
        report = _analyzed(request, lang)
    except ProfileError as error:
        _refuse(request, error, lang)
        return error.exit_code
    if not request.quiet:
        note(remarks_text(report.diagnostics, lang))
    if _is_empty(report):
        _refuse(
            request,
            ProfileError(report.profile.path, say("error.nothing_recorded", path=report.profile.path)),
            lang,
            report,
        )
        return UNREADABLE
    report = report.model_copy(update={"budgets": check(budgets, report, baseline)})
    for form, path in targets(request.form, request.outputs):
        write(report, form, path, lang, show_all=request.show_all, baseline=baseline, merge_with=traces)
    return exit_code(report, request.fail_on, request.strict)


def _analyzed(request: Request, lang: Lang) -> Report:
    rules = chosen_rules(request.rules, request.select, request.ignore)
    if request.parse:
        from npu_advisor.readers import parse_raw

        for path in request.paths:
            parse_raw(Path(path))
    with ProgressBar(lang, request.quiet) as progress:
        from npu_advisor.api import analyze

        return analyze(
            request.paths[0] if len(request.paths) == 1 else list(request.paths),
            rules=rules.dirs,
            params=rules.params,
            select=rules.select,
            ignore=rules.ignore,
            # The working directory is where people keep the script that they profiled.
            source_root=(*request.source_root, str(Path.cwd())),
            ranks=request.ranks,
            steps=request.steps,
            keep=any(form in VIEWED for form, _ in targets(request.form, request.outputs)),
            progress=progress,
            cache=request.cache,
        )


def _is_empty(report: Report) -> bool:
    """True when files were read but hold nothing that any rule or ledger could use."""
    counts = [
        (fact.host_ops, fact.kernels, fact.enqueues, fact.dequeues, fact.peak_allocated_bytes, fact.peak_reserved_bytes)
        for fact in report.facts
    ]
    return not report.steps and not any(any(count) for count in counts)


def _refuse(request: Request, error: ProfileError, lang: Lang, report: Report | None = None) -> None:
    """Say why there is nothing to report; reports for programs are written all the same."""
    note(error_text(error, lang))
    if report is None:
        remark = Remark(code=error.code, severity="error", file=error.path, message=error.what)
        report = Report(
            tool=Tool(version=npu_advisor.__version__),
            profile=ProfileFacts(path=", ".join(request.paths), ranks=[]),
            diagnostics=[remark],
        )
    for form, path in targets(request.form, request.outputs):
        if form in DATA:
            write(report, form, path, lang, show_all=request.show_all, baseline=None)


def read_baseline(path: str) -> Report:
    """The report in the JSON file ``path``; ConfigError when it holds none."""
    from npu_advisor.report.json import load_report

    try:
        return load_report(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else say("error.no_report").en
        raise ConfigError(
            say("error.bad_baseline", path=path, reason=reason), None, say("error.bad_baseline_do")
        ) from error


def exit_code(report: Report, fail_on: str | None, strict: bool) -> int:
    """0 fine; with ``strict`` 3 when part could not be read and 2 when a rule failed; 1 for a violated budget
    and from ``fail_on`` upwards."""
    if strict and is_damaged(report):
        return UNREADABLE
    if strict and any(rule.outcome == "failed" for rule in report.rules):
        return BAD_RULE
    worst = report.worst()
    if violated(report.budgets):
        return FOUND
    if fail_on is not None and worst is not None and worst.order <= Severity(fail_on).order:
        return FOUND
    return FINE
