from __future__ import annotations

import pytest

from npu_advisor.base.units import (
    format_bytes,
    format_count,
    format_field,
    format_pct,
    format_us,
    format_us_range,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 us"),
        (0.5, "0.500 us"),
        (5, "5.00 us"),
        (96, "96.0 us"),
        (999.4, "999 us"),
        (999.6, "1.00 ms"),
        (1423.202, "1.42 ms"),
        (155985.8, "156 ms"),
        (1_234_567, "1,235 ms"),
        (-2500, "-2.50 ms"),
        (None, "-"),
        (float("nan"), "-"),
        (float("inf"), "-"),
    ],
)
def test_times(us: float | None, text: str) -> None:
    assert format_us(us) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.1271, "12.7 %"), (0, "0.0 %"), (0.9994, "99.9 %"), (0.9995, "100 %"), (1.5, "150 %"), (None, "-")],
)
def test_shares(share: float | None, text: str) -> None:
    assert format_pct(share) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (512, "512 B"),
        (1023.9, "1.00 KB"),
        (2048, "2.00 KB"),
        (1187.9814453125 * 2**20, "1,188 MB"),
        (3 * 2**20, "3.00 MB"),
        (None, "-"),
    ],
)
def test_sizes(size: float | None, text: str) -> None:
    assert format_bytes(size) == text


def test_counts_keep_every_digit() -> None:
    assert format_count(1234567) == "1,234,567"
    assert format_count(2.5) == "2.50"


def test_fields() -> None:
    assert format_field(1234) == "1234"  # an id or a step number is not a quantity
    assert format_field(1234, "n") == "1,234"
    assert format_field("TransData") == "TransData"
    assert format_field(None, "us") == "-"
    assert format_field(0.12, "pct") == "12.0 %"
    with pytest.raises(ValueError, match="unknown format 'mb'"):
        format_field(1, "mb")
    with pytest.raises(ValueError, match="needs a number"):
        format_field("x", "us")


def test_quantities() -> None:
    assert parse_quantity("5ms", "us") == 5000
    assert parse_quantity("3 %", "share") == pytest.approx(0.03)
    assert parse_quantity("64 MB", "bytes") == 64 * 2**20
    assert parse_quantity("1e3") == 1000
    for text, unit in (("5ms", "bytes"), ("many", "us"), ("3%", "")):
        with pytest.raises(ValueError, match=r"not a number|unknown unit"):
            parse_quantity(text, unit)


def test_a_range_has_one_unit():
    assert format_us_range(3530, 8910) == "3.53-8.91 ms"
    assert format_us_range(0, 12.34) == "0-12.3 us"
    assert format_us_range(900, 1100) == "0.900-1.10 ms"
