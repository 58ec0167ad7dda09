"""``[tool.npu-advisor]`` of the user's ``pyproject.toml``: rule folders, parameters, and which rules to run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.rules.source import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE, SECTION = "pyproject.toml", "npu-advisor"
_KEYS = ("rules", "select", "ignore", "params", "budget")


@dataclass(frozen=True)
class Settings:
    """What a project says of its rules; ``rules`` are folders, ``params`` is rule id -> name -> value, ``budget`` the
    table of that name as it is written."""

    path: Path | None = None
    rules: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)


def find_settings(start: Path) -> Settings:
    """The settings of the nearest ``pyproject.toml`` in ``start`` or above that holds the section; else none.

    ConfigError for a file that mentions the section and is not TOML, and for what the section may not hold.
    """
    for folder in (start, *start.parents):
        path = folder / FILE
        section = _section(path) if path.is_file() else None
        if section is not None:
            return _settings(path, section)
    return Settings()


def read_budget_table(path: Path) -> object:
    """What stands in a budget file: ``[tool.npu-advisor.budget]`` where it has that, ``[budget]``, or all of it."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(say("settings.not_toml", path=path, error=error)) from None
    except OSError as error:
        raise ConfigError(say("budget.not_read", path=path, reason=error.strerror or error)) from None
    tool = table.get("tool")
    section = tool.get(SECTION) if isinstance(tool, dict) else None
    return (section if isinstance(section, dict) else table).get("budget", table)


def _section(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # somebody else's file in a folder above is no reason to stop
    if SECTION not in text:
        return None
    try:
        tool = tomllib.loads(text).get("tool")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(say("settings.not_toml", path=path, error=error)) from None
    return tool.get(SECTION) if isinstance(tool, dict) else None


def _settings(path: Path, section: object) -> Settings:
    if not isinstance(section, dict):
        raise ConfigError(say("settings.not_a_table", path=path))
    for key in section:
        if key not in _KEYS:
            unknown = say("settings.unknown_key", path=path, name=key, hint=nearest(key, _KEYS))
            raise ConfigError(unknown, None, say("settings.known_keys", keys=", ".join(_KEYS)))
    params = section.get("params", {})
    for name, values in {"params": params, **(params if isinstance(params, dict) else {})}.items():
        if not isinstance(values, dict):
            raise ConfigError(say("settings.bad_params", path=path, name=name))
    return Settings(
        path=path,
        rules=tuple(path.parent / folder for folder in _texts(path, section, "rules")),
        select=_texts(path, section, "select"),
        ignore=_texts(path, section, "ignore"),
        params=params,
        budget=section.get("budget", {}),
    )


def _texts(path: Path, section: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = section.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(say("settings.not_texts", path=path, name=key))
    return tuple(value)
