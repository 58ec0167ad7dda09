"""Write databases by hand, in the layout of the exporter: what a test cares about, and any variant of the schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BASE = 1_700_000_000_000_000_000
PID, MAIN, QUEUE, AUTOGRAD = 4000, 4000, 4001, 4002
NONE = 4294967295
OP, QUEUED, TRACE = 50001, 50002, 50003
NODE, ACL = 10000, 20000
SCHEMA = {
    "PYTORCH_API": "startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, "
    "sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, "
    "type INTEGER",
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "PYTORCH_CALLCHAINS": "id INTEGER, stack INTEGER, stackDepth INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "CANN_API": "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER PRIMARY KEY, "
    "name INTEGER",
    "TASK": "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, "
    "globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER",
    "COMPUTE_TASK_INFO": "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER, "
    "taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, "
    "outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER",
    "TASK_PMU_INFO": "globalTaskId INTEGER, name INTEGER, value NUMERIC",
    "COMMUNICATION_OP": "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, "
    "opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, "
    "opType INTEGER",
    "COMMUNICATION_TASK_INFO": "name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, "
    "groupName INTEGER, notifyId INTEGER, rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, "
    "size INTEGER, dataType INTEGER, linkType INTEGER, opId INTEGER",
    "OP_MEMORY": "name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, activeReleaseTime INTEGER, "
    "allocationTotalActive INTEGER, streamPtr INTEGER, deviceId INTEGER",
    "MEMORY_RECORD": "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, "
    "totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER",
    "NPU_MODULE_MEM": "moduleId INTEGER, timestampNs INTEGER, totalReserved NUMERIC, deviceId INTEGER",
    "NPU_MEM": "type INTEGER, ddr NUMERIC, hbm NUMERIC, timestampNs INTEGER, deviceId INTEGER",
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "GC_RECORD": "startNs INTEGER, endNs INTEGER, globalTid INTEGER",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "META_DATA": "name TEXT, value TEXT",
    "NPU_INFO": "id INTEGER, name TEXT",
    "ENUM_API_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_MODULE": "id INTEGER PRIMARY KEY, name TEXT",
    "ENUM_HCCL_LINK_TYPE": "id INTEGER PRIMARY KEY, name TEXT",
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
}
ANALYSIS = {
    "StepTraceTime": "deviceId INTEGER, step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, "
    "overlapped NUMERIC, communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, preparing NUMERIC",
    "CommAnalyzerTime": "hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, "
    "transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT",
    "CommAnalyzerBandwidth": "hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, "
    "package_size NUMERIC, step TEXT, type TEXT",
    "CommAnalyzerMatrix": "hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, "
    "transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT",
}
Row = dict[str, Any]


def ns(offset_us: float) -> int:
    """``offset_us`` after the base time."""
    return BASE + round(offset_us * 1000)


def thread(tid: int) -> int:
    """globalTid of a thread."""
    return PID << 32 | tid


class Recording:
    """Rows by table; ``text`` gives a name its number, ``connection`` a row of PYTORCH_API its connection ids."""

    def __init__(self, schema: Mapping[str, str] = SCHEMA) -> None:
        self.schema = dict(schema)
        self.rows: dict[str, list[Row]] = {table: [] for table in schema}
        self._texts: dict[str, int] = {}

    def text(self, value: str) -> int:
        if value not in self._texts:
            self._texts[value] = len(self._texts) + 1
            self.add("STRING_IDS", id=self._texts[value], value=value)
        return self._texts[value]

    def add(self, table: str, **row: Any) -> None:
        self.rows[table].append(row)

    def connection(self, *ids: int) -> int:
        key = len({row["id"] for row in self.rows["CONNECTION_IDS"]}) + 7
        for number in ids:
            self.add("CONNECTION_IDS", id=key, connectionId=number)
        return key

    def api(
        self, kind: int, name: str, at: float, dur: float, tid: int = MAIN, ids: Iterable[int] = (), **more: Any
    ) -> None:
        """A row of PYTORCH_API; times are us after the base, written as text."""
        times = {"startNs": str(ns(at)), "endNs": str(ns(at + dur))}
        key = self.connection(*ids) if ids else None
        self.add(
            "PYTORCH_API", **times, globalTid=thread(tid), connectionId=key, name=self.text(name), type=kind, **more
        )

    def op(self, name: str, at: float, dur: float, stack: Iterable[str] = (), **more: Any) -> None:
        frames = [self.text(frame) for frame in stack]
        if frames:
            more["callchainId"] = len({row["id"] for row in self.rows["PYTORCH_CALLCHAINS"]})
            for depth, frame in reversed(list(enumerate(frames))):
                self.add("PYTORCH_CALLCHAINS", id=more["callchainId"], stack=frame, stackDepth=depth)
        self.api(OP, name, at, dur, **{"sequenceNumber": -1, "fwdThreadId": 0, **more})

    def call(self, name: str, at: float, dur: float, connection: int, kind: int = NODE, tid: int = QUEUE) -> None:
        times = {"startNs": ns(at), "endNs": ns(at + dur)}
        self.add("CANN_API", **times, type=kind, globalTid=thread(tid), connectionId=connection, name=self.text(name))

    def task(self, number: int, kind: str, at: float, dur: float, connection: int = NONE, **more: Any) -> None:
        row = {"startNs": ns(at), "endNs": ns(at + dur), "deviceId": 0, "connectionId": connection, "streamId": 2}
        row |= {"globalTaskId": number, "globalPid": PID, "taskType": self.text(kind), "taskId": number % 65536}
        self.add("TASK", **{**row, "contextId": NONE, "modelId": NONE, **more})

    def kernel(self, number: int, name: str, at: float, dur: float, connection: int = NONE, **more: Any) -> None:
        """A kernel: its task and its description. ``told=False`` describes it as Level0 does."""
        told, kind = more.pop("told", True), more.pop("kind", "KERNEL_AIVEC")
        words = {"taskType": "AI_VECTOR_CORE", "opType": "Add", "inputShapes": '"2,3;"', "inputFormats": "FORMAT_ND;ND"}
        words |= {"inputDataTypes": "FLOAT;FLOAT", "outputShapes": '"2,3"', "outputFormats": "ND"}
        words |= {"outputDataTypes": "FLOAT", "attrInfo": "N/A", **more.pop("words", {})}
        self.task(number, kind, at, dur, connection, **more)
        described = {column: self.text(value if told else "N/A") for column, value in words.items()}
        self.add(
            "COMPUTE_TASK_INFO", name=self.text(name), globalTaskId=number, blockDim=32 if told else 0, **described
        )

    def write(self, path: Path, drop: Iterable[str] = (), keep_open: bool = False) -> sqlite3.Connection | None:
        """The file, without the tables ``drop``; an open connection to it if wanted."""
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path)
        for table in (name for name in self.schema if name not in set(drop)):
            connection.execute(f'CREATE TABLE "{table}" ({self.schema[table]})')
            columns = {part.split()[0] for part in self.schema[table].split(", ")}
            for row in self.rows[table]:
                kept = {name: value for name, value in row.items() if name in columns}
                names, marks = ", ".join(f'"{name}"' for name in kept), ", ".join("?" * len(kept))
                connection.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', tuple(kept.values()))
        connection.commit()
        if keep_open:
            return connection
        connection.close()
        return None


LINE = "/home/user/train.py(12): step"
FRAMES = ("/usr/lib/python3.10/site-packages/torch/nn/module.py(1): call", LINE, "/home/user/train.py(90): <module>")


def small(told: bool = True) -> Recording:
    """One step: a forward op that launches a kernel through the queue, its backward op that launches another, an
    allreduce of two sub-tasks, a copy, memory, and what else an exporter writes. ``told=False`` as at Level0."""
    made = Recording()
    made.op("ProfilerStep#5", 0, 1000)
    made.op("aten::add", 10, 60, FRAMES, ids=(900, 8100), sequenceNumber=3, inputShapes=made.text("2,3;\r\n"))
    made.rows["PYTORCH_API"][-1]["inputDtypes"] = made.text("float;\r\nScalar")
    made.api(QUEUED, "Enqueue", 20, 5, ids=(8000,))
    made.api(QUEUED, "Dequeue@Add", 40, 20, QUEUE, ids=(8000,))
    made.api(TRACE, "train.py(12): step", 5, 100)
    made.call("launch", 45, 5, 900)
    made.kernel(1, "aclnnAdd_AddAiCore_Add", 70, 100, 900, told=told)
    made.op("AddBackward0", 200, 50, tid=AUTOGRAD, ids=(901, 8100), sequenceNumber=3, fwdThreadId=1)
    made.call("launch", 210, 5, 901, tid=AUTOGRAD)
    made.kernel(2, "trans_TransData_3", 230, 40, 901, told=told, kind="KERNEL_AICPU", streamId=3)
    made.op("c10d::allreduce_", 300, 20, ids=(902,))
    made.call("hcom_allReduce_", 302, 5, 902, 5500)
    group, parts = made.text("10.0.0.1%eth0_60000_0_17"), (("Notify Wait", "Notify_Wait", 50), ("SDMA", "Memcpy", 20))
    made.add("COMMUNICATION_OP", opName=made.text("hcom_allReduce__586_0_1"), startNs=ns(320), endNs=ns(400), opId=1)
    made.rows["COMMUNICATION_OP"][-1] |= {"connectionId": 902, "groupName": group}
    for place, (kind, name, dur) in enumerate(parts):
        made.task(10 + place, kind, 320 + place * 55, dur, 902, streamId=9)
        row = {"taskType": made.text(name if told else "N/A"), "planeId": place, "srcRank": 0, "dstRank": 1}
        row |= {"transportType": 0, "linkType": 1, "size": 4096, "opId": 1}
        if not told:
            row |= {"planeId": NONE, "srcRank": NONE, "dstRank": NONE, "size": -1, "transportType": 65534}
        made.add("COMMUNICATION_TASK_INFO", globalTaskId=10 + place, groupName=group, **row)
    made.task(20, "MEMCPY_ASYNC", 420, 10, 903)
    made.call("aclrtMemcpyAsync", 410, 5, 903, ACL, MAIN)
    for name, value in (("aiv_vec_ratio", 0.25), ("aiv_total_time", 1000)):
        made.add("TASK_PMU_INFO", globalTaskId=1, name=made.text(name), value=value)
    made.add("STEP_TIME", id=5, startNs=ns(0), endNs=ns(1000))
    row = {"name": made.text("aten::add"), "size": 2048, "allocationTime": ns(15), "releaseTime": ns(500)}
    made.add("OP_MEMORY", **row, streamPtr=1, allocationTotalActive=4096, deviceId=0)
    made.add("OP_MEMORY", name=made.text("Add7"), size=512, allocationTime=ns(50), deviceId=0)
    made.add("OP_MEMORY", name=made.text("aten::add"), size=-512, releaseTime=ns(60), streamPtr=1, deviceId=0)
    for at, total in ((15, 4096), (500, 2048)):
        row = {"component": made.text("PTA"), "timestamp": ns(at), "totalAllocated": total, "totalReserved": 8192}
        made.add("MEMORY_RECORD", **row, totalActive=total, deviceId=0)
    made.add("NPU_MEM", type=made.text("app"), ddr=0, hbm=99999, timestampNs=ns(1), deviceId=0)
    made.add("NPU_MEM", type=made.text("device"), ddr=0, hbm=5, timestampNs=ns(1), deviceId=0)
    made.add("NPU_MODULE_MEM", moduleId=3, timestampNs=ns(2), totalReserved=777, deviceId=0)
    made.add("ENUM_MODULE", id=3, name="HCCL")
    made.add("AICORE_FREQ", deviceId=0, timestampNs=ns(0), freq=1800)
    made.add("GC_RECORD", startNs=ns(600), endNs=ns(610), globalTid=thread(MAIN))
    made.add("RANK_DEVICE_MAP", rankId=6, deviceId=0)
    made.add("META_DATA", name="ENV_VARIABLES", value='{"ASCEND_LAUNCH_BLOCKING": "1", "HCCL_ALGO": ""}')
    made.add("META_DATA", name="SCHEMA_VERSION", value="1.0.0")
    made.add("META_DATA", name="distributed_args", value='{"world_size": 8}')
    made.add("NPU_INFO", id=0, name="Ascend910B")
    made.add("ENUM_API_TYPE", id=5500, name="communication")
    made.add("ENUM_HCCL_LINK_TYPE", id=1, name="HCCS")
    return made


def analysis() -> Recording:
    """analysis.db of the same step."""
    made = Recording(ANALYSIS)
    ledger = {"computing": 140, "communication_not_overlapped": 80, "overlapped": 0, "communication": 80, "free": -1}
    made.add("StepTraceTime", deviceId=0, step="5", **ledger, stage=330, bubble=0, preparing=70)
    made.add("StepTraceTime", deviceId=1, step="5", **ledger, stage=999, bubble=0, preparing=70)
    name, group = "hcom_allReduce__586_0_1", "123"
    times = {"transit_time": 0.02, "wait_time": 0.05, "synchronization_time": 0.04, "idle_time": 0.01}
    start = (BASE // 1000) + 320 - 21  # us; some 20 us before the row of the other file
    row = {"hccl_op_name": name, "group_name": group, "step": "step5", "type": "collective"}
    made.add("CommAnalyzerTime", **row, start_timestamp=start, elapse_time=0.08, **times)
    for transport, size in (("SDMA", 3.0), ("HCCS", 3.0), ("HCCS", 3.0), ("RDMA", 0.5)):
        made.add("CommAnalyzerBandwidth", **row, transport_type=transport, transit_size=size, package_size=1)
    row["hccl_op_name"] = "allreduce-top1"
    pair = {"src_rank": "0", "dst_rank": "1", "transport_type": "HCCS"}
    made.add("CommAnalyzerMatrix", **row, **pair, transit_size=3.0, transit_time=0.02, bandwidth=150.0)
    return made
