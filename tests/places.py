"""Folders the tests read: the repository, and recorded data outside it that may be absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
DEMO = REPOSITORY / "fixtures" / "demo"
PROFILES = Path(os.environ.get("NPU_ADVISOR_REAL_PROFILES") or REPOSITORY / "../shared/profiles").resolve()
CASES = Path(os.environ.get("NPU_ADVISOR_CASES") or REPOSITORY / "../shared/cases").resolve()

needs_profiles = pytest.mark.skipif(
    not PROFILES.is_dir(), reason="no recorded profiles; set NPU_ADVISOR_REAL_PROFILES to the folder that holds them"
)
needs_cases = pytest.mark.skipif(
    not CASES.is_dir(), reason="no trouble cases; set NPU_ADVISOR_CASES to the folder that holds them"
)
