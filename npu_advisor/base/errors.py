"""The errors a caller can meet. Each says what happened, where, and what to do; none is a bare traceback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npu_advisor.base.terms import Text


class AdvisorError(Exception):
    """Base of every error this package raises on purpose.

    ``what`` is one line; ``found`` and ``do`` (may be empty) say what was met instead and what to do next.
    """

    exit_code = 2

    def __init__(self, what: Text, found: Text | None = None, do: Text | None = None) -> None:
        super().__init__(what.en)
        self.what, self.found, self.do = what, found, do


class ProfileError(AdvisorError):
    """The input cannot be analysed: missing, unreadable, empty or not parsed yet."""

    exit_code = 3

    def __init__(
        self, path: str | Path, what: Text, found: Text | None = None, do: Text | None = None, code: str = "unreadable"
    ) -> None:
        super().__init__(what, found, do)
        self.path, self.code = str(path), code


class ConfigError(AdvisorError):
    """A command-line option, a configuration key or a parameter is wrong."""


@dataclass(frozen=True)
class RuleProblem:
    """One fault of a rule file. ``line`` and ``column`` count from 1; ``width`` is the length of the marked text."""

    file: str
    line: int
    column: int
    message: str
    text: str = ""
    width: int = 1

    def __str__(self) -> str:
        head = f"{self.file}:{self.line}:{self.column}: error: {self.message}"
        if not self.text:
            return head
        return f"{head}\n    {self.text}\n    {' ' * (self.column - 1)}{'^' * max(1, self.width)}"


class RuleError(AdvisorError):
    """One or more rule files are wrong; every fault of every file is listed."""

    def __init__(self, problems: Sequence[RuleProblem]) -> None:
        self.problems = list(problems)
        files = len({problem.file for problem in self.problems})
        super().__init__(
            Text(
                en=f"{len(self.problems)} problem(s) in {files} rule file(s)",
                zh=f"{files} 个规则文件中有 {len(self.problems)} 处错误",
            )
        )

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)
