"""cluster_analysis.db: what cluster_step_trace_time.csv and cluster_communication.json say, as tables.

Step times are us, as in the CSV; those of operations are ms, from a start in us.  Older writers call the tables of
communication ``ClusterCommAnalyzer*`` or ``CommAnalyzer*``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.readers.cells import Cells
from npu_advisor.readers.cluster import of_ranks
from npu_advisor.readers.comm import TOTAL, comm_table, communication_row, reported_columns
from npu_advisor.readers.csvfile import CsvFile
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.numbers import Int, floats
from npu_advisor.readers.sqlite_analysis import LEDGER, step_numbers
from npu_advisor.readers.sqlite_file import Database, open_database
from npu_advisor.readers.tables import ledger_columns
from npu_advisor.readers.trace_tables import Columns

_STEPS = "ClusterStepTraceTime"
_TIMES = ("ClusterCommunicationTime", "ClusterCommAnalyzerTime", "CommAnalyzerTime")
_BANDWIDTHS = ("ClusterCommunicationBandwidth", "ClusterCommAnalyzerBandwidth", "CommAnalyzerBandwidth")
_RANK = "rank_id"
_LEDGER = {
    "type": "type",
    "rank": "index",
    "step_id": "step",
    **LEDGER,
    "exclude_receive": "communication_not_overlapped_and_exclude_receive",
}
# Column -> what cluster_communication.json calls it.
_TITLES = {
    "start_timestamp": "Start Timestamp(us)",
    "elapsed_time|elapse_time": "Elapse Time(ms)",
    "transit_time": "Transit Time(ms)",
    "wait_time": "Wait Time(ms)",
    "synchronization_time": "Synchronization Time(ms)",
    "idle_time": "Idle Time(ms)",
}
_Key = tuple[str, str, str]


@dataclass
class ClusterTables:
    """``step_trace`` and ``comms`` of one rank, and why either is not there."""

    columns: dict[str, Columns] = field(default_factory=dict)
    absent: dict[str, Text] = field(default_factory=dict)


def database_ranks(path: Path) -> list[int]:
    """The ranks that the database speaks of, in order; empty where it cannot be read."""
    notes = Notes()
    try:
        with open_database(path, notes) as db:
            ranks = _ledger_ranks(db, notes)
            return ranks or sorted(db.counts(_first(db, _TIMES), _RANK))
    except UnreadableFileError:
        return []


def _ledger_ranks(db: Database, notes: Notes) -> list[int]:
    try:
        return sorted(set(_rank_rows(db, notes)[1].tolist()))
    except UnreadableFileError:
        return []


def read_cluster_database(path: Path, rank: int, notes: Notes) -> ClusterTables:
    """The tables of one rank. Raises UnreadableFileError when the file is no database or has neither table."""
    found = ClusterTables()
    with open_database(path, notes) as db:
        times = _first(db, _TIMES)
        if _STEPS not in db and times not in db:
            raise UnreadableFileError(say("reason.no_table", table=_STEPS))
        _put(found, "step_trace", _STEPS, db, lambda: _ledger(db, rank, notes))
        _put(found, "comms", times, db, lambda: _comms(db, times, rank, notes))
    return found


def _put(found: ClusterTables, name: str, table: str, db: Database, read: Callable[[], Columns | None]) -> None:
    """Put what ``read`` makes of ``table`` into ``found``, or say why there is nothing."""
    reason = say("reason.no_table", table=table)
    if table not in db:
        db.notes.say("db_table_missing", "warning" if table == _STEPS else "info", db.file, tables=table)
    else:
        try:
            columns = read()
        except UnreadableFileError as error:
            db.notes.unreadable(db.file, error.reason)
            reason = error.reason
        else:
            if columns is not None:
                found.columns[name] = columns
            return
    found.absent[name] = Text(en=f"{db.file}: {reason.en}", zh=f"{db.file}：{reason.zh}")


def _first(db: Database, tables: Sequence[str]) -> str:
    """The name that the database uses; the newest where it has none of them."""
    return next((table for table in tables if table in db), tables[0])


def _rank_rows(db: Database, notes: Notes) -> tuple[CsvFile, Int]:
    """The step times of single ranks, and their ranks. Raises UnreadableFileError."""
    for column in (_LEDGER["rank"], _LEDGER["compute_us"]):
        if _STEPS in db and not db.has(_STEPS, column):
            raise UnreadableFileError(say("reason.no_column", column=column))
    rows = db.texts(_STEPS, *_LEDGER.values())
    if not rows:
        raise UnreadableFileError(say("reason.no_rows"))
    cells = dict(zip(_LEDGER, map(list, zip(*rows, strict=True)), strict=True))
    columns = {name: Cells.of(cells[name]) for name, column in _LEDGER.items() if db.has(_STEPS, column)}
    columns["step_id"] = Cells.of([*map(str, step_numbers(cells["step_id"]))])
    return of_ranks(CsvFile(db.file, columns, len(rows), notes))


def _ledger(db: Database, rank: int, notes: Notes) -> Columns:
    file, ranks = _rank_rows(db, notes)
    file = file.keep(ranks == rank)
    if not len(file):
        raise UnreadableFileError(say("reason.no_rows"))
    return ledger_columns(file, notes)


def _comms(db: Database, table: str, rank: int, notes: Notes) -> Columns | None:
    if not db.has(table, _RANK):
        raise UnreadableFileError(say("reason.no_column", column=_RANK))
    moved = _moved(db, rank)
    rows = []
    for key, number, times in _operations(db, table, rank):
        op, group, _ = key
        entry = {"Communication Time Info": times, "Communication Bandwidth Info": moved.get(key)}
        rows.append(communication_row(f"{op}@{group}" if group else op, "", number, entry))
    return comm_table(None, None, reported_columns(rows), notes)[0]


def _operations(db: Database, table: str, rank: int) -> Iterator[tuple[_Key, int, dict[str, float]]]:
    """((op, group, step), number of the step, times by title) of every operation; totals left out."""
    only = (_RANK, [rank])
    keys = db.texts(table, "hccl_op_name", "group_name", "step", only=only)
    # As text a number of SQLite has 15 digits, too few for a start in us.
    numbers = db.floats(table, *_TITLES, only=only)
    values = np.column_stack(list(numbers.values())).tolist()
    steps = step_numbers([step for _, _, step in keys]).tolist()
    for (op, group, step), number, row in zip(keys, steps, values, strict=False):
        if op and op != TOTAL:
            yield (op, group, step), number, dict(zip(_TITLES.values(), row, strict=True))


def _moved(db: Database, rank: int) -> dict[_Key, dict[str, dict[str, float]]]:
    """Transports by (op, group, step). Each has one row per packet size, all with the whole size."""
    table = _first(db, _BANDWIDTHS)
    if not db.has(table, _RANK):
        return {}
    columns = ("hccl_op_name", "group_name", "step", "band_type|transport_type", "transit_size")
    rows = db.texts(table, *columns, only=(_RANK, [rank]))
    moved: dict[_Key, dict[str, dict[str, float]]] = {}
    for (op, group, step, transport, _), size in zip(rows, floats([row[-1] for row in rows]).tolist(), strict=True):
        moved.setdefault((op, group, step), {})[transport] = {"Transit Size(MB)": size}
    return moved
