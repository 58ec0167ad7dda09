"""What a fix saves, in words for a message: ``saves 3.20 ms per step (2.1 %)``."""

from __future__ import annotations

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Basis, Text
from npu_advisor.base.units import format_pct, format_us
from npu_advisor.findings import Finding


def price(finding: Finding) -> Text | None:
    """The saving per step and its share of the step; None for a finding whose cure has no price in time."""
    saving = finding.saving
    if saving is None:
        return None
    if saving.us_per_step <= 0:
        return say("price.nothing")
    key = "price.bound" if saving.basis is Basis.UPPER_BOUND else "price.saves"
    return say(key, us=format_us(saving.us_per_step), share=format_pct(saving.share))


def priced_message(finding: Finding) -> Text:
    """The finding's message with its price in front, where it has one."""
    cost = price(finding)
    if cost is None:
        return finding.message
    return Text(en=f"{cost.en}. {finding.message.en}", zh=f"{cost.zh}。{finding.message.zh}")
