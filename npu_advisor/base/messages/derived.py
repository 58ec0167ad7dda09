"""Why a derived table is not there."""

from __future__ import annotations

DERIVED: dict[str, tuple[str, str]] = {
    "absent.hardware": (
        "which chip this is cannot be told: no PROF_*/device_*/info.json beside the files, and too few kernels that "
        "fill its vector cores",
        "无法得知芯片型号：文件旁没有 PROF_*/device_*/info.json，占满向量核的 kernel 也过少",
    ),
}
