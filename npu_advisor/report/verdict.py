"""The answer in two sentences: how long the step takes and computes, and where most of the rest goes, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Severity, Text
from npu_advisor.base.units import format_count, format_pct, format_us
from npu_advisor.findings import Finding, Report
from npu_advisor.report.damage import is_damaged
from npu_advisor.report.ledger import Ledger, Piece
from npu_advisor.report.text import compose, shorten

# Below this share of the step no single loss is worth the second sentence; the largest kernel type is.
_WORTH_A_SENTENCE = 0.05
_PLACE_CELLS = 40
# A device that computes this much of the step and has no finding deserves the green line.
_CALM_SHARE = 0.9
# Which idle owner a finding of a category explains.
_OWNER_OF_CATEGORY = {"dispatch": "dispatch", "data": "data", "optimizer": "dispatch"}


def step_range(steps: Sequence[int | None]) -> str:
    """``10-17`` or ``3, 5, 9`` or ``3-9`` (many, with holes): the numbers of the steps; empty without numbers."""
    numbers = sorted({step for step in steps if step is not None})
    if len(numbers) <= 1:
        return "".join(map(str, numbers))
    if numbers[-1] - numbers[0] + 1 == len(numbers) or len(numbers) > 4:
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers))


def is_calm(report: Report, ledgers: Sequence[Ledger]) -> bool:
    """True when nothing was found and enough was checked to say so: an unreadable or idle step is never calm."""
    return (
        bool(ledgers)
        and all(ledger.share("compute") >= _CALM_SHARE for ledger in ledgers)
        and all(finding.severity is Severity.INFO for finding in report.findings)
        and any(rule.outcome == "clean" for rule in report.rules)
        and not any(rule.outcome == "failed" for rule in report.rules)
        and not is_damaged(report)
    )


def verdict(report: Report, ledgers: Sequence[Ledger]) -> list[Text]:
    """The one or two sentences that open the report."""
    if is_calm(report, ledgers):
        return [say("ui.verdict.calm", share=format_pct(min(ledger.share("compute") for ledger in ledgers)))]
    if not ledgers:
        return _kernels_only(report)
    ledger = ledgers[0]
    if is_host_only(report):
        return [_host_only(ledger)]
    sentences = [_length(ledger, len(ledgers))]
    loss = ledger.largest_loss()
    if loss is not None and loss.share >= _WORTH_A_SENTENCE:
        sentences.append(_loss(loss, ledger, report.findings))
    else:
        sentences += _top_kernel(report, ledger.rank)
    return sentences


def is_host_only(report: Report) -> bool:
    """True when steps were recorded but nothing that a device did: their time cannot be told apart."""
    return (
        bool(report.steps)
        and not any(fact.kernels for fact in report.facts)
        and not any(step.compute_us or step.communication_us for step in report.steps)
    )


def _host_only(ledger: Ledger) -> Text:
    numbers = step_range(ledger.steps)
    key = "ui.verdict.host_steps" if numbers else "ui.verdict.host_window"
    fields = {"duration": format_us(ledger.duration_us)} | ({"step": numbers} if numbers else {})
    return compose(key, **fields)


def _length(ledger: Ledger, ranks: int) -> Text:
    numbers = step_range(ledger.steps)
    key = "window" if not numbers else "step" if len(ledger.steps) == 1 else "mean"
    where = say("ui.verdict.rank_longest", rank=ledger.rank, ranks=ranks) if ranks > 1 else Text(en="", zh="")
    fields = {
        "duration": format_us(ledger.duration_us),
        "compute": format_us(ledger.us("compute")),
        "share": format_pct(ledger.share("compute")),
    }
    if key != "window":
        fields["step"] = numbers
    return compose(f"ui.verdict.{key}", where=where, **fields)


def _loss(piece: Piece, ledger: Ledger, findings: Sequence[Finding]) -> Text:
    fields: dict[str, str | None] = {"us": format_us(piece.us), "share": format_pct(piece.share)}
    if piece.key == "waiting":
        fields["rank"] = ledger.waiting_rank
    return compose(f"ui.verdict.loss.{piece.key}", at=_place(piece.key, ledger.rank, findings), **fields)


def _place(owner: str, rank: int, findings: Sequence[Finding]) -> Text:
    """The line of the largest finding that explains this owner's time."""
    for finding in findings:
        explains = _OWNER_OF_CATEGORY.get(finding.category) == owner and finding.rank == rank
        if explains and finding.location is not None and finding.severity is not Severity.INFO:
            name = PurePath(finding.location.path.replace("\\", "/")).name
            return say("ui.verdict.at", place=f"{shorten(name, _PLACE_CELLS)}:{finding.location.line}")
    return Text(en="", zh="")


def _top_kernel(report: Report, rank: int) -> list[Text]:
    own = [kernel for kernel in report.top_kernels if kernel.rank == rank]
    if not own:
        return []
    top = max(own, key=lambda kernel: kernel.total_us)
    return [say("ui.verdict.top_kernel", type=top.type, share=format_pct(top.share))]


def _kernels_only(report: Report) -> list[Text]:
    facts = [fact for fact in report.facts if fact.kernels and fact.kernel_time_us is not None]
    if not facts:
        return [say("ui.verdict.no_device")]
    heaviest = max(facts, key=lambda fact: fact.kernel_time_us or 0.0)
    where = say("ui.verdict.on_rank", rank=heaviest.rank) if len(facts) > 1 else Text(en="", zh="")
    sentence = compose(
        "ui.verdict.kernels_only",
        where=where,
        kernels=format_count(heaviest.kernels or 0),
        us=format_us(heaviest.kernel_time_us or 0.0),
    )
    return [sentence, *_top_kernel(report, heaviest.rank)]
