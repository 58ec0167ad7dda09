"""The language server over stdin and stdout, driven by pygls' own client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import BaseLanguageClient
from synthetic.script import LINES, SCRIPT

DEMO = SCRIPT.parent
GENERATE = DEMO.parent / "generate.py"
# Long enough for a busy machine; what is waited for comes in a second or two.
PATIENCE = 90


class Client(BaseLanguageClient):
    """Keeps what the server sends."""

    def __init__(self) -> None:
        super().__init__("tests", "1")
        self.published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self.log: asyncio.Queue[str] = asyncio.Queue()

        @self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def diagnostics(params: lsp.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

        @self.feature(lsp.WINDOW_LOG_MESSAGE)
        def log(params: lsp.LogMessageParams) -> None:
            self.log.put_nowait(params.message)

    async def diagnostics(self, wanted: Callable[[set[Any]], bool]) -> list[lsp.Diagnostic]:
        """The next diagnostics whose codes are what is wanted."""

        async def next_one() -> list[lsp.Diagnostic]:
            while True:
                found = (await self.published.get()).diagnostics
                if wanted({each.code for each in found}):
                    return list(found)

        return await asyncio.wait_for(next_one(), PATIENCE)


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """The script in the workspace, its profile in ``result``."""
    shutil.copy(SCRIPT, tmp_path / "train.py")
    (profile,) = DEMO.glob("*_ascend_pt")
    shutil.copytree(profile, tmp_path / "result" / profile.name)
    age(tmp_path / "result")
    return tmp_path


def age(folder: Path, seconds: float = 3600) -> None:
    """Let the files look as old."""
    for path in folder.rglob("*"):
        times = path.stat().st_mtime - seconds
        os.utime(path, (times, times))


def drive(
    folder: Path,
    talk: Callable[[Client, str], Awaitable[None]],
    options: object = None,
    arguments: tuple[str, ...] = (),
) -> None:
    """Start the server on ``folder``, open its script, let ``talk`` have its say, and shut down."""

    async def session() -> None:
        client = Client()
        await client.start_io(sys.executable, "-m", "npu_advisor", "lsp", "--lang", "en", *arguments)
        try:
            parameters = lsp.InitializeParams(
                lsp.ClientCapabilities(),
                workspace_folders=[lsp.WorkspaceFolder(folder.as_uri(), "demo")],
                initialization_options=options,
            )
            await asyncio.wait_for(client.initialize_async(parameters), PATIENCE)
            client.initialized(lsp.InitializedParams())
            script = folder / "train.py"
            text = script.read_text("utf-8")
            item = lsp.TextDocumentItem(script.as_uri(), lsp.LanguageKind.Python, 1, text)
            client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
            await talk(client, script.as_uri())
            await asyncio.wait_for(client.shutdown_async(None), PATIENCE)
            client.exit(None)
            assert client._server is not None
            assert await asyncio.wait_for(client._server.wait(), PATIENCE) == 0
        finally:
            if client._server is not None and client._server.returncode is None:
                client._server.kill()
            await client.stop()

    # The browser of other tests may hold the event loop of this thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, session()).result()


def document(uri: str) -> lsp.TextDocumentIdentifier:
    return lsp.TextDocumentIdentifier(uri)


def change(client: Client, uri: str, text: str) -> None:
    version = lsp.VersionedTextDocumentIdentifier(2, uri)
    whole = lsp.TextDocumentContentChangeWholeDocument(text)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(version, [whole]))


def test_opening_a_file_shows_its_findings_lenses_hovers_and_fixes(demo: Path) -> None:
    async def talk(client: Client, uri: str) -> None:
        found = await client.diagnostics(bool)
        at = {each.code: each.range.start.line + 1 for each in found}
        assert at["kernel-top-cost"] == LINES["top_kernel"]
        assert at["optimizer-native"] == LINES["optimizer"]
        (masked,) = [each for each in found if each.code == "kernel-top-cost"]
        line = SCRIPT.read_text("utf-8").splitlines()[masked.range.start.line]
        assert line[masked.range.start.character : masked.range.end.character] == line.strip()
        assert masked.severity is lsp.DiagnosticSeverity.Warning

        lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(document(uri)))
        titles = {lens.range.start.line + 1: lens.command.title for lens in lenses if lens.command}
        assert titles[LINES["top_kernel"]] == "this line: 3.90 ms/step (38.1 %)"
        assert LINES["fc1"] in titles and LINES["top_kernel_fixed"] not in titles

        hover = await client.text_document_hover_async(lsp.HoverParams(document(uri), masked.range.start))
        assert isinstance(hover.contents, lsp.MarkupContent)
        for text in ("MaskedSelect", "| source |", "Keep the shape", "3.90 ms/step"):
            assert text in hover.contents.value
        nothing = await client.text_document_hover_async(lsp.HoverParams(document(uri), lsp.Position(0, 0)))
        assert nothing is None

        for line in (LINES["optimizer"], LINES["optimizer_ctor"]):
            there = lsp.Range(lsp.Position(line - 1, 4), lsp.Position(line - 1, 4))
            context = lsp.CodeActionContext([])
            (action,) = await client.text_document_code_action_async(
                lsp.CodeActionParams(document(uri), there, context)
            )
            assert isinstance(action, lsp.CodeAction) and action.edit and action.edit.changes
            assert action.is_preferred is False and "review" in action.title
            assert {edit.range.start.line + 1 for edit in action.edit.changes[uri]} == {LINES["optimizer_ctor"]}

    drive(demo, talk)


def test_findings_and_fixes_follow_the_code_while_it_is_edited(demo: Path) -> None:
    async def talk(client: Client, uri: str) -> None:
        await client.diagnostics(bool)
        text = SCRIPT.read_text("utf-8")
        # A character beyond the basic plane counts twice where the protocol counts.
        moved = "# \U0001f680\n" + text.replace("pooled = torch.masked", "pooled = '\U0001f680' and torch.masked")
        change(client, uri, "# one more line\n" + text)
        found = await client.diagnostics(bool)
        assert {each.code: each.range.start.line + 1 for each in found}["kernel-top-cost"] == LINES["top_kernel"] + 1
        there = next(each.range for each in found if each.code == "kernel-top-cost")
        parameters = lsp.CodeActionParams(document(uri), there, lsp.CodeActionContext([]))
        (action,) = await client.text_document_code_action_async(parameters)
        assert isinstance(action, lsp.CodeAction) and action.edit and action.edit.changes
        assert action.edit.changes[uri][0].range.start.line == LINES["top_kernel"]
        # The line is another one now: nothing that was found there holds.
        change(client, uri, moved)
        found = await client.diagnostics(bool)
        assert "kernel-top-cost" not in {each.code for each in found}

    drive(demo, talk)


def test_a_new_profile_takes_the_place_of_the_old_one(demo: Path) -> None:
    async def talk(client: Client, uri: str) -> None:
        await client.diagnostics(lambda codes: "kernel-top-cost" in codes)
        made = demo / "made"
        generate = (sys.executable, str(GENERATE), str(made), "--steps", "2", "--layers", "2", "--plant", "item:n=20")
        subprocess.run(generate, check=True, capture_output=True)
        (profile,) = made.glob("*_ascend_pt")
        shutil.move(profile, demo / "result" / "node0_1_20270101000000000_ascend_pt")
        found = await client.diagnostics(lambda codes: "dispatch-sync-in-step" in codes)
        assert "kernel-top-cost" not in {each.code for each in found}

    drive(demo, talk)


def test_a_report_beside_the_profile_is_read_instead_of_analysing_again(demo: Path) -> None:
    from npu_advisor.cli.app import main

    report = demo / "result" / "node0.advisor.json"
    assert main([str(demo / "result"), "-f", "json", "-q", "-o", str(report)]) == 0
    data = json.loads(report.read_text("utf-8"))
    # As from another machine, where the script lay elsewhere.
    data["findings"] = [found for found in data["findings"] if found["rule_id"] == "kernel-top-cost"]
    report.write_text(json.dumps(data), "utf-8")
    age(report.parent, -1800)

    async def talk(client: Client, uri: str) -> None:
        found = await client.diagnostics(bool)
        assert [each.code for each in found] == ["kernel-top-cost"]

    drive(demo, talk)


def test_options_of_the_editor_count(demo: Path) -> None:
    (demo / "result").rename(demo / "elsewhere")

    async def talk(client: Client, uri: str) -> None:
        found = await client.diagnostics(bool)
        assert [each.code for each in found] == ["optimizer-native"]
        assert "优化器" in found[0].message

    drive(demo, talk, {"path": "elsewhere", "select": ["optimizer-*"], "lang": "zh"})


def test_what_cannot_be_shown_is_said(demo: Path) -> None:
    bad = demo / "result" / "bad.advisor.json"
    bad.write_text('{"schema_version": "1.0"}', "utf-8")

    async def talk(client: Client, uri: str) -> None:
        said = [await asyncio.wait_for(client.log.get(), PATIENCE) for _ in range(2)]
        assert "does not know these settings" in said[0] and "colour" in said[0]
        assert "bad.advisor.json" in said[1]

    drive(demo, talk, {"colour": "red"})
