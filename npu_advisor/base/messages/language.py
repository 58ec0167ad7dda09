"""The rule language: what its stages cannot do on a profile."""

from __future__ import annotations

LANGUAGE: dict[str, tuple[str, str]] = {
    "engine.no_other_rank": (
        "only one rank that can be compared was read; give the folder that holds all ranks of the run",
        "只读取到一张可比较的卡；请给出包含该任务所有卡的目录",
    ),
    "engine.no_other_run": (
        "only one run that can be compared was read; give the profiles of two runs",
        "只读取到一次可比较的运行；请给出两次运行的 profile",
    ),
}
