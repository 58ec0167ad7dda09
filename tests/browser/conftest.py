"""A real browser without a network. Skips, and says why, where there is none.

Needs Playwright's Python package and Chromium (Debian: ``apt-get install chromium``);
``NPU_ADVISOR_CHROMIUM`` names another binary. axe-core is looked for in ``NPU_ADVISOR_AXE`` (``npm install axe-core``
in any folder, and the path of its ``axe.min.js``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BINARIES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="NO BROWSER TESTS: playwright is not installed")
    named = os.environ.get("NPU_ADVISOR_CHROMIUM")
    binary = named or next(filter(None, map(shutil.which, BINARIES)), None)
    if binary is None:
        pytest.skip("NO BROWSER TESTS: no chromium; install it, or set NPU_ADVISOR_CHROMIUM")
    with playwright.sync_playwright() as running:
        # Containers have no user namespaces for the sandbox; the pages are our own.
        chromium = running.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Tab:
    """An open page and everything it said or asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Tab]]:
    """``opened(path, width=1440, scheme="light")`` opens the file; it may say nothing and ask for nothing else."""
    tabs: list[tuple[Tab, str]] = []

    def visit(path: Path, width: int = 1440, scheme: str = "light", fragment: str = "") -> Tab:
        page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
        # A busy machine is no reason to fail.
        page.set_default_timeout(120_000)
        tab = Tab(page)
        page.goto(path.as_uri() + fragment)
        if page.locator("#timelines").count():
            page.wait_for_selector("html[data-ready]")
        tabs.append((tab, path.as_uri()))
        return tab

    yield visit
    for tab, address in tabs:
        tab.page.close()
        assert tab.messages == []
        assert {url.partition("#")[0] for url in tab.requests} == {address}
