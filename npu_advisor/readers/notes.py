"""What a reader has to say about its input: diagnostics, and the error by which one file gives up on itself."""

from __future__ import annotations

from typing import Literal

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.model.profile import Diagnostic

Severity = Literal["error", "warning", "info"]


class UnreadableFileError(Exception):
    """One file cannot be read; the rank goes on without it. ``reason`` says why, for people."""

    def __init__(self, reason: Text) -> None:
        super().__init__(reason.en)
        self.reason = reason


class Notes(list[Diagnostic]):
    """The diagnostics of one rank, in the order met."""

    def say(self, code: str, severity: Severity, file: str, key: str = "", **fields: object) -> None:
        """Add the message ``diag.<key or code>``, filled with ``fields``."""
        quoted = {name: brief(value, 400) if isinstance(value, str) else value for name, value in fields.items()}
        self.append(Diagnostic(code, severity, file, say(f"diag.{key or code}", **quoted)))

    def unreadable(self, file: str, reason: Text, severity: Severity = "warning") -> None:
        """Say that ``file`` was not read, and why."""
        self.append(Diagnostic("file_unreadable", severity, file, reason))

    def give_up(self, file: str, reason: Text) -> Text:
        """As ``unreadable``; gives why the file's tables are absent."""
        self.unreadable(file, reason)
        return Text(en=f"{file}: {reason.en}", zh=f"{file}：{reason.zh}")


def some(names: list[str], limit: int = 3) -> str:
    """The first few of ``names``, and how many more there are."""
    head = ", ".join(map(brief, names[:limit]))
    return head if len(names) <= limit else f"{head}, … (+{len(names) - limit})"


def brief(text: str, limit: int = 120) -> str:
    """``text`` short enough to quote, its middle left out: damage can make a name of a whole file."""
    return text if len(text) <= limit else f"{text[: limit - limit // 3]}…{text[-limit // 3 :]}"
