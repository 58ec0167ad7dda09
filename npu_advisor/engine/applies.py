"""Whether a rule is for this profile's versions and device; what the profile does not say never stops a rule."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.derive.work import work_of
from npu_advisor.model.profile import Profile
from npu_advisor.rules.spec import Applies

_CLAUSE = re.compile(r"^\s*(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)\s*$")
_OPERATORS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def version_fault(wanted: str) -> str | None:
    """Why ``wanted`` is not a version range such as ``>=8.0,<9``, None when it is."""
    bad = next((clause for clause in wanted.split(",") if not _CLAUSE.match(clause)), None)
    return None if bad is None else f"'{bad.strip()}' is not a version range; write >=8.0 or >=8.0,<9"


def version_fits(version: str, wanted: str) -> bool:
    """Whether ``version`` (``8.0.RC1`` counts as 8.0) lies in the range."""
    numbers = re.match(r"\D*(\d+(?:\.\d+)*)", version)
    if numbers is None:
        return True
    have = _numbers(numbers[1])
    for clause in wanted.split(","):
        found = _CLAUSE.match(clause)
        if found and not _OPERATORS[found[1]](*_same_length(have, _numbers(found[2]))):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _same_length(one: tuple[int, ...], two: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    size = max(len(one), len(two))
    return one + (0,) * (size - len(one)), two + (0,) * (size - len(two))


def not_for(applies: Applies | None, profile: Profile) -> Text | None:
    """Why the rule is not for this profile, None when it is or the profile does not say."""
    info = profile.info
    if info.device_kind != "npu" and (applies is None or applies.kind == "npu"):
        return say(f"engine.not_for_{info.device_kind}")
    if applies is None:
        return None
    work = work_of(profile) if applies.work else None
    # Training has many faces; a rule about it stands back only where a loop of inference is plain to see.
    if (work != "inference") if applies.work == "inference" else (applies.work and work == "inference"):
        return say(f"engine.only_{applies.work}")
    # torch_npu is released under the number of the torch it is for.
    wanted = (
        ("CANN", applies.cann, info.cann),
        ("torch", applies.torch, info.torch_npu),
        ("torch_npu", applies.torch_npu, info.torch_npu),
    )
    for name, range_, version in wanted:
        if range_ and version and not version_fits(version, range_):
            return say("engine.not_for", name=name, wanted=range_, found=version)
    if applies.device and info.device and not fnmatchcase(info.device, applies.device):
        return say("engine.not_for", name="device", wanted=applies.device, found=info.device)
    return None
