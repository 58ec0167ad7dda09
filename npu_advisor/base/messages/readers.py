"""Texts of the readers: diagnostics and input errors, (English, Chinese)."""

READERS: dict[str, tuple[str, str]] = {
    # Why one file was left out.
    "reason.unreadable": ("cannot be opened: {error}", "无法打开：{error}"),
    "reason.empty_file": ("the file is empty", "文件为空"),
    "reason.not_a_trace": (
        "not a Chrome trace: neither an array of events nor an object with traceEvents",
        "不是 Chrome trace：既非事件数组，也没有 traceEvents",
    ),
    "reason.no_whole_event": (
        "broken off before the first whole event ({size} bytes)",
        "在第一个完整事件之前就已截断（{size} 字节）",
    ),
    "reason.bomb": (
        "unpacks to more than {ratio} times its size ({mib} MiB and no end): not a recording",
        "解压后超过自身大小的 {ratio} 倍（已达 {mib} MiB 且未结束）：不是采集结果",
    ),
    "reason.endless_event": (
        "{mib} MiB without the end of an event: not a trace",
        "{mib} MiB 内没有一个事件结束：不是 trace",
    ),
    "reason.no_rows": ("no rows, only the header", "没有数据行，只有表头"),
    "reason.no_column": ("column '{column}' is missing", "缺少列“{column}”"),
    "reason.bad_json": ("not valid JSON: {error}", "不是合法的 JSON：{error}"),
    "reason.not_a_database": ("not an SQLite database", "不是 SQLite 数据库"),
    "reason.bad_database": ("not a readable database: {error}", "数据库无法读取：{error}"),
    "reason.no_table": ("the database has no table {table}", "数据库中没有表 {table}"),
    "reason.no_details": (
        "{table} tells nothing about its rows at this level",
        "该级别下表 {table} 的各行没有具体信息",
    ),
    # Remarks on the input.
    "diag.trace_truncated": (
        "the trace breaks off at byte {byte} of {size}: {events} events were read, {lost} is lost, and whatever came "
        "after; lanes without events: {lanes}",
        "trace 在第 {byte} 字节处中断（共 {size} 字节）：已读取 {events} 个事件，丢失 {lost} 个，其后内容全部缺失；"
        "没有事件的泳道：{lanes}",
    ),
    "diag.trace_json_repaired": (
        "not valid JSON: {repaired} events were repaired (escapes, NaN, Infinity), {lost} could not be read",
        "不是合法的 JSON：已修复 {repaired} 个事件（转义、NaN、Infinity），{lost} 个无法读取",
    ),
    "diag.trace_invalid_utf8": (
        "{events} events hold bytes that are not UTF-8; those characters are shown as \ufffd",
        "{events} 个事件含有非 UTF-8 字节；这些字符显示为 \ufffd",
    ),
    "diag.gz_damaged": (
        "the checksum of the gzip file does not match: some of what was read may be wrong",
        "gzip 文件的校验和不符：读出的内容可能有误",
    ),
    "diag.still_written": (
        "files changed while they were read ({names}): run again when the profiler has finished",
        "读取过程中文件发生了变化（{names}）：请在 profiler 写完之后重新运行",
    ),
    "diag.still_written_cut": (
        "has no end and changed {seconds} s ago: it may still be being written; run again when the profiler has "
        "finished",
        "文件没有结尾，且 {seconds} 秒前刚被修改：可能仍在写入；请在 profiler 写完之后重新运行",
    ),
    "diag.several_devices": (
        "one trace of {count} devices: busy and idle times are those of all devices together",
        "一个 trace 中有 {count} 个设备：忙闲时间按所有设备合并计算",
    ),
    "diag.mindspore_profile": (
        "written by MindSpore's profiler, this is not a PyTorch profile: kernels and steps are analysed, advice on "
        "code speaks of PyTorch",
        "由 MindSpore 的 profiler 生成，而非 PyTorch：kernel 与 step 照常分析，代码建议以 PyTorch 为准",
    ),
    "diag.msprof_output": (
        "output of msprof, without the framework's part: no torch ops and no source lines; record with "
        "torch_npu.profiler to see them",
        "msprof 的输出，不含框架侧数据：没有 torch 算子与源码行；用 torch_npu.profiler 采集即可获得",
    ),
    "diag.ledger_only": (
        "only the step times that the profiler summed up are here: where the time goes is known, not why",
        "只有 profiler 汇总的 step 耗时：能看出时间花在哪里，看不出原因",
    ),
    "diag.kernels_cut": (
        "its kernels compute for {held} of the {told} that the profiler summed up: rows are missing. Steps are told "
        "as it summed them up; what is said of kernels holds for those left, and ranks are not compared by theirs",
        "其中的 kernel 只计算了 {held}，而 profiler 汇总为 {told}：缺少部分行。step 按其汇总给出；"
        "关于 kernel 的结论只针对剩余的行，各卡之间也不据此比较",
    ),
    "diag.cluster_output_skipped": (
        "the output of a cluster analysis lies beside the profiles and is not used: the profiles hold more",
        "profile 旁有集群分析的输出，未使用：profile 本身信息更全",
    ),
    "diag.op_args": (
        "recorded operator arguments (record_op_args), the input of AOE tuning, are no profile and are left out",
        "算子入参记录（record_op_args）是 AOE 调优的输入，不是 profile，已略过",
    ),
    "diag.no_events": ("the trace holds no events, only names of lanes", "trace 中没有任何事件，只有泳道名称"),
    "diag.bad_duration": (
        "{count} of {rows} kernels have an impossible duration (negative, beyond a day, or far into the next kernel of "
        "the stream) and count with no time: {names}",
        "{rows} 个 kernel 中有 {count} 个时长不合理（为负、超过一天，或远超同一 stream 上下一个 kernel 的开始），"
        "按零时长计：{names}",
    ),
    "diag.bad_duration_trace": (
        "events with an impossible duration (missing, negative or beyond a day) count with no time: {kinds}",
        "时长不合理（缺失、为负或超过一天）的事件按零时长计：{kinds}",
    ),
    "diag.bad_timestamp": (
        "{count} times in {rows} rows are unreadable, such as '{example}' (a spreadsheet rounds them so): durations "
        "still count, places in time do not",
        "{rows} 行中有 {count} 个时间无法读取，例如“{example}”（电子表格另存会造成这种舍入）："
        "时长仍然计入，时间位置不可用",
    ),
    "diag.bad_timestamp_trace": (
        "{count} of {rows} events have no readable start and are left out",
        "{rows} 个事件中有 {count} 个开始时间无法读取，已略过",
    ),
    "diag.bad_timestamp_stray": (
        "times more than a day from the rest of the recording ({kinds}): durations still count, places in time do not",
        "有时间与其余记录相差超过一天（{kinds}）：时长仍然计入，时间位置不可用",
    ),
    "diag.negative_value": (
        "times below zero count as zero: {columns}",
        "小于零的时间按零计：{columns}",
    ),
    "diag.csv_damaged": (
        "rows left out because their columns are not those of the header: {dropped}; rows read: {kept}",
        "{dropped} 行与表头列数不符，已略过；读取了 {kept} 行",
    ),
    "diag.duplicate_export_forms": (
        "text files and a database of the same run are both here; the text files are used",
        "同一次采集的文本文件与数据库并存；使用文本文件",
    ),
    "diag.duplicate_export_forms_db": (
        "a database and some text files of the same run are both here; without a trace the database says more and is "
        "used",
        "同一次采集的数据库与部分文本文件并存；由于没有 trace，使用内容更完整的数据库",
    ),
    "diag.db_table_missing": (
        "the database has no table {tables}: not recorded, or not exported at this level",
        "数据库中没有表 {tables}：未采集，或该级别不导出",
    ),
    "diag.db_damaged": (
        "table {table} breaks off after {rows} rows ({error}); what came before was read",
        "表 {table} 在第 {rows} 行之后中断（{error}）；已读取此前内容",
    ),
    "diag.db_damaged_file": (
        "the database is damaged ({error}); what is whole of it was read",
        "数据库已损坏（{error}）；已读取其中完好的部分",
    ),
    "diag.db_other_devices": (
        "the database holds several devices: device {device} is analysed, {tasks} tasks of {others} are left out",
        "数据库包含多个设备：分析设备 {device}，略过设备 {others} 的 {tasks} 个任务",
    ),
    "diag.db_columns_swapped": (
        "PYTORCH_API holds shapes in the column of types and types in that of shapes; they were put right",
        "PYTORCH_API 中 shape 与数据类型两列互换；已更正",
    ),
    "diag.db_rows_unmatched": (
        "{count} rows of {table} have no row in {other} and are left out",
        "表 {table} 中有 {count} 行在 {other} 中没有对应行，已略过",
    ),
    "diag.metrics_unavailable": (
        "no operator metrics were recorded; collect with profiler_level=Level1 and "
        "aic_metrics=PipeUtilization to see them",
        "没有采集算子指标；以 profiler_level=Level1、aic_metrics=PipeUtilization 采集即可获得",
    ),
    "diag.notebook_source": (
        "call stacks lead into notebook cells: a line counts within its cell",
        "调用栈指向 notebook 单元格：行号以单元格为准",
    ),
    "diag.rank_unknown": (
        "the rank is not recorded (no profiler_info with a rank_id)",
        "未记录 rank（没有含 rank_id 的 profiler_info）",
    ),
    "diag.trace_only_input": (
        "only the trace is here: no shapes, memory or metrics of kernels, no profiler settings",
        "只有 trace：没有 kernel 的 shape、内存与指标，也没有采集配置",
    ),
    "diag.graph_mode": (
        "{kernels} kernels were replayed from a graph: they have no dispatch of their own",
        "{kernels} 个 kernel 由图回放下发：它们没有各自的下发事件",
    ),
    "diag.not_parsed_profile_skipped": (
        "{count} profiles hold raw data that was never parsed and are left out: {names}",
        "{count} 个 profile 只有未解析的原始数据，已略过：{names}",
    ),
    # Errors: what, found, do.
    "error.closed": ("you may not look at {path}", "没有查看 {path} 的权限"),
    "error.not_found": ("no such file or folder: {path}", "没有这个文件或目录：{path}"),
    "found.no_parent": ("{path} is not there either", "{path} 也不存在"),
    "error.nothing": ("nothing to analyse in {path}", "{path} 中没有可分析的内容"),
    "found.nothing": (
        "{files} files, no *_ascend_pt folder, no trace_view.json, kernel_details.csv or *_profiler_*.db",
        "{files} 个文件，没有 *_ascend_pt 目录，也没有 trace_view.json、kernel_details.csv 或 *_profiler_*.db",
    ),
    "error.not_parsed": (
        "this profile holds raw data only; it was never parsed: {path}",
        "该 profile 只有原始数据，尚未解析：{path}",
    ),
    "found.raw_only": (
        "{names}, but no ASCEND_PROFILER_OUTPUT",
        "有 {names}，但没有 ASCEND_PROFILER_OUTPUT",
    ),
    "found.unfinished": (
        "{names}, and an ASCEND_PROFILER_OUTPUT without results: parsing broke off, or still runs",
        "有 {names}，但 ASCEND_PROFILER_OUTPUT 中没有结果：解析中断，或仍在进行",
    ),
    "do.analyse": (
        "python -c \"from torch_npu.profiler.profiler import analyse; analyse('{path}')\"\n"
        "then run this command again (--parse does both, where torch_npu is installed)",
        "python -c \"from torch_npu.profiler.profiler import analyse; analyse('{path}')\"\n"
        "然后重新执行本命令（装有 torch_npu 时，--parse 一并完成两步）",
    ),
    "error.no_torch_npu": (
        "--parse needs torch_npu, which cannot be imported here",
        "--parse 需要 torch_npu，但此环境无法导入",
    ),
    "do.no_torch_npu": (
        "parse where the profile was recorded:\n"
        "python -c \"from torch_npu.profiler.profiler import analyse; analyse('{path}')\"",
        "请在采集环境中解析：\npython -c \"from torch_npu.profiler.profiler import analyse; analyse('{path}')\"",
    ),
    "error.parse_failed": ("torch_npu could not parse {path}", "torch_npu 无法解析 {path}"),
    "error.msprof": (
        "{path} is a recording of msprof that was not exported",
        "{path} 是尚未导出的 msprof 采集数据",
    ),
    "do.msprof": (
        "msprof --export=on --output='{path}'\nthen run this command again",
        "msprof --export=on --output='{path}'\n然后重新执行本命令",
    ),
    "error.op_args": (
        "{path} holds recorded operator arguments (record_op_args), the input of AOE tuning, not a profile",
        "{path} 是算子入参记录（record_op_args），即 AOE 调优的输入，不是 profile",
    ),
    "do.op_args": (
        "give the *_ascend_pt folder beside it",
        "请给出同级的 *_ascend_pt 目录",
    ),
    "error.unknown_file": ("{path} is no profile", "{path} 不是 profile"),
    "error.unreadable": ("no file of {path} can be read", "{path} 中没有可以读取的文件"),
    "error.db_damaged": ("this database cannot be read: {path}", "无法读取该数据库：{path}"),
    "do.db_damaged": (
        "copy it again, or parse the recording again: analyse(path, export_type='db')",
        "请重新拷贝，或重新解析采集数据：analyse(path, export_type='db')",
    ),
    "error.no_events": (
        "{path} is readable, but holds no events",
        "{path} 可以读取，但其中没有任何事件",
    ),
    "do.no_events": (
        "let the profiler run over at least one whole step; with a schedule, call prof.step() after each",
        "请让 profiler 至少覆盖一个完整的 step；使用 schedule 时，每步之后调用 prof.step()",
    ),
    "do.did_you_mean": ("did you mean {path}", "是否指 {path}"),
    "do.did_you_mean_ranks": ("did you mean {path}  ({ranks})", "是否指 {path}（{ranks}）"),
    "do.inputs": (
        "give a *_ascend_pt folder, its ASCEND_PROFILER_OUTPUT, a trace_view.json, a database, a kernel_details.csv, "
        "or a folder above",
        "请给出 *_ascend_pt 目录、其 ASCEND_PROFILER_OUTPUT、trace_view.json、数据库、kernel_details.csv，"
        "或它们的上级目录",
    ),
    "scanner.compiled": ("large traces: compiled scanner ({compiler})", "大 trace：编译扫描器（{compiler}）"),
    "scanner.standard": (
        "large traces: standard scanner (npu-advisor[fast] has a compiled one)",
        "大 trace：标准扫描器（npu-advisor[fast] 提供编译扫描器）",
    ),
}
