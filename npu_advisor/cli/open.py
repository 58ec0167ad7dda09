"""``npu-advisor open``: the HTML report in a browser, from a temporary file or a server that only this machine sees."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.lang import choose_language
from npu_advisor.base.messages import say
from npu_advisor.cli.analyze import FINE
from npu_advisor.cli.choices import LANGUAGES, choice
from npu_advisor.cli.output import note
from npu_advisor.cli.progress import ProgressBar
from npu_advisor.report.options import Options
from npu_advisor.rules.choice import chosen_rules

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Open:
    """The options of one call, as given. ``port`` 0 takes a free one."""

    paths: tuple[str, ...]
    serve: bool = False
    port: int = 0
    lang: str = "auto"
    rules: tuple[str, ...] = ()
    source_root: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    quiet: bool = False

    def check(self) -> None:
        """ConfigError for a value that no call can use."""
        choice("--lang", self.lang, LANGUAGES)
        if not self.paths:
            raise ConfigError(say("error.no_path"), None, say("error.no_path_do"))


def open_report(request: Open) -> int:
    """Analyse, and show the report; with ``serve`` until interrupted."""
    request.check()
    lang = choose_language(request.lang, os.environ)
    page = _page(request).encode("utf-8", "replace")
    if request.serve:
        server = page_server(page, request.port)
        with server:
            address = f"http://{LOOPBACK}:{server.server_port}/"
            note(say("open.serving", address=address).pick(lang) + "\n")
            webbrowser.open(address)
            server.serve_forever()
        return FINE
    path = _saved(page)
    print(path, flush=True)
    if not webbrowser.open(path.as_uri()):
        note(say("open.no_browser").pick(lang) + "\n")
    return FINE


def _page(request: Open) -> str:
    from npu_advisor.api import analyze
    from npu_advisor.report.html import render_html

    lang = choose_language(request.lang, os.environ)
    rules = chosen_rules(request.rules)
    with ProgressBar(lang, request.quiet) as progress:
        report = analyze(
            request.paths[0] if len(request.paths) == 1 else list(request.paths),
            rules=rules.dirs,
            params=rules.params,
            select=rules.select,
            ignore=rules.ignore,
            source_root=(*request.source_root, str(Path.cwd())),
            ranks=request.ranks,
            steps=request.steps,
            keep=True,
            progress=progress,
        )
    return render_html(report, Options(lang=lang, base=str(Path.cwd())))


def _saved(page: bytes) -> Path:
    """A temporary file that only its owner reads; it stays, because a browser reads it at its own time."""
    handle, name = tempfile.mkstemp(prefix="npu-advisor-", suffix=".html")
    with os.fdopen(handle, "wb") as file:
        file.write(page)
    return Path(name)


def page_server(page: bytes, port: int) -> ThreadingHTTPServer:
    """A server of this one page, bound to loopback. ConfigError when the port is taken."""

    class Handler(_Handler):
        content = page

    try:
        return ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(say("open.port_taken", port=port, reason=reason), None, say("open.port_taken_do")) from error


class _Handler(BaseHTTPRequestHandler):
    """Answers ``GET /`` and nothing else, and only to who asked for this machine by its own name."""

    content = b""

    def do_GET(self) -> None:
        """The page; a name that someone else's DNS gave to this address is refused."""
        host = self.headers.get("Host", "").partition(":")[0]
        if host not in (LOOPBACK, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(self.content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(self.content)

    def log_message(self, format: str, *args: Sequence[object]) -> None:  # noqa: A002 (the name of the base class)
        """Say nothing: the terminal shows the address."""
