from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_advisor.readers.columns import durations, ids, starts
from npu_advisor.readers.numbers import floats, integers, ns_from_any, ns_from_text, sound_durations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1736408883704643.212\t", 1736408883704643212),
        ("1695115378715400.2", 1695115378715400200),
        ("1695115378713661", 1695115378713661000),
        ("-1.000", -1000),
        ("496.8508", 496851),
        ("0.60003125", 600),
        ("5.7985", 5798),
        ("5.7975", 5798),
        ("5.79850001", 5799),
        (" 12.5 ", 12500),
        ("9223372036854775.807", 2**63 - 1),
    ],
)
def test_times_are_read_by_their_digits(text: str, expected: int) -> None:
    value, ok = ns_from_text([text])
    assert ok[0] and value[0] == expected


@pytest.mark.parametrize(
    "text", ["1.69512E+15", "", "N/A", "-", ".", "1e3", "9.9.9", "1 2", "9223372036854776.0", "１"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    value, ok = ns_from_text([text, "1.000"])
    assert ok.tolist() == [False, True] and value.tolist() == [0, 1000]


@given(st.lists(st.tuples(st.integers(0, 10**16 // 2), st.integers(0, 999), st.integers(0, 3)), min_size=1))
def test_any_mix_of_lengths_is_exact(parts: list[tuple[int, int, int]]) -> None:
    texts = [f"{whole}.{part:03d}"[: -decimals or None] for whole, part, decimals in parts]
    expected = [whole * 1000 + part // 10**decimals * 10**decimals for whole, part, decimals in parts]
    value, ok = ns_from_text(texts)
    assert ok.all() and value.tolist() == expected


@given(st.lists(st.integers(10**17, 9 * 10**18), min_size=1))
def test_trace_times_are_exact_in_one_sweep_and_one_by_one(values: list[int]) -> None:
    texts: list[object] = [f"{value // 1000}.{value % 1000:03d}" for value in values]
    assert starts(texts).tolist() == values
    assert starts([*texts, 1000.5]).tolist() == [*values, 1_000_500]


def test_times_of_every_json_type() -> None:
    assert ns_from_any(1000) == 1_000_000
    assert ns_from_any(1000.25) == 1_000_250
    assert ns_from_any("1736408883973810") == 1736408883973810000
    assert ns_from_any(None) is None and ns_from_any(float("nan")) is None and ns_from_any("soon") is None


def test_numbers_that_are_none() -> None:
    assert floats(["1.5", "N/A", "", "inf", "2\t"]).tolist()[::4] == [1.5, 2.0]
    assert np.isnan(floats(["1.5", "N/A", "", "inf", "2\t"])[1:4]).all()
    assert integers(["4294967295", "5", "2.0", "", "x", "1.5"]).tolist() == [-1, 5, 2, -1, -1, -1]


def test_ids_beyond_int64_are_none() -> None:
    assert ids([1, 2**64, "7", None, 4294967295], missing=0).tolist() == [1, 0, 7, 0, 0]


def test_impossible_durations_count_as_nothing() -> None:
    value, bad = sound_durations(np.array([5, -1, 10**15, 7]), np.array([True, True, True, False]))
    assert value.tolist() == [5, 0, 0, 0] and bad.tolist() == [False, True, True, True]


def test_one_endless_cell_does_not_cost_its_length_in_every_row() -> None:
    endless, rows = "7" * 10**6, 2000
    for read, small in (
        (ns_from_text, "1.5"),
        (ids, 1),
        (ids, "1"),
        (floats, "1.5"),
        (starts, "1.500"),
        (durations, 1),
    ):
        tracemalloc.start()
        read([small] * rows + [endless])  # type: ignore[operator]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 32e6, read


@pytest.mark.parametrize("text", ["1_000", "12\u0661", "\uff11\uff12", "1_0.5"])
def test_what_only_python_calls_a_number_is_none(text: str) -> None:
    assert np.isnan(floats([text])[0]) and integers([text], -7).tolist() == [-7]
    if text.isascii():
        assert np.isnan(floats(np.array([text.encode(), b"5"]))).tolist() == [True, False]


def test_any_blanks_may_stand_around_a_number() -> None:
    assert floats(["\u00a05\u3000", " 5.5\t"]).tolist() == [5, 5.5]
