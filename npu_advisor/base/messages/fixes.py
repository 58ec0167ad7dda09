"""Texts of changes to the user's code, and of ``npu-advisor fix``: (English, Chinese)."""

FIXES: dict[str, tuple[str, str]] = {
    "fix.unsafe": ("{title} (changes what runs: review it)", "{title}（会改变程序行为，请审阅）"),
    "ui.finding.made": (
        "npu-advisor fix PATH {options} shows the change to this code",
        "npu-advisor fix PATH {options} 可显示对此处代码的修改",
    ),
    "fix.npu_fused": (
        "Build {fused} instead of {name}; check that no parameter is re-created after the first step, and compare the "
        "loss curve",
        "用 {fused} 代替 {name}；请确认参数在第一步之后不会被重建，并对比 loss 曲线",
    ),
    "fix.torch_fused": (
        "Pass fused=True to AdamW, and compare the loss curve",
        "为 AdamW 传入 fused=True，并对比 loss 曲线",
    ),
    "fix.loader": (
        "Pass {arguments} to the DataLoader; an iterable dataset must share its samples among the workers",
        "为 DataLoader 传入 {arguments}；可迭代数据集须自行在 worker 之间划分样本",
    ),
    "fix.where": ("Keep the shape with torch.where; the result is equal", "用 torch.where 保持形状，结果相同"),
    "fix.where_sum": (
        "Sum torch.where instead of a selection; equal but for the order of rounding",
        "对 torch.where 求和代替按掩码选取；除舍入顺序外结果相同",
    ),
    "fix.log_rarely": (
        "Read and log the value every {every} steps only",
        "每 {every} 步才读取并记录该数值",
    ),
    "fix.check_rarely": ("Check every {every} steps only", "每 {every} 步才检查一次"),
    "fix.detach": (
        "Keep the value on the device; it is a tensor from here on, read it when it is printed",
        "把数值留在设备上；此后它是张量，打印时再读取",
    ),
    "fix.diff_or_apply": ("say what to do with the changes", "请说明如何处理修改"),
    "fix.diff_or_apply_do": (
        "--diff shows them, --apply makes them; add --unsafe for those that change what runs",
        "--diff 显示修改，--apply 写入修改；会改变程序行为的修改需加 --unsafe",
    ),
    "fix.unreadable": ("cannot read {path}: {reason}", "无法读取 {path}：{reason}"),
    "fix.unwritable": ("cannot write {path}: {reason}", "无法写入 {path}：{reason}"),
    "fix.made": ("changed {place}: {title}", "已修改 {place}：{title}"),
    "fix.would": ("would change {place}: {title}", "将修改 {place}：{title}"),
    "fix.left_unsafe": ("not without --unsafe: {place}: {title}", "需 --unsafe：{place}：{title}"),
    "fix.left_display": (
        "not changed, the profile does not tell enough: {place}: {title}",
        "未修改，采集数据不足以判断：{place}：{title}",
    ),
    "fix.left_clash": (
        "not changed, another change touches the same code: {place}: {title}",
        "未修改，同一处代码已有其他修改：{place}：{title}",
    ),
    "fix.nothing": (
        "Nothing to change: no finding has a fix for the code found here (--source-root OLD=NEW tells where it is).",
        "没有可做的修改：未找到可自动修改的代码（可用 --source-root OLD=NEW 指明代码位置）。",
    ),
    "help.commands.fix": (
        "Change the code as findings advise: show a diff, or write the files.",
        "按照发现修改代码：显示 diff 或写入文件。",
    ),
    "help.option.diff": ("Show the changes as a diff.", "以 diff 显示修改。"),
    "help.option.apply": ("Write the changes into the files.", "把修改写入文件。"),
    "help.option.unsafe": (
        "Also those that change what the program does; review them.",
        "包括会改变程序行为的修改；请审阅。",
    ),
}
