"""What options may say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text

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
