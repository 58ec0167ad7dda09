"""Texts about critical paths: what binds a step, what hides a long event, what a fix waits for."""

PATHS: dict[str, tuple[str, str]] = {
    # What the step waits for while a long event lasts.
    "hidden.waiting_for_one": (
        "the step waits for rank {rank} during {share} of it anyway",
        "其间 {share} 的时间单步本就在等待 {rank} 号卡",
    ),
    "hidden.waiting_for_rank": (
        "the step waits for other ranks during {share} of it anyway",
        "其间 {share} 的时间单步本就在等待其他卡",
    ),
    "hidden.communication": (
        "the step waits for communication during {share} of it anyway",
        "其间 {share} 的时间单步本就在等待通信",
    ),
    "hidden.compute": (
        "the step waits for kernels during {share} of it anyway",
        "其间 {share} 的时间单步本就在等待 kernel 计算",
    ),
    "hidden.copy": (
        "the step waits for a copy during {share} of it anyway",
        "其间 {share} 的时间单步本就在等待拷贝",
    ),
    "hidden.dispatch": (
        "the step waits for the task queue during {share} of it anyway",
        "其间 {share} 的时间单步本就在等待任务队列下发",
    ),
    "hidden.host": (
        "the host works during {share} of it on what the step needs anyway",
        "其间 {share} 的时间主机本就在做单步所需的工作",
    ),
    "hidden.input": (
        "the step waits for input data during {share} of it anyway",
        "其间 {share} 的时间单步本就在等待输入数据",
    ),
    "hidden.sync": (
        "the step sits in other blocking calls during {share} of it anyway",
        "其间 {share} 的时间单步本就阻塞在其他同步调用中",
    ),
    "hidden.stream_gap": (
        "the step waits for gaps and events between device tasks during {share} of it anyway",
        "其间 {share} 的时间单步本就在等待设备任务间的间隙与事件",
    ),
    "hidden.anchor": (
        "the step waits during {share} of it for something that was not recorded",
        "其间 {share} 的时间单步在等待未采集到的事件",
    ),
    "hidden.saves": ("gone altogether, it would save {us}", "完全去掉也只省 {us}"),
    # What binds a step.
    "ui.path.bound": (
        "Bound by {cause}: {share} of the critical path, then {parts}.",
        "单步受制于{cause}：占关键路径的 {share}，其次为{parts}。",
    ),
    "ui.path.bound_alone": (
        "Bound by {cause}: {share} of the critical path.",
        "单步受制于{cause}：占关键路径的 {share}。",
    ),
    "ui.path.share": ("{part} {share}", "{part} {share}"),
    "ui.path.comma": (", ", "、"),
    "ui.path.host": ("host work", "主机侧执行"),
    "ui.path.input": ("data loading", "数据加载"),
    "ui.path.dispatch": ("dispatch", "下发"),
    "ui.path.compute": ("computing", "计算"),
    "ui.path.copy": ("copies", "拷贝"),
    "ui.path.communication": ("communication", "通信"),
    "ui.path.waiting_for_rank": ("late ranks", "等待其他卡"),
    "ui.path.sync": ("sync calls", "同步调用"),
    "ui.path.stream_gap": ("device gaps", "设备任务间隙"),
    "ui.path.anchor": ("causes not recorded", "未采集到的原因"),
    # What a fix waits for that saves nothing now.
    "ui.saving.then": ("then", "之后"),
    "ui.saving.after": ("Saves {us} once {other} is fixed.", "先解决 {other} 后可省 {us}。"),
    "ui.saving.after_all": (
        "Saves {us} once the other findings are fixed (number: {n}).",
        "其他发现（{n} 项）全部解决后可省 {us}。",
    ),
    "ui.saving.at": ("{rule} at {place}", "{place} 的 {rule}"),
}
