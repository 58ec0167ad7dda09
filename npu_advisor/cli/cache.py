"""``npu-advisor cache``: what the folder of ``--cache`` holds, and its end."""

from __future__ import annotations

from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.base.shelf import AUTO, LIMIT, Shelf
from npu_advisor.cli.output import write_report


def info(folder: str | None, lang: Lang) -> int:
    """Print where the cache is and what it holds; the exit code."""
    found = Shelf(AUTO if folder is None else folder)
    ranks, reports, size = found.use()
    mb, limit = round(size / 1e6), round(LIMIT / 1e9)
    said = say("cache.info", path=found.folder, ranks=ranks, reports=reports, mb=mb, limit=limit)
    write_report(said.pick(lang) + "\n", None)
    return 0


def clear(folder: str | None, lang: Lang) -> int:
    """Empty the cache and print what went; the exit code."""
    found = Shelf(AUTO if folder is None else folder)
    ranks, reports, size = found.clear()
    said = say("cache.cleared", path=found.folder, ranks=ranks, reports=reports, mb=round(size / 1e6))
    write_report(said.pick(lang) + "\n", None)
    return 0
