"""Why a derived table is not there, and what the user may say about the chip."""

from __future__ import annotations

DERIVED: dict[str, tuple[str, str]] = {
    "absent.hardware": (
        "which chip this is cannot be told: no PROF_*/device_*/info.json beside the files, and too few kernels that "
        "fill its vector cores; name it in NPU_ADVISOR_CHIP, as Ascend910B2",
        "无法得知芯片型号：文件旁没有 PROF_*/device_*/info.json，占满向量核的 kernel 也过少；"
        "可用 NPU_ADVISOR_CHIP 指定，例如 Ascend910B2",
    ),
    "error.unknown_chip": (
        "NPU_ADVISOR_CHIP: '{name}' is no chip with known rates; known are {known}",
        "NPU_ADVISOR_CHIP：'{name}' 不是已知速率的芯片；已知的有 {known}",
    ),
}
