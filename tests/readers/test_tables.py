from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from making import ns, us, write_csv

from npu_advisor.readers import tables
from npu_advisor.readers.csvfile import read_csv
from npu_advisor.readers.notes import Notes, UnreadableFileError

MB = 2**20


def test_allocations_and_what_only_looks_like_one(tmp_path: Path) -> None:
    head = ["Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)"]
    rows = [
        ["cann::Conv2D", 2, us(30), us(31), "", 1],
        ["aten::mm", 100.5, us(20) + "\t", us(60) + "\t", us(60), "40.000\t"],
        ["aten::empty", 4, us(10), "", "", ""],
        ["aten::linear", -500, "", us(40), us(40), ""],
        ["aten::odd", 0, us(1), "", "", ""],
        ["", 1, us(45), us(48), "", 3],
    ]
    columns = tables.read_allocs(write_csv(tmp_path, "operator_memory.csv", head, rows), Notes())
    assert list(columns["name"]) == ["aten::empty", "aten::mm", "cann::Conv2D", None]
    assert columns["size_bytes"].tolist() == [4096, 102912, 2048, 1024]
    assert columns["release_ns"].tolist() == [-1, ns(60), ns(31), ns(48)]
    assert columns["dur_ns"].tolist() == [0, 40_000, 1_000, 3_000]
    assert list(columns["component"]) == ["PTA", "PTA", "GE", "PTA"]


def test_memory_in_time_order(tmp_path: Path) -> None:
    head = ["Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Device Type"]
    rows = [["APP", us(9) + "\t", "", 7.5, "NPU:0"], ["PTA", us(3), 1.5, 2, "NPU:0"]]
    columns = tables.read_memory(write_csv(tmp_path, "memory_record.csv", head, rows), Notes())
    assert list(columns["component"]) == ["PTA", "APP"] and "active_bytes" not in columns
    assert columns["reserved_bytes"].tolist() == [2 * MB, 7.5 * MB]
    assert columns["allocated_bytes"][0] == 1.5 * MB and math.isnan(columns["allocated_bytes"][1])


def test_memory_whose_times_a_spreadsheet_took(tmp_path: Path) -> None:
    rows = [["PTA", "1.69512E+15", 5], ["PTA", "1.69512E+15", 6]]
    notes = Notes()
    path = write_csv(tmp_path, "memory_record.csv", ["Component", "Timestamp(us)", "Total Allocated(MB)"], rows)
    columns = tables.read_memory(path, notes)
    assert columns["start_ns"].tolist() == [-1, -1] and columns["allocated_bytes"].max() == 6 * MB
    assert [note.code for note in notes] == ["bad_timestamp"] and "1.69512E+15" in notes[0].message.zh


def test_step_ledger_without_negative_times(tmp_path: Path) -> None:
    head = ["Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free"]
    head.append("Communication(Not Overlapped and Exclude Receive)")
    notes = Notes()
    path = write_csv(
        tmp_path, "step_trace_time.csv", head, [[0, 12, 5.5, 0, -0.004, 0, 1, -12.5], [0, "", 1, 0, 0, 0, 0, 0]]
    )
    columns = tables.read_step_trace(path, notes)
    assert columns["step_id"].tolist() == [12, -1] and columns["overlapped_us"].tolist() == [0, 0]
    assert columns["compute_us"].tolist() == [5.5, 1] and "prepare_us" not in columns
    assert [note.code for note in notes] == ["negative_value"] and "Exclude Receive) -12.5" in notes[0].message.en


def test_statistics_caches_and_sums(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path, "op.csv", ["OP Type", "Core Type", "Count", "Total Time(us)"], [["Mul", "AI_CORE", 2, 3.5]]
    )
    columns = tables.read_op_statistic(path, Notes())
    assert columns["count"].tolist() == [2] and columns["total_us"].tolist() == [3.5]
    path = write_csv(tmp_path, "api.csv", ["Level", "API Name", "Time(us)", "Count"], [["acl", "aclnnMm", 4, 1]])
    assert tables.read_api_statistic(path, Notes())["total_us"].tolist() == [4.0]
    head = ["Stream ID", "Task ID", "Hit Rate", "Victim Rate", "Op Name"]
    columns = tables.read_l2_cache(write_csv(tmp_path, "l2.csv", head, [[2, 9, "N/A", 1.25, "mm"]]), Notes())
    assert "hit_rate" not in columns and columns["victim_rate"].tolist() == [1.25]
    head = ["Component", "Timestamp(us)", "Total Reserved(MB)", "Device"]
    columns = tables.read_module_memory(write_csv(tmp_path, "m.csv", head, [["HCCL", us(1), 2, "NPU:0"]]), Notes())
    assert columns["reserved_bytes"].tolist() == [2.0 * MB]


@pytest.mark.parametrize(("unit", "scale"), [("us", 1), ("ms", 1000)])
def test_aicpu_in_both_units(tmp_path: Path, unit: str, scale: int) -> None:
    head = ["Timestamp(us)", "Node", f"Compute_time({unit})", f"Total_time({unit})"]
    columns = tables.read_aicpu(write_csv(tmp_path, "d.csv", head, [[us(5), "Cast", 2, 3]]), Notes())
    assert columns["compute_us"].tolist() == [2 * scale] and columns["total_us"].tolist() == [3 * scale]
    assert "memcpy_us" not in columns


def test_cells_of_several_lines_are_one_row(tmp_path: Path) -> None:
    head = ["Name", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)"]
    rows = [[f"aten::op{n}", "a.py(1): f;\r\nb, c.py(2): g;\nd", n, n + 1] for n in range(3)]
    columns = tables.read_op_details(write_csv(tmp_path, "o.csv", head, rows), Notes())
    assert list(columns["name"]) == ["aten::op0", "aten::op1", "aten::op2"]
    assert columns["host_total_us"].tolist() == [1, 2, 3] and "device_self_us" not in columns


def test_blank_cells_are_no_damage_in_a_file_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1,2,3\n,\n4,5,6", encoding="utf-8")
    notes = Notes()
    assert read_csv(path, {"first": ("a",)}, ("first",), notes).ints("first").tolist() == [1, 4] and not notes


def test_rows_of_the_wrong_width_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a,b\n1,2\n3\n4,5\n"6', encoding="utf-8")
    notes = Notes()
    file = read_csv(path, {"first": ("A",), "second": ("b",), "third": ("c",)}, ("first",), notes)
    assert file.ints("first").tolist() == [1, 4] and "third" not in file
    assert np.isnan(file.floats("third")).all() and file.ints("third", 9).tolist() == [9, 9]
    assert notes[0].code == "csv_damaged" and "header: 2;" in notes[0].message.en


@pytest.mark.parametrize("text", ["", "a,b\n", "a,b", "x,y\n1,2\n"])
def test_files_without_rows_or_the_column(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(UnreadableFileError):
        read_csv(path, {"a": ("a",)}, ("a",), Notes())


def test_a_field_beyond_the_parsers_limit_costs_its_row(tmp_path):
    path = tmp_path / "memory_record.csv"
    header = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB)"
    path.write_text(f"{header}\nPTA,1.000,2,3\n{'x' * 200_000},1.500,2,3\nPTA,2.000,4,5", encoding="utf-8")
    notes = Notes()
    assert len(tables.read_memory(path, notes)["start_ns"]) >= 2


def test_a_nul_byte_in_the_header_is_no_end(tmp_path):
    path = tmp_path / "memory_record.csv"
    path.write_bytes(b"Comp\0onent,Timestamp(us),Total Allocated(MB),Total Reserved(MB)\nPTA,1.000,2,3\n")
    assert len(tables.read_memory(path, Notes())["start_ns"]) == 1
