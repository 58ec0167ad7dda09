from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from making import (
    DEVICE,
    HCCL,
    KERNEL_HEAD,
    flow,
    kernel,
    lanes,
    ns,
    op,
    piece,
    task,
    us,
    write_csv,
    write_info,
    write_trace,
)

from npu_advisor.base.categorical import Categorical
from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, read_rank
from npu_advisor.readers.device_names import comm_type, computes, core_name, is_comm_name, kernel_type, task_kind
from npu_advisor.readers.join import match


def profile(folder: Path) -> Profile:
    (source,) = locate(folder)
    return read_rank(source)


def codes(read: Profile) -> list[str]:
    return [note.code for note in read.diagnostics]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trans_TransData_12", "TransData"),
        ("Conv2DBackpropFilter6_MemSet", "MemSet"),
        ("aclnnMm_MatMulCommon_MatMulV2", "MatMulV2"),
        ("StatelessDropOutGenMask/DSASTATELESSGENBITMASK", "DSASTATELESSGENBITMASK"),
        ("a/b/Conv2D1", "Conv2D"),
        ("123", "123"),
    ],
)
def test_type_from_name(name: str, expected: str) -> None:
    assert kernel_type(name) == expected


def test_what_a_device_task_is() -> None:
    assert computes("MatMul3", "AI_CORE") and computes("aclnnX_MemSet", "Other") and computes("d", "DSA_SQE")
    for name, kind in (("MEMCPY_ASYNC", "Other"), ("x", "SDMA"), ("Notify Wait", "Notify Wait"), ("hcom_send__1", "")):
        assert not computes(name, kind)
    kinds = [("MEMCPY_ASYNC", "PCIE_DMA_SQE"), ("EVENT_RECORD", "PLACE_HOLDER_SQE"), ("EVENT_WAIT", "EVENT_WAIT_SQE")]
    assert [task_kind(*names) for names in kinds] == ["copy", "event_record", "event_wait"]
    assert task_kind("Notify_Wait", "NOTIFY_WAIT") == "notify" and task_kind("SDMA", "SDMA") == "other"
    spelled = ("AI CPU", "AICPU", "AI_CPU", "KERNEL_AICPU", "KERNEL_AIVEC", "MIX_AIC", "N/A")
    assert [core_name(text) for text in spelled] == ["AI_CPU"] * 4 + ["AI_VECTOR_CORE", "MIX_AIC", ""]
    assert [comm_type(name) for name in ("hcom_allReduce__586_0_1", "HcclAllreduce", "lcclAllReduce__7_0")] == [
        "allReduce",
        "allreduce",
        "allReduce",
    ]
    assert is_comm_name("hcom_x") and not is_comm_name("MatmulAllReduce")


def test_match_uses_each_row_once_and_the_nearest_within_a_microsecond() -> None:
    names, starts = Categorical.of(["a", "a", "a", "b", "c"]), np.array([100, 100, 5000, 100, 7])
    others, there = Categorical.of(["b", "a", "a", "a", "a"]), np.array([1101, 100, 100, 5900, 5500])
    assert match(names, starts, others, there).tolist() == [1, 2, 4, -1, -1]
    assert match(names, starts, others, there, within_ns=1001).tolist() == [1, 2, 4, 0, -1]


def test_rows_join_their_slices(tmp_path: Path) -> None:
    head = [*KERNEL_HEAD, "Stream ID", "Model ID", "OP State", "Input Shapes", "Input Formats", "Block Num"]
    head += ["Wait Time(us)", "aic_mac_ratio", "cube_utilization(%)"]
    more = [2, 4294967295, "dynamic", '"2,3;;4"', "FORMAT_ND;NCHW", 8, "1.500", 0.25, 70]
    rows = [[*kernel("mm", 30, "4.125"), *more], [*kernel("mm", 10, "5.000"), *more], [*kernel("gone", 50, 1), *more]]
    write_csv(tmp_path, "kernel_details.csv", head, rows)
    write_info(tmp_path, rank="3")
    write_trace(
        tmp_path, [task("mm", 10, 5.0004), task("mm", 30, 4.1), task("MEMCPY_ASYNC", 40, 1, "SDMA_SQE"), *lanes()]
    )
    read = profile(tmp_path)
    kernels = read.kernels
    assert read.rank == 3 and read.info.level == "Level1" and read.info.cann == "8.3" and read.info.with_stack is True
    assert read.info.schedule == {"wait": 1, "active": 2} and not read.diagnostics
    assert kernels["start_ns"].tolist() == [ns(10), ns(30), ns(50)]
    assert kernels["dur_ns"].tolist() == [5000, 4125, 1000]
    assert kernels["tid"].tolist() == [2, 2, -1] and kernels["connection"].tolist() == [5, 5, -1]
    assert kernels["model"].tolist() == [-1] * 3 and kernels["step_id"].tolist() == [1] * 3
    assert list(kernels["input_shapes"].unique()) == ["2,3;;4"] and kernels["input_formats"][0] == "ND;NCHW"
    assert kernels["block_dim"].tolist() == [8] * 3 and kernels["cube_utilization"].tolist() == [70.0] * 3
    assert "type_inferred" not in kernels and "output_shapes" not in kernels
    assert list(read.tasks["name"]) == ["MEMCPY_ASYNC"] and list(read.tasks["kind"]) == ["copy"]


def test_cores_work_for_the_longer_of_both_kinds(tmp_path: Path) -> None:
    head = [*KERNEL_HEAD, "aicore_time(us)", "aiv_time(us)"]
    rows = [[*kernel("mix", 10, 9), 3.5, "8.000"], [*kernel("cube", 30, 9), 7, "N/A"], [*kernel("x", 50, 9), "N/A", ""]]
    write_csv(tmp_path, "kernel_details.csv", head, rows)
    read = profile(tmp_path)
    assert read.kernels["core_us"].tolist()[:2] == [8, 7]
    assert np.isnan(read.kernels["core_us"][2])
    assert "metrics_unavailable" not in codes(read)


def test_level0_types_are_inferred_and_cores_come_from_the_trace(tmp_path: Path) -> None:
    rows = [kernel("trans_TransData_0", 1, 2, "N/A", "N/A"), kernel("aclnnX_Y_NonZero", 5, 2, "N/A", "N/A")]
    rows.append(kernel("hcom_allReduce__1_0_1", 9, 2, "hcom_allReduce_", "HCCL"))
    head = [*KERNEL_HEAD, "Block Dim", "Input Shapes"]
    write_csv(tmp_path, "kernel_details.csv", head, [[*row, 0, "N/A"] for row in rows])
    write_info(tmp_path, level="Level0")
    write_trace(tmp_path, [task("trans_TransData_0", 1, 2), task("aclnnX_Y_NonZero", 5, 2, "AI_CPU"), *lanes()])
    read = profile(tmp_path)
    assert list(read.kernels["type"]) == ["TransData", "NonZero"] and read.kernels["type_inferred"].all()
    assert list(read.kernels["core"]) == ["AI_CORE", "AI_CPU"]
    assert codes(read) == ["metrics_unavailable"] and list(read.comms["type"]) == ["allReduce"]
    assert read.missing("kernels", "block_dim") is not None and read.missing("kernels", "input_shapes") is not None


def test_impossible_durations_count_but_cost_nothing(tmp_path: Path) -> None:
    head = [*KERNEL_HEAD, "Stream ID", "aicore_time(us)"]
    rows = [
        [*kernel("good", 0, 500), 2, 1],
        [*kernel("over", 700, "3150000.000"), 2, 1],
        [*kernel("next", 720, 30), 2, 1],
        [*kernel("huge", 750, "9223372036854775.807"), 2, 1],
        [*kernel("minus", 760, "-1.000"), 2, 1],
        [*kernel("side", 765, 2000000), 3, 1],
    ]
    write_csv(tmp_path, "kernel_details.csv", head, rows)
    read = profile(tmp_path)
    assert read.kernels["dur_us"].tolist() == [500, 0, 30, 0, 0, 2000000]
    (note,) = (note for note in read.diagnostics if note.code == "bad_duration")
    assert note.message.en.startswith("3 of 6 kernels") and note.message.en.endswith(": huge, minus, over")


def test_a_kernel_of_impossible_duration_may_lack_a_name(tmp_path: Path) -> None:
    rows = [[*kernel("N/A", 0, "-1.000"), 1], [*kernel("good", 700, 30), 1]]
    write_csv(tmp_path, "kernel_details.csv", [*KERNEL_HEAD, "aicore_time(us)"], rows)
    (note,) = (note for note in profile(tmp_path).diagnostics if note.code == "bad_duration")
    assert note.message.en.endswith(": N/A")


def test_collectives_by_core_name_and_type(tmp_path: Path) -> None:
    rows = [kernel("mm", 0, 5), kernel("hcom_allGather__1_0_1", 10, 5, "hcom_allGather_", "COMMUNICATION")]
    rows += [kernel("x", 20, 5, "Send", "HCCL"), kernel("lcclAllReduce__7_0", 30, 5, "N/A", "AI_VECTOR_CORE")]
    write_csv(tmp_path, "kernel_details.csv", [*KERNEL_HEAD, "aicore_time(us)"], [[*row, 1] for row in rows])
    read = profile(tmp_path)
    assert list(read.kernels["name"]) == ["mm"]
    assert list(read.comms["type"]) == ["allGather", "x", "allReduce"]


def test_flow_ends_follow_a_row_whose_start_is_rounded(tmp_path: Path) -> None:
    slices = [piece("hcom_allReduce__1_0_1", 10.002, 5, HCCL, 0, args={"connection_id": 6}), op("c10d::x", 1, 2)]
    flows = [
        flow("async_npu", "s", 1, 1),
        flow("async_npu", "f", 1, 10.002, HCCL, 0),
        flow("async_npu", "f", 2, 10.002),
    ]
    write_trace(tmp_path, [*slices, *flows, *lanes()])
    rows = [kernel("hcom_allReduce__1_0_1", 10.001, "5.000", "hcom_allReduce_", "HCCL")]
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, rows)
    read = profile(tmp_path)
    ends = read.flow_points[read.flow_points["finish"]]
    assert ends["start_ns"].tolist() == [ns(10.001), ns(10.002)]
    assert read.comms["start_ns"].tolist() == [ns(10.001)] and ends["track"].tolist()[0] == read.comms["track"][0]


def test_trace_alone(tmp_path: Path) -> None:
    path = write_trace(
        tmp_path,
        [
            task("trans_TransData_0", 10, 4.2, "Other", **{"Physic Stream Id": None, "Stream Id": 9}),
            task("MEMCPY_ASYNC", 20, 1, "Other"),
            task("x", 30, 1, "AI_CPU", **{"Model Id": 17}),
            piece("hcom_send__1_0_1", 40, 2, HCCL, 0),
            {"ph": "M", "name": "thread_name", "pid": HCCL, "tid": 0, "args": {"name": "Group abc Communication"}},
            *lanes(),
        ],
        "mine.json",
    )
    read = profile(path)
    assert read.info.form == "trace" and sorted(codes(read)) == ["graph_mode", "trace_only_input"]
    assert list(read.kernels["core"]) == ["Other", "AI_CPU"] and read.kernels["dur_ns"].tolist() == [4200, 1000]
    assert read.kernels["stream"].tolist() == [9, 2] and read.kernels["model"].tolist() == [-1, 17]
    assert list(read.tasks["name"].cat.categories) == ["MEMCPY_ASYNC"]
    assert list(read.comms["group"]) == ["abc"] and read.comms["pid"].tolist() == [HCCL]


def test_old_column_names_numbers_and_spreadsheet_marks(tmp_path: Path) -> None:
    head = ["Step ID", "Op Name", "OP Type", "Task Type", "Task Start Time(us)", "Task Duration(us)", "Device_id"]
    rows = [
        [2, "mm", "MatMul", "AICPU", 1695115378713661, 496.8508, 0],
        ["", "mm", "MatMul", "AI CPU", "1695115378713660.5", 1, 0],
    ]
    path = write_csv(tmp_path, "op_summary_1.csv", head, rows, bom=True)
    path.write_bytes(path.read_bytes() + b"\r\n\t\r\n")
    read = profile(path)
    assert read.kernels["start_ns"].tolist() == [1695115378713660500, 1695115378713661000]
    assert read.kernels["dur_ns"].tolist() == [1000, 496851] and read.kernels["step_id"].tolist() == [-1, 2]
    assert list(read.kernels["core"].unique()) == ["AI_CPU"] and read.info.form == "csv"


def test_mangled_times_keep_the_durations(tmp_path: Path) -> None:
    rows = [[1, "mm", "MatMul", "AI_CORE", "1.69512E+15", "5.5"], [1, "mm", "MatMul", "AI_CORE", us(3), "6"]]
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, rows)
    read = profile(tmp_path)
    assert read.kernels["start_ns"].tolist() == [-1, ns(3)] and read.kernels["dur_us"].sum() == 11.5
    assert "bad_timestamp" in codes(read)


def test_a_cut_csv_loses_its_last_row_only(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [kernel(f"k{n}", n * 10, 5) for n in range(5)])
    text = path.read_bytes()
    for keep in (text[: text.rindex(b"k4") + 8], text[: text.rindex(b"k4")] + b'"k4'):
        path.write_bytes(keep)
        read = profile(tmp_path)
        assert list(read.kernels["name"]) == ["k0", "k1", "k2", "k3"] and "csv_damaged" in codes(read)
    path.write_bytes(text.rstrip())
    assert len(profile(tmp_path).kernels) == 5 and "csv_damaged" not in codes(profile(tmp_path))


def test_device_pid_is_kept(tmp_path: Path) -> None:
    write_trace(tmp_path, [task("k", 1, 2), op("a", 0, 1), *lanes()])
    assert profile(tmp_path).kernels["pid"].tolist() == [DEVICE]
