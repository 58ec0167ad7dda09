"""The rule table of the README, made from the rules. Run as a script it rewrites the table."""

from __future__ import annotations

from places import REPOSITORY

from npu_advisor import load_rules

README = REPOSITORY / "README.md"
BEGIN, END = "<!-- rules:begin (python tests/readme.py rewrites this table) -->", "<!-- rules:end -->"


def rule_table() -> str:
    """One line a rule: its id and its title in both languages."""
    rows = [f"| `{rule.id}` | {rule.title.en} | {rule.title.zh} |" for rule in load_rules()]
    return "\n".join(["| rule | finds | 说明 |", "|---|---|---|", *rows])


def with_table(text: str) -> str:
    """``text`` with the current table between the markers."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError("the README has lost the markers of its rule table")
    return f"{head}{BEGIN}\n{rule_table()}\n{END}{tail}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
