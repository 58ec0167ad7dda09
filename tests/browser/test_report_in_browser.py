"""The HTML report in a real browser: what it shows equals the JSON, and everything on it can be used."""

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
from report.samples import hostile_report
from report.test_html import evil_views
from synthetic import Settings, generate
from synthetic.settings import parse_plants

from npu_advisor import analyze
from npu_advisor.api import Analysis
from npu_advisor.base.units import format_bytes, format_pct, format_us
from npu_advisor.findings import JointSaving
from npu_advisor.report.cards import saved_range
from npu_advisor.report.html import render_html
from npu_advisor.report.json import render_json
from npu_advisor.report.options import Options

CUT = "npu-gpt-megatron-2023-trimmed"
L1 = PROFILES / "npu-alexnet-text-l1"
TABS = ("trace", "kernel", "operator", "memory", "distributed", "diff")


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of one step."""
    if L1.is_dir():
        return L1
    folder = tmp_path_factory.mktemp("profile")
    generate(folder, Settings(steps=1, layers=4, plant=parse_plants(["all"])))
    return folder


@pytest.fixture(scope="session")
def report(profile: Path) -> Analysis:
    return analyze(profile, keep=True)


@pytest.fixture(scope="session")
def page_file(report: Analysis, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "report.html"
    path.write_text(render_html(report, Options()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def numbers(report: Analysis) -> dict[str, Any]:
    """What the JSON report says."""
    return dict(json.loads(render_json(report)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_page_never_scrolls_sideways(opened: Callable[..., Any], page_file: Path, width: int, scheme: str) -> None:
    page = opened(page_file, width, scheme).page
    for name in TABS:
        page.click(f"#t-{name}")
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
    folder = os.environ.get("NPU_ADVISOR_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"report-{width}-{scheme}.png"), full_page=True)


def test_step_and_findings_equal_the_json(opened: Callable[..., Any], page_file: Path, numbers: dict[str, Any]) -> None:
    page = opened(page_file).page
    longest = max(numbers["steps"], key=lambda step: step["duration_us"])
    shown = {
        item["piece"]: (float(item["us"]), item["text"])
        for item in page.evaluate(
            "[...document.querySelectorAll('[data-piece]')].map(i => ({piece: i.dataset.piece, us: i.dataset.us, "
            "text: i.querySelector('b').textContent}))"
        )
    }
    assert shown["compute"][0] == pytest.approx(longest["compute_us"], abs=1e-3)
    assert shown["compute"][1] == format_us(longest["compute_us"])
    for owner, us in longest["idle_owners"].items():
        assert shown[owner][1] == format_us(us)
    assert sum(us for us, _ in shown.values()) == pytest.approx(longest["duration_us"], rel=1e-3)
    path = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('[data-path]')].map(i => [i.dataset.path, i.dataset.us]))"
    )
    parts = {f"p-{part}": us for part, us in (longest["critical_path"] or {}).items() if us}
    assert {part: float(us) for part, us in path.items()} == pytest.approx(parts, abs=0.01)
    cards = page.locator(".card")
    assert cards.count() == len(numbers["findings"])
    for index, finding in enumerate(numbers["findings"]):
        text = cards.nth(index).text_content()
        assert finding["title"]["en"] in text and finding["message"]["en"] in text
        if finding["saving"] and finding["saving"]["us_per_step"] > 0:
            assert format_pct(finding["saving"]["share"]) in text
    assert saved_range(JointSaving(**numbers["saving"])) in page.locator("h2").first.text_content()


def test_every_table_equals_its_data(opened: Callable[..., Any], page_file: Path, report: Analysis) -> None:
    _check_tables(opened(page_file).page, report)


@needs_profiles
@pytest.mark.parametrize(
    "name",
    ["gpu-bert-small-h100", "npu-cluster-output-8r-2023", "npu-msprof-mindspore-2023", "npu-trace-only-2024", CUT],
)
def test_every_table_of_other_profiles_equals_its_data(opened: Callable[..., Any], tmp_path: Path, name: str) -> None:
    report = analyze(PROFILES / name, keep=True)
    path = tmp_path / "report.html"
    path.write_text(render_html(report, Options()), encoding="utf-8")
    page = opened(path).page
    _check_tables(page, report)
    for tab in page.locator("[role=tab]").all():
        tab.click()
        assert page.evaluate("document.documentElement.scrollWidth") == 1440


def _check_tables(page: Any, report: Analysis) -> None:
    shown = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.grid')].map(t => [t.dataset.table, "
        "[...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.dataset.v || c.textContent.trim()))]))"
    )
    filled = {name for name, table in report.views.tables.items() if table.rows}
    assert set(shown) == filled | ({"lines"} if report.lines else set()) | ({"steps"} if report.steps else set())
    for name in filled:
        table = report.views.tables[name]
        for cells, row in zip(shown[name], table.rows, strict=True):
            for cell, value, column in zip(cells, row, table.columns, strict=True):
                if column.unit not in ("text", "line", "stack"):
                    shown_value = _number(cell)
                    same = shown_value is value or math.isclose(shown_value, value, rel_tol=1e-8)
                    assert same, (name, column.key, cell, value)
    by_step = {(row[0], row[1]): [*map(_number, row[2:])] for row in shown.get("steps", [])}
    for step in report.steps[:500]:
        row = by_step["–" if step.rank < 0 else str(step.rank), "–" if step.step is None else str(step.step)]
        figures = [step.duration_us, step.compute_us, step.communication_us]
        figures += [step.communication_us - step.exposed_communication_us, step.exposed_communication_us]
        figures += [step.free_us, step.prepare_us, step.after_last_kernel_us]
        assert row == pytest.approx(figures, rel=1e-8, abs=1e-3)
    known = [cost.text for cost in report.lines]
    for cells, cost in zip(shown.get("lines", []), report.lines, strict=True):
        figures = [cost.device_us_per_step, cost.communication_us_per_step, cost.share, cost.kernels]
        figures += [cost.rank] if len(report.profile.ranks) > 1 else []
        assert [*map(_number, cells[2 if any(known) else 1 :])] == pytest.approx(figures, rel=1e-8)
        assert cells[0] == f"{Path(cost.path).name}:{cost.line}"


def test_pictures_equal_the_json(opened: Callable[..., Any], page_file: Path, numbers: dict[str, Any]) -> None:
    page = opened(page_file).page
    page.click("#t-distributed")
    rows = [row.inner_text().split("\n") for row in page.locator(".ranks li").all()]
    times = {row[0]: row[-1] for row in rows}
    longest = {f"rank {step['rank']}": format_us(step["duration_us"]) for step in numbers["steps"]}
    assert times == longest
    widths = page.evaluate(
        "[...document.querySelectorAll('.ranks svg')].map(s => [...s.children].map(r => +r.getAttribute('width')))"
    )
    whole = max(step["duration_us"] for step in numbers["steps"])
    for bar, step in zip(widths, sorted(numbers["steps"], key=lambda each: each["rank"]), strict=True):
        assert sum(bar) == pytest.approx(1000 * step["duration_us"] / whole, abs=0.5)
        assert bar[0] == pytest.approx(1000 * step["compute_us"] / whole, abs=0.1)
    heads = page.locator(".matrix thead th").all_inner_texts()[1:]
    for row in page.locator(".matrix tbody tr").all():
        rank, *cells = row.locator("th, td").all_inner_texts()
        waits = next(step for step in numbers["steps"] if step["rank"] == int(rank))["waiting_for_rank_us"]
        wanted = {f"for rank {peer}": format_us(us) for peer, us in waits.items()}
        assert {head: cell for head, cell in zip(heads, cells, strict=True) if cell} == wanted
    page.click("#t-memory")
    facts = next(each for each in numbers["facts"] if each["peak_allocated_bytes"])
    assert format_bytes(facts["peak_allocated_bytes"]) in page.locator("#memory-peak").inner_text()


def _number(cell: str) -> float | None:
    return None if cell == "–" else float(cell.replace(",", ""))


@pytest.mark.skipif(not L1.is_dir(), reason="the real profiles are not here")
def test_page_opens_from_a_mail(page_file: Path) -> None:
    assert page_file.stat().st_size < 350_000


def test_tabs_follow_the_mouse_the_keys_and_the_address(opened: Callable[..., Any], page_file: Path) -> None:
    page = opened(page_file, fragment="#memory").page
    assert page.locator("#v-memory").is_visible()
    page.click("#t-kernel")
    assert page.locator("#v-kernel").is_visible() and not page.locator("#v-memory").is_visible()
    page.keyboard.press("ArrowRight")
    assert page.locator("#v-operator").is_visible()
    assert page.evaluate("document.activeElement.id") == "t-operator"
    page.keyboard.press("Home")
    assert page.locator("#v-trace").is_visible()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#v-diff").is_visible()


def test_diff_tab_says_how_to_fill_it(opened: Callable[..., Any], page_file: Path, profile: Path) -> None:
    page = opened(page_file, fragment="#diff").page
    assert f"npu-advisor compare {profile} NEW -f html" in page.locator("#v-diff").inner_text()


def test_sorting_filtering_and_unfolding(opened: Callable[..., Any], page_file: Path, report: Analysis) -> None:
    page = opened(page_file).page
    page.click("#t-kernel")
    table = page.locator('[data-table="kernel_type"]')
    rows = len(report.views.tables["kernel_type"].rows)
    visible = "t => [...t.tBodies[0].rows].filter(r => r.offsetParent).length"
    assert table.evaluate(visible) == min(12, rows)
    keys = [column.key for column in report.views.tables["kernel_type"].columns]
    for key in ("calls", "mean_us", "aiv_vec_ratio"):
        if key not in keys:
            continue
        column = keys.index(key)
        values = f"t => [...t.tBodies[0].rows].map(r => r.cells[{column}]).map(c => c.dataset.v || c.textContent)"
        for reverse, direction in ((True, "descending"), (False, "ascending")):
            table.locator(".sort").nth(column).click()
            order = [number for value in table.evaluate(values) if (number := _number(value)) is not None]
            assert order == sorted(order, reverse=reverse)
            assert table.locator("th").nth(column).get_attribute("aria-sort") == direction
    assert table.evaluate(visible) == min(12, rows)
    if rows > 12:
        page.click('[data-more="kernel_type"]')
        assert table.evaluate(visible) == rows
    word = str(report.views.tables["kernel_type"].values("type")[0])
    page.locator("#v-kernel [data-filter]").fill(word)
    assert 0 < table.evaluate(visible) <= rows
    assert all(word.lower() in text.lower() for text in table.locator("tbody tr:visible").all_text_contents())


def test_a_finding_leads_to_its_evidence_on_the_timeline(
    opened: Callable[..., Any], page_file: Path, report: Analysis
) -> None:
    page = opened(page_file).page
    windows = {window.fingerprint: window for one in report.views.timelines for window in one.windows}
    page.click("#t-kernel")
    page.evaluate("document.querySelectorAll('.fold').forEach(fold => { fold.open = true })")
    for button in page.locator(".card[open] [data-window]").all():
        low, high = windows[button.get_attribute("data-window")].pieces[0]
        button.click()
        assert page.locator("#v-trace").is_visible()
        left, right = (float(page.locator("#lanes").get_attribute(f"data-{name}")) for name in ("from", "to"))
        assert left <= low < high <= right + 1
        assert right - left < 4 * (high - low) + 100_000


def test_timeline_zooms_pans_and_tells_about_kernels(opened: Callable[..., Any], page_file: Path) -> None:
    page = opened(page_file).page
    lanes = page.locator("#lanes")

    def span() -> tuple[float, float]:
        return float(lanes.get_attribute("data-from")), float(lanes.get_attribute("data-to"))

    whole = span()
    lanes.focus()
    page.keyboard.press("w")
    near = span()
    assert near[1] - near[0] < whole[1] - whole[0]
    page.keyboard.press("d")
    assert span()[0] > near[0]
    page.keyboard.press("0")
    assert span() == whole
    page.keyboard.press("n")
    first = page.locator("#details").text_content()
    page.keyboard.press("n")
    assert "duration" in first and first != page.locator("#details").text_content()
    page.mouse.wheel(0, 400)
    assert span() == whole, "plain scrolling scrolls the page"
    inked = "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const s = new Set(); "
    inked += "for (let i = 0; i < d.length; i += 400) s.add(d[i] + ',' + d[i + 1] + ',' + d[i + 2]); return s.size }"
    assert lanes.evaluate(inked) > 5


def test_language_and_theme_switch_without_reloading(opened: Callable[..., Any], page_file: Path) -> None:
    page = opened(page_file).page
    assert page.locator("h2", has_text="findings").first.is_visible()
    page.click('[data-lang="zh"]')
    assert page.evaluate("document.documentElement.lang") == "zh"
    assert "项发现" in page.locator("h2").first.inner_text()
    assert not page.locator('[lang="en"]:visible').count() - page.locator('html[lang="en"]').count()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_page_prints_all_views(opened: Callable[..., Any], page_file: Path) -> None:
    page = opened(page_file).page
    assert len(page.pdf(format="A4", print_background=True)) > 20_000
    page.emulate_media(media="print")
    for name in TABS:
        assert page.locator(f"#v-{name}").is_visible()
    assert not page.locator(".tabs").is_visible()


def test_page_reads_without_javascript(browser: Any, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    for name in TABS:
        assert page.locator(f"#v-{name}").is_visible()
    assert not page.locator("[data-more]").first.is_visible()
    context.close()


def test_hostile_names_are_inert(opened: Callable[..., Any], tmp_path: Path) -> None:
    report = hostile_report()
    report._views = evil_views()
    path = tmp_path / "hostile.html"
    path.write_text(render_html(report, Options()), encoding="utf-8")
    page = opened(path).page
    dialogs: list[Any] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog))
    for name in ("kernel", "operator", "trace"):
        page.click(f"#t-{name}")
        assert page.evaluate("document.documentElement.scrollWidth") == 1440
    page.locator("#lanes").focus()
    page.keyboard.press("n")
    assert "alert(1)" in page.locator("#details").text_content()
    assert page.locator("script").count() == 2
    assert not page.locator("img").count()
    assert dialogs == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anyone_out(opened: Callable[..., Any], page_file: Path, scheme: str) -> None:
    """axe-core finds no serious violation in any tab."""
    page = opened(page_file, 1440, scheme).page
    for name in TABS:
        page.click(f"#t-{name}")
        assert grave_violations(page) == [], name
