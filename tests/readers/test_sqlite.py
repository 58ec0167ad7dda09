"""Databases made by hand: every join, and every variant of the schema that exporters and other tools leave."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import AUTOGRAD, FRAMES, LINE, MAIN, SCHEMA, Recording, analysis, ns, small
from making import write_info

from npu_advisor import load_profile
from npu_advisor.base.errors import ProfileError
from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, read_rank, sqlite_pages

NAME = "ascend_pytorch_profiler_0.db"


def linked(made: Recording, folder: Path, drop: tuple[str, ...] = ()) -> Profile:
    made.write(folder / NAME, drop)
    return load_profile(folder)


def codes(profile: Profile) -> list[str]:
    return [note.code for note in profile.diagnostics]


def column(profile: Profile, table: str, name: str) -> list[Any]:
    values = profile.frame(table)[name]
    return [value if isinstance(value, str) or value == value else None for value in values]


# ---- the joins ------------------------------------------------------------------------------------------------


def test_a_kernel_leads_back_to_the_line(tmp_path: Path) -> None:
    profile = linked(small(), tmp_path)
    kernels, ops, apis = profile.kernels, profile.ops, profile.apis
    assert [ops["name"][row] for row in kernels["op"]] == ["aten::add", "AddBackward0"]
    assert [apis["name"][row] for row in kernels["api"]] == ["launch", "launch"]
    assert column(profile, "kernels", "source") == [LINE, LINE]
    assert column(profile, "kernels", "source_how") == ["own", "forward"]
    assert list(kernels["dequeue"]) == [0, -1]
    assert list(profile.dequeues["enqueue"]) == [0] and list(profile.enqueues["correlation"]) == [8000]
    assert list(kernels["start_ns"]) == [ns(70), ns(230)] and list(kernels["dur_us"]) == [100.0, 40.0]
    assert list(ops["forward"][kernels["op"]]) == [-1, 1]
    assert column(profile, "apis", "item")[:2] == ["aclnnAdd_AddAiCore_Add", "trans_TransData_3"]
    assert not [note for note in profile.diagnostics if note.severity != "info"]


def test_what_is_told_of_a_kernel(tmp_path: Path) -> None:
    first = linked(small(), tmp_path).kernels.iloc[0]
    told = {"name": "aclnnAdd_AddAiCore_Add", "type": "Add", "core": "AI_VECTOR_CORE", "block_dim": 32, "stream": 2}
    told |= {
        "input_shapes": "2,3;",
        "input_formats": "ND;ND",
        "output_dtypes": "FLOAT",
        "aiv_vec_ratio": 0.25,
        "core_us": 1.0,
    }
    told |= {"task": 1, "model": -1, "connection": 900, "step_id": 5, "wait_us": 0.0}
    assert {name: first[name] for name in told} == told


def test_steps_collectives_and_tasks(tmp_path: Path) -> None:
    profile = linked(small(), tmp_path)
    assert list(profile.steps["number"]) == [5] and list(profile.kernels["step"]) == [0, 0]
    (comm,) = profile.comms.to_dict("records")
    assert (comm["name"], comm["type"], comm["dur_us"]) == ("hcom_allReduce__586_0_1", "allReduce", 80.0)
    assert profile.ops["name"][comm["op"]] == "c10d::allreduce_" and profile.apis["level"][comm["api"]] == "hccl"
    tasks = profile.comm_tasks
    assert column(profile, "comm_tasks", "name") == ["Notify_Wait", "Memcpy"]
    assert list(tasks["comm"]) == [0, 0] and list(tasks["dst_rank"]) == [1, 1] and list(tasks["bytes"]) == [4096, 4096]
    assert column(profile, "comm_tasks", "link") == ["HCCS", "HCCS"]
    assert column(profile, "tasks", "kind") == ["notify", "other", "copy"]
    assert list(profile.gcs["dur_us"]) == [10.0]


def test_memory_in_bytes(tmp_path: Path) -> None:
    profile = linked(small(), tmp_path)
    assert column(profile, "allocs", "name") == ["aten::add", "cann::Add7"]
    assert column(profile, "allocs", "component") == ["PTA", "GE"]
    assert list(profile.allocs["size_bytes"]) == [2048, 512] and list(profile.allocs["release_ns"]) == [ns(500), -1]
    assert [profile.ops["name"][row] for row in profile.allocs["op"]] == ["aten::add", "aten::add"]
    assert column(profile, "memory", "component") == ["APP", "PTA", "PTA"]
    assert list(profile.memory["reserved_bytes"]) == [99999, 8192, 8192]
    assert np.isnan(profile.memory["allocated_bytes"][0])
    assert profile.module_memory.to_dict("records") == [
        {"component": "HCCL", "start_ns": ns(2), "reserved_bytes": 777.0}
    ]
    assert list(profile.counters["value"]) == [1800.0]


def test_what_the_database_says_of_itself(tmp_path: Path) -> None:
    info = linked(small(), tmp_path).info
    assert (info.form, info.device, info.rank) == ("db", "Ascend910B", 0)
    assert info.env == {"ASCEND_LAUNCH_BLOCKING": "1", "HCCL_ALGO": ""}
    assert info.metadata == {"distributed_args": {"world_size": 8}}


def test_the_rank_comes_from_the_map_where_no_name_has_it(tmp_path: Path) -> None:
    small().write(tmp_path / "ascend_pytorch_profiler.db")
    assert load_profile(tmp_path).rank == 6
    write_info(tmp_path, 2, name="profiler_info.json")
    assert load_profile(tmp_path).rank == 2


def test_one_id_space_serves_three_purposes(tmp_path: Path) -> None:
    """A queue entry, a pair of ops and a kernel may all have numbers close to each other; only partners count."""
    made = small()
    made.op("aten::mul", 500, 40, ids=(904, 8101), sequenceNumber=4)
    made.op("aten::mul_inner", 505, 20, ids=(8101,), sequenceNumber=4)
    made.op("MulBackward0", 600, 40, tid=AUTOGRAD, ids=(8101,), sequenceNumber=4, fwdThreadId=1)
    profile = linked(made, tmp_path)
    ops = profile.ops.reset_index().set_index("name")
    assert profile.ops["name"][ops["forward"]["MulBackward0"]] == "aten::mul_inner"
    assert list(profile.enqueues["correlation"]) == [8000]


def test_a_mixed_kernel_has_one_more_row_around_it(tmp_path: Path) -> None:
    made = small()
    made.task(90, "AI_CORE", 69, 102, 900, taskId=1)  # as the kernel: same stream, task and connection
    made.task(91, "AI_CORE", 319, 82, 902, streamId=9)  # around the collective
    made.task(92, "AI_CORE", 700, 10, 955)  # of its own
    profile = linked(made, tmp_path)
    assert column(profile, "tasks", "name") == ["Notify Wait", "SDMA", "MEMCPY_ASYNC", "AI_CORE"]
    assert len(profile.kernels) == 2


# ---- variants of the schema -----------------------------------------------------------------------------------

FEEDS = {
    "PYTORCH_API": "ops",
    "CANN_API": "apis",
    "TASK": "kernels",
    "COMPUTE_TASK_INFO": "kernels",
    "COMMUNICATION_OP": "comms",
    "COMMUNICATION_TASK_INFO": "comm_tasks",
    "OP_MEMORY": "allocs",
    "MEMORY_RECORD": "memory",
    "NPU_MODULE_MEM": "module_memory",
    "AICORE_FREQ": "counters",
    "GC_RECORD": "gcs",
}
SILENT = {"PYTORCH_CALLCHAINS", "NPU_MEM", "GC_RECORD", "RANK_DEVICE_MAP", "META_DATA", "NPU_INFO"}


@pytest.mark.parametrize("table", SCHEMA)
def test_any_table_may_be_missing(tmp_path: Path, table: str) -> None:
    profile = linked(small(), tmp_path, (table,))
    missing = [note for note in profile.diagnostics if note.code == "db_table_missing"]
    if table in SILENT or table.startswith("ENUM_"):
        assert not missing
    else:
        assert table in missing[0].message.en and table in missing[0].message.zh
    if table in FEEDS:
        assert not profile.has(FEEDS[table])
        absent = profile.missing(FEEDS[table])
        assert absent is not None and absent.reason.en == f"{NAME}: the database has no table {table}"
    if table != "TASK" and table != "COMPUTE_TASK_INFO":
        assert len(profile.kernels) == 2


def test_without_connection_ids_only_calls_on_the_thread_of_an_op_lead_to_it(tmp_path: Path) -> None:
    profile = linked(small(), tmp_path, ("CONNECTION_IDS",))
    backward = profile.ops.index[profile.ops["name"] == "AddBackward0"][0]
    assert list(profile.kernels["op"]) == [-1, backward] and list(profile.kernels["dequeue"]) == [0, -1]


def test_without_calls_ops_are_found_by_id(tmp_path: Path) -> None:
    profile = linked(small(), tmp_path, ("CANN_API",))
    assert [profile.ops["name"][row] for row in profile.kernels["op"]] == ["aten::add", "AddBackward0"]


def test_single_card_at_level0_without_memory(tmp_path: Path) -> None:
    gone = ("TASK_PMU_INFO", "STEP_TIME", "COMMUNICATION_OP", "COMMUNICATION_TASK_INFO", "OP_MEMORY", "MEMORY_RECORD")
    profile = linked(small(told=False), tmp_path, gone)
    assert column(profile, "kernels", "type") == ["Add", "TransData"] and all(profile.kernels["type_inferred"])
    assert column(profile, "kernels", "core") == ["AI_VECTOR_CORE", "AI_CPU"]
    assert not {"block_dim", "input_shapes", "state"} & set(profile.kernels)
    assert {"db_table_missing", "metrics_unavailable"} <= set(codes(profile))
    assert list(profile.steps["number"]) == [5]


def test_level0_tells_nothing_of_communication_tasks(tmp_path: Path) -> None:
    profile = linked(small(told=False), tmp_path)
    absent = profile.missing("comm_tasks")
    assert absent is not None and "COMMUNICATION_TASK_INFO tells nothing" in absent.reason.en
    assert column(profile, "tasks", "kind") == ["notify", "other", "copy"]


def test_columns_in_another_order_renamed_and_more_of_them(tmp_path: Path) -> None:
    """As tools leave a file that they opened: columns added and moved, tables kept under other names."""
    made, plain = small(), linked(small(), tmp_path / "plain")
    for table, columns in made.schema.items():
        parts = columns.replace("blockDim", "block_dim").split(", ")
        made.schema[table] = ", ".join(["depth INTEGER DEFAULT 77", *reversed(parts), "waitNs INTEGER DEFAULT 88"])
    made.rows["COMPUTE_TASK_INFO"] = [
        {name.replace("blockDim", "block_dim"): value for name, value in row.items()}
        for row in made.rows["COMPUTE_TASK_INFO"]
    ]
    made.schema["OVERLAP_ANALYSIS"] = made.schema["_COMPUTE_TASK_INFO_old_20250101"] = "id INTEGER, type INTEGER"
    made.rows["OVERLAP_ANALYSIS"] = made.rows["_COMPUTE_TASK_INFO_old_20250101"] = [{"id": 1}]
    assert same(linked(made, tmp_path / "altered"), plain)


def same(one: Profile, other: Profile) -> bool:
    names = ("ops", "enqueues", "dequeues", "apis", "kernels", "tasks", "comms", "comm_tasks", "allocs", "memory")
    for name in (*names, "frames", "flow_points", "tracks", "gcs", "steps"):
        assert one.frame(name).equals(other.frame(name)), name
    return True


def test_times_may_be_numbers_or_text(tmp_path: Path) -> None:
    made, plain = small(), linked(small(), tmp_path / "plain")
    made.schema["PYTORCH_API"] = made.schema["PYTORCH_API"].replace("TEXT", "INTEGER")
    for table in ("CANN_API", "TASK", "COMMUNICATION_OP", "OP_MEMORY", "MEMORY_RECORD", "GC_RECORD"):
        made.schema[table] = made.schema[table].replace("INTEGER", "TEXT").replace("TEXT PRIMARY KEY", "INTEGER")
    assert same(linked(made, tmp_path / "swapped"), plain)


def test_newer_columns(tmp_path: Path) -> None:
    made = small()
    made.schema["COMPUTE_TASK_INFO"] = made.schema["COMPUTE_TASK_INFO"].replace("blockDim", "blockNum") + ", opState X"
    for row in made.rows["COMPUTE_TASK_INFO"]:
        row |= {"blockNum": 20, "opState": made.text("static")}
    kernels = linked(made, tmp_path).kernels
    assert list(kernels["block_dim"]) == [20, 20] and list(kernels["state"]) == ["static", "static"]


def test_shapes_and_types_in_each_others_column(tmp_path: Path) -> None:
    made, plain = small(), linked(small(), tmp_path / "plain")
    for row in made.rows["PYTORCH_API"]:
        row["inputShapes"], row["inputDtypes"] = row.get("inputDtypes"), row.get("inputShapes")
    swapped = linked(made, tmp_path / "swapped")
    assert same(swapped, plain) and "db_columns_swapped" in codes(swapped)
    assert "db_columns_swapped" not in codes(plain)
    assert column(plain, "ops", "shapes")[1] == "2,3;\r\n"


def test_call_stacks_are_those_of_the_trace(tmp_path: Path) -> None:
    made = small()
    made.op("aten::sub", 100, 5, FRAMES)
    stacks = linked(made, tmp_path).ops["stack"].dropna()
    assert list(stacks) == [";\r\n".join(FRAMES)] * 2 and len(stacks.cat.categories) == 1


def test_steps_without_marks_among_the_ops(tmp_path: Path) -> None:
    made = small()
    made.rows["PYTORCH_API"] = [row for row in made.rows["PYTORCH_API"] if row["name"] != made.text("ProfilerStep#5")]
    made.rows["STEP_TIME"] = [{"id": 5, "startNs": ns(0), "endNs": ns(150)}]
    made.add("STEP_TIME", id=6, startNs=ns(150), endNs=ns(1000))
    made.kernel(3, "aclnnMul_Mul_Mul", 175, 5)  # nobody launched it
    made.kernel(4, "aclnnMul_Mul_Mul", 100, 5)
    made.kernel(5, "aclnnMul_Mul_Mul", 1100, 5)
    profile = linked(made, tmp_path)
    assert list(profile.steps["number"]) == [5, 6]
    # Step 5 has the device until its last kernel ends (at 170), step 6 from its first one (at 230).
    assert list(profile.kernels["step_id"]) == [5, 5, -1, 6, -1]


def test_no_steps_at_all(tmp_path: Path) -> None:
    made = small()
    made.rows["PYTORCH_API"] = made.rows["PYTORCH_API"][1:]
    profile = linked(made, tmp_path, ("STEP_TIME",))
    assert list(profile.steps["number"]) == [-1] and "no_step_markers" in codes(profile)


def test_without_a_type_names_tell_the_queue(tmp_path: Path) -> None:
    made = small()
    made.schema["PYTORCH_API"] = made.schema["PYTORCH_API"].replace(", type INTEGER", "")
    profile = linked(made, tmp_path)
    assert (len(profile.enqueues), len(profile.dequeues)) == (1, 1)
    assert not profile.has("frames")


def test_one_device_of_several(tmp_path: Path) -> None:
    made = small()
    made.rows["RANK_DEVICE_MAP"] = [{"rankId": 0, "deviceId": 0}, {"rankId": 1, "deviceId": 1}]
    for number in range(50, 60):
        made.kernel(number, "aclnnMul_Mul_Mul", number, 1, deviceId=1)
    made.add("COMMUNICATION_OP", opName=made.text("hcom_send_"), startNs=ns(1), endNs=ns(2), opId=2)
    made.add("COMMUNICATION_TASK_INFO", globalTaskId=50, opId=2, taskType=made.text("Memcpy"))
    made.add("MEMORY_RECORD", component=made.text("PTA"), timestamp=ns(1), totalAllocated=1, deviceId=1)
    made.add("AICORE_FREQ", deviceId=1, timestampNs=ns(0), freq=1000)
    analysis().write(tmp_path / "analysis.db")
    profile = linked(made, tmp_path)
    assert len(profile.kernels) == 2 and len(profile.comms) == 1 and list(profile.counters["value"]) == [1800.0]
    assert list(profile.step_trace["stage_us"]) == [330.0]
    (note,) = [note for note in profile.diagnostics if note.code == "db_other_devices"]
    assert "device 0 is analysed, 10 tasks of 1 are left out" in note.message.en
    assert "db_rows_unmatched" not in codes(profile)
    # A rank that the map does not know has the device with most tasks.
    (tmp_path / NAME).rename(tmp_path / "ascend_pytorch_profiler_7.db")
    assert len(load_profile(tmp_path).kernels) == 10


def test_kernels_without_a_task_are_counted(tmp_path: Path) -> None:
    made = small()
    made.rows["TASK"] = made.rows["TASK"][1:]
    profile = linked(made, tmp_path)
    (note,) = [note for note in profile.diagnostics if note.code == "db_rows_unmatched"]
    assert len(profile.kernels) == 1 and note.message.en.startswith("1 rows of COMPUTE_TASK_INFO")


def test_graph_kernels_are_told(tmp_path: Path) -> None:
    made = small()
    made.kernel(3, "MatMul_3", 500, 5, 900, modelId=2)
    profile = linked(made, tmp_path)
    assert "graph_mode" in codes(profile) and list(profile.kernels["model"]) == [-1, -1, 2]


def test_impossible_times(tmp_path: Path) -> None:
    made = small()
    made.rows["TASK"][0]["endNs"] = ns(-5)
    made.rows["CANN_API"][0]["endNs"] = "soon"
    made.rows["PYTORCH_API"][1]["startNs"] = "9" * 1_000_000
    profile = linked(made, tmp_path)
    bad = [note.message.en for note in profile.diagnostics if note.code == "bad_duration"]
    assert len(bad) == 2 and "PYTORCH_API: 1, CANN_API: 1" in bad[0] and "aclnnAdd_AddAiCore_Add" in bad[1]
    assert list(profile.kernels["dur_us"]) == [0.0, 40.0] and list(profile.kernels["bad_duration"]) == [True, False]
    assert profile.ops["start_ns"].min() == -1


# ---- analysis.db ----------------------------------------------------------------------------------------------


def test_the_ledger_and_the_split_of_communication(tmp_path: Path) -> None:
    analysis().write(tmp_path / "analysis.db")
    profile = linked(small(), tmp_path)
    (ledger,) = [row for row in profile.step_trace.to_dict("records") if row["stage_us"] == 330]
    assert (ledger["step_id"], ledger["compute_us"], ledger["free_us"], ledger["prepare_us"]) == (5, 140, 0, 70)
    assert "negative_value" in codes(profile)
    (comm,) = profile.comms.to_dict("records")
    split = {"transit_us": 20.0, "wait_us": 50.0, "sync_us": 40.0, "idle_us": 10.0, "bytes": 3.5e6}
    assert {name: comm[name] for name in split} == pytest.approx(split)
    assert comm["start_ns"] == ns(320)
    (link,) = profile.links.to_dict("records")
    told = {"op": "allreduce-top1@123", "kind": "collective", "step_id": 5, "src": 0, "dst": 1, "transport": "HCCS"}
    assert {name: link[name] for name in told} == told
    assert (link["bytes"], link["transit_us"], link["bandwidth_gbs"]) == pytest.approx((3e6, 20.0, 150.0))


def test_analysis_alone(tmp_path: Path) -> None:
    analysis().write(tmp_path / "analysis.db")
    profile = load_profile(tmp_path / "analysis.db")
    assert len(profile.comms) == 1 and len(profile.step_trace) == 2 and profile.info.form == "db"


def test_an_empty_analysis_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "analysis.db").touch()
    profile = linked(small(), tmp_path)
    unread = [note.message.en for note in profile.diagnostics if note.code == "file_unreadable"]
    absent = profile.missing("step_trace")
    assert unread == ["the file is empty"] and len(profile.kernels) == 2
    assert absent is not None and absent.reason.en == "analysis.db: the file is empty"


def test_communicators_have_one_name_in_both_forms(tmp_path: Path) -> None:
    """The reports name a communicator by two hashes of its full name, which is what a database holds."""
    profile = linked(small(), tmp_path)
    halves = [0, 0]
    for char in "10.0.0.1%eth0_60000_0_17":
        halves = [(half * factor + ord(char)) & 0xFFFFFFFF for half, factor in zip(halves, (29, 131), strict=True)]
    assert column(profile, "comms", "group") == [str(halves[0] * 2**32 + halves[1])]


# ---- the file itself ------------------------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """A database whose last kernel is only in its write-ahead log, the writer still being there."""
    made = small()
    path = tmp_path / "live" / NAME
    writer = made.write(path, keep_open=True)
    assert writer is not None
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    columns = "startNs, endNs, deviceId, globalPid, taskType, modelId"
    writer.execute(f"INSERT INTO TASK (globalTaskId, {columns}) SELECT 77, {columns} FROM TASK LIMIT 1")
    writer.execute("INSERT INTO COMPUTE_TASK_INFO (globalTaskId, name) SELECT 77, name FROM COMPUTE_TASK_INFO LIMIT 1")
    writer.commit()
    yield path
    writer.close()


def test_a_live_log_is_read_from_a_copy(live: Path) -> None:
    before = tree(live.parent)
    assert sorted(before) == [NAME, f"{NAME}-shm", f"{NAME}-wal"]
    assert len(load_profile(live.parent).kernels) == 3
    assert tree(live.parent) == before


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_nothing_appears_beside_the_file(tmp_path: Path, mode: str) -> None:
    small().write(tmp_path / "in" / NAME)
    analysis().write(tmp_path / "in" / "analysis.db")
    with sqlite3.connect(tmp_path / "in" / NAME) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.close()
    before = tree(tmp_path / "in")
    for path in (tmp_path / "in", tmp_path / "in" / NAME):
        assert len(load_profile(path).kernels) == 2
    assert tree(tmp_path / "in") == before and sorted(before) == ["analysis.db", NAME]


@pytest.mark.parametrize("name", ["a b", "列 表", "50%23?mode=rwc#x", "new\nline"])
def test_any_folder_name(tmp_path: Path, name: str) -> None:
    assert len(linked(small(), tmp_path / name).kernels) == 2


def refused(path: Path) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        read_rank(locate(path)[0])
    assert caught.value.exit_code == 3
    return caught.value


def test_files_that_are_no_database(tmp_path: Path) -> None:
    for content, reason in ((b"", "the file is empty"), (b"hello" * 99, "not an SQLite database")):
        (tmp_path / NAME).write_bytes(content)
        error = refused(tmp_path)
        assert error.code == "db_damaged" and error.found is not None and error.found.en == reason
        assert NAME in error.what.en and NAME in error.what.zh
    (tmp_path / NAME).write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    assert refused(tmp_path / NAME).code == "db_damaged"


def test_some_other_database(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("CREATE TABLE urls (id INTEGER, url TEXT)")
    connection.close()
    assert refused(tmp_path / "history.db").code == "unknown_file"
    Recording().write(tmp_path / "bare.db")
    assert refused(tmp_path / "bare.db").code == "no_events"


def many() -> Recording:
    made = small()
    for number in range(2000):
        made.kernel(1000 + number, f"aclnnMul_{number % 7}_Mul", 1000 + number, 1)
    return made


def test_a_database_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / NAME
    many().write(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    profile = load_profile(tmp_path)
    assert "db_damaged" in codes(profile)
    assert 0 < len(profile.ops) <= 4 and len(profile.kernels) < 2002


def test_a_page_that_was_overwritten(tmp_path: Path) -> None:
    path = tmp_path / NAME
    many().write(path)
    size = 4096
    with sqlite3.connect(path) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'OP_MEMORY'").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : root * size] = b"\xaa" * size
    path.write_bytes(bytes(content))
    profile = load_profile(tmp_path)
    (note,) = [note for note in profile.diagnostics if note.code == "db_damaged"]
    assert note.message.en.startswith("table OP_MEMORY breaks off after 0 rows") and note.file == NAME
    assert len(profile.kernels) == 2002 and not profile.has("allocs")


def test_damage_in_the_middle_of_a_table_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / NAME
    many().write(path)
    whole = bytearray(path.read_bytes())
    with sqlite3.connect(path) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'TASK'").fetchone()
    connection.close()
    start = (root - 1) * 4096
    assert whole[start] == 5, "an inner page"
    cells = int.from_bytes(whole[start + 3 : start + 5], "big")
    cell = int.from_bytes(whole[start + 12 + 2 * (cells // 2) : start + 14 + 2 * (cells // 2)], "big")
    leaf = int.from_bytes(whole[start + cell : start + cell + 4], "big")
    whole[(leaf - 1) * 4096 : leaf * 4096] = b"\0" * 4096
    path.write_bytes(bytes(whole))
    profile = load_profile(tmp_path)
    (note,) = [note for note in profile.diagnostics if note.code == "db_damaged"]
    assert "table TASK breaks off" in note.message.en and 100 < len(profile.kernels) < 2002


def test_one_broken_entry_of_the_schema_costs_its_own_table(tmp_path: Path) -> None:
    path = tmp_path / NAME
    small().write(path)
    content = path.read_bytes()
    assert content.count(b'CREATE TABLE "OP_MEMORY" (') == 1
    path.write_bytes(content.replace(b'CREATE TABLE "OP_MEMORY" (', b'CREATE T\xcb\xff\xfe  \xabOP_MEMORY" ('))
    profile = load_profile(tmp_path)
    assert "db_damaged" in codes(profile) and len(profile.kernels) == 2
    assert not profile.has("allocs") and profile.has("memory")


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    made = small()
    made.write(tmp_path / NAME)
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute("UPDATE STRING_IDS SET value = CAST(x'61ff62' AS TEXT) WHERE value = 'aten::add'")
    connection.close()
    assert "a\ufffdb" in column(load_profile(tmp_path), "ops", "name")


def test_values_of_other_types_do_no_harm(tmp_path: Path) -> None:
    made = small()
    odd: list[Any] = [None, "text", b"\xff\x00", 1.5, -1, 2**63 - 1, "1" * 5000, ""]
    for table, rows in made.rows.items():
        made.schema[table] = made.schema[table].replace(" PRIMARY KEY", "")
        for place, row in enumerate(rows):
            for offset, name in enumerate(list(row)):
                if table != "STRING_IDS" and (place + offset) % 3 == 0:
                    row[name] = odd[(place + offset) % len(odd)]
    profile = linked(made, tmp_path)
    assert profile.info.form == "db"


@pytest.mark.parametrize("odd", ["text", b"\xff", 1e300], ids=["text", "bytes", "huge"])
def test_one_odd_value_costs_no_other(tmp_path: Path, odd: object) -> None:
    plain, strange = small(), small()
    strange.rows["TASK"][0]["streamId"] = odd
    told = [linked(made, tmp_path / name).kernels for name, made in (("plain", plain), ("odd", strange))]
    assert told[0]["stream"].tolist() == [2, 3] and told[1]["stream"][1] == 3
    assert told[1]["stream"][0] not in (2, 3)
    for name in ("name", "start_ns", "dur_ns", "connection"):
        assert list(told[0][name]) == list(told[1][name])


def test_schemas_that_execute_or_refer_elsewhere_are_left_alone(tmp_path: Path) -> None:
    small().write(tmp_path / NAME, ("MEMORY_RECORD",))
    with sqlite3.connect(tmp_path / NAME) as connection:
        connection.execute("CREATE VIEW MEMORY_RECORD AS SELECT 1 AS component, 2 AS timestamp")
    connection.close()
    assert not load_profile(tmp_path).has("memory")


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    small().write(tmp_path / NAME)
    analysis().write(tmp_path / "analysis.db")
    seen: list[tuple[int, int]] = []
    (source,) = locate(tmp_path)
    read_rank(source, lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] == source.size


def test_progress_is_the_share_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_pages, "_PAGES", 1)
    made = small()
    for number in range(1000):
        made.op("aten::add", 10_000 + 2 * number, 1)
    made.write(tmp_path / NAME)
    shares: list[float] = []
    (source,) = locate(tmp_path)
    read_rank(source, lambda done, total: shares.append(done / total))
    assert shares == sorted(shares) and shares[-1] == 1
    # The thousand rows are nearly all that there are: their tenths show one by one.
    assert [any(tenth <= share < tenth + 0.1 for share in shares) for tenth in (0.2, 0.4, 0.6, 0.8)] == [True] * 4


def test_lanes_are_told_apart(tmp_path: Path) -> None:
    tracks = linked(small(), tmp_path).tracks
    lanes = {(row.process, row.thread) for row in tracks.itertuples(index=False)}
    assert {("Python", f"Thread {MAIN}"), ("CANN", f"Thread {MAIN}"), ("Ascend Hardware", "Stream 2")} <= lanes
    assert {("HCCL", "Group 0 Communication"), ("HCCL", "Plane 1")} <= lanes
    assert len(lanes) == len(tracks)
