"""The page of a comparison in a real browser: what it shows equals the JSON, and everything on it can be used."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.axe import grave_violations
from places import PROFILES, needs_profiles
from report.test_comparison_page import HOSTILE, page
from report.test_comparison_report import _comparison

from npu_advisor.cli.app import main
from npu_advisor.report.json import load_comparison

PAIRS = {
    "npu-npu": ("npu-alexnet-text-l1", "npu-alexnet-text-l2"),
    "gpu-npu": ("gpu-alexnet-a100", "npu-alexnet-text-l1"),
    "gpu-gpu": ("gpu-bert-small-h100", "gpu-bert-small-h100"),
}
CELLS = "r => [...r.cells].filter(c => 'v' in c.dataset).map(c => c.dataset.v === '' ? null : +c.dataset.v)"
ROWS = f"[...document.querySelectorAll('[data-row]')].map(r => [r.dataset.row, ({CELLS})(r)])"


@pytest.fixture(scope="session", params=PAIRS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The page of a real comparison and its JSON."""
    folder = tmp_path_factory.mktemp("diff")
    base, new = (str(PROFILES / name) for name in PAIRS[request.param])
    html, data = folder / "diff.html", folder / "diff.json"
    assert main(["compare", base, new, "-q", "-f", "html", "-o", str(html), "-o", f"json={data}"]) == 0
    return html, json.loads(data.read_text(encoding="utf-8"))


def _main(comparison: dict[str, Any]) -> dict[str, Any]:
    rank = load_comparison(json.dumps(comparison)).main.base_rank
    return next(pair for pair in comparison["pairs"] if pair["base_rank"] == rank)


def _sides(change: dict[str, Any]) -> list[float]:
    return _known([change[side] for side in ("base", "new", "change")])


def _known(values: list[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


@needs_profiles
def test_every_figure_equals_the_json(opened: Callable[..., Any], written: tuple[Path, dict[str, Any]]) -> None:
    path, comparison = written
    tab, pair = opened(path).page, _main(comparison)
    rows = [(key, _known(values)) for key, values in tab.evaluate(ROWS)]
    shown = dict(rows[: len(pair["ledger"]) + 1 + len(pair["extra"]) + 1])
    for change in (*pair["ledger"], pair["step"], *pair["extra"], pair["host_us_per_call"]):
        if change["base"] is not None or change["new"] is not None:
            assert shown[change["key"]] == pytest.approx(_sides(change), rel=1e-8, nan_ok=True), change["key"]
    phases = [_sides(each["host_us"]) + _sides(each["kernel_us"]) for each in pair["phases"]]
    classes = [_sides(each["us"]) for each in pair["classes"]]
    plotted = [values for _, values in rows[-len(phases) - len(classes) :]]
    assert plotted == [pytest.approx(each, rel=1e-8, nan_ok=True) for each in [*phases, *classes]]
    causes = tab.evaluate("[...document.querySelectorAll('.card[data-us]')].map(c => +c.dataset.us)")
    told = [cause["us"] for cause in pair["attribution"]["causes"]]
    assert sorted(causes) == pytest.approx(sorted(told), rel=1e-8)
    assert sum(causes) + pair["attribution"]["remainder_us"] == pytest.approx(pair["attribution"]["change_us"])


@needs_profiles
def test_tables_equal_the_json_and_sort(opened: Callable[..., Any], written: tuple[Path, dict[str, Any]]) -> None:
    path, comparison = written
    tab, pair = opened(path).page, _main(comparison)
    table = tab.locator('[data-table="diff_ops"]')
    cell = "c => c.dataset.v ? +c.dataset.v : +c.textContent.replace(/[+,]/g, '').replace('−', '-')"
    read = f"t => [...t.tBodies[0].rows].map(r => [...r.cells].slice(3).map({cell}))"
    keys = ("calls", "kernels", "path_us", "kernel_us", "host_us")
    for shown, op in zip(table.evaluate(read), pair["ops"], strict=False):
        figures = [op["calls"]["new"], op["kernels"]["new"]]
        figures += [op[key][side] for key in keys[2:] for side in ("new", "change")]
        assert shown == pytest.approx(figures, rel=1e-8, abs=1e-9), op["name"]
    assert table.evaluate("t => t.tBodies[0].rows.length") == min(len(pair["ops"]), 400)
    for column in (3, 5, 6):
        for reverse in (True, False):
            table.locator(".sort").nth(column).click()
            order = [row[column - 3] for row in table.evaluate(read)]
            assert order == sorted(order, reverse=reverse)
    modules = tab.locator('[data-table="diff_modules"]')
    if modules.count():
        shown = modules.evaluate(f"t => [...t.tBodies[0].rows].map(r => [...r.cells].slice(1).map({cell}))")
        told = [
            [each["calls"]["new"], each["kernels"]["new"]]
            + [each[key][side] for key in ("kernel_us", "host_us") for side in ("new", "change")]
            for each in pair["modules"]
        ]
        assert all(any(row == pytest.approx(each, rel=1e-8, abs=1e-9) for each in told) for row in shown)
    findings = tab.locator('[data-table="diff_findings"] tbody tr')
    assert findings.count() == len(comparison["findings"])
    alone = tab.locator('[data-table="diff_one_sided"] tbody tr')
    assert alone.count() == len(pair["one_sided"])
    for index, each in enumerate(pair["one_sided"]):
        assert each["type"] in alone.nth(index).text_content()
        for place in each["locations"][:1]:
            assert f"{Path(place['path']).name}:{place['line']}" in alone.nth(index).text_content()


@needs_profiles
def test_filter_leaves_what_matches(opened: Callable[..., Any], written: tuple[Path, dict[str, Any]]) -> None:
    path, comparison = written
    tab, name = opened(path).page, _main(comparison)["ops"][0]["name"]
    tab.locator("[data-filter]").fill(name)
    rows = tab.locator('[data-table="diff_ops"] tbody tr:visible').all_text_contents()
    assert rows and all(name in row for row in rows)


@needs_profiles
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_page_never_scrolls_sideways(
    opened: Callable[..., Any], written: tuple[Path, dict[str, Any]], width: int, scheme: str
) -> None:
    tab = opened(written[0], width, scheme).page
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    folder = os.environ.get("NPU_ADVISOR_SCREENSHOTS")
    if folder:
        tab.screenshot(path=str(Path(folder) / f"diff-{width}-{scheme}.png"), full_page=True)


@pytest.mark.parametrize("name", ["aten::linear", *HOSTILE], ids=["plain", "markup", "quotes", "long"])
@pytest.mark.parametrize("width", [1440, 390])
def test_hostile_names_are_inert(opened: Callable[..., Any], tmp_path: Path, name: str, width: int) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page(_comparison(name, f"/{name}/model.py")), encoding="utf-8")
    tab = opened(path, width).page
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.locator("script").count() == 1 and not tab.locator("img").count()


def test_language_switches_and_page_prints(opened: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    path.write_text(page(_comparison()), encoding="utf-8")
    tab = opened(path).page
    tab.click('[data-lang="zh"]')
    assert "单步耗时由" in tab.locator("h1").inner_text()
    assert not tab.locator('[lang="en"]:visible').count() - tab.locator('html[lang="en"]').count()
    tab.locator(".fall a").first.click()
    # It opens once the page has gone there, which a busy machine takes its time for.
    tab.locator(".card[open]").first.wait_for()
    assert tab.locator(".card").first.get_attribute("open") is not None
    assert len(tab.pdf(format="A4", print_background=True)) > 10_000
    tab.emulate_media(media="print")
    assert tab.locator('[data-table="diff_ops"]').is_visible() and not tab.locator("[data-filter]").is_visible()


def test_page_reads_without_javascript(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    path.write_text(page(_comparison()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    assert tab.locator('[data-table="diff_ops"] tbody tr').first.is_visible()
    assert not tab.locator(".needs-script").first.is_visible()
    context.close()


@needs_profiles
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anyone_out(
    opened: Callable[..., Any], written: tuple[Path, dict[str, Any]], scheme: str
) -> None:
    """axe-core finds no serious violation."""
    tab = opened(written[0], 1440, scheme).page
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert grave_violations(tab) == []
