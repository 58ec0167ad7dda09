"""Readers: find the profiles under a path and read each rank into the model. No policy here, only repair and labels.

Everything is imported on first use: a process that only scans a part of a trace needs little of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = dict.fromkeys(("RankSource", "locate", "locate_all"), "discover")
_HOMES |= {"parse_raw": "parse", "read_rank": "rank"}
__all__ = ["RankSource", "locate", "locate_all", "parse_raw", "read_rank"]

if TYPE_CHECKING:
    from npu_advisor.readers.discover import RankSource, locate, locate_all
    from npu_advisor.readers.parse import parse_raw
    from npu_advisor.readers.rank import read_rank


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
