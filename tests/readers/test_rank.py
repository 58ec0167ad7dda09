from __future__ import annotations

import json
from pathlib import Path

import pytest
from making import KERNEL_HEAD, kernel, lanes, op, task, write_csv, write_info, write_trace

from npu_advisor.base.errors import ProfileError
from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, read_rank


def read(folder: Path) -> Profile:
    return read_rank(locate(folder)[0])


def codes(profile: Profile) -> list[str]:
    return [note.code for note in profile.diagnostics]


def test_info_and_metadata(tmp_path: Path) -> None:
    write_trace(tmp_path, [op("a", 0, 1)])
    write_info(tmp_path, "5", name="profiler_info.json")
    told = {"ENV_VARIABLES": {"ASCEND_LAUNCH_BLOCKING": "1", "HCCL_ALGO": "", "N": 2}, "parallel_group_info": {"g": {}}}
    (tmp_path / "profiler_metadata.json").write_text(json.dumps(told))
    profile = read(tmp_path)
    assert profile.rank == 5 and profile.table("ops")["rank"].tolist() == [5]
    assert profile.info.env == {"ASCEND_LAUNCH_BLOCKING": "1", "HCCL_ALGO": "", "N": "2"}
    assert profile.info.metadata == {"parallel_group_info": {"g": {}}}
    assert profile.info.record_shapes is False and profile.info.profile_memory is None
    assert profile.diagnostics == []


@pytest.mark.parametrize("rank_id", [-1, None, "x"])
def test_a_rank_nobody_recorded(tmp_path: Path, rank_id: object) -> None:
    write_trace(tmp_path, [op("a", 0, 1)])
    write_info(tmp_path, rank_id, name="profiler_info.json")
    profile = read(tmp_path)
    assert profile.rank == -1 and codes(profile) == ["rank_unknown"]


def test_both_forms_are_remarked_on(tmp_path: Path) -> None:
    write_trace(tmp_path, [op("a", 0, 1)])
    write_info(tmp_path)
    (tmp_path / "ascend_pytorch_profiler_0.db").touch()
    assert codes(read(tmp_path)) == ["duplicate_export_forms"]


def test_one_bad_file_costs_its_own_table(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, "garbage")
    write_csv(tmp_path, "operator_memory.csv", ["Name"], [["a"]])
    write_csv(tmp_path, "l2_cache.csv", ["Op Name", "Stream Id", "Task Id"], [])
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [kernel("mm", 1, 2)])
    (tmp_path / "profiler_metadata.json").write_text("{")
    profile = read(tmp_path)
    assert len(profile.kernels) == 1
    assert {"ops", "dequeues", "allocs", "l2_cache"} <= set(profile.absent) and "kernels" not in profile.absent
    unread = {note.file: note.message.en for note in profile.diagnostics if note.code == "file_unreadable"}
    assert unread["operator_memory.csv"] == "column 'Size(KB)' is missing"
    assert unread["l2_cache.csv"] == "no rows, only the header"
    assert unread["trace_view.json"].startswith("not a Chrome trace") and "profiler_metadata.json" in unread
    missing = profile.missing("ops")
    assert missing is not None and missing.reason.en.startswith("trace_view.json: not a Chrome trace")


def test_kernels_come_from_the_trace_when_the_table_is_empty(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, [task("mm", 1, 2), *lanes()])
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [])
    profile = read(tmp_path)
    assert len(profile.kernels) == 1 and profile.missing("kernels") is None
    assert codes(profile) == ["file_unreadable"]


def test_no_events_anywhere(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, lanes())
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [])
    with pytest.raises(ProfileError) as caught:
        read(tmp_path)
    assert caught.value.code == "no_events" and caught.value.do is not None


def test_an_empty_trace_beside_kernels_is_a_remark(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, lanes())
    write_csv(tmp_path, "kernel_details.csv", [*KERNEL_HEAD, "aicore_time(us)"], [[*kernel("mm", 1, 2), 1]])
    assert codes(read(tmp_path)) == ["no_events"]


def test_nothing_readable_at_all(tmp_path: Path) -> None:
    write_trace(tmp_path, "garbage")
    write_csv(tmp_path, "step_trace_time.csv", ["Step"], [])
    with pytest.raises(ProfileError) as caught:
        read(tmp_path)
    error = caught.value
    assert error.code == "unreadable" and error.found is not None
    assert "trace_view.json: not a Chrome trace" in error.found.en and "step_trace_time.csv" in error.found.zh


def test_progress_counts_every_file_once(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, [op(f"a{number}", number, 1) for number in range(100)])
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [kernel("mm", 1, 2)])
    seen: list[tuple[int, int]] = []
    (source,) = locate(tmp_path)
    read_rank(source, lambda done, total: seen.append((done, total)))
    done = [part for part, _ in seen]
    total = sum(path.stat().st_size for path in source.files.values())
    assert done == sorted(done) and {whole for _, whole in seen} == {total} and done[-1] == total and done[0] < total


def test_nothing_is_written_beside_the_input(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, [op("a", 0, 1)])
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [kernel("mm", 1, 2)])
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*")}
    read(tmp_path)
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*")} == before


OP_SUMS = ["Name", *(f"{where} {what} Duration(us)" for where in ("Host", "Device") for what in ("Self", "Total"))]


def test_sums_per_op_are_read_when_asked_for(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, [op("a", 0, 1)])
    path = write_csv(tmp_path, "operator_details.csv", OP_SUMS, [["a", 1, 2, 3, 4], ["c", 5, 6, 7, 8]])
    with path.open("a", encoding="utf-8") as file:
        file.write('"b,1\n')
    profile = read(tmp_path)
    assert codes(profile) == []
    assert profile.op_details["host_total_us"].tolist() == [2, 6]
    assert codes(profile) == ["csv_damaged"] and profile.diagnostics[0].file == path.name
    assert profile.missing("op_details") is None


def test_a_file_put_off_may_be_gone(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, [op("a", 0, 1)])
    path = write_csv(tmp_path, "operator_details.csv", OP_SUMS, [["a", 1, 2, 3, 4]])
    profile = read(tmp_path)
    path.unlink()
    missing = profile.missing("op_details")
    assert not profile.has("op_details") and missing is not None
    assert missing.reason.en.startswith("operator_details.csv: ") and codes(profile) == ["file_unreadable"]


@pytest.mark.parametrize(
    ("text", "code"), [(",".join(OP_SUMS) + "\na,1,2,3,4\nb,1", "csv_damaged"), ("x", "file_unreadable")]
)
def test_damage_that_shows_at_the_ends_is_told_at_once(tmp_path: Path, text: str, code: str) -> None:
    write_info(tmp_path)
    write_trace(tmp_path, [op("a", 0, 1)])
    (tmp_path / "operator_details.csv").write_text(text, encoding="utf-8")
    assert codes(read(tmp_path)) == [code]


def test_sums_per_op_alone_are_a_profile(tmp_path: Path) -> None:
    write_info(tmp_path)
    write_csv(tmp_path, "operator_details.csv", OP_SUMS, [["a", 1, 2, 3, 4]])
    assert len(read(tmp_path).op_details) == 1
