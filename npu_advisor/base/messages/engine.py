"""Texts of the engine, the graph and the derived tables: (English, Chinese)."""

ENGINE: dict[str, tuple[str, str]] = {
    "location.no_stack_recorded": (
        "no call stacks in this profile; record with with_stack=True",
        "该 profile 未记录调用栈，请以 with_stack=True 采集",
    ),
    "location.packages_only": (
        "{op} runs inside packages only; this recording does not name their folders, so which are yours is unknown",
        "{op} 只在各个包内执行；该采集只记录了包内相对路径，无法判断哪些是你的代码",
    ),
    "location.no_python_origin": (
        "launched by {op}, which no line of Python called directly",
        "由 {op} 下发，没有直接调用它的 Python 代码行",
    ),
    "location.not_linked": (
        "the kernels could not be linked to a host op",
        "这些 kernel 无法关联到 host 侧算子",
    ),
    "absent.links": (
        "only {linked} of {kernels} kernels could be linked to the op that launched them",
        "{kernels} 个 kernel 中只有 {linked} 个能关联到下发它的算子",
    ),
    "absent.one_rank": (
        "only one rank of the run was read",
        "只读取了该任务的一张卡",
    ),
    "absent.kernels_lost": (
        "kernels of this rank, or of all others that were read, are missing",
        "该卡或已读取的其他各卡缺少部分 kernel",
    ),
    "absent.one_step": (
        "only one step was recorded, and steps are compared with each other",
        "只采集了一个步，而该规则需要在步与步之间比较",
    ),
    "absent.comm_tasks": (
        "the tasks inside collectives, which say who waits for whom, were not recorded",
        "未采集通信算子的子任务，无法得知谁在等谁",
    ),
    "absent.settings": (
        "this profile does not tell that setting (profiler_info*.json)",
        "该 profile 未记录此项设置（profiler_info*.json）",
    ),
    "location.no_line": (
        "this is about the whole recording",
        "涉及整个采集过程",
    ),
    "diag.flow_unmatched": (
        "{ends} ends of flow arrows have no partner; {kernels} kernels have no host op",
        "{ends} 个连线端点没有对端；{kernels} 个 kernel 没有对应的 host 算子",
    ),
    "diag.clock_skew": (
        "{kernels} kernels start before their launch, by up to {skew_us:.1f} us: the device clock runs early",
        "{kernels} 个 kernel 的开始时间早于其下发，最多 {skew_us:.1f} us：设备时钟偏早",
    ),
    "diag.no_step_markers": (
        "no ProfilerStep marks: the whole recording is taken as one window; call prof.step() once per iteration",
        "没有 ProfilerStep 标记，整段采集按一个窗口处理；请在每次迭代调用 prof.step()",
    ),
    "diag.step_without_kernels": (
        "step {step} has no kernels: its device records are lost or it did no work",
        "第 {step} 步没有 kernel：设备侧记录丢失，或该步没有执行任何算子",
    ),
    "diag.kernels_lost": (
        "the kernels make {found_ms:.1f} ms of computing, the profiler's own step times {told_ms:.1f} ms: kernels are "
        "missing, and what looks idle need not be",
        "kernel 的计算时间共 {found_ms:.1f} ms，profiler 自己汇总的为 {told_ms:.1f} ms：部分 kernel 缺失，"
        "看似空闲的时间未必空闲",
    ),
    "rules.no_dir": ("no such folder of rules: {path}", "规则目录不存在：{path}"),
    "rules.params_unknown_rule": ("unknown rule '{id}'{hint}", "未知规则 '{id}'{hint}"),
    "rules.unknown_param": ("rule '{id}' has no parameter '{name}'{hint}", "规则 '{id}' 没有参数 '{name}'{hint}"),
    "rules.bad_param": (
        "parameter '{name}' of rule '{id}' cannot be {value!r}: {error}",
        "规则 '{id}' 的参数 '{name}' 不能为 {value!r}：{error}",
    ),
    "rules.no_match": ("no rule matches '{pattern}'{hint}", "没有规则匹配 '{pattern}'{hint}"),
    "bystander.device_communicates": (
        "the device communicates during {share} of it",
        "其间 {share} 的时间设备在通信",
    ),
    "bystander.device_computes": (
        "the device computes during {share} of it",
        "其间 {share} 的时间设备在计算",
    ),
    "bystander.no_idle": (
        "none of it lies over device idle time",
        "与设备空闲时间没有重叠",
    ),
    "saving.upper_bound": (
        "the time shown disappears altogether and nothing else takes longer",
        "所示时间全部消失，且其他部分不变慢",
    ),
    "saving.not_replayed": ("upper bound, not replayed: {why}", "上限值，未重放：{why}"),
    "saving.replayed": (
        "replayed with the fix on every rank that was read; other times stay as recorded",
        "在已读取的所有卡上应用修改后重放得到；其余耗时保持采集值",
    ),
    "saving.symmetric": (
        "replayed; every other rank gets the same fix, so what this rank waits for in collectives stays as recorded",
        "重放得到；假定其他卡也做同样修改，因此本卡在集合通信中的等待保持采集值",
    ),
    "saving.profiler_gap": (
        "each kernel that goes also takes {gap_us:.0f} us of gap with it, much of which is the profiler's own",
        "每去掉一个 kernel 还会省去 {gap_us:.0f} us 间隙，其中大部分是 profiler 自身开销",
    ),
    "saving.range": (
        "{share} of the recording is held by silences that nothing explains, so the figure may be too low",
        "采集中有 {share} 的时间由无法解释的静默决定，数值可能偏低",
    ),
    "saving.no_links": (
        "host and device are not linked in this profile",
        "该 profile 中 host 与 device 没有关联",
    ),
    "saving.no_calls": (
        "no CANN calls were recorded (Level0), so blocking calls are inferred from ops that fall silent",
        "未采集 CANN 接口（Level0），阻塞调用由算子的静默推断",
    ),
    "saving.lost_times": (
        "some host events lost their times",
        "部分 host 事件的时间丢失",
    ),
    "saving.failed": (
        "the replay failed ({error})",
        "重放失败（{error}）",
    ),
    "diag.replay_failed": (
        "savings are upper bounds only, as the replay failed: {error}. Please report this",
        "重放失败，收益只能给出上限：{error}。请反馈此问题",
    ),
    "saving.cycle": (
        "the recorded times contradict each other",
        "采集的时间相互矛盾",
    ),
    "saving.self_replay": (
        "re-timing the recording misses a step by {error}",
        "重放原始采集与某一步的实际耗时相差 {error}",
    ),
    "saving.anchored": (
        "{share} of the recording is held by silences that nothing explains",
        "采集中有 {share} 的时间由无法解释的静默决定",
    ),
    "diag.step_incomplete": (
        "step {step} ran the ops of the other steps but has fewer kernels: some of its device records are lost",
        "第 {step} 步执行的算子与其他步相同但 kernel 更少：部分设备侧记录丢失",
    ),
    "error.no_such_step": (
        "step {steps} was not recorded",
        "没有采集第 {steps} 步",
    ),
    "error.no_such_rank": (
        "rank {ranks} is not under {path}",
        "{path} 下没有 {ranks} 号卡",
    ),
    "engine.not_for_gpu": (
        "the rule is about NPUs, this profile was recorded on a GPU",
        "该规则针对 NPU，此 profile 采集自 GPU",
    ),
    "engine.not_for_cpu": (
        "the rule is about NPUs, this profile shows no device at all",
        "该规则针对 NPU，此 profile 中没有任何设备",
    ),
    "engine.not_for": (
        "for {name} {wanted}; this profile says {found}",
        "仅适用于 {name} {wanted}，该 profile 为 {found}",
    ),
    "engine.rule_wrong": ("the rule file is wrong: {error}", "规则文件有误：{error}"),
    "engine.rule_failed": ("the rule failed: {error}", "规则执行失败：{error}"),
    "engine.too_many": (
        "the rule makes {found} findings, at most {limit} are allowed; let it group them",
        "规则产生 {found} 项发现，上限为 {limit}；请在规则中分组",
    ),
}
