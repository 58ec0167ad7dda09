"""Texts about the cache of columns and reports, (English, Chinese)."""

CACHE: dict[str, tuple[str, str]] = {
    "cache.info": (
        "{path}: {mb} MB of at most {limit} GB, ranks kept: {ranks}, reports: {reports}",
        "{path}：{mb} MB（上限 {limit} GB），已保存 rank 数：{ranks}，报告数：{reports}",
    ),
    "cache.cleared": (
        "{path}: {mb} MB removed, ranks: {ranks}, reports: {reports}",
        "{path}：已删除 {mb} MB，rank 数：{ranks}，报告数：{reports}",
    ),
    "error.no_cache": ("the cache folder {path} cannot be made: {error}", "无法创建缓存目录 {path}：{error}"),
    "help.option.cache": (
        "Keep what is read and reported in this folder (auto: your own), so that the next run starts from it.",
        "把读取的数据列和报告保存在该目录（auto：用户缓存目录），下次运行直接使用。",
    ),
    "help.commands.cache": ("What --cache keeps: how much, and away with it.", "查看或清空 --cache 保存的内容。"),
    "help.commands.cache.info": ("Say how much the cache holds.", "显示缓存大小。"),
    "help.commands.cache.clear": ("Empty the cache.", "清空缓存。"),
}
