"""The memory curves as SVG, drawn here so that they print and need no script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log10

from npu_advisor.base.units import MIB, format_bytes, format_us
from npu_advisor.views import Curve, MemoryView

WIDTH, HEIGHT = 1000.0, 260.0
_TICKS = 4
# In this order of drawing; overlapping components are never added up.
_SHOWN = (("PTA+GE", "allocated"), ("PTA", "allocated"), ("CUDA", "allocated"))


@dataclass(frozen=True)
class Line:
    """One curve as an SVG path."""

    component: str
    what: str
    kind: str
    path: str


@dataclass(frozen=True)
class Tick:
    """One mark of an axis: where, and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """The whole chart in a box of ``WIDTH`` x ``HEIGHT``."""

    lines: list[Line]
    across: list[Tick]
    up: list[Tick]
    steps: list[tuple[float, float]]
    peak: tuple[float, float] | None
    peak_size: str
    peak_time: str


def chart(memory: MemoryView) -> Chart | None:
    """The curves of the leading allocator, GE and the whole process; None without a curve."""
    curves = _chosen(memory.curves)
    if not curves:
        return None
    start, end = _range(memory, curves[0])
    curves = [part for part in (_within(curve, start, end) for curve in curves) if part is not None]
    top = max(max(curve.size_bytes) for curve in curves)
    rise = _rise(top)
    top = rise * ceil(top / rise) if top else 1.0

    def x(us: float) -> float:
        return round((us - start) / (end - start) * WIDTH, 1)

    def y(size: float) -> float:
        return round(HEIGHT - size / top * HEIGHT, 1)

    peak = None
    if memory.peak_at_us is not None and memory.peak_bytes is not None:
        peak = (x(memory.peak_at_us), y(memory.peak_bytes))
    return Chart(
        lines=[_line(curve, x, y, kind) for curve, kind in zip(curves, _kinds(curves), strict=True)],
        across=[Tick(x(us), format_us(us)) for us in _rounds(start, end)],
        up=[Tick(y(rise * index), format_bytes(rise * index)) for index in range(int(top / rise) + 1)],
        steps=[(max(x(low), 0.0), max(x(high) - max(x(low), 0.0), 0.0)) for low, high in memory.steps_us],
        peak=peak,
        peak_size=format_bytes(memory.peak_bytes),
        peak_time=format_us(memory.peak_at_us),
    )


def _range(memory: MemoryView, leading: Curve) -> tuple[float, float]:
    """What the leading allocator and the steps span; other components are sampled long before and after."""
    start = min([leading.at_us[0], *(low for low, _ in memory.steps_us[:1])])
    end = max([leading.at_us[-1], *(high for _, high in memory.steps_us[-1:])])
    return start, max(end, start + 1.0)


def _within(curve: Curve, start: float, end: float) -> Curve | None:
    """The samples between ``start`` and ``end``, and the size at ``start``; None without any."""
    kept = [(at, size) for at, size in zip(curve.at_us, curve.size_bytes, strict=True) if start <= at <= end]
    before = [size for at, size in zip(curve.at_us, curve.size_bytes, strict=True) if at < start][-1:]
    kept = [(start, size) for size in before] + kept
    if not kept:
        return None
    return replace(curve, at_us=[at for at, _ in kept], size_bytes=[size for _, size in kept])


def _chosen(curves: list[Curve]) -> list[Curve]:
    by_name = {(curve.component, curve.what): curve for curve in curves}
    leading = next((name for name, what in _SHOWN if (name, what) in by_name), None)
    wanted = [(leading, "allocated"), (leading, "active"), (leading, "reserved"), ("GE", "allocated")]
    wanted += [("APP", "reserved"), ("WORKSPACE", "allocated")]
    return [by_name[key] for key in wanted if key in by_name]


def _kinds(curves: list[Curve]) -> list[str]:
    leading = curves[0].component
    return [curve.what if curve.component == leading else curve.component.lower() for curve in curves]


def _line(curve: Curve, x: Callable[[float], float], y: Callable[[float], float], kind: str) -> Line:
    """Memory keeps its size from one sample to the next, so the path is a staircase."""
    parts = [f"M{x(curve.at_us[0])} {y(curve.size_bytes[0])}"]
    last = y(curve.size_bytes[0])
    for at, size in zip(curve.at_us[1:], curve.size_bytes[1:], strict=True):
        parts.append(f"H{x(at)}")
        if y(size) != last:
            last = y(size)
            parts.append(f"V{last}")
    return Line(curve.component, curve.what, kind, "".join(_without_repeats(parts)))


def _without_repeats(parts: list[str]) -> list[str]:
    """Of several horizontal moves in a row only the last counts."""
    return [
        part
        for index, part in enumerate(parts)
        if not (part[0] == "H" and index + 1 < len(parts) and parts[index + 1][0] == "H")
    ]


def _rise(top: float) -> float:
    """A round distance of lines, in bytes: a power of two of MB, or of KB for small amounts."""
    rise = MIB / 1024
    while top / rise > _TICKS + 1:
        rise *= 2
    return rise


def _rounds(start: float, end: float) -> list[float]:
    """About eight round times between ``start`` and ``end``, in us."""
    raw = (end - start) / 8
    power = 10.0 ** int(log10(raw) // 1) if raw > 0 else 1.0
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    first = ceil(start / step)
    return [step * index for index in range(first, int(end // step) + 1)]
