"""npu-advisor: what costs the time in an Ascend NPU training step, at which line, and what a fix would save.

``analyze(path) -> Report``, ``load_profile(path) -> Profile`` and ``load_rules() -> list[Rule]`` are the whole API;
everything is imported on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "analyze": "npu_advisor.api",
    "load_profile": "npu_advisor.api",
    "load_rules": "npu_advisor.api",
    "AdvisorError": "npu_advisor.base.errors",
    "Finding": "npu_advisor.findings",
    "Report": "npu_advisor.findings",
}
__all__ = ["AdvisorError", "Finding", "Report", "__version__", "analyze", "load_profile", "load_rules"]

if TYPE_CHECKING:
    from npu_advisor.api import analyze, load_profile, load_rules
    from npu_advisor.base.errors import AdvisorError
    from npu_advisor.findings import Finding, Report


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'npu_advisor' has no attribute {name!r}")
