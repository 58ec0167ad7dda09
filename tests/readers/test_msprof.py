"""Output of msprof: which files belong together, the traps of each, and the recorded ones against their facts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from making import DEVICE, HCCL, lanes, piece, task, us, write_csv, write_trace
from measured import length, spans_of
from places import PROFILES, needs_profiles

from npu_advisor.api import load_profile, load_profiles
from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, read_rank
from npu_advisor.readers.device_names import comm_type, kernel_type
from npu_advisor.readers.msprof import msprof_files

SUMMARY = ["Op Name", "OP Type", "Task Type", "Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)"]
STAMP = "20250102030405"
PROF = "PROF_000001_20250102030405_ABC"


def op_row(name: str, at: float, dur: float, kind: str = "MatMulV2", core: str = "AI_CORE") -> list[Any]:
    return [name, kind, core, us(at) + "\t", dur, 0.5]


def output(folder: Path, device: int = 0, rank: Any = 0) -> Path:
    prof = folder / PROF
    (prof / f"device_{device}").mkdir(parents=True)
    (prof / f"device_{device}" / f"info.json.{device}").write_text(json.dumps({"rank_id": rank}))
    return prof / "mindstudio_profiler_output"


def only(path: Path) -> Profile:
    (source,) = locate(path)
    return read_rank(source)


def chosen(*names: str) -> dict[str, list[str]]:
    found = msprof_files(Path("x"), {name: Path(name) for name in names})
    assert found is not None
    return {role: [path.name, *(more.name for more in found.parts.get(role, ()))] for role, path in found.files.items()}


def test_pieces_in_order_and_the_latest_export() -> None:
    names = [f"op_summary_slice_{number}_{STAMP}.csv" for number in range(12)]
    older = ["op_summary_slice_0_20240102030405.csv", "op_summary_20230102030405.csv"]
    assert chosen(*older, *reversed(names)) == {"kernel_details": names}


def test_a_file_set_per_iteration() -> None:
    found = chosen("op_summary_0_1_10.csv", "op_summary_0_1_2.csv", "op_summary_0_1.csv", "msprof_0_1_2.json")
    assert found == {
        "kernel_details": ["op_summary_0_1_2.csv", "op_summary_0_1_10.csv"],
        "trace": ["msprof_0_1_2.json"],
    }


def test_parts_of_the_trace_stand_in_for_it() -> None:
    parts = ("hccl_0_1_1.json", "task_time_0_1_1.json", "step_trace_0_1_1.json")
    assert sorted(chosen(*parts)["trace"]) == sorted(parts)
    assert chosen(*parts, "msprof_0_1_1.json") == {"trace": ["msprof_0_1_1.json"]}
    assert chosen(f"task_time_{STAMP}.csv") == {"kernel_details": [f"task_time_{STAMP}.csv"]}
    assert "kernel_details" not in chosen(f"task_time_{STAMP}.csv", f"msprof_{STAMP}.json")
    assert msprof_files(Path("x"), {"op_statistic_1.csv": Path("a"), "notes.json": Path("b")}) is None


def test_the_files_of_one_output(tmp_path: Path) -> None:
    folder = output(tmp_path, rank=5)
    write_csv(folder, f"op_summary_slice_0_{STAMP}.csv", SUMMARY, [op_row("a", 10, 4), op_row("b", 20, 4)])
    write_csv(folder, f"op_summary_slice_1_{STAMP}.csv", [*SUMMARY, "Block Dim"], [[*op_row("c", 30, 2), 8]])
    memory = ["Component", "Timestamp(us)", "Total Allocated(KB)", "Total Reserved(KB)"]
    write_csv(folder, f"memory_record_{STAMP}.csv", memory, [["PTA", us(1) + "\t", 3, 4]])
    allocs = ["Operator", "Size(KB)", "Allocation Time(us)", "Release Time(us)"]
    write_csv(folder, f"operator_memory_{STAMP}.csv", allocs, [["aten::a", 2, us(1) + "\t", us(3) + "\t"]])
    write_csv(folder, f"op_statistic_{STAMP}.csv", ["OP Type", "Count", "Total Time(us)"], [["MatMulV2", 3, 10]])
    api = ["Level", "API Name", "Time(us)", "Count"]
    write_csv(folder, f"api_statistic_{STAMP}.csv", api, [["acl", "aclnnMm", 7, 3]])
    steps = ["Iteration ID", "Iteration End(us)", "Iteration Time(us)"]
    write_csv(folder, f"step_trace_{STAMP}.csv", steps, [[1, us(26), 20], [2, us(40), 12]])
    for given in (tmp_path, tmp_path / PROF, folder):
        profile = only(given)
        assert profile.info.form == "msprof" and profile.rank == 5
        assert profile.kernels["name"].tolist() == ["a", "b", "c"] and profile.kernels["block_dim"].tolist()[2] == 8
        assert profile.kernels["dur_us"].sum() == 10 and profile.kernels["step_id"].tolist() == [1, 1, 2]
        assert profile.memory["allocated_bytes"].tolist() == [3072] and profile.allocs["size_bytes"].tolist() == [2048]
        assert profile.op_statistic["total_us"].sum() == 10 and profile.api_statistic["count"].sum() == 3
    finished = load_profile(tmp_path)
    assert finished.steps["number"].tolist() == [1, 2] and finished.steps["compute_us"].tolist() == [8, 2]


def test_a_broken_piece_costs_only_itself(tmp_path: Path) -> None:
    folder = output(tmp_path)
    write_csv(folder, f"op_summary_slice_0_{STAMP}.csv", SUMMARY, [op_row("a", 10, 4)])
    write_csv(folder, f"op_summary_slice_1_{STAMP}.csv", ["nothing"], [["x"]])
    (folder / f"msprof_slice_0_{STAMP}.json").write_text("")
    write_trace(
        folder, [*lanes(), task("a", 10, 4), task("EVENT_WAIT", 20, 4, "EVENT_WAIT")], f"msprof_slice_1_{STAMP}.json"
    )
    profile = only(tmp_path)
    assert len(profile.kernels) == 1 and len(profile.tasks) == 1
    unread = {note.file for note in profile.diagnostics if note.code == "file_unreadable"}
    assert unread == {f"op_summary_slice_1_{STAMP}.csv", f"msprof_slice_0_{STAMP}.json"}


def test_task_time_alone_holds_more_than_kernels(tmp_path: Path) -> None:
    head = ["kernel_name", "kernel_type", "stream_id", "task_id", "task_time(us)", "task_start(us)", "task_stop(us)"]
    rows = [
        ["MatMul_1", "KERNEL_AICORE", 2, 1, 5, us(10) + "\t", us(15)],
        ["EVENT_WAIT", "EVENT_WAIT", 2, 2, 5, us(16) + "\t", us(21)],
        ["hcom_allReduce__1_0_1", "N/A", 3, 1, 5, us(30) + "\t", us(35)],
    ]
    write_csv(output(tmp_path), f"task_time_{STAMP}.csv", head, rows)
    profile = only(tmp_path)
    assert profile.kernels["name"].tolist() == ["MatMul_1"] and profile.kernels["core"].tolist() == ["AI_CORE"]
    assert len(profile.comms) == 1


def iteration(number: int, at: float, dur: float, **more: Any) -> dict[str, Any]:
    args = {"Iteration ID": number}
    return piece(f"Iteration {number}", at, dur, DEVICE, 99, cat="Iteration Time", args=args, **more)


def test_iterations_are_steps_and_no_kernels(tmp_path: Path) -> None:
    folder = tmp_path / PROF / "device_0" / "timeline"
    for number in (1, 2, 10):
        at = number * 100
        events = [
            *lanes(),
            iteration(number, at, 50),
            piece(f"FP_BP Time {number}", at, 20, DEVICE, 99, cat="FP_BP Time", args={}),
            piece(f"Reduce_{number}_0", at + 20, 20, DEVICE, 99, cat="Reduce", args={}),
            task("Default/net/MatMul-op7", at + 1, 10),
            task("REDUCE_ASYNC_V2", at + 20, 5, "REDUCE_ASYNC_V2", 4),
            piece("Default/AllReduce-op534_0", at + 15, 20, HCCL, 70000),
        ]
        write_trace(folder, events, f"msprof_0_2_{number}.json")
    for given in (tmp_path, folder, folder.parent, folder.parent.parent):
        profile = load_profile(given)
        assert profile.info.form == "msprof"
        assert (
            profile.kernels["type"].tolist() == ["MatMul"] * 3 and profile.comms["type"].tolist() == ["allReduce"] * 3
        )
        assert profile.steps["number"].tolist() == [1, 2, 10] and profile.steps["complete"].all()
        assert profile.kernels["step"].tolist() == profile.comms["step"].tolist() == [0, 1, 2]
        assert profile.steps["compute_us"].tolist() == [10] * 3
        assert profile.steps["exposed_comm_us"].tolist() == [20] * 3
        assert profile.tasks["step"].tolist() == [0, 1, 2]


def test_names_of_graph_nodes() -> None:
    assert kernel_type("Default/network-With/_backbone-AlexNet/Cast-op239") == "Cast"
    assert kernel_type("Default/optimizer-Momentum/FusedMulApplyMomentum-op292") == "FusedMulApplyMomentum"
    assert comm_type("Default/AllReduce-op534_0") == "allReduce" and comm_type("hcom_send__1_2_3") == "send"


def test_every_device_of_the_old_layout(tmp_path: Path) -> None:
    for device in (0, 1):
        folder = tmp_path / PROF / f"device_{device}"
        write_csv(folder / "summary", f"op_summary_{device}_1_1.csv", SUMMARY, [op_row("a", 1, 2)])
        (folder / f"info.json.{device}").write_text(json.dumps({"rank_id": device + 4}))
    assert [profile.rank for profile in load_profiles(tmp_path)] == [4, 5]


def test_beside_a_torch_profile_it_is_a_part_of_that(tmp_path: Path) -> None:
    torch = tmp_path / "x_ascend_pt"
    write_csv(torch / "ASCEND_PROFILER_OUTPUT", "kernel_details.csv", SUMMARY, [op_row("a", 1, 2)])
    write_csv(torch / PROF / "mindstudio_profiler_output", f"op_summary_{STAMP}.csv", SUMMARY, [op_row("a", 1, 2)])
    (source,) = locate(tmp_path)
    assert source.files["kernel_details"].name == "kernel_details.csv"


# ---- the recorded ones ----------------------------------------------------------------------------------------

MINDSPORE, ONE_TABLE = "npu-msprof-mindspore-2023", "npu-msprof-op-summary-2023"


@cache
def _truth(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((PROFILES / "TRUTH.json").read_text())["profiles"][name]["entries"]
    return loaded


@cache
def _linked(name: str) -> Profile:
    return load_profile(PROFILES / name)


@needs_profiles
@pytest.mark.parametrize("number", [1, 2, 3])
def test_recorded_iterations(number: int) -> None:
    profile = _linked(MINDSPORE)
    (told,) = [facts for path, facts in _truth(MINDSPORE).items() if path.endswith(f"/msprof_0_2_{number}.json")]
    lanes_of = told["processes"]
    row = profile.steps["number"].tolist().index(number)
    device = {entry["name"]: entry["total_us"] for entry in lanes_of["Ascend Hardware"]["top"]}
    assert abs(profile.steps["dur_ns"][row] - _ns(device[f"Iteration {number}"])) <= 1
    kernels, tasks, comms = (table[table["step"] == row] for table in (profile.kernels, profile.tasks, profile.comms))
    parts_of_iteration = 4  # Iteration, FP_BP Time, Iteration Refresh, Reduce
    assert len(kernels) + len(tasks) == lanes_of["Ascend Hardware"]["events"] - parts_of_iteration
    overlap = {entry["name"]: entry["total_us"] for entry in lanes_of["Overlap Analysis"]["top"]}
    # Starts and ends are rounded apart, once for every piece of the writer's own union.
    assert abs(length(spans_of(kernels)) - _ns(overlap["Computing"])) <= len(kernels)
    assert abs(int(comms["dur_ns"].sum()) - _ns(overlap["Communication"])) <= 1
    for name in ("NOTIFY_WAIT", "MEMCPY_ASYNC", "REDUCE_ASYNC_V2"):
        if name in device:
            assert abs(int(tasks["dur_ns"][tasks["name"] == name].sum()) - _ns(device[name])) <= 1


@needs_profiles
def test_recorded_parts_of_collectives() -> None:
    profile = _linked(MINDSPORE)
    told = [facts["processes"]["HCCL"] for path, facts in _truth(MINDSPORE).items() if "/msprof_" in path]
    rows = profile.comm_tasks
    assert len(rows) + len(profile.comms) == sum(facts["events"] for facts in told)
    for name in ("Notify_Wait", "Memcpy", "Reduce_Inline"):
        total = sum(entry["total_us"] for facts in told for entry in facts["top"] if entry["name"] == name)
        assert abs(int(rows["dur_ns"][rows["name"] == name].sum()) - _ns(total)) <= len(told)
    assert set(profile.comms["type"]) == {"allReduce"} and (rows["comm"] >= 0).all()
    assert (profile.info.form, profile.rank, len(profile.apis)) == ("msprof", 0, 3)


@needs_profiles
def test_recorded_table() -> None:
    (told,) = _truth(ONE_TABLE).values()
    profile = _linked(ONE_TABLE)
    kernels, facts = profile.kernels, told["kernels"]
    assert (len(kernels), len(profile.comms)) == (facts["compute"], facts["communication"])
    assert abs(int(kernels["dur_ns"].sum()) - _ns(facts["kernel_time_us"])) <= len(kernels)
    for entry in facts["top_by_type"]:
        rows = kernels[kernels["type"] == entry["name"]]
        assert len(rows) == entry["count"]
        assert abs(int(rows["dur_ns"].sum()) - _ns(entry["total_us"])) <= len(rows)
    for core, entry in facts["by_core"].items():
        rows = profile.comms if core == "HCCL" else kernels[kernels["core"] == core]
        assert len(rows) == entry["count"]
    (step,) = profile.steps.to_dict("records")
    window = told["device"]["2"]
    assert step["number"] == 2 and abs(step["compute_us"] - window["busy_compute_us"]) < 0.01
    assert abs(step["free_us"] - window["idle_us"]) < 0.01


def _ns(value: float) -> int:
    return round(value * 1000)
