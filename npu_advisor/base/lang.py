"""Which of the two languages to speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Lang = Literal["en", "zh"]

# The order in which the C library looks for the language of messages.
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def choose_language(option: str | None, env: Mapping[str, str]) -> Lang:
    """``en`` or ``zh``: the option when it names one, else what the locale variables in ``env`` ask for.

    ``option`` may be None or ``auto``. The first locale variable that is set decides, as in the C library.
    """
    if option == "zh":
        return "zh"
    if option == "en":
        return "en"
    locale = next((env[name] for name in _VARIABLES if env.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"
