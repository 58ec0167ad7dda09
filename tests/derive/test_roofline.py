"""Bytes, operations and the least time of kernels; the clock they ran at."""

from __future__ import annotations

import math

import pytest
from rulekit import profile_of

from npu_advisor.api import finish
from npu_advisor.base.shapes import dtype_bytes, tensor_dims
from npu_advisor.derive.roofline import matmul_operations, tensors_bytes
from npu_advisor.model.profile import Profile

FULL = {"core": "AI_VECTOR_CORE", "block_dim": 48, "type": "Mul", "dur_us": 1}


def table(*rows: dict[str, object], mhz: float = 1800.0) -> Profile:
    """These kernels beside three full ones, so that the chip is known."""
    shaped = dict.fromkeys(("input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes"), "")
    kernels = [{**shaped, "block_dim": 48, **row} for row in (*rows, FULL, FULL, FULL)]
    counters = [{"name": "AI Core Freq", "start_us": 0, "value": mhz}]
    return finish(profile_of(steps=[{"dur_us": 1000}], kernels=kernels, counters=counters))


@pytest.mark.parametrize(
    ("shapes", "dtypes", "size"),
    [("32,3;64", "FLOAT;FLOAT16", 512.0), ("2;;3", "INT8;FLOAT;INT64", 26.0), ("", "FLOAT", 0.0)],
)
def test_bytes_of_tensors(shapes: str, dtypes: str, size: float) -> None:
    assert tensors_bytes(shapes, dtypes) == size


@pytest.mark.parametrize(("shapes", "dtypes"), [("2;3", "FLOAT"), ("2,x", "FLOAT"), ("2", "NOTYPE")])
def test_bytes_that_cannot_be_told(shapes: str, dtypes: str) -> None:
    assert math.isnan(tensors_bytes(shapes, dtypes))


@pytest.mark.parametrize(
    ("shapes", "out", "operations"),
    [
        ("8,16;16,4", "8,4", 2 * 8 * 16 * 4),
        ("16,8;16,4", "8,4", 2 * 8 * 16 * 4),  # transposed
        ("5,8,16;16,4", "5,8,4", 2 * 5 * 8 * 16 * 4),  # the weight has no batch
        ("5,8,16;5,16,4", "5,8,4", 2 * 5 * 8 * 16 * 4),
        ("2,5,8,16;2,5,16,4", "2,5,8,4", 2 * 10 * 8 * 16 * 4),
        ("8,16;16,4;4", "8,4", 2 * 8 * 16 * 4),  # with a bias
    ],
)
def test_operations_of_matrix_products(shapes: str, out: str, operations: int) -> None:
    assert matmul_operations(shapes, "ND;ND;ND", out) == pytest.approx(operations)


@pytest.mark.parametrize(
    ("shapes", "formats", "out"),
    [("8,16;16,4", "ND;FRACTAL_NZ", "8,4"), ("8,16", "ND", "8,4"), ("8;8,4", "ND;ND", "4"), ("?;8,4", "ND;ND", "4")],
)
def test_operations_that_cannot_be_told(shapes: str, formats: str, out: str) -> None:
    assert math.isnan(matmul_operations(shapes, formats, out))


def test_a_vector_kernel_is_bound_by_its_bytes() -> None:
    row = {"type": "Mul", "core": "AI_VECTOR_CORE", "dur_us": 100, "input_shapes": "1000,1000;1000,1000"}
    row |= {"input_dtypes": "FLOAT;FLOAT", "output_shapes": "1000,1000", "output_dtypes": "FLOAT"}
    roofline = table(row).table("roofline")
    assert roofline["bytes"][0] == 12e6
    # 12 MB at 0.8 of 1.6 TB/s.
    assert roofline["roof_us"][0] == pytest.approx(9.375)
    assert roofline["over_us"][0] == pytest.approx(100 - 9.375)
    assert (roofline["bound"][0], roofline["cores"][0], roofline["chip_how"][0]) == ("memory", 48, "inferred")


def test_a_product_in_16_bit_is_bound_by_its_operations_and_one_in_32_bit_has_no_roof() -> None:
    shape = {
        "type": "MatMulV3",
        "core": "AI_CORE",
        "dur_us": 1000,
        "input_formats": "ND;ND",
        "output_shapes": "8192,8192",
    }
    half = {
        **shape,
        "input_shapes": "8192,8192;8192,8192",
        "input_dtypes": "FLOAT16;FLOAT16",
        "output_dtypes": "FLOAT16",
    }
    single = {**half, "input_dtypes": "FLOAT;FLOAT", "output_dtypes": "FLOAT"}
    roofline = table(half, single).table("roofline")
    assert roofline["roof_us"][0] == pytest.approx(2 * 8192**3 / (0.8 * 353.9e12) * 1e6, rel=1e-3)
    assert roofline["bound"][0] == "compute"
    assert math.isnan(roofline["roof_us"][1])


def test_other_cores_have_no_roof() -> None:
    roofline = table({"type": "Cast", "core": "AI_CPU", "dur_us": 100}).table("roofline")
    assert roofline["cores"][0] == -1
    assert math.isnan(roofline["roof_us"][0])


def test_without_a_clock_the_cores_are_told_and_the_rates_are_absent() -> None:
    profile = table(mhz=float("nan"))
    assert profile.table("roofline")["cores"][0] == 48
    missing = profile.missing("roofline", "roof_us")
    assert missing is not None
    assert missing.enable == "profiler_level=Level1"


def test_a_clock_counts_while_kernels_run() -> None:
    kernels = [{**FULL, "start_us": 100, "dur_us": 300}, {**FULL, "start_us": 600, "dur_us": 100}]
    counters = [
        {"name": "AI Core Freq", "start_us": 0, "value": 800.0},
        {"name": "AI Core Freq", "start_us": 150, "value": 1500.0},
        {"name": "AI Core Freq", "start_us": 500, "value": 1800.0},
        {"name": "Other", "start_us": 600, "value": 5.0},
    ]
    clock = finish(profile_of(steps=[{"dur_us": 1000}], kernels=kernels, counters=counters)).table("clock")
    assert clock["mhz"].tolist() == [800.0, 1500.0, 1800.0]
    assert clock["busy_us"].tolist() == [50.0, 250.0, 100.0]
    assert set(clock["nominal_mhz"].tolist()) == {1800.0}


@pytest.mark.parametrize(
    ("name", "size"), [("DT_BF16", 2), ("c10::Half", 2), ("float", 4), ("BOOL", 1), ("INT64", 8), ("nothing", None)]
)
def test_the_size_of_a_type(name: str, size: int | None) -> None:
    assert dtype_bytes(name) == size


def test_dimensions() -> None:
    assert tensor_dims('"32,3;;64"') == [(32, 3), (), (64,)]
    assert tensor_dims("32,-1") is None
    assert tensor_dims("9" * 5000) is None
    assert tensor_dims("2²") is None
