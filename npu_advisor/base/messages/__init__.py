"""Every text for people outside the rule files, in both languages, in one table.

``say("diag.trace_truncated", byte=7)`` gives the :class:`Text`; the fields of both languages are the same (tested).
Keys are grouped by who speaks: ``diag.`` readers, ``error.`` errors, ``engine.`` rules and findings, ``ui.`` reports.
"""

from __future__ import annotations

from npu_advisor.base.messages.cache import CACHE
from npu_advisor.base.messages.compare import COMPARE
from npu_advisor.base.messages.derived import DERIVED
from npu_advisor.base.messages.engine import ENGINE
from npu_advisor.base.messages.fixes import FIXES
from npu_advisor.base.messages.html import HTML
from npu_advisor.base.messages.inference import INFERENCE
from npu_advisor.base.messages.integrations import INTEGRATIONS
from npu_advisor.base.messages.language import LANGUAGE
from npu_advisor.base.messages.lsp import LSP
from npu_advisor.base.messages.paths import PATHS
from npu_advisor.base.messages.readers import READERS
from npu_advisor.base.messages.reports import REPORTS
from npu_advisor.base.messages.show import SHOW
from npu_advisor.base.messages.whatif import WHATIF
from npu_advisor.base.terms import Text

MESSAGES: dict[str, tuple[str, str]] = {
    **CACHE,
    **DERIVED,
    **COMPARE,
    **ENGINE,
    **FIXES,
    **HTML,
    **INFERENCE,
    **INTEGRATIONS,
    **LANGUAGE,
    **LSP,
    **PATHS,
    **READERS,
    **REPORTS,
    **SHOW,
    **WHATIF,
}


def say(key: str, **fields: object) -> Text:
    """The message ``key`` with ``fields`` filled in. KeyError for an unknown key or field."""
    english, chinese = MESSAGES[key]
    return Text(en=english.format(**fields), zh=chinese.format(**fields))
