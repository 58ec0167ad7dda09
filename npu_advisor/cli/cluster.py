"""``npu-advisor cluster``: a job of many ranks, one summary a rank, one report."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.lang import choose_language
from npu_advisor.base.messages import say
from npu_advisor.base.units import format_bytes
from npu_advisor.cli.analyze import exit_code
from npu_advisor.cli.choices import LANGUAGES, SEVERITIES, choice
from npu_advisor.cli.formats import FORMATS, targets, write
from npu_advisor.cli.notices import remarks_text
from npu_advisor.cli.output import note
from npu_advisor.cli.progress import ProgressBar
from npu_advisor.rules.choice import chosen_rules

ENGINES = ("local", "dask")
# Beside the kinds of report: the tables of the job, for other tools.
KINDS = (*FORMATS, "parquet")
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?$")
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True)
class Job:
    """The options of one run, as given."""

    paths: tuple[str, ...]
    summaries: str | None = None
    memory: str = "2GB"
    workers: int | None = None
    engine: str = "local"
    scheduler: str | None = None
    form: str = "terminal"
    outputs: tuple[str, ...] = ()
    lang: str = "auto"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    show_all: bool = False
    fail_on: str | None = None
    strict: bool = False
    quiet: bool = False

    def check(self) -> None:
        """ConfigError for a value that no run can use."""
        choice("--lang", self.lang, LANGUAGES)
        choice("--format", self.form, KINDS)
        choice("--engine", self.engine, ENGINES)
        if self.fail_on is not None:
            choice("--fail-on", self.fail_on, SEVERITIES)
        if not self.paths:
            raise ConfigError(say("error.no_path"), None, say("error.no_path_do"))
        if self.engine == "dask" and not self.scheduler:
            raise ConfigError(say("error.no_scheduler"), None, say("error.no_scheduler_do"))
        if self.engine == "dask" and not self.summaries:
            raise ConfigError(say("error.no_summaries"), None, say("error.no_scheduler_do"))
        if "-" in self.folders():
            raise ConfigError(say("show.parquet_file"), None, say("error.tables_do"))

    def targets(self) -> list[tuple[str, str | None]]:
        """(kind, file) of what to write; None is stdout."""
        return targets(self.form, self.outputs, KINDS)

    def folders(self) -> list[str]:
        """Where the tables of the job go."""
        return [str(path or "-") for form, path in self.targets() if form == "parquet"]


def memory_bytes(text: str) -> int:
    """Bytes of ``2GB``, ``1.5g``, ``800MB`` (powers of 1024). ConfigError for anything else."""
    found = _SIZE.match(text.strip().lower())
    if found is None or float(found[1]) == 0:
        raise ConfigError(say("error.bad_memory", value=text), None, say("error.bad_memory_do"))
    return int(float(found[1]) * 1024 ** _POWER[found[2]])


def run(job: Job) -> int:
    """Analyse and write the report; the exit code, 3 with ``--strict`` where a rank failed."""
    from npu_advisor.cluster.engines import estimated_bytes, fits
    from npu_advisor.cluster.rank import Options
    from npu_advisor.cluster.run import Engine, analyze_cluster
    from npu_advisor.cluster.store import arrow

    job.check()
    arrow()
    lang = choose_language(job.lang, os.environ)
    rules = chosen_rules(job.rules, job.select, job.ignore)
    engine = Engine(memory_bytes(job.memory), job.workers, job.scheduler, job.engine)
    with _summaries(job.summaries) as folder, ProgressBar(lang, job.quiet) as progress:
        options = Options(folder, tuple(map(str, rules.dirs)), rules.params, tuple(rules.select), tuple(rules.ignore))
        report, done = analyze_cluster(job.paths, options, engine, progress, job.folders())
    if not job.quiet:
        note(remarks_text(report.diagnostics, lang))
        largest = max((one.size for one in done if not one.resumed), default=0)
        if job.engine == "local" and not fits(largest, engine.memory):
            need = format_bytes(estimated_bytes(largest))
            note(say("error.too_little_memory", need=need, memory=job.memory).pick(lang) + "\n")
        resumed = sum(one.resumed for one in done)
        failed = sum(remark.severity == "error" for remark in report.diagnostics)
        counts = {"new": len(done) - resumed, "resumed": resumed, "failed": failed}
        note(say("ui.cluster.done", ranks=len(done) + failed, **counts).pick(lang) + "\n")
    for form, path in job.targets():
        if form != "parquet":
            write(report, form, path, lang, show_all=job.show_all, baseline=None)
    return exit_code(report, job.fail_on, job.strict)


@contextmanager
def _summaries(given: str | None) -> Iterator[str]:
    """The folder that was asked for, or one that is gone afterwards."""
    if given is not None:
        yield given
        return
    with TemporaryDirectory(prefix="npu-advisor-") as folder:
        yield folder
