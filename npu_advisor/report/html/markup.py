"""Text in both languages as HTML, and the small pieces of markup that a template should not spell out each time."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.findings import Outcome
from npu_advisor.report.text import compose


def both(text: Text) -> Markup:
    """``text`` in both languages; the style of the page shows the one that the reader chose."""
    if text.en == text.zh:
        return escape(text.en)
    return Markup('<span lang="en">{}</span><span lang="zh">{}</span>').format(text.en, text.zh)


def say_both(key: str, **fields: Text | str | int | None) -> Markup:
    """The fixed text ``key`` in both languages."""
    return both(compose(key, **fields)) if fields else both(say(key))


def by_reason(rules: Sequence[Outcome]) -> list[tuple[Text | None, str | None, list[str]]]:
    """Rules with the same reason and switch together: (reason, switch, ids), in the order of the first of each."""
    found: dict[tuple[str, str | None], tuple[Text | None, str | None, list[str]]] = {}
    for rule in rules:
        key = (rule.reason.en if rule.reason else "", rule.enable)
        found.setdefault(key, (rule.reason, rule.enable, []))[2].append(rule.id)
    return list(found.values())


def bar(shares: list[tuple[str, float]], width: int = 1000) -> Markup:
    """A bar of (class, share) pieces side by side, as wide as its place; shares add up to at most 1."""
    left, parts = 0.0, []
    for kind, share in shares:
        parts.append(
            Markup('<rect class="{}" x="{:.2f}" width="{:.2f}" height="10"/>').format(kind, left * width, share * width)
        )
        left += share
    view = f"0 0 {width} 10"
    return Markup('<svg class="bar" viewBox="{}" preserveAspectRatio="none" aria-hidden="true">{}</svg>').format(
        view, Markup("").join(parts)
    )
