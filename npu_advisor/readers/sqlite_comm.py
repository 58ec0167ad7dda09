"""COMMUNICATION_OP and COMMUNICATION_TASK_INFO: collectives and their sub-tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npu_advisor.base.numbering import factorize
from npu_advisor.base.whole import widened
from npu_advisor.readers.columns import relabel
from npu_advisor.readers.device_names import HCCL_TYPES, comm_type, element_bytes, payload_bytes
from npu_advisor.readers.numbers import Int
from npu_advisor.readers.sqlite_file import Database, known
from npu_advisor.readers.sqlite_rows import Lanes, by_start, keep, of_device, rows_of, span
from npu_advisor.readers.trace_tables import Columns

# What the ENUM tables say, for files without them.
_LINKS = {
    0: "ON_CHIP",
    1: "HCCS",
    2: "PCIE",
    3: "ROCE",
    4: "SIO",
    5: "HCCS_SW",
    6: "STANDARD_ROCE",
    65535: "INVALID_TYPE",
}
_TRANSPORTS = {0: "SDMA", 1: "RDMA", 2: "LOCAL", 65535: "INVALID_TYPE"}


@dataclass
class Collectives:
    """Columns of ``comms`` (none where there are no rows), and of each row its opId, connection id and communicator.

    ``bad`` counts impossible durations.
    """

    table: Columns = field(default_factory=dict)
    op_id: Int = field(default_factory=lambda: np.zeros(0, np.int64))
    connection: Int = field(default_factory=lambda: np.zeros(0, np.int64))
    group_name: list[str] = field(default_factory=list)
    bad: int = 0


def read_collectives(db: Database, lanes: Lanes, task_ids: Int, device: int) -> Collectives:
    """COMMUNICATION_OP of the device; where it names no devices, what has sub-tasks on others only is left out."""
    names = ("opName", "startNs", "endNs", "connectionId", "groupName", "opId", "deviceId", "count", "dataType")
    raw: Columns = dict(db.ints("COMMUNICATION_OP", *names))
    if not db.has("COMMUNICATION_OP", "deviceId"):
        parts = db.ints("COMMUNICATION_TASK_INFO", "globalTaskId", "opId")
        ours = np.isin(parts["globalTaskId"], task_ids)
        elsewhere = np.setdiff1d(parts["opId"][~ours], parts["opId"][ours])
        raw = keep(raw, ~np.isin(raw["opId"], elsewhere))
    raw = of_device(raw, device)
    start, duration, bad = span(raw.pop("startNs"), raw.pop("endNs"))
    if not len(start):
        return Collectives()
    raw = by_start({"start_ns": start, "dur_ns": duration, **raw})
    name, connection = db.strings.category(raw["opName"]), known(raw["connectionId"])
    none = np.full(len(start), -1, np.int64)
    groups, _ = factorize(raw["groupName"])
    types = {**HCCL_TYPES, **db.enum("ENUM_HCCL_DATA_TYPE")}
    table = {
        "name": name,
        "type": relabel(name, map(comm_type, name.categories)),
        "start_ns": raw["start_ns"],
        "dur_ns": raw["dur_ns"],
        "connection": connection,
        "payload_bytes": payload_bytes(
            widened(raw["count"]), element_bytes(types.get(int(number), "") for number in raw["dataType"])
        ),
        **lanes.of("HCCL", none, groups, "Group {} Communication"),
    }
    return Collectives(table, raw["opId"], connection, db.strings.of(raw["groupName"]), int(bad.sum()))


def read_comm_tasks(db: Database, lanes: Lanes, tasks: Columns, collectives: Collectives) -> Columns | None:
    """``comm_tasks``; None where Level0 wrote rows that tell neither kind nor peer nor size."""
    names = ("globalTaskId", "taskType", "planeId", "srcRank", "dstRank", "transportType", "size", "linkType", "opId")
    info: Columns = dict(db.ints("COMMUNICATION_TASK_INFO", *names))
    row = rows_of(tasks["id"], info["globalTaskId"])
    info, row = keep(info, row >= 0), row[row >= 0]
    kinds = db.strings.category(info["taskType"])
    if not len(kinds.categories):
        return None
    size = info["size"].astype(np.float64)
    return by_start(
        {
            "name": kinds,
            "start_ns": tasks["start_ns"][row],
            "dur_ns": tasks["dur_ns"][row],
            "src_rank": known(info["srcRank"]),
            "dst_rank": known(info["dstRank"]),
            "bytes": np.where(size < 0, np.nan, size),
            "transport": _enum(info["transportType"], _TRANSPORTS, db.enum("ENUM_HCCL_TRANSPORT_TYPE")),
            "link": _enum(info["linkType"], _LINKS, db.enum("ENUM_HCCL_LINK_TYPE")),
            "comm": rows_of(collectives.op_id, info["opId"]),
            **lanes.of("HCCL", np.full(len(row), -1, np.int64), known(info["planeId"]), "Plane {}"),
        }
    )


def _enum(numbers: Int, usual: Mapping[int, str], told: Mapping[int, str]) -> Any:
    names = {**usual, **told}
    codes, uniques = factorize(numbers)
    labels = [names.get(int(number), "").replace("N/A", "") for number in uniques]
    return np.array(labels, dtype=object)[codes]
