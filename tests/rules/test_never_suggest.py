"""What no shipped rule may suggest: interfaces that are to be removed, and advice that harms or does nothing."""

from __future__ import annotations

import re

import pytest

from npu_advisor import load_rules
from npu_advisor.rules.spec import Rule

# Interfaces of torch_npu that are planned for removal.
REMOVED = [
    "npu_apply_adam",
    "npu_bert_apply_adam",
    "npu_broadcast",
    "npu_conv2d",
    "npu_conv3d",
    "npu_convolution",
    "npu_dtype_cast",
    "npu_gru",
    "npu_layer_norm_eval",
    "npu_min",
    "npu_mish",
    "npu_silu",
    "npu_sort_v2",
    "npu_reshape",
    "npu_bmmV2",
    "npu_confusion_transpose",
    "npu_transpose",
    "npu_slice",
    "npu_pad",
    "npu_one_hot",
    "npu_indexing",
    "npu_softmax_cross_entropy_with_logits",
    "npu_fused_attention_score",
    "npu_fused_attention_with_layernorm",
    "npu_multi_head_attention",
    "npu_dropout_with_add_softmax",
    "dropout_with_byte_mask",
    "FusedColorJitter",
    "LinearA8W8Quant",
    "DropoutWithByteMask",
    "BiLSTM",
    "DCNv2",
    "copy_memory_",
    "empty_with_format",
    "npu_alloc_float_status",
    "npu_get_float_status",
    "npu_clear_float_status",
    "npu_sign_bits_pack",
    "npu_sign_bits_unpack",
    "npu_random_choice_with_mask",
    "npu_grid_assign_positive",
    "npu_anchor_response_flags",
    "npu_yolo_boxes_encode",
    "npu_batch_nms",
    "npu_giou",
    "npu_ciou",
    "npu_diou",
    "npu_iou",
    "npu_ptiou",
    "npu_ps_roi_pooling",
    "npu_mla_prolog",
]
PATTERNS = [
    *(rf"\b{name}\b" for name in REMOVED),
    r"\bnpu_nms_\w+",
    r"\bnpu_rotated_\w+",
    r"\bnpu_bounding_box_\w+",
    r"\bone_\(",
    r"contrib\.(module|function)\b",
    r"contrib\.Swish\b",
    r"\.reset\(\)",
    # Without autograd: not in a step with a backward.
    r"\bnpu_add_rms_norm\b",
    r"\bnpu_gelu_mul\b",
    r"\bnpu_group_norm_silu\b",
    # No effect or worse.
    r"site-packages",
    r"\bAOE\b",
    r"MULTI_STREAM_MEMORY_REUSE=2",
    r"HCCL_ALGO=",
    r"Adam\([^)]*fused=True",  # there is no fused Adam on the NPU; AdamW has one
]


def _advice(rule: Rule) -> str:
    """Everything that a rule tells to do; what it shows as the code before is what it advises against."""
    parts = [text for suggestion in rule.suggest for text in (suggestion.en, suggestion.zh, suggestion.after) if text]
    return "\n".join(parts)


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_nothing_harmful_is_suggested(rule: Rule) -> None:
    found = [pattern for pattern in PATTERNS if re.search(pattern, _advice(rule))]
    assert found == []


@pytest.mark.parametrize(
    "advice",
    [
        "y = torch_npu.npu_silu(x)",
        "export HCCL_ALGO=level0:ring",
        "torch.optim.Adam(params, fused=True)",
        "npu_nms_v4(b)",
    ],
)
def test_the_search_finds_what_it_looks_for(advice: str) -> None:
    assert any(re.search(pattern, advice) for pattern in PATTERNS)


def test_the_fused_form_of_adamw_may_be_suggested() -> None:
    assert not any(re.search(pattern, "torch.optim.AdamW(params, fused=True)") for pattern in PATTERNS)
