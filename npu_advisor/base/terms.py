"""Words that rules, findings and reports share: severity, basis, effort, and a text in both languages."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import BaseModel, ConfigDict

# What a stretch of a critical path can be.
# In order of precedence; every ns of idle time has exactly one.
IDLE_OWNERS = ("gc", "alloc", "compile", "sync", "data", "dispatch", "other")

PathPart = Literal[
    "host",
    "input",
    "dispatch",
    "compute",
    "copy",
    "communication",
    "waiting_for_rank",
    "sync",
    "stream_gap",
    "anchor",
]


class Severity(str, Enum):
    """How much a finding matters; one scale for all rules (share of the step that could be saved)."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    @property
    def order(self) -> int:
        """0 for the gravest; sorts findings and compares thresholds."""
        return list(Severity).index(self)

    @classmethod
    def of_share(cls, share: float) -> Severity:
        """Severity of a saving that is ``share`` (0..1) of the step: 5 %, 2 % and 0.5 % are the borders."""
        for severity, floor in SEVERITY_FLOORS.items():
            if share >= floor:
                return severity
        return cls.INFO


SEVERITY_FLOORS = {Severity.HIGH: 0.05, Severity.MEDIUM: 0.02, Severity.LOW: 0.005}


class Basis(str, Enum):
    """Where a saving's figure comes from; ``modelled`` is the recurrence over the collectives of a job."""

    REPLAYED = "replayed"
    MEASURED = "measured"
    UPPER_BOUND = "upper_bound"
    MODELLED = "modelled"


class Effort(str, Enum):
    """What a suggestion asks of the reader, cheapest first; ``profile`` is to record again."""

    PROFILE = "profile"
    ENVIRONMENT = "environment"
    ONE_LINE = "one-line"
    LOCAL = "local"
    REWORK = "rework"


class Text(BaseModel):
    """One message in English and Chinese. Both are always carried; a reporter picks one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    en: str
    zh: str

    def pick(self, lang: str) -> str:
        """The text in ``lang`` (``en`` or ``zh``)."""
        return self.zh if lang == "zh" else self.en


def joined(*parts: Text | None) -> Text:
    """Texts one after the other, those that are None left out."""
    known = [part for part in parts if part is not None]
    return Text(en="; ".join(part.en for part in known), zh="；".join(part.zh for part in known))
