#!/usr/bin/env python3
"""How large the HTML report is and how soon a browser shows it.

    python benchmarks/paint.py PROFILE...        reports of these profiles; report.html files are taken as they are
    python benchmarks/paint.py --times 9 PROFILE

One line each: size, the first paint with content and the timeline drawn, both in ms after the page was opened (median
and worst of several openings in headless Chromium), and the time its main thread worked until then. Exit code 1 if a
first paint (median) takes a second or more. Needs Playwright and Chromium, as the tests in tests/browser do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import sync_playwright

from npu_advisor import analyze
from npu_advisor.report.html import render_html
from npu_advisor.report.options import Options

MOST_MS = 1000.0
PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length"
FIRST = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


class Opened(NamedTuple):
    """One opening of a page, in ms."""

    paint: float
    timeline: float
    worked: float


def page_of(path: Path, folder: Path) -> Path:
    """The report on a profile; a page is itself."""
    if path.suffix == ".html":
        return path
    target = folder / f"{path.name}.html"
    target.write_text(render_html(analyze(path, keep=True), Options()), encoding="utf-8")
    return target


def opened(browser: Any, path: Path) -> Opened:
    """Open the page in a window of its own."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    metrics = context.new_cdp_session(page)
    metrics.send("Performance.enable")
    page.goto(path.as_uri())
    page.wait_for_function(PAINTED)
    timeline = 0.0
    if page.locator("#timelines").count():
        page.wait_for_selector("html[data-ready]")
        timeline = page.evaluate("() => performance.getEntriesByName('timeline')[0].startTime")
    told = {each["name"]: each["value"] for each in metrics.send("Performance.getMetrics")["metrics"]}
    paint = page.evaluate(FIRST)
    context.close()
    return Opened(paint, timeline, 1000 * told["TaskDuration"])


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args()
    chromium = os.environ.get("NPU_ADVISOR_CHROMIUM") or shutil.which("chromium")
    slow = 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        print(f"{'page':32} {'KB':>6} {'paint':>8} {'worst':>7} {'timeline':>9} {'worst':>7} {'worked':>7}")
        for path in asked.paths:
            page = page_of(path, Path(folder)).resolve()
            runs = [opened(browser, page) for _ in range(asked.times)]
            paint, timeline, worked = (statistics.median(column) for column in zip(*runs, strict=True))
            worst = [max(column) for column in zip(*runs, strict=True)]
            size = page.stat().st_size / 1000
            print(
                f"{path.name:32} {size:6.0f} {paint:8.0f} {worst[0]:7.0f} {timeline:9.0f} {worst[1]:7.0f} {worked:7.0f}"
            )
            slow += paint >= MOST_MS
        browser.close()
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
