"""Tables and figures computed from a linked profile, each on first use."""

from __future__ import annotations

from npu_advisor.derive.facts import profile_row
from npu_advisor.derive.memory import peak_owners
from npu_advisor.graph.idle import idle
from npu_advisor.model.profile import Profile

PROVIDERS = {"idle": idle, "peak_owners": peak_owners, "profile": profile_row}


def derive(profile: Profile) -> Profile:
    """Register every derived table on ``profile``; none is computed yet."""
    profile.register(PROVIDERS)
    return profile
