"""Texts of the outputs for other programs (SARIF, markdown, CI) and of what is read from the user's code."""

INTEGRATIONS: dict[str, tuple[str, str]] = {
    "price.nothing": ("Fixing this alone saves nothing now", "单独修复目前不节省时间"),
    "price.bound": ("Saves at most {us} per step ({share})", "单步最多节省 {us}（{share}）"),
    "price.saves": ("Saves {us} per step ({share})", "单步节省 {us}（{share}）"),
    "ui.code.changed": (
        "The code of {file} here does not fit the recorded line; has it changed since the profile was taken?",
        "本机 {file} 的代码与记录的行不符，采集之后是否修改过？",
    ),
    "ui.suppressed.head": ("Left out by comments in the code", "被代码注释忽略"),
    "ui.suppressed.line": ("{place}  {rule}  {reason}", "{place}  {rule}  {reason}"),
    "error.bad_baseline": ("--baseline cannot use {path}: {reason}", "--baseline 无法使用 {path}：{reason}"),
    "error.bad_baseline_do": (
        "write one with: npu-advisor PATH -f json -o base.json",
        "可用以下命令生成：npu-advisor PATH -f json -o base.json",
    ),
    "error.no_report": ("it holds no report", "文件中没有报告"),
    "help.option.baseline": (
        "An earlier JSON report: SARIF results say what is new, unchanged or gone.",
        "之前的 JSON 报告：SARIF 结果会标明新增、未变或已消失。",
    ),
    "md.where": ("where", "位置"),
    "md.what": ("what happens", "问题"),
    "md.saves": ("saves per step", "单步节省"),
    "md.of_step": ("of the step", "占单步"),
    "md.fix": ("Fix", "修复"),
    "md.evidence": ("Evidence", "依据"),
    "md.no_line": ("no line", "无代码行"),
    "md.together": (
        "Findings: {n}. Fixing all of them saves {us} of the step ({share}).",
        "发现 {n} 个问题，全部修复可节省单步 {us}（{share}）。",
    ),
    "md.together_bound": (
        "Findings: {n}. Fixing all of them saves at most {us} of the step ({share}).",
        "发现 {n} 个问题，全部修复最多可节省单步 {us}（{share}）。",
    ),
    "md.none": ("No finding above 0.5 % of the step.", "没有超过单步 0.5 % 的发现。"),
    "md.more": ("{n} more below 0.5 % of the step.", "另有 {n} 个低于单步 0.5 %。"),
    "md.not_cause": ("Looks slow, is not the cause", "看似慢，实非原因"),
    "md.not_checked": ("{n} rules were not checked", "{n} 条规则未检查"),
    "md.references": ("References", "参考"),
    "sarif.user_line": ("the line of your code", "你的代码行"),
    "sarif.hop": ("{kind}: {name}", "{kind}：{name}"),
    "sarif.hop_timed": ("{kind}: {name}, {us}", "{kind}：{name}，{us}"),
    "sarif.no_line": ("{message} (no line of code: {reason})", "{message}（无代码行：{reason}）"),
    "sarif.gone": ("Was found in the baseline and is gone: {title}", "基线中存在、现已消失：{title}"),
}
