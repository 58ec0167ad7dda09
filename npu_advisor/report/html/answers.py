"""The sentence that opens each view: the answer to the question the view is about."""

from __future__ import annotations

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_bytes, format_count, format_pct, format_us
from npu_advisor.findings import Report
from npu_advisor.report.text import short_line
from npu_advisor.views import Cell, TableView, Views

_NAME_CHARS = 60


def answers(report: Report, views: Views | None) -> dict[str, list[Text]]:
    """The sentences of every tab, by its name."""
    tables = views.tables if views else {}
    made = {
        "trace": [say("html.answer.trace", n=format_count(sum(one.events for one in views.timelines)))]
        if views
        else [],
        "kernel": _kernel(tables.get("kernel_type")),
        "operator": _operator(tables.get("operator")),
        "memory": _memory(tables.get("memory_peak")),
        "distributed": _distributed(report),
        "diff": [say("html.answer.diff")],
    }
    if views and len(report.profile.ranks) > 1:
        for name in ("kernel", "operator", "memory"):
            made[name].append(say("html.of_rank", rank=views.rank))
    return made


def _top(table: TableView) -> dict[str, Cell]:
    return dict(zip((column.key for column in table.columns), table.rows[0], strict=True))


def _name(value: Cell) -> str:
    text = str(value)
    return text if len(text) <= _NAME_CHARS else text[: _NAME_CHARS - 1] + "…"


def _number(value: Cell) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _kernel(table: TableView | None) -> list[Text]:
    if table is None:
        return []
    top = _top(table)
    fields = {"type": _name(top["type"]), "share": format_pct(_number(top["share"])), "n": table.total}
    return [say("html.answer.kernel", **fields)]


def _operator(table: TableView | None) -> list[Text]:
    if table is None:
        return []
    top = _top(table)
    return [say("html.answer.operator", op=_name(top["name"]), us=format_us(_number(top["host_self_us"])))]


def _memory(table: TableView | None) -> list[Text]:
    if table is None:
        return [say("html.answer.memory_curves")]
    recorded = [row for row in table.rows if row[0] != "(before the recording)"]
    if not recorded:
        return [say("html.answer.memory_before")]
    top = dict(zip((column.key for column in table.columns), recorded[0], strict=True))
    place = short_line(str(top["source"])) if top.get("source") else ""
    fields = {"op": _name(top["name"]), "size": format_bytes(_number(top["size_bytes"]))}
    share = format_pct(_number(top["share"]))
    key = "html.answer.memory_at" if place else "html.answer.memory"
    return [say(key, share=share, **fields, **({"place": place} if place else {}))]


def _distributed(report: Report) -> list[Text]:
    waits = [(us, peer, step.rank) for step in report.steps for peer, us in step.waiting_for_rank_us.items()]
    if not waits:
        exposed = max((step.exposed_communication_us for step in report.steps), default=0.0)
        return [say("html.answer.exposed", us=format_us(exposed))]
    us, peer, rank = max(waits)
    return [say("html.answer.waits", rank=rank, peer=peer, us=format_us(us))]
