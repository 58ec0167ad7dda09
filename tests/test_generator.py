"""The generator: the demo is what its command writes, and a truth file means what it says."""

from __future__ import annotations

import filecmp
import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import DEMO, REPOSITORY
from synthetic import DEMO as DEMO_SETTINGS
from synthetic import PLANTS, Settings, generate
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


def test_the_same_settings_give_the_same_bytes(tmp_path: Path) -> None:
    settings = Settings(steps=2, layers=1, plant=["item:n=2"], ranks=2)
    for name in ("one", "two"):
        generate(tmp_path / name, settings)
    names = _files(tmp_path / "one")
    assert filecmp.cmpfiles(tmp_path / "one", tmp_path / "two", names, shallow=False)[0] == names
    generate(tmp_path / "other", Settings(steps=2, layers=1, plant=["item:n=2"], ranks=2, seed=8))
    assert "truth.json" in filecmp.cmpfiles(tmp_path / "one", tmp_path / "other", names, shallow=False)[1]


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
