"""Changes that a program can make to the user's code, one per advice that allows it.

A codemod sees the text of one file, the line of the finding and the finding's values. It gives a patch only where the
code is what it expects there; otherwise none. Patches are edits of spans, so that everything else keeps its format.
Rule files name codemods (``suggest[].codemod``); what needs libcst is imported when one is asked for a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npu_advisor.codemods.edits import apply_edits
from npu_advisor.findings import JsonValue

if TYPE_CHECKING:
    from npu_advisor.codemods.code import Code
    from npu_advisor.codemods.patch import Patch

__all__ = ["CODEMODS", "Codemod", "apply_edits", "patch"]

Make = Callable[["Code", int, Mapping[str, JsonValue]], "Patch | None"]


@dataclass(frozen=True)
class Codemod:
    """``load`` imports what makes the patch; ``reads`` are the values of the finding that it needs."""

    load: Callable[[], Make]
    reads: tuple[str, ...] = ()


def patch(name: str, text: str, line: int, values: Mapping[str, JsonValue]) -> Patch | None:
    """What the codemod ``name`` changes in the file ``text`` for a finding at ``line`` (from 1); None: nothing.

    A patch whose result would not parse is none either.
    """
    from npu_advisor.codemods.code import parses, read_code

    code = read_code(text)
    made = CODEMODS[name].load()(code, line, values) if code else None
    return made if made and parses(apply_edits(text, made.edits)) else None


def _npu_fused() -> Make:
    from npu_advisor.codemods.optimizer import npu_fused

    return npu_fused


def _torch_fused() -> Make:
    from npu_advisor.codemods.optimizer import torch_fused

    return torch_fused


def _loader() -> Make:
    from npu_advisor.codemods.loader import feed_faster

    return feed_faster


def _read_rarely() -> Make:
    from npu_advisor.codemods.reading import read_rarely

    return read_rarely


def _masks() -> Make:
    from npu_advisor.codemods.masks import keep_shape

    return keep_shape


CODEMODS: Mapping[str, Codemod] = {
    "npu-fused-optimizer": Codemod(_npu_fused, ("optimizer", "dtypes")),
    "torch-fused-optimizer": Codemod(_torch_fused, ("optimizer",)),
    "loader-workers": Codemod(_loader),
    "read-rarely": Codemod(_read_rarely),
    "mask-to-where": Codemod(_masks),
}
