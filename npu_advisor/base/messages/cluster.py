"""Texts of jobs of many ranks: (English, Chinese)."""

CLUSTER: dict[str, tuple[str, str]] = {
    "diag.ranks_missing": (
        "{present} of the {world} ranks of the job were read; not there: {missing}. "
        "What these do shows only where the others wait for them",
        "任务共 {world} 张卡，仅读取到 {present} 张；缺少：{missing}。缺少的卡只能从其他卡的等待中看出",
    ),
}
