"""docs/rule-language.md says what is true: its examples run, and nothing of the language is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import REPOSITORY
from rulekit import make_rule, same

from npu_advisor.cli.app import main
from npu_advisor.codemods import CODEMODS
from npu_advisor.engine.aggregates import AGGREGATES
from npu_advisor.engine.compile import compile_rule
from npu_advisor.engine.functions import FUNCTIONS
from npu_advisor.engine.pipeline import run_stages
from npu_advisor.engine.rows import Rows
from npu_advisor.engine.testing import given_profile
from npu_advisor.rules.settings import find_settings
from npu_advisor.rules.source import parse_document
from npu_advisor.rules.spec import FIX_PARTS, Emit, Stage

PAGES = sorted((REPOSITORY / "docs").glob("rule-language*.md"))
EXAMPLES = {
    f"{page.name}:{number}": text
    for page in PAGES
    for number, text in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.S))
}


def column(rows: Rows, name: str) -> list[Any]:
    found: list[Any] = rows.column(name).spread(len(rows)).scalars(rows.profile)
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_what_it_says(name: str, tmp_path: Path) -> None:
    example = parse_document(EXAMPLES[name], name, tmp_path).data
    profile = given_profile(example["given"], same)
    profile.peers = [given_profile(one, same, rank=rank) for rank, one in enumerate(example.get("peers", ()), 1)]
    find = yaml.safe_dump(example["find"], sort_keys=False)
    rows = run_stages(profile, compile_rule(make_rule(tmp_path, find)).stages, profile.peers)
    wanted = example["gives"]
    assert len(rows) == len(wanted)
    for row, expected in enumerate(wanted):
        assert {path: column(rows, path)[row] for path in expected} == pytest.approx(expected)


def _written(pattern: str) -> set[str]:
    return {found for text in EXAMPLES.values() for found in re.findall(pattern, text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_left_out(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    stages = {field.alias or name for name, field in Stage.model_fields.items()}
    assert set(re.findall(r"^### ([a-z]+)$", text, re.M)) == stages
    assert {f"`{{{kind}:" for kind in FIX_PARTS} <= set(re.findall(r"`\{\w+:", text))
    codemods = re.findall(
        r"^\| `([\w-]+)` \|.*\|([^|]*)\|$", text.partition("| codemod |")[2].partition("\n\n")[0], re.M
    )
    assert {name: tuple(re.findall(r"`(\w+)`", reads)) for name, reads in codemods} == {
        name: codemod.reads for name, codemod in CODEMODS.items()
    }
    assert set(Emit.model_fields) <= set(re.findall(r"^\| `(\w+)` \|", text, re.M))
    for name in (*FUNCTIONS, *AGGREGATES):
        assert f"`{name}(" in text


def test_every_stage_function_and_aggregate_has_an_example() -> None:
    stages = {field.alias or name for name, field in Stage.model_fields.items()}
    assert stages <= _written(r"- (\w+):")
    assert {*FUNCTIONS, *AGGREGATES} <= _written(r"\b(\w+)\(")


def test_the_settings_shown_can_be_read(tmp_path: Path) -> None:
    for page in PAGES:
        (example,) = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
        (tmp_path / "pyproject.toml").write_text(example, encoding="utf-8")
        found = find_settings(tmp_path)
        assert found.params == {"dispatch-dequeue-gap": {"min_share": "5%"}}
        assert (found.rules, len(found.select), len(found.ignore)) == ((tmp_path / "perf/rules",), 2, 1)


def test_explain_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "explain", "--how", "language", "--lang", "en"]) == 0
    assert "### chain" in capsys.readouterr().out
    assert main(["rules", "explain", "--how", "languag"]) == 2
    assert "language" in capsys.readouterr().err
