"""``npu-advisor lsp``: serve an editor over stdin and stdout."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.cli.choices import LANGUAGES, choice


def serve(
    path: str, source_root: Sequence[str], rules: Sequence[str], select: Sequence[str], ignore: Sequence[str], lang: str
) -> int:
    """Serve until the editor says goodbye. ConfigError when pygls is not installed."""
    choice("--lang", lang, LANGUAGES)
    if find_spec("pygls") is None:
        raise ConfigError(say("lsp.no_pygls"), None, say("lsp.no_pygls_do"))
    from npu_advisor.lsp.reading import Analyst

    # What the first analysis needs is imported while the server still starts.
    analyst = Analyst()
    from npu_advisor.lsp.server import make_server
    from npu_advisor.lsp.settings import Settings

    settings = Settings.model_validate(
        {
            "path": path,
            "source_root": list(source_root),
            "rules": list(rules),
            "select": list(select),
            "ignore": list(ignore),
            "lang": lang,
        }
    )
    make_server(settings, analyst).start_io()
    analyst.stop()
    return 0
