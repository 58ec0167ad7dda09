"""Texts of ``show`` and ``open``: (English, Chinese)."""

SHOW: dict[str, tuple[str, str]] = {
    "show.reason": ("{reason}", "{reason}"),
    "show.record": ("record with {enable}", "请以 {enable} 重新采集"),
    "show.more": (
        "{n} of {total} rows; --top 0 shows all",
        "共 {total} 行，显示 {n} 行；--top 0 显示全部",
    ),
    "show.columns": (
        "no room for {names}; -f csv and -f json hold them",
        "宽度不足，未显示 {names}；-f csv 和 -f json 包含这些列",
    ),
    "show.no_rows": ("no row satisfies the condition", "没有满足条件的行"),
    "show.no_pyarrow": ("-f parquet needs pyarrow, which is not installed", "-f parquet 需要 pyarrow，但未安装"),
    "show.no_pyarrow_do": ("pip install pyarrow, or use -f csv", "请 pip install pyarrow，或使用 -f csv"),
    "show.parquet_file": ("-f parquet does not go to the terminal", "-f parquet 不能输出到终端"),
    "show.parquet_file_do": ("name a file with -o FILE", "请用 -o FILE 指定文件"),
    "help.commands.show": (
        "List kernels, operators, memory, steps, communication or the timeline of a profile.",
        "列出 profile 的 kernel、算子、内存、步、通信或时间线。",
    ),
    "help.option.what": (
        "kernels, operators, memory, steps, communication or timeline.",
        "kernels、operators、memory、steps、communication 或 timeline。",
    ),
    "help.option.group_by": (
        "Columns that rows are grouped by, with commas between; none lists every row.",
        "按这些列分组，以逗号分隔；none 逐行列出。",
    ),
    "help.option.sort": (
        "Columns to sort by, with commas between; -COLUMN puts the largest first.",
        "按这些列排序，以逗号分隔；-COLUMN 为从大到小。",
    ),
    "help.option.top": ("At most so many rows, 0 for all.", "最多这么多行，0 为全部。"),
    "help.option.where": (
        "Only rows that satisfy this condition of the rule language.",
        "仅列出满足该条件（规则语言）的行。",
    ),
}
