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
}
