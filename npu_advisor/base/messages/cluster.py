"""Texts of jobs of many ranks: (English, Chinese)."""

CLUSTER: dict[str, tuple[str, str]] = {
    "diag.ranks_missing": (
        "{present} of at least {world} ranks of the job were read; not there: {missing}. "
        "What these do shows only where the others wait for them",
        "任务至少有 {world} 张卡，仅读取到 {present} 张；缺少：{missing}。缺少的卡只能从其他卡的等待中看出",
    ),
    "diag.ranks_repeated": (
        "{files} recordings of {ranks} ranks: of each rank the last recording counts; analyse one run at a time",
        "{ranks} 张卡共有 {files} 份采集数据：每张卡以最后一份为准；请一次只分析一次运行",
    ),
    "diag.rank_failed": ("{path} was left out: {reason}", "已跳过 {path}：{reason}"),
    "saving.modelled": (
        "modelled: collectives hold their ranks together, each rank's own times keep their length but for the edit",
        "模型估计：集合通信使各卡同步，除被修改部分外各卡自身时间不变",
    ),
    "error.no_extra": ("this needs the package {name}", "此功能需要安装 {name}"),
    "error.no_extra_do": ("pip install 'npu-advisor[cluster]'", "pip install 'npu-advisor[cluster]'"),
    "error.bad_place": ("'{place}' cannot be opened: {reason}", "无法打开 '{place}'：{reason}"),
    "error.nothing_remote": (
        "no folder under {path} is the output of a profiler (*_ascend_pt)",
        "{path} 下没有 profiler 输出目录（*_ascend_pt）",
    ),
    "do.remote": ("give the folder that holds one folder a rank", "请指定包含各卡目录的上级目录"),
    "error.worker_died": (
        "its process was ended from outside, most likely for want of memory",
        "处理该卡的进程被外部终止，通常是内存不足",
    ),
    "error.worker_failed": ("its analysis failed: {error}", "分析失败：{error}"),
    "error.no_scheduler": ("--engine dask needs --scheduler", "--engine dask 需要 --scheduler"),
    "error.no_scheduler_do": (
        "for example: --scheduler tcp://host:8786 --summaries /shared/summaries",
        "例如：--scheduler tcp://host:8786 --summaries /shared/summaries",
    ),
    "error.bad_scheduler": (
        "no dask scheduler answers at {scheduler}: {reason}",
        "无法连接 dask 调度器 {scheduler}：{reason}",
    ),
    "error.tables_do": ("name a folder or URL with -o DIR", "请用 -o DIR 指定目录或 URL"),
    "error.no_summaries": (
        "--engine dask needs --summaries: a folder or URL that all workers reach",
        "--engine dask 需要 --summaries：所有 worker 都能访问的目录或 URL",
    ),
    "error.bad_memory": ("'{value}' is no amount of memory", "'{value}' 不是内存大小"),
    "error.bad_memory_do": ("for example --memory 2GB", "例如 --memory 2GB"),
    "error.too_little_memory": (
        "the largest rank needs about {need}, --memory allows {memory}: ranks are analysed one at a time",
        "最大的一张卡约需 {need}，--memory 为 {memory}：逐卡分析",
    ),
    "help.commands.cluster": (
        "Analyse a job of many ranks: each rank becomes a small summary, then the job is judged by the summaries.",
        "分析多卡任务：先为每张卡生成小型摘要，再根据摘要判断整个任务。",
    ),
    "help.option.summaries": (
        "Folder or URL of the summaries; those already there are used again.",
        "摘要所在目录或 URL；已有的摘要会被重用。",
    ),
    "help.option.memory": ("Bound of the memory of all processes together.", "所有进程合计的内存上限。"),
    "help.option.workers": ("Processes at most; the default is one a core.", "最多进程数，默认每核一个。"),
    "help.option.engine": ("Where ranks are analysed.", "在哪里分析各卡。"),
    "help.option.scheduler": ("Address of the dask scheduler.", "dask 调度器地址。"),
    "ui.cluster.done": (
        "ranks: {ranks} ({new} analysed, {resumed} taken from summaries, {failed} failed)",
        "共 {ranks} 张卡：新分析 {new}，取自摘要 {resumed}，失败 {failed}",
    ),
}
