"""Which chip it is: recorded, given or inferred, and when nobody can say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from places import DEMO, PROFILES, needs_profiles

from npu_advisor import load_profile
from npu_advisor.base.errors import ConfigError
from npu_advisor.derive.hardware import CHIPS, hardware
from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.table import Table
from npu_advisor.readers.device import device_record


def profile(blocks: list[int], mhz: float | None = None, **metadata: Any) -> Profile:
    """Vector kernels on so many blocks each, and one sample of the clock."""
    kernels = {"core": ["AI_VECTOR_CORE"] * len(blocks), "block_dim": blocks, "start_ns": range(len(blocks))}
    tables = {"kernels": Table.build("kernels", {name: list(values) for name, values in kernels.items()})}
    if mhz is not None:
        tables["counters"] = Table.build("counters", {"name": ["AI Core Freq"], "start_ns": [0], "value": [mhz]})
    return Profile(ProfileInfo(path="made", metadata=metadata), tables)


@pytest.mark.parametrize(
    ("blocks", "mhz", "name"),
    [
        ([48, 48, 48, 3], 1800, "Ascend910B2"),
        ([48, 48, 48], 1850, "Ascend910B1"),
        ([40, 40, 40, 12], 1800, "Ascend910B3"),
        ([40, 40, 40], 1500, "Ascend910B4"),
        # Some kernels ask for more blocks than there are cores.
        ([48, 48, 48, 256], 1800, "Ascend910B2"),
    ],
)
def test_full_kernels_and_the_clock_tell_the_chip(blocks: list[int], mhz: float, name: str) -> None:
    found = hardware(profile(blocks, mhz))
    assert found is not None
    assert found.chip is not None
    assert (found.chip.name, found.how) == (name, "inferred")


def test_without_a_clock_only_the_cores_are_known() -> None:
    found = hardware(profile([48, 48, 48]))
    assert found is not None
    assert (found.cube_cores, found.vector_cores, found.chip) == (24, 48, None)


@pytest.mark.parametrize("blocks", [[48, 48], [24, 24, 24, 24], [], [40, 40, 40, 48, 48, 50, 60, 64]])
def test_too_few_witnesses_tell_nothing(blocks: list[int]) -> None:
    assert hardware(profile(blocks, 1800)) is None


def test_what_the_recording_says_goes_before_what_the_user_says_and_both_before_a_guess() -> None:
    record = {"ai_core_num": 20, "aiv_num": 40, "aic_frequency": "1500"}
    known = hardware(profile([48] * 3, 1800, DeviceInfo=record, soc="Ascend910B1"))
    given = hardware(profile([48] * 3, 1800, soc="Ascend910B1"))
    assert known is not None
    assert given is not None
    assert known.chip is not None
    assert given.chip is not None
    assert (known.chip.name, known.how) == ("Ascend910B4", "known")
    assert (given.chip.name, given.how) == ("Ascend910B1", "given")


def test_the_cube_rate_is_that_of_the_vendor() -> None:
    rates = {chip.name: round(chip.cube_flops / 1e12, 1) for chip in CHIPS}
    assert (rates["Ascend910B1"], rates["Ascend910B2"], rates["Ascend910B3"]) == (363.7, 353.9, 294.9)
    assert rates["Ascend310P3"] == 69.5


def test_the_device_record_is_read_from_the_raw_recording(tmp_path: Path) -> None:
    folder = tmp_path / "PROF_000001_20250109_ABC" / "device_3"
    folder.mkdir(parents=True)
    assert device_record(tmp_path) is None
    (folder / "info.json.3.done").write_text("{}")
    (folder / "info.json.3").write_text(json.dumps({"DeviceInfo": [{"ai_core_num": 24, "aiv_num": 48}]}))
    assert device_record(tmp_path) == {"ai_core_num": 24, "aiv_num": 48}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"DeviceInfo": 3}', '{"DeviceInfo": []}', '{"DeviceInfo": [4]}'])
def test_a_damaged_device_record_is_none(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "device_0"
    folder.mkdir()
    (folder / "info.json").write_text(text)
    assert device_record(tmp_path) is None


def test_the_user_names_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_ADVISOR_CHIP", "Ascend910B3")
    found = hardware(load_profile(DEMO))
    assert found is not None
    assert (found.cube_cores, found.how) == (20, "given")
    monkeypatch.setenv("NPU_ADVISOR_CHIP", "Ascend910B")
    with pytest.raises(
        ConfigError, match="'Ascend910B' is no chip with known rates; known are Ascend310P3, Ascend910B1"
    ):
        load_profile(DEMO)


@needs_profiles
def test_alexnet_ran_on_24_cores_at_1800_mhz() -> None:
    found = hardware(load_profile(PROFILES / "npu-alexnet-text-l1"))
    assert found is not None
    assert found.chip is not None
    assert (found.chip.name, found.how) == ("Ascend910B2", "inferred")
