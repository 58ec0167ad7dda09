"""Which budgets count: those of a file, else those of the project."""

from __future__ import annotations

from pathlib import Path

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.budgets import Budget, parse_budgets
from npu_advisor.rules.settings import find_settings, read_budget_table


def chosen_budgets(path: str | None) -> list[Budget]:
    """The budgets in the TOML file ``path`` (at its top, in ``[budget]``, or where pyproject.toml has them), else
    those of the project. ConfigError for a file that cannot be read or holds something else."""
    if path is None:
        project = find_settings(Path.cwd())
        return parse_budgets(project.budget, str(project.path))
    found = parse_budgets(read_budget_table(Path(path)), path)
    if not found:
        raise ConfigError(say("budget.empty", path=path))
    return found
