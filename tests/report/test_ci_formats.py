"""Markdown and workflow commands: what a CI job shows."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from report.samples import HERE, REPORTS, finding, rich_report

from npu_advisor.base.terms import Severity
from npu_advisor.base.units import format_us
from npu_advisor.findings import Evidence
from npu_advisor.report.github import render_github
from npu_advisor.report.markdown import render_markdown
from npu_advisor.report.options import Options


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", ["rich", "empty", "hostile"])
def test_markdown_is_as_stored(name: str, lang: str, snapshot: Callable[[str, str], None]):
    snapshot(f"{name}.{lang}.md", render_markdown(REPORTS[name](), Options(lang=lang, base="/checkout")))


def test_markdown_shows_every_finding_worth_it_with_its_saving():
    text = render_markdown(rich_report(), Options(base="/checkout"))
    for found in rich_report().findings:
        if found.severity is not Severity.INFO:
            assert found.title.en in text
        if found.saving is not None and found.severity is not Severity.INFO:
            assert format_us(found.saving.us_per_step) in text


def test_foreign_text_is_inert_in_markdown():
    text = render_markdown(REPORTS["hostile"](), Options(show_all=True))
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    outside = re.sub(r"`[^`\n]*`", "", outside)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside)


def test_a_pipe_in_a_cell_stays_in_its_cell():
    evidence = Evidence(columns=["name"], rows=[["a|b"], ["c\nd"]])
    found = finding("kernel-x", Severity.HIGH, evidence=evidence)
    text = render_markdown(rich_report().model_copy(update={"findings": [found]}), Options())
    assert "| a\\|b |\n| c d |" in text


def test_workflow_commands_name_file_line_and_title():
    text = render_github(rich_report(), Options(base="/checkout"))
    first = text.splitlines()[0]
    assert first.startswith(f"::error file=vision/train.py,line={HERE.line},title=")
    assert len(text.splitlines()) == sum(found.severity is not Severity.INFO for found in rich_report().findings)


def test_workflow_commands_cannot_be_injected():
    found = finding("kernel-x", Severity.LOW, location=HERE)
    evil = found.model_copy(
        update={"title": found.title.model_copy(update={"en": "a,line=9::b\n::error::x%"}), "message": found.message}
    )
    text = render_github(rich_report().model_copy(update={"findings": [evil]}), Options(base="/checkout"))
    assert text.count("\n") == 1 and "title=a%2Cline=9%3A%3Ab" in text and "%25" in text
