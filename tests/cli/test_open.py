"""``npu-advisor open``: a file of one's own, or a server that nobody else reaches."""

from __future__ import annotations

import os
import stat
import threading
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

import pytest
from places import DEMO

from npu_advisor.cli.app import main
from npu_advisor.cli.open import LOOPBACK, page_server


@pytest.fixture
def visited(monkeypatch) -> list[str]:
    """The addresses that a browser was asked to open; none is started."""
    calls: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: calls.append(address) or True)
    return calls


def test_open_writes_a_private_file_and_opens_it(visited, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["open", str(DEMO), "-q", "--lang", "zh"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert visited == [path.as_uri()] and path.parent == tmp_path
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and '<html lang="zh"' in page and 'id="timelines"' in page
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_browser_the_file_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert main(["open", str(DEMO), "-q", "--lang", "en"]) == 0
    out, err = capsys.readouterr()
    assert Path(out.strip()).is_file() and "open the file yourself" in err


@pytest.fixture
def server():
    with page_server("页".encode(), 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def _get(server, path: str = "/", host: str | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://{LOOPBACK}:{server.server_port}{path}")
    if host is not None:
        request.add_header("Host", host)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


def test_server_is_bound_to_loopback_and_knows_one_page(server):
    assert server.server_address[0] == LOOPBACK
    assert _get(server) == (200, "页".encode())
    assert _get(server, host=f"localhost:{server.server_port}")[0] == 200
    assert _get(server, "/etc/passwd")[0] == 404
    assert _get(server, "/../x")[0] == 404


def test_server_refuses_names_that_others_gave_to_this_address(server):
    assert _get(server, host="evil.example")[0] == 403
    assert _get(server, host=f"evil.example:{server.server_port}")[0] == 403


def test_serve_ends_with_the_keyboard_and_a_taken_port_is_said(server, monkeypatch, visited, capsys):
    def interrupted(self, poll_interval=0.5):
        raise KeyboardInterrupt

    assert main(["open", str(DEMO), "--serve", "--port", str(server.server_port), "-q"]) == 2
    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", interrupted)
    assert main(["open", str(DEMO), "--serve", "-q", "--lang", "en"]) == 130
    assert visited[-1].startswith(f"http://{LOOPBACK}:")
    assert "the report is at" in capsys.readouterr().err
