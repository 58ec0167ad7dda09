"""``npu-advisor cluster``: ranks to summaries, summaries to one report on the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npu_advisor import __version__
from npu_advisor.base.errors import ProfileError
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.cluster.engines import run_dask, run_local
from npu_advisor.cluster.export import write_tables
from npu_advisor.cluster.job import job_profile
from npu_advisor.cluster.rank import Done, Failed, Options, Task
from npu_advisor.cluster.store import Store
from npu_advisor.cluster.tasks import find_tasks
from npu_advisor.engine import summary
from npu_advisor.engine.places import Roots
from npu_advisor.engine.pricing import price
from npu_advisor.engine.run import run_rules
from npu_advisor.findings import Finding, ProfileFacts, RankFacts, RankInfo, Remark, Report, Step, Tool
from npu_advisor.model.profile import Profile
from npu_advisor.session import job_rules, partial

# Of the findings inside single ranks, the best go into the report on the job; each names every rank that has it.
SHOWN_FINDINGS = 10
# Ranks whose steps the report lists in full; the others are in the summaries.
SHOWN_RANKS = 16

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Engine:
    """Where and within which bounds to work; ``scheduler`` is an address of dask, None for this machine."""

    memory: int
    workers: int | None = None
    scheduler: str | None = None
    name: str = "local"


def analyze_cluster(
    paths: Sequence[str],
    options: Options,
    engine: Engine,
    progress: Progress | None = None,
    tables: Sequence[str] = (),
) -> tuple[Report, list[Done]]:
    """The report on the job under ``paths`` and what was done for each rank; its tables go to the places ``tables``.

    Ranks whose summary is there already (same files, version, rules and options) are not read again. ProfileError when
    no rank gave anything.
    """
    store = Store(options.summaries)
    tasks, failed = find_tasks(paths, options)
    ready = [task for task in tasks if store.has(task.name)]
    todo = [task for task in tasks if not store.has(task.name)]
    done = [Done(task.name, -1, task.size, resumed=True) for task in ready]
    total, finished = sum(task.size for task in tasks), sum(task.size for task in ready)
    for result in _results(todo, options, engine):
        if isinstance(result, Failed):
            failed.append(result)
        else:
            done.append(result)
            finished += result.size
        if progress is not None:
            progress(finished, total)
    if not done:
        first = failed[0]
        raise ProfileError(first.path, first.reason, code=first.code)
    return job_report(store, [one.name for one in done], failed, " ".join(paths), options, tables), done


def _results(tasks: Sequence[Task], options: Options, engine: Engine) -> Iterable[Done | Failed]:
    if engine.name == "dask":
        return run_dask(tasks, options, engine.scheduler)
    return run_local(tasks, options, engine.memory, engine.workers)


def job_report(
    store: Store,
    names: Sequence[str],
    failed: Sequence[Failed],
    path: str,
    options: Options,
    tables: Sequence[str] = (),
) -> Report:
    """The report on the summaries ``names``; the same for any order of these."""
    inside = Inside()
    metas, summaries = store.load(names, inside.add)
    profile = job_profile(metas, summaries)
    for place in tables:
        write_tables(profile, place)
    findings, outcomes = judged(profile, options)
    shown = [store.document(meta["name"]) for meta in _worth_showing(metas, findings)]
    return Report(
        tool=Tool(version=__version__),
        profile=ProfileFacts(path=path, ranks=[RankInfo(**meta["info"]) for meta in metas]),
        steps=[Step(**step) for document in shown for step in document["steps"]],
        facts=[RankFacts(**document["facts"]) for document in shown],
        findings=[*findings, *inside.findings()],
        rules=outcomes,
        diagnostics=[*_failures(failed), *_partial(profile), *_repeated(names, metas), *inside.remarks()],
    )


def _repeated(names: Sequence[str], metas: Sequence[Mapping[str, Any]]) -> list[Remark]:
    """That some ranks were recorded more than once, of which the last counts."""
    if len(names) == len(metas):
        return []
    message = say("diag.ranks_repeated", files=len(names), ranks=len(metas))
    return [Remark(code="ranks_repeated", severity="warning", file="", message=message)]


def judged(profile: Profile, options: Options) -> tuple[list[Finding], list[Any]]:
    """The findings on a job and what became of each rule."""
    rules = job_rules(options.rules, options.params, options.select, options.ignore)
    results = run_rules(rules, profile)
    return price([(profile, results)], Roots()).findings, summary.outcomes([results])


class Inside:
    """What was found inside single ranks, rank by rank: the same finding of several ranks is one, with the saving of
    each, and a remark on the input that is true of several is one. The order of the ranks does not matter."""

    def __init__(self) -> None:
        self._best: dict[str, tuple[float, int, dict[str, Any]]] = {}
        self._savings: dict[str, dict[int, float]] = {}
        self._remarks: dict[str, tuple[int, dict[str, Any]]] = {}

    def add(self, meta: Mapping[str, Any], document: Mapping[str, Any]) -> None:
        """Take in the document of one rank."""
        rank = int(meta["rank"])
        for found in document["findings"]:
            key, us = found["fingerprint"], float((found["saving"] or {}).get("us_per_step", 0.0))
            self._savings.setdefault(key, {})[rank] = us
            if key not in self._best or (-us, rank) < self._best[key][:2]:
                self._best[key] = (-us, rank, found)
        for remark in document["remarks"]:
            key = repr((remark["code"], remark["message"]))
            if key not in self._remarks or rank < self._remarks[key][0]:
                self._remarks[key] = (rank, remark)

    def findings(self) -> list[Finding]:
        """The best SHOWN_FINDINGS."""
        made = []
        for key, (_, _, found) in self._best.items():
            by_rank = {str(rank): us for rank, us in sorted(self._savings[key].items())}
            made.append(Finding(**{**found, "saving_by_rank": by_rank}))
        made.sort(key=lambda one: (one.severity.order, -(one.saving.us_per_step if one.saving else 0), one.fingerprint))
        return made[:SHOWN_FINDINGS]

    def remarks(self) -> list[Remark]:
        """Remarks on the input, those of lower ranks first."""
        ordered = sorted(self._remarks.items(), key=lambda item: (item[1][0], item[0]))
        return [Remark(**remark) for _, (_, remark) in ordered]


def _worth_showing(metas: Sequence[Mapping[str, Any]], findings: Sequence[Finding]) -> list[Mapping[str, Any]]:
    """The ranks that findings name, then the first ones, in order of rank."""
    named = {finding.rank for finding in findings}
    first = [meta for meta in metas if meta["rank"] in named] + [meta for meta in metas if meta["rank"] not in named]
    return sorted(first[:SHOWN_RANKS], key=lambda meta: int(meta["rank"]))


def _failures(failed: Sequence[Failed]) -> list[Remark]:
    ordered = sorted(failed, key=lambda one: one.path)
    return [Remark(code=one.code, severity="error", file=one.path, message=_named(one)) for one in ordered]


def _named(one: Failed) -> Text:
    en, zh = (say("diag.rank_failed", path=one.path, reason=text) for text in (one.reason.en, one.reason.zh))
    return Text(en=en.en, zh=zh.zh)


def _partial(profile: Profile) -> list[Remark]:
    row, ranks = profile.table("job"), profile.table("ranks")["rank"]
    world = int(row["world"][0])
    absent = sorted(set(range(world)) - set(ranks.tolist()))
    if not absent or (ranks < 0).any():  # a profile that names no rank may be any of them
        return []
    told = partial(len(ranks), world, absent)
    return [Remark(code=told.code, severity=told.severity, file=told.file, message=told.message)]
