"""``ascend_pytorch_profiler[_rank].db`` and ``analysis.db`` to the raw tables that the text files give.

Nothing is joined in SQL: tables are read once, in the order of the file, and joined as arrays.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from npu_advisor.base.errors import ProfileError
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.model.profile import ProfileInfo
from npu_advisor.readers.comm import comm_table
from npu_advisor.readers.notes import Notes, Severity, UnreadableFileError
from npu_advisor.readers.sqlite_analysis import (
    add_split,
    group_hash,
    read_link_traffic,
    read_reported,
    read_step_ledger,
)
from npu_advisor.readers.sqlite_device import choose_device, read_device
from npu_advisor.readers.sqlite_file import Database, open_database
from npu_advisor.readers.sqlite_host import read_host
from npu_advisor.readers.sqlite_memory import read_memory_tables
from npu_advisor.readers.sqlite_rows import Lanes
from npu_advisor.readers.trace_tables import Columns

# Tables of the database, and those of ours that come from each.
_FEEDS: dict[str, tuple[str, ...]] = {
    "STRING_IDS": (),
    "PYTORCH_API": ("ops", "frames", "enqueues", "dequeues"),
    "CONNECTION_IDS": (),
    "STEP_TIME": (),
    "CANN_API": ("apis",),
    "TASK": ("kernels", "tasks"),
    "COMPUTE_TASK_INFO": ("kernels",),
    "TASK_PMU_INFO": (),
    "COMMUNICATION_OP": ("comms",),
    "COMMUNICATION_TASK_INFO": ("comm_tasks",),
    "OP_MEMORY": ("allocs",),
    "MEMORY_RECORD": ("memory",),
    "NPU_MODULE_MEM": ("module_memory",),
    "AICORE_FREQ": ("counters",),
}
# Absent from every export that does not ask for it, so not worth a remark.
_SELDOM: dict[str, tuple[str, ...]] = {"GC_RECORD": ("gcs",)}
_ESSENTIAL = {"STRING_IDS", "PYTORCH_API", "CANN_API", "TASK", "COMPUTE_TASK_INFO"}
_ANALYSIS = {"steptracetime", "commanalyzertime", "commanalyzermatrix"}


@dataclass
class Content:
    """Columns by table name, why tables are not there, and what the database says of the profile."""

    info: ProfileInfo
    columns: dict[str, Columns] = field(default_factory=dict)
    absent: dict[str, Text] = field(default_factory=dict)


def read_database(
    files: Mapping[str, Path], info: ProfileInfo, notes: Notes, progress: Callable[[Path, float], None]
) -> Content:
    """The tables of one rank. ``files`` has ``db``, ``analysis``, or both; ``progress`` gets (file, share done).

    Raises ProfileError: ``db_damaged`` when the main file cannot be read at all, ``unknown_file`` when it is some
    other database.
    """
    content, device = Content(info), -1
    if "db" in files:
        path = files["db"]
        try:
            with open_database(path, notes) as db:
                db.progress = partial(progress, path)
                device = _read_main(db, path, content, notes)
            progress(path, 1.0)
        except UnreadableFileError as error:
            what = say("error.db_damaged", path=path)
            raise ProfileError(path, what, error.reason, say("do.db_damaged"), code="db_damaged") from error
    if "analysis" in files:
        path = files["analysis"]
        try:
            with open_database(path, notes) as db:
                _read_analysis(db, device, content, notes)
        except UnreadableFileError as error:
            notes.unreadable(path.name, error.reason)
            content.absent["step_trace"] = _because(path.name, error.reason)
        progress(path, 1.0)
    return content


def _because(file: str, reason: Text) -> Text:
    return Text(en=f"{file}: {reason.en}", zh=f"{file}：{reason.zh}")


def _read_main(db: Database, path: Path, content: Content, notes: Notes) -> int:
    """Fill ``content`` from the main file; the device that was read."""
    if not any(table in db for table in _FEEDS) and not _ANALYSIS & set(db.tables):
        raise ProfileError(path, say("error.unknown_file", path=path), do=say("do.inputs"), code="unknown_file")
    _remark_on_missing(db, content, notes)
    rank = content.info.rank if content.info.rank >= 0 else _mapped_rank(db)
    device = choose_device(db, rank, notes)
    content.info = _described(db, content.info, rank, device)
    lanes = Lanes()
    host = read_host(db, lanes, notes)
    found = read_device(db, lanes, host, device, notes)
    content.columns.update(host.tables)
    content.columns.update(found.tables)
    content.columns.update(read_memory_tables(db, device))
    if "comm_tasks" not in content.columns and "COMMUNICATION_TASK_INFO" in db:
        reason = say("reason.no_details", table="COMMUNICATION_TASK_INFO")
        content.absent["comm_tasks"] = _because(db.file, reason)
    if content.columns:
        content.columns["tracks"] = lanes.table()
    if found.group_name:
        hashes = {name: group_hash(name) for name in set(found.group_name)}
        content.columns["comms"]["group"] = np.array([hashes[name] for name in found.group_name], dtype=object)
    model = found.tables.get("kernels", {}).get("model")
    if model is not None and (model >= 0).any():
        notes.say("graph_mode", "info", db.file, kernels=int((model >= 0).sum()))
    if _ANALYSIS & set(db.tables):
        _read_analysis(db, device, content, notes)
    return device


def _remark_on_missing(db: Database, content: Content, notes: Notes) -> None:
    missing = [table for table in _FEEDS if table not in db]
    for table, ours in {**_FEEDS, **_SELDOM}.items():
        if table not in db:
            reason = _because(db.file, say("reason.no_table", table=table))
            content.absent.update({name: reason for name in ours if name not in content.absent})
    if missing:
        severity: Severity = "warning" if _ESSENTIAL & set(missing) else "info"
        notes.say("db_table_missing", severity, db.file, tables=", ".join(missing))


def _mapped_rank(db: Database) -> int:
    ranks = db.ints("RANK_DEVICE_MAP", "rankId")["rankId"]
    return int(ranks[0]) if len(ranks) and ranks[0] >= 0 else -1


def _described(db: Database, info: ProfileInfo, rank: int, device: int) -> ProfileInfo:
    """``info`` and what NPU_INFO and META_DATA add; what the files beside the database say has precedence."""
    chips = db.enum("NPU_INFO")
    told = {name: _json(value) for name, value in db.texts("META_DATA", "name", "value")}
    environment = told.pop("ENV_VARIABLES", None)
    variables = environment if isinstance(environment, dict) else {}
    env = {str(key): str(value) for key, value in variables.items() if value is not None}
    metadata = {name: value for name, value in told.items() if not name.startswith("SCHEMA_VERSION")}
    return dataclasses.replace(
        info,
        rank=rank,
        device=info.device or chips.get(device) or next(iter(chips.values()), None) or None,
        env=dict(info.env) or env,
        metadata={**metadata, **info.metadata},
    )


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return text


def _read_analysis(db: Database, device: int, content: Content, notes: Notes) -> None:
    ledger = read_step_ledger(db, device, notes)
    if ledger is not None:
        content.columns["step_trace"] = ledger
    reported = read_reported(db)
    if reported is not None:
        _add_reported(content, reported, notes)
    links = read_link_traffic(db)
    if links is not None:
        content.columns["links"] = links


def _add_reported(content: Content, reported: Columns, notes: Notes) -> None:
    if "comms" in content.columns:
        add_split(content.columns["comms"], reported)
        return
    comms, _ = comm_table(None, None, reported, notes)
    if comms is not None:
        content.columns["comms"] = comms
        content.absent.pop("comms", None)
