"""Texts of ``show``, ``open`` and the trace overlay: (English, Chinese)."""

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
    "open.serving": ("the report is at {address}; Ctrl-C ends it", "报告位于 {address}，按 Ctrl-C 结束"),
    "open.no_browser": ("no browser could be started; open the file yourself", "无法启动浏览器，请自行打开该文件"),
    "open.port_taken": ("port {port} cannot be used: {reason}", "无法使用端口 {port}：{reason}"),
    "open.port_taken_do": ("name another with --port, or leave it out", "请用 --port 指定其他端口，或不指定"),
    "help.commands.open": (
        "Show the HTML report in a browser.",
        "在浏览器中显示 HTML 报告。",
    ),
    "help.option.serve": (
        "Serve it on this machine's loopback address instead of writing a file.",
        "不写文件，改为在本机回环地址上提供。",
    ),
    "help.option.port": ("Port of --serve; 0 takes a free one.", "--serve 的端口，0 为任一空闲端口。"),
    "trace.idle": ("device idle, by owner", "设备空闲（按归因）"),
    "trace.exposed": ("exposed communication", "未掩盖通信"),
    "trace.no_end": ("{path} has no end, so nothing can be added to it", "{path} 没有结尾，无法追加内容"),
    "trace.many": (
        "{n} traces are there, and nothing tells their ranks apart",
        "有 {n} 个 trace，但无法区分它们各属于哪张卡",
    ),
    "trace.no_list": (
        "{path} is no plain list of events: several of its kind cannot be put into one file",
        "{path} 不是普通的事件列表：多个此类文件无法合并",
    ),
    "trace.damaged": ("{path} is damaged, so nothing can be merged with it", "{path} 已损坏，无法合并"),
    "trace.many_do": ("choose one rank with --rank N", "请用 --rank N 选择一张卡"),
    "trace.none": ("{path} holds no trace in one file to merge with", "{path} 中没有可合并的单个 trace 文件"),
    "trace.none_do": ("leave out --merge and load the overlay beside it", "请去掉 --merge，另行加载叠加文件"),
    "trace.merge_what": ("--merge needs an overlay in a file", "--merge 需要写入文件的叠加 trace"),
    "trace.merge_what_do": ("add -f trace -o FILE", "请加上 -f trace -o FILE"),
    "trace.onto_itself": ("{path} is the trace itself", "{path} 就是原 trace"),
    "trace.onto_itself_do": ("name another file with -o", "请用 -o 指定另一个文件"),
    "help.option.merge": (
        "With -f trace -o FILE: put the profile's own trace into the file too (.gz compresses).",
        "与 -f trace -o FILE 一起使用：将 profile 自身的 trace 一并写入（.gz 表示压缩）。",
    ),
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
