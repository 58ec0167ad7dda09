"""What a codemod proposes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npu_advisor.base.terms import Text
from npu_advisor.findings import TextEdit

Applicability = Literal["safe", "unsafe", "display-only"]


@dataclass(frozen=True)
class Patch:
    """Edits that belong together, and how far to trust them (:class:`npu_advisor.findings.CodeFix`)."""

    applicability: Applicability
    title: Text
    edits: tuple[TextEdit, ...]
