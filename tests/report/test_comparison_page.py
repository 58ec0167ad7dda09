"""A comparison as an HTML page: self-contained, inert, in both languages. What it does is tested in a browser."""

from __future__ import annotations

import re

import pytest
from report.test_comparison_report import EVIL, _comparison
from report.test_html import Page

from npu_advisor.base.terms import Text
from npu_advisor.comparison import Change, Comparison, InnerChange, ModuleChange, Normalised, Setting
from npu_advisor.report.html.comparison import render_comparison
from npu_advisor.report.html.sides import Axis, plot
from npu_advisor.report.options import Options

HOSTILE = [EVIL, "\"' & <!-- \u2028\u202e算子 </script><img src=x onerror=alert(1)>", "n" * 10_000]


def page(comparison: Comparison, lang: str = "en") -> str:
    return render_comparison(comparison, Options(lang=lang))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["aten::linear", *HOSTILE], ids=["plain", "markup", "quotes", "long"])
def test_page_refers_to_nothing_outside_and_runs_only_its_own_script(name: str) -> None:
    text = page(_comparison(name, f"/{name}/model.py"))
    seen = Page(text)
    assert [tag for tag, _ in seen.tags].count("script") == 1
    for tag, attributes in seen.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form"), tag
        assert not {"src", "style"} & set(attributes) and not [key for key in attributes if key.startswith("on")]
        if "href" in attributes:
            assert (attributes["href"] or "").startswith("#")
    assert "alert(1)</script>" not in text and "<!--" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2028]", text)


def test_everything_of_the_comparison_is_on_the_page() -> None:
    comparison = _comparison()
    text = page(comparison)
    pair = comparison.main
    exact = set(re.findall(r'data-v="?([^" >]+)', text))
    for change in (*pair.ledger, pair.step, *pair.extra, *(each.us for each in pair.classes)):
        assert {f"{change.base:.9g}", f"{change.new:.9g}", f"{change.change:.9g}"} <= exact, change.key
    english = re.sub(r'<span lang="zh">[^<]*</span>', "", text)
    assert "computing −12.0 ms" in re.sub("<[^>]+>", "", english), "parts of a cause"
    for told in ("model.py:41", "matmul", "Only in new", "fixed", "other shapes", "Every rank", "p = 0.0002"):
        assert told in text, told


def test_page_speaks_both_languages() -> None:
    for lang in ("en", "zh"):
        text = page(_comparison(), lang)
        assert f'<html lang="{lang}"' in text
        assert "单步耗时由 100 ms 变为 80.0 ms" in text and "A step takes 80.0 ms instead of 100 ms" in text


def test_a_change_that_nobody_can_tell_from_noise_is_no_verdict() -> None:
    sure = _comparison()
    judgement = sure.pairs[0].step.judgement
    assert judgement is not None
    unsure = judgement.model_copy(update={"verdict": "untested"})
    step = sure.pairs[0].step.model_copy(update={"judgement": unsure})
    doubted = sure.model_copy(update={"pairs": [sure.pairs[0].model_copy(update={"step": step})]})
    assert '<h1 class="better">' in page(sure)
    assert "<h1>" in page(doubted)


def test_ratios_to_the_peaks_and_what_lies_inside_a_call_are_told() -> None:
    whole = _comparison()
    rated = Normalised(bound="flops", base_us=1, new_us=2, base_peak=3, new_peak=3, ratio=2.0)
    reason = Normalised(
        bound="flops", base_us=0, new_us=0, base_peak=None, new_peak=None, ratio=None, reason=_text("no peak known")
    )
    (each,) = whole.pairs[0].classes
    classes = [each.model_copy(update={"normalised": rated}), each.model_copy(update={"normalised": reason})]
    inner = InnerChange(path="aten::mm", kernels=_change(2.0, 3.0), kernel_us=_change(20.0, 30.0))
    op = whole.pairs[0].ops[0].model_copy(update={"inner": [inner], "base_name": "aten::addmm", "new_module": "Net/Fc"})
    module = ModuleChange(
        base=None,
        new="Net/Fc",
        **dict.fromkeys(("calls", "kernels", "host_us"), _change(1.0, 2.0)),
        kernel_us=_change(10.0, 12.5),
    )
    pair = whole.pairs[0].model_copy(
        update={"classes": classes, "ops": [op], "modules": [module], "base_chip": "A100", "new_chip": "Ascend910B2"}
    )
    text = page(whole.model_copy(update={"pairs": [pair], "settings": [Setting(name="level", base="0", new="1")]}))
    for told in (
        "2.00</td>",
        "no peak known",
        "A100",
        "aten::mm: 2 → 3, 20.0 us → 30.0 us",
        "aten::addmm → aten::linear",
    ):
        assert told in text, told
    assert "Recorded differently: level 0 → 1." in text and 'data-table="diff_modules"' in text


def test_bars_of_the_causes_add_up() -> None:
    axis = Axis.over([-20.0, 30.0])
    assert (axis.bar(0.0, -20.0).left, axis.bar(0.0, 30.0).width, axis.zero) == (0.0, 600.0, 400.0)
    assert axis.bar(10.0, 10.0).width == 0.0 and axis.bar(29.999, 30.0).left + axis.bar(29.999, 30.0).width <= 1000.0
    (cause, rest) = plot([*map(_text, "ab")], [_change(3.0, 1.0), _change(1.0, 1.0)])
    assert cause.base.width == 750.0 and rest.base_total == (750.0, 1000.0) and rest.new_total == (250.0, 500.0)


def _text(name: str) -> Text:
    return Text(en=name, zh=name)


def _change(base: float, new: float) -> Change:
    return Change(key="us", base=base, new=new, change=new - base)
