"""``npu-advisor cache``: what the folder of ``--cache`` holds, and its end."""

from __future__ import annotations

from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.cli.output import write_report
from npu_advisor.readers.cached import AUTO, LIMIT, Cache


def info(folder: str | None, lang: Lang) -> int:
    """Print where the cache is and what it holds; the exit code."""
    found = Cache(folder or AUTO)
    entries, size = found.use()
    said = say("cache.info", path=found.folder, entries=entries, mb=round(size / 1e6), limit=round(LIMIT / 1e9))
    write_report(said.pick(lang) + "\n", None)
    return 0


def clear(folder: str | None, lang: Lang) -> int:
    """Empty the cache and print what went; the exit code."""
    found = Cache(folder or AUTO)
    entries, size = found.clear()
    write_report(say("cache.cleared", path=found.folder, entries=entries, mb=round(size / 1e6)).pick(lang) + "\n", None)
    return 0
