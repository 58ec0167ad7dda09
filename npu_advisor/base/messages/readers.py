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
    "reason.no_rows": ("no rows, only the header", "没有数据行，只有表头"),
    "reason.no_column": ("column '{column}' is missing", "缺少列“{column}”"),
    "reason.bad_json": ("not valid JSON: {error}", "不是合法的 JSON：{error}"),
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
    "diag.negative_value": (
        "times below zero count as zero: {columns}",
        "小于零的时间按零计：{columns}",
    ),
    "diag.csv_damaged": (
        "{dropped} rows do not have the columns of the header and are left out; {kept} rows were read",
        "{dropped} 行与表头列数不符，已略过；读取了 {kept} 行",
    ),
    "diag.duplicate_export_forms": (
        "text files and a database of the same run are both here; the text files are used",
        "同一次采集的文本文件与数据库并存；使用文本文件",
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
    "diag.db_form_skipped": (
        "{count} profiles exist as a database only, which is not read yet, and are left out: {names}",
        "{count} 个 profile 只有数据库形式，目前尚不支持读取，已略过：{names}",
    ),
    # Errors: what, found, do.
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
    "do.analyse": (
        "python -c \"from torch_npu.profiler.profiler import analyse; analyse('{path}')\"\nthen run this command again",
        "python -c \"from torch_npu.profiler.profiler import analyse; analyse('{path}')\"\n然后重新执行本命令",
    ),
    "error.msprof": (
        "{path} is the raw output of msprof, without the framework's part",
        "{path} 是 msprof 的原始输出，不含框架侧数据",
    ),
    "do.msprof": (
        "record with torch_npu.profiler and give its *_ascend_pt folder, or give an op_summary_*.csv of msprof",
        "请用 torch_npu.profiler 采集并给出 *_ascend_pt 目录，或给出 msprof 导出的 op_summary_*.csv",
    ),
    "error.db_form": (
        "this profile is a database, a form that is not read yet: {path}",
        "该 profile 为数据库形式，目前尚不支持读取：{path}",
    ),
    "found.databases": (
        "a database without text files in {names}",
        "{names} 中只有数据库，没有文本文件",
    ),
    "do.db_form": (
        "record (or parse again) with export_type=[ExportType.Text]; analyse(path, export_type='text') makes the text "
        "files from the raw data, where they were kept",
        "以 export_type=[ExportType.Text] 重新采集或解析；若保留了原始数据，"
        "可用 analyse(path, export_type='text') 生成文本文件",
    ),
    "error.op_args": (
        "{path} holds recorded operator arguments (record_op_args), not a profile",
        "{path} 是算子入参记录（record_op_args），不是 profile",
    ),
    "do.op_args": (
        "give the *_ascend_pt folder beside it",
        "请给出同级的 *_ascend_pt 目录",
    ),
    "error.unknown_file": ("{path} is no profile", "{path} 不是 profile"),
    "error.gpu_trace": (
        "{path} was recorded on a GPU; GPU traces are not read yet",
        "{path} 采集自 GPU；目前尚不支持 GPU trace",
    ),
    "do.gpu_trace": (
        "give a profile of torch_npu.profiler (a *_ascend_pt folder or its trace_view.json)",
        "请给出 torch_npu.profiler 的采集结果（*_ascend_pt 目录或其 trace_view.json）",
    ),
    "error.unreadable": ("no file of {path} can be read", "{path} 中没有可以读取的文件"),
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
        "give a *_ascend_pt folder, its ASCEND_PROFILER_OUTPUT, a trace_view.json, a kernel_details.csv, "
        "or a folder above",
        "请给出 *_ascend_pt 目录、其 ASCEND_PROFILER_OUTPUT、trace_view.json、kernel_details.csv，或它们的上级目录",
    ),
}
