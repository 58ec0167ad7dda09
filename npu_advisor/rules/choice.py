"""Which rules a run uses: options, environment and project settings together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npu_advisor.rules.loader import load_rules
from npu_advisor.rules.settings import find_settings
from npu_advisor.rules.spec import Rule


@dataclass(frozen=True)
class RuleChoice:
    """Which rules to use, from the options, the environment and the project's settings together."""

    dirs: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    params: Mapping[str, Mapping[str, Any]]

    def load(self) -> list[Rule]:
        """The rules chosen."""
        return load_rules(self.dirs, self.params, self.select, self.ignore)


def chosen_rules(
    dirs: Sequence[str] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    folder: Path | None = None,
) -> RuleChoice:
    """The options given, with what they leave open taken from the ``pyproject.toml`` of ``folder`` (or the working
    directory).

    Folders add up: the project's, those of ``NPU_ADVISOR_RULES``, those given; ``select`` and ``ignore`` replace the
    project's.
    """
    project = find_settings(folder or Path.cwd())
    named = os.environ.get("NPU_ADVISOR_RULES", "").split(os.pathsep)
    return RuleChoice(
        dirs=(*map(str, project.rules), *filter(None, named), *dirs),
        select=tuple(select) or project.select,
        ignore=tuple(ignore) or project.ignore,
        params=project.params,
    )
