"""Whether a recording shows training or inference, from names alone.

Rules about decode loops have nothing to say of training, and the other way round; whoever is told apart costs nothing.
"""

from __future__ import annotations

from typing import Literal

from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

Work = Literal["training", "inference"]

# Ops that only training runs.
_TRAINING_OPS = ("autograd::engine::evaluate_function", "Optimizer.step#", "Optimizer.zero_grad#")
# A kernel of backward has it in its type: ReluGrad, LayerNormGradV3, FlashAttentionScoreGrad.
_BACKWARD = "Grad"
# Kernels that read or write a KV cache, or draw the next token.
_DECODE_KERNELS = (
    *("FusedInferAttention", "IncreFlashAttention", "PromptFlashAttention", "PagedAttention", "MlaProlog"),
    *("ReshapeAndCache", "ScatterPaKvCache", "KvRmsNormRopeCache", "ApplyTopKTopP", "TopKTopPSample"),
)
# CANN calls that replay a captured or a compiled graph.
GRAPH_LAUNCHES = ("aclmdlRIExecute", "aclmdlExecute")


def work_of(profile: Profile) -> Work | None:
    """``training`` or ``inference``; None where the recording shows neither a backward pass nor a decode loop."""
    if "work" not in profile.cache:
        profile.cache["work"] = _work(profile)
    found: Work | None = profile.cache["work"]
    return found


def _work(profile: Profile) -> Work | None:
    ops, calls = _names(profile.table("ops"), "name"), _names(profile.table("apis"), "name")
    types = _names(profile.table("kernels"), "type")
    if any(name.startswith(_TRAINING_OPS) for name in ops) or any(_BACKWARD in name for name in types):
        return "training"
    if any(name.startswith(GRAPH_LAUNCHES) for name in calls):
        return "inference"
    return "inference" if any(mark in name for name in types for mark in _DECODE_KERNELS) else None


def _names(table: Table, column: str) -> list[str]:
    """The distinct texts of a column: categories, never rows."""
    return [str(name) for name in table[column].categories]
