"""What options may say, and what the environment adds to them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.rules.loader import load_rules
from npu_advisor.rules.settings import find_settings
from npu_advisor.rules.spec import Rule

LANGUAGES = ("en", "zh", "auto")
SEVERITIES = ("high", "medium", "low", "info")


def choice(option: str, value: str, allowed: Sequence[str]) -> str:
    """``value`` when it is one of ``allowed``; otherwise ConfigError that names the nearest one."""
    if value in allowed:
        return value
    wrong = say("error.bad_choice", option=option, value=value)
    raise ConfigError(wrong, did_you_mean(value, allowed), say("error.choices", choices=", ".join(allowed)))


def did_you_mean(value: str, known: Iterable[str]) -> Text | None:
    """A question with the name nearest to ``value``, None when none is near."""
    close = get_close_matches(value, list(known), n=1)
    return say("error.did_you_mean", name=close[0]) if close else None


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


def chosen_rules(dirs: Sequence[str] = (), select: Sequence[str] = (), ignore: Sequence[str] = ()) -> RuleChoice:
    """The options given, with what they leave open taken from ``pyproject.toml``.

    Folders add up: the project's, those of ``NPU_ADVISOR_RULES``, those given; ``select`` and ``ignore`` replace the
    project's.
    """
    project = find_settings(Path.cwd())
    named = os.environ.get("NPU_ADVISOR_RULES", "").split(os.pathsep)
    return RuleChoice(
        dirs=(*map(str, project.rules), *filter(None, named), *dirs),
        select=tuple(select) or project.select,
        ignore=tuple(ignore) or project.ignore,
        params=project.params,
    )
