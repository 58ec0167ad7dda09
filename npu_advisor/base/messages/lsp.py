"""Texts of the language server: (English, Chinese)."""

LSP: dict[str, tuple[str, str]] = {
    "lsp.line": ("this line: {device}/step ({share})", "本行：{device}/步（{share}）"),
    "lsp.line_comm": (
        "this line: {device}/step ({share}), communication {communication}/step",
        "本行：{device}/步（{share}），通信 {communication}/步",
    ),
    "lsp.report": ("npu-advisor: {summary}", "npu-advisor：{summary}"),
    "lsp.no_report": ("npu-advisor has no report to show: {reason}", "npu-advisor 没有可显示的报告：{reason}"),
    "lsp.failed": (
        "npu-advisor follows the folder no more: {reason}; restart the language server",
        "npu-advisor 已停止跟踪该文件夹：{reason}；请重启语言服务器",
    ),
    "lsp.settings": ("npu-advisor does not know these settings: {reason}", "npu-advisor 无法识别设置：{reason}"),
    "lsp.no_pygls": ("the language server needs pygls", "语言服务器需要 pygls"),
    "lsp.no_pygls_do": ("pip install 'npu-advisor[lsp]'", "pip install 'npu-advisor[lsp]'"),
    "help.commands.lsp": (
        "Language server on stdin and stdout: the newest report on the lines of open files.",
        "语言服务器（标准输入输出）：在打开的文件中显示最新报告。",
    ),
    "help.option.path": (
        "Folder or file where profiles and reports land.",
        "采集数据和报告所在的文件夹或文件。",
    ),
}
