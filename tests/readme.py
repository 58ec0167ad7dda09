"""What is written from the rules: the table of the README and the rule reference. Run as a script it rewrites them."""

from __future__ import annotations

from pathlib import Path

from places import REPOSITORY

from npu_advisor import load_rules
from npu_advisor.cli.explained import reference

README = REPOSITORY / "README.md"
BEGIN, END = "<!-- rules:begin (python tests/readme.py rewrites this table) -->", "<!-- rules:end -->"


def rule_table() -> str:
    """One line a category: how many rules it has, and their ids."""
    by_category: dict[str, list[str]] = {}
    for rule in load_rules():
        by_category.setdefault(rule.category, []).append(rule.id)
    rows = [f"| {name} ({len(ids)}) | {', '.join(f'`{rule}`' for rule in ids)} |" for name, ids in by_category.items()]
    return "\n".join(["| category | rules |", "|---|---|", *rows])


def with_table(text: str) -> str:
    """``text`` with the current table between the markers."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError("the README has lost the markers of its rule table")
    return f"{head}{BEGIN}\n{rule_table()}\n{END}{tail}"


def pages() -> dict[Path, str]:
    """Every file that is written from the rules, with what it should hold."""
    rules = load_rules()
    return {
        README: with_table(README.read_text(encoding="utf-8")),
        REPOSITORY / "docs" / "rules.md": reference(rules, "en"),
        REPOSITORY / "docs" / "rules.zh.md": reference(rules, "zh"),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
