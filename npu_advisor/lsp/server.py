"""The server itself: it follows a folder, and tells the editor what the newest report says about open files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from npu_advisor import __version__
from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.findings import Report
from npu_advisor.lsp.look import Look, look
from npu_advisor.lsp.protocol import SOURCE, Page
from npu_advisor.lsp.reading import Analyst, NoReport, read
from npu_advisor.lsp.settings import Settings
from npu_advisor.lsp.shown import Shown
from npu_advisor.report.line import render_line
from npu_advisor.report.options import Options

POLL_SECONDS = 0.5
# Before a profile that was not written to the end is read again.
RETRY_SECONDS = 5.0


class AdvisorServer(LanguageServer):
    """Holds the settings, the folders that are open, and the report that is shown."""

    def __init__(self, settings: Settings, analyst: Analyst | None = None) -> None:
        super().__init__(SOURCE, __version__)
        self._analyst = analyst
        self._asked = False
        self.settings = settings
        self.folders: list[Path] = []
        self._shown: Shown | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def lang(self) -> Lang:
        """The language of what is shown."""
        return self.settings.language

    def configure(self, options: object) -> None:
        """Take over what the editor sets; what is wrong is said and left out."""
        try:
            self.settings = self.settings.with_options(options)
        except ValueError as error:
            self.tell(say("lsp.settings", reason=str(error)), lsp.MessageType.Warning)

    def follow(self) -> None:
        """Begin to follow the folder of the settings, instead of another one before."""
        if self._following is not None:
            self.stop()
        self._following = asyncio.get_running_loop().create_task(self._follow())
        self._following.add_done_callback(self._ended)

    def stop(self) -> None:
        """Follow nothing any more."""
        if self._following is not None:
            self._following.cancel()
            self._following = None
        if self._analyst is not None:
            self._analyst.stop()
            self._analyst = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Following ends with an error only by a fault of ours: it must not end in silence."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.tell(say("lsp.failed", reason=f"{type(error).__name__}: {error}"), lsp.MessageType.Error)

    async def _follow(self) -> None:
        before: Look | None = None
        shown: Look | None = None
        while True:
            found = await asyncio.to_thread(look, self.settings.watched(self.folders))
            is_new = found is not None and (shown is None or found.stamp != shown.stamp)
            pause = POLL_SECONDS
            if found is not None and is_new and found.is_settled(before):
                # A report that cannot be had is not asked for again before something changes.
                if await self._shows(found):
                    shown = found
                else:
                    pause = RETRY_SECONDS
            before = found
            await asyncio.sleep(pause)

    async def _shows(self, found: Look) -> bool:
        """Show what was found; False when it is not written to the end."""
        try:
            if found.report is not None:
                report: Report | None = read(found.report, self.settings, self.folders)
            else:
                report = await self._next_analyst().analyzed(self.settings, self.folders)
        except NoReport as error:
            self.tell(say("lsp.no_report", reason=str(error)), lsp.MessageType.Warning)
            return True
        if report is not None:
            self._show(report)
        return report is not None

    def _next_analyst(self) -> Analyst:
        """The one that was started early, for the first question; each answers only one."""
        self._analyst = Analyst() if self._asked or self._analyst is None else self._analyst
        self._asked = True
        return self._analyst

    def _show(self, report: Report) -> None:
        self._shown = Shown(report)
        base = str(self.folders[0]) if self.folders else ""
        summary = render_line(report, Options(lang=self.lang, base=base)).rstrip("\n")
        self.tell(say("lsp.report", summary=summary), lsp.MessageType.Info)
        for uri in list(self.workspace.text_documents):
            self.publish(uri)
        workspace = self.client_capabilities.workspace
        if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def page(self, uri: str) -> Page | None:
        """The document with what is shown on it; None before the first report, and for what is no file."""
        if self._shown is None or to_fs_path(uri) is None:
            return None
        return Page(self._shown, self.workspace.get_text_document(uri), self.lang)

    def publish(self, uri: str) -> None:
        """Send the diagnostics of one document."""
        page = self.page(uri)
        if page is not None:
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, page.diagnostics()))

    def tell(self, message: Text, kind: lsp.MessageType) -> None:
        """A line in the editor's log."""
        self.window_log_message(lsp.LogMessageParams(kind, message.pick(self.lang)))


def make_server(settings: Settings, analyst: Analyst | None = None) -> AdvisorServer:
    """A server with all its features, not started; ``analyst`` makes its first report."""
    server = AdvisorServer(settings, analyst)
    _follow_the_editor(server)
    _answer(server)
    return server


def _follow_the_editor(server: AdvisorServer) -> None:
    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        opened = [folder.uri for folder in params.workspace_folders or []]
        uris = opened or [uri for uri in [params.root_uri] if uri]
        server.folders = [Path(path) for path in map(to_fs_path, uris) if path]
        server.configure(params.initialization_options)

    @server.feature(lsp.INITIALIZED)
    def initialized(_: lsp.InitializedParams) -> None:
        server.follow()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: lsp.DidChangeConfigurationParams) -> None:
        if isinstance(params.settings, dict) and "npuAdvisor" in params.settings:
            server.configure(params.settings["npuAdvisor"])
            server.follow()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.publish(params.text_document.uri)

    @server.feature(lsp.SHUTDOWN)
    def shutdown(_: None) -> None:
        server.stop()


def _answer(server: AdvisorServer) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        page = server.page(params.text_document.uri)
        return page.hover(params.position) if page else None

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    def lenses(params: lsp.CodeLensParams) -> Sequence[lsp.CodeLens]:
        page = server.page(params.text_document.uri)
        return page.lenses() if page else []

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]))
    def actions(params: lsp.CodeActionParams) -> Sequence[lsp.CodeAction]:
        page = server.page(params.text_document.uri)
        return list(page.actions(params.range)) if page else []
