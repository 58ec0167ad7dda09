"""Texts of what-if questions and of how good a replay is: (English, Chinese)."""

WHATIF: dict[str, tuple[str, str]] = {
    "whatif.no_rows": ("matches no row of {table}", "没有匹配到 {table} 中的任何行"),
    "whatif.not_in_graph": (
        "the replay holds nothing that stands for these rows of {table}",
        "重放图中没有与 {table} 这些行对应的内容",
    ),
    "whatif.negative": ("'{edit}' gives a negative number for {rows} rows", "'{edit}' 对 {rows} 行给出负数"),
    "whatif.negative_do": (
        "use an expression that is never negative, or narrow the condition",
        "请使用不会为负的表达式，或缩小条件范围",
    ),
    "whatif.no_edit": ("no edit was given", "没有给出修改"),
    "whatif.no_edit_do": (
        """for example: npu-advisor whatif PATH --edit 'scale kernels where type == "MatMulV3" by 0.8'""",
        """例如：npu-advisor whatif PATH --edit 'scale kernels where type == "MatMulV3" by 0.8'""",
    ),
    "ui.whatif.step": (
        "A step takes {new} instead of {old}{range}: {saved} less ({share}).",
        "单步耗时由 {old} 变为 {new}{range}：减少 {saved}（{share}）。",
    ),
    "ui.whatif.longer": (
        "A step takes {new} instead of {old}{range}: {saved} more ({share}).",
        "单步耗时由 {old} 变为 {new}{range}：增加 {saved}（{share}）。",
    ),
    "ui.whatif.little": (
        "A step takes {old}; the edits change that by {change}.",
        "单步耗时 {old}；修改使其变化 {change}。",
    ),
    "ui.whatif.same": ("A step still takes {old}.", "单步耗时仍为 {old}。"),
    "ui.whatif.range": (" ({range} where the trace cannot tell)", "（trace 无法判定处为 {range}）"),
    "ui.whatif.unknown": (
        "A step takes {old}. What it would take cannot be told: {reason}.",
        "单步耗时 {old}。无法得知修改后的耗时：{reason}。",
    ),
    "ui.whatif.ranks": ("Ranks {ranks}", "{ranks} 号卡"),
    "ui.whatif.trust": (
        "The replay misses a recorded step by {error}; silences that nothing explains hold {anchored} of the time.",
        "重放与采集的单步相差 {error}；{anchored} 的时间由无法解释的静默决定。",
    ),
    "ui.footer.anchored": ("anchored {share}", "无因静默 {share}"),
    "ui.footer.shift": (
        "kernel starts off by {median} (median), {p90} (p90)",
        "kernel 起始偏差 {median}（中位数）、{p90}（p90）",
    ),
    "ui.whatif.assumes": ("It assumes: {assumes}.", "前提：{assumes}。"),
    "ui.whatif.edits": ("Edits", "修改"),
    "ui.whatif.edits_note": (
        "rows matched · saves alone · with the other edits",
        "匹配行数 · 单独节省 · 与其他修改一起",
    ),
    "ui.whatif.next": ("What costs time then", "此后的耗时所在"),
    "ui.whatif.next_note": ("saves on top of the edits · before them", "在修改之上再节省 · 修改之前"),
    "ui.whatif.nothing_next": ("No finding saves time on top of the edits.", "在修改之上，没有任何发现还能节省时间。"),
    "ui.whatif.bound": ("up to {us}", "至多 {us}"),
    "ui.whatif.rank": ("rank {rank}", "{rank} 号卡"),
    "help.commands.whatif": (
        "Re-time the recorded step with edits applied, and say what costs time then.",
        "对采集的步应用修改并重放，给出新的耗时和此后的瓶颈。",
    ),
    "help.commands.schema.whatif": (
        "JSON Schema of the JSON answer to a what-if question.",
        "what-if 的 JSON 输出的 JSON Schema。",
    ),
    "help.option.edit": (
        "remove, scale, cap, close, overlap or fuse TABLE where CONDITION; again for more.",
        "remove、scale、cap、close、overlap 或 fuse TABLE where 条件；可重复。",
    ),
}
