"""Comparisons rendered: a hand-made one, also with hostile names, on every width, in both languages."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from npu_advisor.base.terms import Severity, Text
from npu_advisor.comparison import (
    Attribution,
    Cause,
    Change,
    ClassChange,
    Comparison,
    FindingChange,
    Judgement,
    OneSided,
    OpChange,
    RankPair,
    Sample,
)
from npu_advisor.findings import Location, ProfileFacts, RankInfo, Tool
from npu_advisor.report.comparison import render_comparison
from npu_advisor.report.comparison_markdown import render_markdown
from npu_advisor.report.json import load_comparison
from npu_advisor.report.json import render_comparison as render_json
from npu_advisor.report.options import Options

EVIL = "<script>alert(1)</script>|`x`\x1b[31m" + "很长的名字" * 20


def _change(key: str, base: float, new: float, judgement: Judgement | None = None) -> Change:
    share = (new - base) / base if base else None
    return Change(key=key, base=base, new=new, change=new - base, share=share, judgement=judgement)


def _comparison(name: str = "aten::linear", path: str = "/train/model.py") -> Comparison:
    place = Location(path=path, line=41, function="forward")
    sample = Sample(n=10, median=100_000.0, mad=400.0)
    judgement = Judgement(
        verdict="beyond_noise",
        test="mann_whitney_normal",
        shift=-20_000.0,
        p_value=0.0002,
        alpha=0.05,
        floor=0.01,
        base=sample,
        new=sample,
    )
    nothing = _change("path_us", 0.0, 0.0)
    op = OpChange(
        name=name,
        status="reshaped",
        base_shapes="8,16",
        new_shapes="32,16",
        base_location=place,
        new_location=place,
        calls=_change("calls", 12, 6),
        kernels=nothing,
        kernel_us=nothing,
        host_us=nothing,
        path_us=nothing,
    )
    cause = Cause(
        base_location=place,
        new_location=place,
        us=-18_000.0,
        share_of_change=0.9,
        direct_us=-12_000.0,
        knock_on_us=-6_000.0,
        parts={"compute": -12_000.0},
        work=[_change("calls", 12, 6), _change("kernel_us", 30_000, 18_000)],
        ops=[op],
    )
    unnamed = cause.model_copy(update={"base_location": None, "new_location": None, "name": name, "us": 0.0})
    pair = RankPair(
        base_rank=0,
        new_rank=0,
        base_steps=[1],
        new_steps=[1],
        base_runs=1,
        new_runs=1,
        step=_change("step_us", 100_000, 80_000, judgement),
        ledger=[_change("compute", 60_000, 48_000), _change("dispatch", 40_000, 32_000)],
        extra=[_change("prepare_us", 10, 10), _change("peak_allocated_bytes", 2**30, 2**31)],
        attribution=Attribution(
            basis="critical_path", change_us=-20_000.0, causes=[cause, unnamed], remainder_us=-2_000.0
        ),
        ops=[op],
        matched_calls=100,
        base_only_calls=6,
        new_only_calls=0,
        host_us_per_call=_change("host_us_per_call", 10, 9),
        classes=[ClassChange(name="matmul", kernels=_change("kernels", 12, 6), us=_change("us", 30_000, 18_000))],
        one_sided=[OneSided(side="new", type=name, kernel_class="conversion", kernels=3, us=12.5, locations=[place])],
    )
    finding = FindingChange(
        status="fixed",
        fingerprint="f",
        rule_id="a-rule",
        title=Text(en=name, zh=name),
        severity=Severity.HIGH,
        base_us=5.0,
        new_us=None,
        base_location=place,
        new_location=None,
    )
    facts = ProfileFacts(path="p", ranks=[RankInfo(rank=0, path="p", form="text")])
    return Comparison(
        tool=Tool(version="9"),
        base=facts,
        new=facts,
        base_device="gpu",
        new_device="npu",
        pairs=[pair, pair.model_copy(update={"base_rank": 1, "new_rank": 1, "step": _change("step_us", 10, 9)})],
        findings=[finding],
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_is_as_stored(lang: str, snapshot) -> None:
    snapshot(f"comparison-{lang}-100.txt", render_comparison(_comparison(), Options(lang=lang, width=100)))
    snapshot(f"comparison.{lang}.md", render_markdown(_comparison(), Options(lang=lang)))


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", ["aten::linear", EVIL])
def test_no_line_is_wider_than_the_page(width: int, lang: str, name: str) -> None:
    for show_all in (False, True):
        options = Options(lang=lang, width=width, show_all=show_all)
        text = render_comparison(_comparison(name, f"/{name}/model.py"), options)
        assert max(map(cell_len, text.splitlines())) <= width


def test_nothing_in_a_name_acts() -> None:
    hostile = _comparison(EVIL, f"/{EVIL}/model.py")
    assert "\x1b" not in render_comparison(hostile, Options())
    markdown = render_markdown(hostile, Options())
    assert "\x1b" not in markdown
    cells = [line for line in markdown.splitlines() if "script" in line and not line.startswith("| `")]
    assert cells and all("\\<script\\>" in line for line in cells if "`" not in line.replace("\\`", ""))


def test_it_comes_back_from_json() -> None:
    text = render_json(_comparison())
    assert render_json(load_comparison(text)) == text


def test_without_utf8_the_page_is_ascii() -> None:
    assert render_comparison(_comparison(), Options(utf8=False)).isascii()
