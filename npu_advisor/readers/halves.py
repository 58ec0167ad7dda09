"""Half surrogate pairs: JSON can spell them (``\\ud800``) but no UTF-8 text, and no report, can carry them."""

from __future__ import annotations

import re
from typing import Any

_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")


def without_halves(text: str, loaded: Any) -> Any:
    """``loaded``, the JSON value of ``text``, with U+FFFD for every half of a surrogate pair in its strings."""
    return _cleaned(loaded) if _ESCAPED.search(text) else loaded


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
