"""cluster_analysis_output: what the cluster tool summed up of a job, one rank at a time.

``cluster_step_trace_time.csv`` has the step ledger of every rank, ``cluster_communication.json`` their collectives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npu_advisor.base.messages import say
from npu_advisor.readers.comm import communication_row, read_json, reported_columns
from npu_advisor.readers.csvfile import CsvFile, read_csv
from npu_advisor.readers.info import whole
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.numbers import DAY_NS, Float, Int
from npu_advisor.readers.tables import LEDGER_TITLES, ledger_columns
from npu_advisor.readers.trace_tables import Columns

STEP_TRACE, COMMUNICATION = "cluster_step_trace_time.csv", "cluster_communication.json"
ROLES = {"cluster_step_trace": STEP_TRACE, "cluster_communication": COMMUNICATION}


def cluster_ranks(files: Mapping[str, Path]) -> list[int]:
    """The ranks that the files (by role) speak of, in order; empty where neither can be read."""
    ranks: set[int] = set()
    if "cluster_step_trace" in files:
        try:
            ranks |= set(_rank_rows(files["cluster_step_trace"], Notes())[1].tolist())
        except UnreadableFileError:
            ranks = set()
    if not ranks and "cluster_communication" in files:
        try:
            ranks = {rank for rank, *_ in _operations(read_json(files["cluster_communication"]))}
        except UnreadableFileError:
            ranks = set()
    return sorted(ranks)


def _rank_rows(path: Path, notes: Notes) -> tuple[CsvFile, Int]:
    """The rows of single ranks, and their ranks."""
    wanted = {"type": ("Type",), "rank": ("Index",), **LEDGER_TITLES}
    return of_ranks(read_csv(path, wanted, ("rank", "compute_us"), notes))


def of_ranks(file: CsvFile) -> tuple[CsvFile, Int]:
    """The rows of single ranks (others sum up pipeline stages) by ``rank`` and maybe ``type``, and their ranks."""
    ranks = file.ints("rank")
    mine = ranks >= 0
    if "type" in file:
        mine &= np.array([cell.strip().lower() == "rank" for cell in file.columns["type"].strings()], bool)
    return file.keep(mine), ranks[mine]


def read_ledger(path: Path, rank: int, notes: Notes) -> Columns:
    """``step_trace`` of one rank. Raises UnreadableFileError."""
    file, ranks = _rank_rows(path, notes)
    file = file.keep(ranks == rank)
    if not len(file):
        raise UnreadableFileError(say("reason.no_rows"))
    return ledger_columns(file, notes)


def _operations(loaded: Any) -> Iterator[tuple[int, str, int, str, Mapping[str, Any]]]:
    """(rank, kind or ranks of the group, step, operation, entry): the file nests group, step, operation, rank."""
    for group, steps in _items(loaded):
        for step, operations in _items(steps):
            found = re.match(r"^step(\d{1,9})$", step)
            for operation, ranks in _items(operations):
                for rank, entry in _items(ranks):
                    number = whole(rank)
                    if number is not None and isinstance(entry, dict):
                        yield number, group, int(found[1]) if found else -1, operation, entry


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    yield from value.items() if isinstance(value, dict) else ()


def read_cluster_comms(path: Path, rank: int) -> Columns | None:
    """One row per operation of ``rank``, as of communication.json; None without any. Raises UnreadableFileError."""
    return reported_columns(
        communication_row(operation, kind, step, entry)
        for number, kind, step, operation, entry in _operations(read_json(path))
        if number == rank
    )


def ledger_steps(ledger: Columns) -> Columns:
    """``steps`` from a step ledger alone: how long each part took, but not when (starts are -1)."""
    count = len(ledger["step_id"])
    parts = {name: _possible(ledger.get(name, np.zeros(count))) for name in _PARTS}
    total = sum(parts.values(), np.zeros(count))
    unknown = np.full(count, -1, np.int64)
    return {
        "number": ledger["step_id"],
        "start_ns": unknown,
        "dur_ns": np.rint(total * 1000).astype(np.int64),
        "host_us": np.full(count, np.nan),
        "device_start_ns": unknown,
        "device_end_ns": unknown,
        **parts,
        "comm_us": np.maximum(_possible(ledger.get("comm_us", np.zeros(count))), parts["exposed_comm_us"]),
        "after_us": np.zeros(count),
        "complete": np.ones(count, bool),
    }


def _possible(us: Float) -> Float:
    """Times of a ledger; an unread one is 0 and none lasts longer than a day."""
    return np.clip(np.nan_to_num(us), 0, DAY_NS / 1000)


# What a step is made of, none counted twice: the writer's Stage is the first three.
_PARTS = ("compute_us", "exposed_comm_us", "free_us", "prepare_us")
