"""What two profiles did, side by side, for a terminal: matched calls, modules and classes of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from npu_advisor.base.lang import Lang
from npu_advisor.base.units import format_count, format_us
from npu_advisor.comparison import Change, ClassChange, ModuleChange, OpChange, RankPair
from npu_advisor.report.page import Page
from npu_advisor.report.text import pad, shorten, wrap
from npu_advisor.report.theme import MUTED, STRONG

_SHOWN = 12
# From this width on there is room for the host's time, too.
_WIDE = 96
# Modules whose time is that of a module inside them, give or take this share, say nothing new.
_SAME = 0.02


class _Column(NamedTuple):
    key: str
    width: int
    told: Callable[[Change], str]


def both(change: Change, form: Callable[[float | None], str]) -> str:
    """A figure on both sides; the one value where they are equal."""
    told = [form(change.base), form(change.new)]
    return told[0] if told[0] == told[1] else " → ".join(told)


def both_counts(change: Change) -> str:
    """Launches on both sides."""
    return both(change, lambda value: format_count(round(value or 0.0, 1)))


def both_us(change: Change) -> str:
    """Times on both sides."""
    return both(change, format_us)


def add_work(page: Page, pair: RankPair) -> None:
    """All three tables."""
    _add_calls(page, matched_calls(pair))
    _add_modules(page, inner_modules(pair))
    _add_classes(page, pair)


def matched_calls(pair: RankPair) -> list[OpChange]:
    """Calls that both sides have and that launch something, the longest first."""
    found = [op for op in pair.ops if op.status in ("matched", "reshaped") and (op.kernels.base or op.kernels.new)]
    return sorted(found, key=lambda op: -_longest(op.kernel_us))


def inner_modules(pair: RankPair) -> list[ModuleChange]:
    """Modules that launch something, without those that are no more than what is inside them."""
    found: list[ModuleChange] = []
    for module in pair.modules:
        within = [each for each in pair.modules if each is not module and _is_inside(each, module)]
        if _longest(module.kernel_us) and not any(_same(each.kernel_us, module.kernel_us) for each in within):
            found.append(module)
    return found


def _longest(us: Change) -> float:
    return max(us.base or 0.0, us.new or 0.0)


def _is_inside(inner: ModuleChange, outer: ModuleChange) -> bool:
    pairs = ((inner.base, outer.base), (inner.new, outer.new))
    return any(one is not None and other is not None and one.startswith(other + "/") for one, other in pairs)


def _same(one: Change, other: Change) -> bool:
    sides = ((one.base, other.base), (one.new, other.new))
    return all(abs((a or 0.0) - (b or 0.0)) <= _SAME * (b or 0.0) for a, b in sides)


def _add_calls(page: Page, ops: Sequence[OpChange]) -> None:
    columns = [_Column("kernels", 11, both_counts), _Column("kernel_us", 22, both_us)]
    if page.width >= _WIDE:
        columns.append(_Column("host_us", 22, both_us))
    rows = [(call_name(op), op) for op in ops]
    _add_table(page, "calls", rows, columns)


def call_name(op: OpChange) -> str:
    """A call by name and shapes, both where they differ."""
    shown = [op.base_shapes, op.new_shapes] if op.status == "reshaped" else [op.new_shapes or op.base_shapes]
    names = " → ".join(dict.fromkeys(name for name in (op.base_name, op.name) if name))
    return f"{names}  {' → '.join(shapes for shapes in shown if shapes)}".rstrip()


def module_name(module: ModuleChange) -> str:
    """The path of a module, both where they differ."""
    return " → ".join(dict.fromkeys(path for path in (module.base, module.new) if path))


def _add_modules(page: Page, modules: Sequence[ModuleChange]) -> None:
    counts = [_Column(key, 13, both_counts) for key in ("calls", "kernels")]
    rows = [(module_name(each), each) for each in modules]
    _add_table(page, "modules", rows, [*counts, _Column("kernel_us", 22, both_us)])


def _add_classes(page: Page, pair: RankPair) -> None:
    columns = [_Column("kernels", 16, both_counts), _Column("us", 24, both_us)]
    ratios = [ratio_told(each) for each in pair.classes]
    rows = [(each.name, each) for each in pair.classes]
    _add_table(page, "classes", rows, columns, ratios if any(ratios) else [])
    for reason in reasons(pair, page.options.lang):
        for line in wrap(page.say("ui.compare.no_ratio", reason=reason), page.width - 4):
            page.add((f"   {line}", MUTED))
    page.blank()


def ratio_told(each: ClassChange) -> str:
    """Time against what the devices can do, new over base; nothing where that is unknown."""
    return f"{each.normalised.ratio:.2f}" if each.normalised and each.normalised.ratio is not None else ""


def reasons(pair: RankPair, lang: Lang) -> list[str]:
    """Why classes have no ratio to what the devices can do, each reason once with the classes it is for."""
    found: dict[str, list[str]] = {}
    for each in pair.classes:
        if each.normalised and each.normalised.reason:
            found.setdefault(each.normalised.reason.pick(lang), []).append(each.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in found.items()]


def _add_table(
    page: Page,
    name: str,
    rows: Sequence[tuple[str, OpChange | ModuleChange | ClassChange]],
    columns: Sequence[_Column],
    last: Sequence[str] = (),
) -> None:
    """A head and a line a row; ``last`` is a column of texts."""
    if not rows:
        return
    heads = [pad(page.say(f"ui.compare.column.{column.key}"), column.width, True) for column in columns]
    heads += [pad(page.say("ui.compare.column.ratio"), 10, True)] if last else []
    page.add((f" {page.say(f'ui.compare.{name}')}", STRONG), right=("".join(heads), MUTED))
    shown = rows if page.options.show_all else rows[:_SHOWN]
    for number, (label, row) in enumerate(shown):
        cells = [pad(page.mark(column.told(getattr(row, column.key))), column.width, True) for column in columns]
        cells += [pad(last[number], 10, True)] if last else []
        right = "".join(cells)
        page.add((f"   {shorten(label, page.width - cell_len(right) - 5, page.ellipsis)}", ""), right=(right, ""))
    if left := len(rows) - len(shown):
        page.add((f"   {page.say('ui.compare.more', n=left)}", MUTED))
    if name != "classes":
        page.blank()
