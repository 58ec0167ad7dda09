from __future__ import annotations

from xml.etree import ElementTree

from report.samples import REPORTS, rich_report

from npu_advisor.report.options import Options
from npu_advisor.report.picture import render_svg


def test_picture_is_well_formed_needs_no_network_and_shows_the_report():
    picture = render_svg(rich_report(), Options(base="/checkout"))
    shown = "".join(ElementTree.fromstring(picture).itertext()).replace("\u00a0", " ")
    assert "Step 7 takes 120 ms" in shown and "vision/train.py:41" in shown
    assert "url(http" not in picture and "@font-face" not in picture
    assert picture == render_svg(rich_report(), Options(base="/checkout"))


def test_picture_holds_no_foreign_markup():
    picture = render_svg(REPORTS["hostile"](), Options())
    assert "<script" not in picture
    ElementTree.fromstring(picture)
