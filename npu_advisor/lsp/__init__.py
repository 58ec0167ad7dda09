"""The language server: the newest report on the lines of open files. ``npu-advisor lsp`` starts it; it needs pygls."""
