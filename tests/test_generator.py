"""The generator: the demo is what its command writes, and a truth file means what it says."""

from __future__ import annotations

import csv
import filecmp
import itertools
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from places import DEMO, PROFILES, REPOSITORY
from synthetic import DEMO as DEMO_SETTINGS
from synthetic import HARDER, PLANTS, Settings, generate
from synthetic.settings import parse_plants, size_bytes

GENERATE = [sys.executable, str(REPOSITORY / "fixtures" / "generate.py")]


def _files(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path.relative_to(folder).as_posix() for path in found)


def test_one_command_writes_the_demo_to_the_byte(tmp_path: Path) -> None:
    subprocess.run([*GENERATE, "--demo", str(tmp_path)], check=True, capture_output=True, timeout=120)
    assert _files(tmp_path) == _files(DEMO)
    same, different, unreadable = filecmp.cmpfiles(DEMO, tmp_path, _files(DEMO), shallow=False)
    assert (different, unreadable) == ([], [])
    assert len(same) >= 10


def test_the_demo_is_small_and_holds_every_card(tmp_path: Path) -> None:
    assert sum((DEMO / name).stat().st_size for name in _files(DEMO)) <= 2_000_000
    truth = json.loads((DEMO / "truth.json").read_text())
    assert set(truth["plants"]) == {"dispatch", "native_optimizer", "top_kernel", "transdata", "mem_peak"}
    # What curing one cause alone would save; conversions before a host-bound stretch save nothing by themselves.
    for name in ("dispatch", "native_optimizer", "top_kernel"):
        assert truth["plants"][name]["saving_share"] >= 0.02, name
    assert truth["plants"]["transdata"]["kernel_time_us"] >= 0.05 * truth["total_device_us_rank0"]
    assert truth["plants"]["mem_peak"]["peak_mb"] >= 2 * truth["plants"]["mem_peak"]["peak_mb_without"]


def test_a_place_in_the_truth_is_that_line_of_the_script() -> None:
    script = (DEMO / "train.py").read_text().splitlines()
    plants = json.loads((DEMO / "truth.json").read_text())["plants"]
    expected = {
        "dispatch": "pooled * gate",
        "native_optimizer": "optimizer.step()",
        "top_kernel": "torch.masked_select",
        "transdata": "self.stem(images)",
        "mem_peak": "torch.ones(",
    }
    for name, text in expected.items():
        assert text in script[int(plants[name]["where"][0].partition(":")[2]) - 1]


def test_the_ledger_of_a_step_counts_its_kernels() -> None:
    (output,) = DEMO.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")
    with (output / "kernel_details.csv").open(newline="") as file:
        kernels = [row for row in csv.DictReader(file) if row["Accelerator Core"] != "HCCL"]
    with (output / "step_trace_time.csv").open(newline="") as file:
        ledger = {row["Step"]: Decimal(row["Computing"]) for row in csv.DictReader(file)}
    spent = dict.fromkeys(ledger, Decimal(0))
    for row in kernels:
        # On one stream, where no kernel overlaps another.
        spent[row["Step Id"]] += Decimal(row["Duration(us)"])
    assert spent == ledger


def test_the_same_settings_give_the_same_bytes(tmp_path: Path) -> None:
    settings = Settings(steps=2, layers=1, plant=["item:n=2"], ranks=2)
    for name in ("one", "two"):
        generate(tmp_path / name, settings)
    names = _files(tmp_path / "one")
    assert filecmp.cmpfiles(tmp_path / "one", tmp_path / "two", names, shallow=False)[0] == names
    generate(tmp_path / "other", Settings(steps=2, layers=1, plant=["item:n=2"], ranks=2, seed=8))
    assert "truth.json" in filecmp.cmpfiles(tmp_path / "one", tmp_path / "other", names, shallow=False)[1]


ORIGINAL = PROFILES.parent / "bench" / "make_profile.py"


@pytest.mark.skipif(not ORIGINAL.is_file(), reason="the generator that this one began as is not here")
def test_what_is_not_asked_for_changes_no_byte(tmp_path: Path) -> None:
    arguments = ["--steps", "2", "--plant", "all", "--ranks", "2", "--layers", "2"]
    for name, command in (("old", [sys.executable, str(ORIGINAL)]), ("new", GENERATE)):
        subprocess.run([*command, str(tmp_path / name), *arguments], check=True, capture_output=True, timeout=120)
    names = _files(tmp_path / "old")
    assert _files(tmp_path / "new") == names
    same, different, _ = filecmp.cmpfiles(tmp_path / "old", tmp_path / "new", names, shallow=False)
    # The first generator's ledger took copies for computing.
    assert {Path(name).name for name in different} == {"trace_view.json", "step_trace_time.csv", "truth.json"}
    assert len(same) == len(names) - 2 * 2 - 1
    for name in different:
        if name.endswith("trace_view.json"):
            old, new = (_besides_the_ledger(tmp_path / tree / name) for tree in ("old", "new"))
            assert old == new
            assert len(old) > 1000


def _besides_the_ledger(trace: Path) -> list[dict[str, Any]]:
    """All events but those that sum up the others."""
    events = json.loads(trace.read_text())
    named = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    return [event for event in events if named.get(event["pid"]) != "Overlap Analysis"]


def _slices(folder: Path) -> list[dict[str, Any]]:
    trace = next(folder.rglob("trace_view.json"))
    return [event for event in json.loads(trace.read_text()) if event["ph"] == "X"]


def _ns(text: str) -> int:
    return int(text.replace(".", ""))


def _on_device(slices: list[dict[str, Any]], stream: int) -> list[tuple[int, int, str]]:
    """(start, end, name) of the device tasks of a stream, in ns, in time order."""
    mine = [one for one in slices if one["args"].get("Physic Stream Id") == stream]
    return sorted((_ns(one["ts"]), _ns(one["ts"]) + round(one["dur"] * 1000), one["name"]) for one in mine)


def _with(tmp_path: Path, **extra: Any) -> list[dict[str, Any]]:
    generate(tmp_path, Settings(steps=1, layers=2, counters=False, **extra))
    return [one for one in _slices(tmp_path) if "args" in one]


def test_streams_are_ordered_by_events(tmp_path: Path) -> None:
    slices = _with(tmp_path, events=True, second_stream=True)
    names = {stream: [name for _, _, name in _on_device(slices, stream)] for stream in (2, 3, 4)}
    assert all({"EVENT_RECORD", "EVENT_WAIT"} <= set(found) for found in names.values())
    assert any("MatMul" in name for name in names[3])
    calls = {one["args"]["connection_id"]: one["name"] for one in slices if one["name"].startswith("AscendCL@")}
    for one in slices:
        if one["name"] in ("EVENT_RECORD", "EVENT_WAIT"):
            expected = "aclrtRecordEvent" if one["name"] == "EVENT_RECORD" else "aclrtStreamWaitEvent"
            assert calls[one["args"]["connection_id"]] == f"AscendCL@{expected}"


def test_noise_moves_tasks_but_keeps_their_order(tmp_path: Path) -> None:
    quiet = _on_device(_with(tmp_path / "quiet"), 2)
    noisy = _on_device(_with(tmp_path / "noisy", noise_us=2.0), 2)
    assert [name for *_, name in noisy] == [name for *_, name in quiet]
    assert all(after[0] >= before[1] for before, after in itertools.pairwise(noisy))
    moved = [one[0] - other[0] for one, other in zip(noisy, quiet, strict=True)]
    assert 500 < sum(moved) / len(moved) < 8000


def test_the_device_clock_may_be_ahead(tmp_path: Path) -> None:
    plain, ahead = _with(tmp_path / "plain"), _with(tmp_path / "ahead", clock_us=40.0)
    shift = {"Enqueue": 0, "MEMCPY_ASYNC": 40_000, "hcom_allReduce__586_0_1": 40_000}
    for name, expected in shift.items():
        one, other = (next(_ns(e["ts"]) for e in found if e["name"] == name) for found in (plain, ahead))
        assert other - one == expected, name


def test_pauses_and_waits_inside_collectives_are_recorded(tmp_path: Path) -> None:
    slices = _with(tmp_path, gc_ms=5.0, notify=3)
    pauses = [one for one in slices if one["name"] == "GC"]
    assert [(one["cat"], one["args"]) for one in pauses] == [("GC", {})]
    assert 3e3 < pauses[0]["dur"] < 8e3
    collectives = [one for one in slices if one["name"].startswith("hcom_")]
    assert sum(one["name"] == "Notify Wait" for one in slices) == 3 * len(collectives)
    report = json.loads(next(tmp_path.rglob("communication.json")).read_text())
    times = [entry["Communication Time Info"] for entry in report["step10"]["collective"].values()]
    assert all(time["Wait Time(ms)"] > time["Synchronization Time(ms)"] for time in times)


def test_settings_that_make_it_harder_are_named_where_they_do() -> None:
    assert not set(Settings().as_dict()) & set(HARDER)
    assert Settings(**HARDER).as_dict().items() >= HARDER.items()


def test_every_plant_costs_what_removing_it_saves(tmp_path: Path) -> None:
    settings = Settings(steps=2, layers=2, ranks=2, plant=["all"], without=["mem_peak"])
    truth = generate(tmp_path, settings)
    assert set(truth["plants"]) == set(PLANTS) - {"mem_peak"}
    for name, plant in truth["plants"].items():
        without = Settings(steps=2, layers=2, ranks=2, plant=["all"], without=["mem_peak", name])
        step_us = generate(tmp_path / name, without)["step_us"]
        assert truth["step_us"] - step_us == pytest.approx(plant["saving_us_per_step"], abs=0.002), name


def test_a_size_is_met(tmp_path: Path) -> None:
    truth = generate(tmp_path, Settings(size="3MB", layers=2, truth_steps=1))
    assert truth["ranks"][0]["trace_bytes"] == pytest.approx(3_000_000, rel=0.25)
    assert not (tmp_path / ".pilot").exists()


def test_the_trace_is_json_and_counts_its_events(tmp_path: Path) -> None:
    truth = generate(tmp_path, Settings(steps=1, layers=1))
    rank = truth["ranks"][0]
    events = json.loads((tmp_path / rank["dir"] / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    assert len(events) == rank["events"]
    assert {"X", "M", "s", "f", "C"} == {event["ph"] for event in events}


def test_plants_and_sizes_are_read_or_refused() -> None:
    assert parse_plants(["item:n=3", "transdata"])["item"] == {"n": 3.0}
    assert set(parse_plants(["all"])) == set(PLANTS)
    assert Settings(plant=["all"], world=1).plants().keys().isdisjoint({"slow_rank", "unoverlapped_comm"})
    assert size_bytes("1.5MB") == 1_500_000
    with pytest.raises(ValueError, match="unknown plant gremlin"):
        parse_plants(["gremlin"])
    with pytest.raises(ValueError, match="not a size"):
        size_bytes("big")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--demo", "--steps", "9"], "--demo has its own settings"),
        ([], "say where to write"),
        (["OUT", "--plant", "gremlin"], "unknown plant gremlin"),
    ],
)
def test_the_command_line_says_what_is_wrong(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [*GENERATE, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_the_demo_keeps_to_its_settings() -> None:
    recorded = json.loads((DEMO / "truth.json").read_text())["generator"]
    assert recorded == DEMO_SETTINGS.as_dict()
