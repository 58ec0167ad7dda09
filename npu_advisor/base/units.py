"""Quantities as people write and read them.

The same number reads the same everywhere: three significant digits with trailing zeros kept, whole digits never
rounded away, thousands separated, a space before the unit.  Every missing value reads ``-``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

MISSING = "-"
KIB, MIB = 1024.0, 1024.0 * 1024.0

# unit of the quantity -> suffix -> factor to that unit
_SUFFIXES: dict[str, dict[str, float]] = {
    "us": {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6},
    "bytes": {"b": 1.0, "kb": KIB, "kib": KIB, "mb": MIB, "mib": MIB, "gb": 1024 * MIB, "gib": 1024 * MIB},
    "share": {"%": 0.01},
}
_QUANTITY = re.compile(r"^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)\s*$")


def parse_quantity(text: str, unit: str = "") -> float:
    """``text`` such as ``5ms``, ``3 %``, ``64 MB`` or ``20`` in ``unit`` (us, bytes or share).

    A bare number is already in ``unit``. ValueError when it is no number or the suffix does not fit the unit.
    """
    found = _QUANTITY.match(text)
    if not found:
        raise ValueError(f"{text!r} is not a number")
    number, suffix = float(found[1]), found[2].lower()
    if not suffix:
        return number
    known = _SUFFIXES.get(unit, {})
    if suffix not in known:
        wanted = f"; use {', '.join(known)}" if known else ""
        raise ValueError(f"{text!r} has an unknown unit {found[2]!r}{wanted}")
    return number * known[suffix]


def _rounded(value: float) -> float:
    return float(f"{value:.2e}")


def _digits(value: float) -> str:
    """Three significant digits, more when the whole part has more."""
    if value == 0:
        return "0"
    exponent = int(f"{value:.2e}".partition("e")[2])
    return f"{value:,.{max(0, 2 - exponent)}f}"


def _unknown(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def format_us(value: float | None) -> str:
    """A time given in us: ``96.0 ms`` from 1000 us up, ``20.0 us`` below."""
    if value is None or _unknown(value):
        return MISSING
    if abs(_rounded(value)) >= 1000:
        return f"{_digits(value / 1000)} ms"
    return f"{_digits(value)} us"


def format_us_range(low: float, high: float) -> str:
    """Two times given in us in the unit of the larger: ``3.53-8.91 ms``."""
    scale, unit = (1000, "ms") if abs(_rounded(high)) >= 1000 else (1, "us")
    return f"{_digits(low / scale)}-{_digits(high / scale)} {unit}"


def format_pct(value: float | None) -> str:
    """A share (1.0 is everything) in percent: one decimal, none above 99.95."""
    if value is None or _unknown(value):
        return MISSING
    percent = value * 100
    return f"{percent:,.0f} %" if abs(percent) >= 99.95 else f"{percent:.1f} %"


def format_bytes(value: float | None) -> str:
    """A size given in bytes: MB of 2^20 bytes, KB and B below one."""
    if value is None or _unknown(value):
        return MISSING
    if abs(round(value)) < KIB:
        return f"{value:,.0f} B"
    if abs(round(value / KIB)) < KIB:
        return f"{_digits(value / KIB)} KB"
    return f"{_digits(value / MIB)} MB"


def format_count(value: float | None) -> str:
    """A count: whole numbers with thousands separated, others with three significant digits."""
    if value is None or _unknown(value):
        return MISSING
    return f"{int(value):,}" if float(value).is_integer() else _digits(value)


FORMATS: dict[str, Callable[[float | None], str]] = {
    "us": format_us,
    "pct": format_pct,
    "bytes": format_bytes,
    "n": format_count,
}


def format_field(value: object, spec: str = "") -> str:
    """``value`` as the field ``{x:spec}`` of a message prints it; ``spec`` is us, pct, bytes, n or empty.

    Without a spec whole numbers are plain (they may be ids) and other numbers have three significant digits.
    ValueError for another spec or for text with a number format.
    """
    if value is None or (isinstance(value, float) and _unknown(value)):
        return MISSING
    if spec:
        if spec not in FORMATS:
            raise ValueError(f"unknown format {spec!r}; use {', '.join(FORMATS)}")
        if not isinstance(value, int | float):
            raise ValueError(f"format {spec!r} needs a number, not {value!r}")
        return FORMATS[spec](float(value))
    if isinstance(value, float):
        return _digits(value)
    return str(value)
