"""The rule language and the user's own rules: settings, tests by mutation, a new rule, the reference."""

from __future__ import annotations

LANGUAGE: dict[str, tuple[str, str]] = {
    "engine.no_other_rank": (
        "only one rank that can be compared was read; give the folder that holds all ranks of the run",
        "只读取到一张可比较的卡；请给出包含该任务所有卡的目录",
    ),
    "engine.no_other_run": (
        "only one run that can be compared was read; give the profiles of two runs",
        "只读取到一次可比较的运行；请给出两次运行的 profile",
    ),
    # [tool.npu-advisor] in pyproject.toml, and rules of other packages.
    "settings.not_toml": ("{path} is not TOML: {error}", "{path} 不是有效的 TOML：{error}"),
    "settings.not_a_table": (
        "{path}: [tool.npu-advisor] is a table (key = value)",
        "{path}：[tool.npu-advisor] 应为表（key = value）",
    ),
    "settings.unknown_key": (
        "{path}: [tool.npu-advisor] has no key '{name}'{hint}",
        "{path}：[tool.npu-advisor] 没有键 '{name}'{hint}",
    ),
    "settings.known_keys": ("it may hold: {keys}", "可用的键：{keys}"),
    "settings.bad_params": (
        "{path}: '{name}' in [tool.npu-advisor] is a table: [tool.npu-advisor.params.<rule id>], then name = value",
        "{path}：[tool.npu-advisor] 中的 '{name}' 应为表：[tool.npu-advisor.params.<规则 id>]，其下写 name = value",
    ),
    "settings.not_texts": (
        "{path}: '{name}' in [tool.npu-advisor] is a list of texts",
        "{path}：[tool.npu-advisor] 中的 '{name}' 应为字符串列表",
    ),
    "settings.bad_plugin": (
        "the rules of the package entry point '{name}' cannot be used: {error}",
        "软件包入口点 '{name}' 提供的规则无法使用：{error}",
    ),
    # rules new, rules test --mutate, rules explain --how and --all.
    "rules.new_bad_id": ("'{id}' is no rule id", "'{id}' 不是合法的规则 id"),
    "rules.new_bad_id_do": (
        "small letters and digits, words joined by -, the first is the category: kernel-slow-sort",
        "小写字母和数字，单词以 - 连接，首个单词为类别：kernel-slow-sort",
    ),
    "rules.new_known": ("there is a rule called '{id}' already", "已有名为 '{id}' 的规则"),
    "rules.new_known_do": (
        "to change it, write a rule file of your own that says 'overrides: {id}' and the keys to change",
        "如需修改，请在自己的规则文件中写 'overrides: {id}' 以及要修改的键",
    ),
    "rules.new_exists": ("{path} is there already", "{path} 已存在"),
    "rules.new_done": (
        "check it: npu-advisor rules lint --rules {folder}; test it: npu-advisor rules test --rules {folder} "
        "--select {id} --mutate",
        "检查：npu-advisor rules lint --rules {folder}；测试：npu-advisor rules test --rules {folder} "
        "--select {id} --mutate",
    ),
    "rules.mutants": (
        "{noticed} of {n} small changes to the rules noticed",
        "对规则的 {n} 处小改动中有 {noticed} 处被用例发现",
    ),
    "rules.reference": ("Rules", "规则"),
    "rules.reference_how": (
        "Written by `npu-advisor rules explain --all --format markdown` from the rule files.",
        "由 `npu-advisor rules explain --all --format markdown` 根据规则文件生成。",
    ),
    "help.commands.rules.new": (
        "Write a rule to start from, with cases that pass, into the folder of your own rules.",
        "在自己的规则目录中生成一条可用的规则及其通过的用例，作为起点。",
    ),
    "help.option.mutate": (
        "Also change each threshold and drop each condition, and tell what no case notices.",
        "同时改动每个阈值、去掉每个条件，报告没有用例能发现的改动。",
    ),
    "help.option.every": ("All rules.", "全部规则。"),
    "help.option.how": ("How something works: language.", "说明工作原理：language。"),
    "help.option.rule_or_how": ("name a rule (ID), or use --all or --how", "请给出规则 ID，或使用 --all 或 --how"),
}
