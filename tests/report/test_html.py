"""The HTML report as text: self-contained, inert, in both languages. What it does is tested in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from report.samples import REPORTS, hostile_report, rich_report

from npu_advisor.base.terms import IDLE_OWNERS
from npu_advisor.base.units import format_us
from npu_advisor.findings import Report
from npu_advisor.report.html import render_html
from npu_advisor.report.options import Options
from npu_advisor.views import Lane, TableView, Timeline, ViewColumn, Views, Window

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\" ' & <!-- \u2028算子" + "n" * 10_000


def html(report: Report, **changes: object) -> str:
    return render_html(report, Options(**({"base": "/checkout"} | changes)))  # type: ignore[arg-type]


def evil_views() -> Views:
    """Every text of the views is hostile."""
    fingerprint = hostile_report().findings[0].fingerprint
    tables = {
        name: TableView(name, (ViewColumn(key, unit), ViewColumn(number, "us")), [[EVIL, 1.5], [None, None]], 9)
        for name, key, unit, number in (
            ("kernel_line", "source", "line", "total_us"),
            ("operator", "name", "text", "host_self_us"),
            ("operator_stack", "stack", "stack", "host_self_us"),
        )
    }
    columns = ViewColumn("type", "text"), ViewColumn("share", "share")
    tables["kernel_type"] = TableView("kernel_type", columns, [[EVIL, 0.5]], 1)
    lane = Lane("kernel", EVIL, [0, 10], [5, 5], [0, -1], [1, 3], [0, 0], [0, 0], [-1, 2], [0, -1], 4)
    timeline = Timeline(0, 0, 100, [EVIL], [lane], [(1, 0, 100)], [Window(fingerprint, [(1, 9)], 1)], 4)
    return Views(0, tables, None, [timeline])


def unpacked(text: str) -> dict[str, Any]:
    """What the script that draws the timelines reads."""
    data = re.search(r'id="timelines">([A-Za-z0-9+/=]*)</script>', text)
    assert data is not None
    return dict(json.loads(zlib.decompress(base64.b64decode(data[1]))))


class Page(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", REPORTS)
def test_page_refers_to_nothing_outside_and_runs_only_its_own_script(name, lang):
    text = html(REPORTS[name](), lang=lang)
    page = Page(text)
    assert text.startswith("<!doctype html>")
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form"), tag
        assert "src" not in attributes
        assert "style" not in attributes, "the policy forbids it"
        assert not [key for key in attributes if key.startswith("on")], attributes
        if "href" in attributes:
            assert tag == "a" and (attributes["href"] or "").startswith(("#", "https://"))
    assert [tag for tag, attributes in page.tags].count("script") == 1
    assert "url(" not in text and "@import" not in text


def test_policy_names_the_style_and_the_script_by_hash():
    text = html(rich_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1] and "unsafe" not in policy[1]
    for tag in ("style", "script"):
        content = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(content) == 1
        digest = base64.b64encode(hashlib.sha256(content[0].encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest.replace('+', '+')}&#39;" in policy[1]


def test_hostile_names_stay_text():
    report = hostile_report()
    report._views = evil_views()
    text = html(report)
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "alert(1)</script>" not in text and "<img" not in text and "<!--" not in text
    (rank,) = unpacked(text)["ranks"]
    assert rank["names"][0].startswith("</script><script>alert(1)")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2028]", text)


def test_links_of_findings_may_only_be_web_addresses():
    report = rich_report()
    bad = report.findings[0].references[0].model_copy(update={"url": "javascript:alert(1)"})
    first = report.findings[0].model_copy(update={"references": [bad]})
    text = html(report.model_copy(update={"findings": [first, *report.findings[1:]]}))
    assert "javascript:" not in text


def test_both_languages_are_there_and_the_asked_one_is_shown():
    english, chinese = html(rich_report()), html(rich_report(), lang="zh")
    assert '<html lang="en"' in english and '<html lang="zh"' in chinese
    for text in (english, chinese):
        assert "看似慢，但不是原因" in text and "Looks slow, is not the cause" in text


def test_every_finding_and_every_piece_is_on_the_page():
    report = rich_report()
    text = html(report)
    for finding in report.findings:
        assert f'id="f-{finding.rule_id}"' in text
    for rule in report.rules:
        if rule.outcome in ("skipped", "failed"):
            assert f"<code>{rule.id}</code>" in text
    assert format_us(report.steps[0].compute_us) in text


def test_views_without_data_have_no_tab():
    assert 'id="t-kernel"' not in html(rich_report())
    report = rich_report()
    report._views = evil_views()
    text = html(report)
    assert 'id="t-kernel"' in text and 'id="t-trace"' in text and 'id="t-memory"' not in text


def test_what_is_not_known_is_not_told():
    """No timeline without lanes, no rank where the profile names none."""
    report = rich_report()
    views = evil_views()
    report._views = replace(views, timelines=[replace(views.timelines[0], lanes=[])])
    assert 'id="t-trace"' not in html(report) and "DecompressionStream" not in html(report)
    unnamed = [step.model_copy(update={"rank": -1}) for step in report.steps]
    assert "rank -1" not in html(report.model_copy(update={"steps": unnamed}))


def test_the_same_report_makes_the_same_page():
    """Names of owners come in an order of their own, not in that of a set."""
    report, views = rich_report(), evil_views()
    many = [*range(len(IDLE_OWNERS))]
    lane = Lane("idle", "", many, [1] * len(many), many, many, [0] * len(many))
    report._views = replace(views, timelines=[replace(views.timelines[0], names=[*IDLE_OWNERS], lanes=[lane])])
    assert list(unpacked(html(report))["words"]["idle"]) == sorted(IDLE_OWNERS)


def test_page_works_without_script():
    """What a script shows or hides is visible until it runs."""
    text = html(rich_report())
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    hiding = [rule for rule in style[1].split("\n") if "display: none" in rule and ".view" in rule]
    assert all(".js" in rule for rule in hiding)
    assert "html:not(.js) .needs-script { display: none; }" in style[1]
