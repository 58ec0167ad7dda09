"""axe-core on an open page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def grave_violations(page: Any) -> list[tuple[str, list[str]]]:
    """What axe-core says keeps people out of the page as it is now: rules with the first elements."""
    axe = os.environ.get("NPU_ADVISOR_AXE")
    if not axe:
        pytest.skip("NO ACCESSIBILITY TEST: NPU_ADVISOR_AXE does not name axe.min.js of axe-core")
    page.evaluate(Path(axe).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (violation["id"], [node["html"][:200] for node in violation["nodes"][:3]])
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
