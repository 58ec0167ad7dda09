"""The trouble cases: what the readers alone must make of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from places import CASES, needs_cases

from npu_advisor.base.errors import ProfileError
from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, read_rank

pytestmark = needs_cases

# Remarks of the graph layer.
LATER = {
    "no_step_markers",
    "step_without_kernels",
    "step_incomplete",
    "kernels_lost",
    "flow_unmatched",
    "clock_skew",
}
FOLDERS = sorted(path.name for path in CASES.iterdir() if (path / "expected.json").is_file()) if CASES.is_dir() else []


def inputs(name: str) -> tuple[dict[str, Any], list[Path]]:
    expected = json.loads((CASES / name / "expected.json").read_text(encoding="utf-8"))
    given = expected["input"]
    return expected, [CASES / name / part for part in (given if isinstance(given, list) else [given])]


@pytest.mark.parametrize("name", FOLDERS)
def test_case(name: str) -> None:
    expected, paths = inputs(name)
    wanted = set(expected["diagnostics_must_include"]) - LATER
    for path in paths:
        try:
            ranks = [read_rank(source) for source in locate(path)]
        except ProfileError as error:
            assert error.code in wanted and error.exit_code == 3
            assert expected["outcome"] in ("rejected", "no_data")
            continue
        assert expected["outcome"] in ("ok", "partial")
        codes = {note.code for rank in ranks for note in rank.diagnostics}
        assert wanted <= codes and not codes & set(expected["diagnostics_must_not_include"])
        values = expected["values"].get(path.name, expected["values"])
        if "kernel_count" in values:
            assert {len(rank.table("kernels")) for rank in ranks} == {values["kernel_count"]}
        if "kernel_time_sum_us" in values:
            assert ranks[0].kernels["dur_us"].sum() == pytest.approx(values["kernel_time_sum_us"], abs=0.001)


def one(name: str) -> tuple[Profile, dict[str, Any]]:
    expected, (path,) = inputs(name)
    (source,) = locate(path)
    return read_rank(source), expected["values"]


def test_corrupt_durations_are_told_apart() -> None:
    profile, values = one("B14-corrupt-durations")
    kernels = profile.kernels.set_index("name")["dur_us"]
    assert kernels["aclnnMatmul_MatMulCommon_MatMulV2"] == values["matmul_time_us"]
    assert [kernels[name] for name in values["bad_duration_kernels"]] == [0, 0, 0]
    assert kernels.sum() <= values["device_busy_us_max"]


def test_memory_window_effects() -> None:
    profile, values = one("B24-memory-negative-size-empty-release")
    allocs = profile.allocs
    assert allocs["size_bytes"].sum() / 1024 == values["sum_of_positive_allocations_kb"]
    assert list(allocs.loc[allocs["release_ns"] < 0, "name"]) == values["still_live_at_end"]
    assert profile.memory["allocated_bytes"].max() / 2**20 == values["peak_allocated_mb"]


def test_shapes_keep_their_empty_members() -> None:
    profile, values = one("B27-empty-members-in-shapes")
    kernels = profile.kernels.set_index("name")["input_shapes"]
    for name, shapes in values["shapes_of"].items():
        parts = [[int(dim) for dim in part.split(",")] if part else None for part in kernels[name].split(";")]
        assert parts == shapes


def test_stack_separators_survive_in_trace_and_table() -> None:
    profile, values = one("B28-call-stack-separators-cjk")
    assert len(profile.op_details) == values["operator_details_rows"]
    stacks = profile.ops["stack"].astype(object)
    assert any("我的 项目 (v2)/train.py(88)" in stack for stack in stacks if isinstance(stack, str))


def test_windows_paths_come_back_whole() -> None:
    stacks = list(one("B02-windows-path-bad-escape")[0].ops["stack"].dropna())
    assert len(stacks) == 1 and r"C:\proj\venv\lib\site-packages\torch\nn\modules" in stacks[0]
    assert stacks[0].split(";\r\n")[1] == r"C:\proj\src\loop.py(12): train_step"


def test_aicpu_spellings_are_one_core() -> None:
    profile, values = one("B37-aicpu-spellings")
    aicpu = profile.kernels[profile.kernels["core"] == "AI_CPU"]
    assert len(aicpu) == values["aicpu_calls"] and aicpu["dur_us"].sum() == values["aicpu_time_us"]


def test_collectives_of_every_naming() -> None:
    profile, values = one("B33-communication-naming-and-overlap")
    assert profile.comms["dur_us"].sum() == values["communication_us"]
    assert (profile.comms["track"] >= 0).all() and set(profile.tasks["kind"]) == {"notify", "event_wait", "other"}


def test_string_ids_make_two_lanes() -> None:
    profile, values = one("B12-string-pid-tid-collision")
    assert len(profile.tracks) == values["tracks"]
    assert profile.ops["track"].unique().tolist() != profile.kernels["track"].unique().tolist()


def test_negative_ledger_shows_no_negative_time() -> None:
    profile, _ = one("B21-negative-step-trace-time")
    assert (profile.step_trace.select_dtypes("number") >= 0).all().all()
