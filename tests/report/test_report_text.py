from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from npu_advisor.report.text import clean, crop, one_line, pad, shorten, wrap


@given(st.text(alphabet="ab 算子，。（(）)1 %ms.", max_size=80), st.integers(4, 30))
def test_wrap_keeps_every_character_and_the_width(text, width):
    lines = wrap(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_chinese_breaks_between_characters_but_not_before_closing_punctuation():
    assert wrap("设备空闲，主机下发", 8) == ["设备空", "闲，主机", "下发"]
    assert wrap("甲乙丙（丁）", 8) == ["甲乙丙", "（丁）"]


def test_a_line_end_inside_chinese_is_no_blank():
    assert one_line("算子。\n融合 a\nb  算\n 子") == "算子。融合 a b 算子"


def test_a_number_stays_with_its_unit():
    assert wrap("the device idles 2.75 ms", 20) == ["the device idles", "2.75 ms"]
    assert wrap("share is 12 % of", 11) == ["share is", "12 % of"]


def test_a_long_word_is_folded_and_lines_can_be_limited():
    assert wrap("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]
    assert wrap("one two three four", 9, most=2) == ["one two", "three …"]
    assert wrap("", 9) == [""]


@pytest.mark.parametrize("text", ["short", "算子名称很长很长很长", "a" * 50])
def test_shorten_and_crop_keep_to_the_width(text):
    for cut in (shorten, crop):
        assert cell_len(cut(text, 9)) <= 9
    assert shorten("abcdefghijklmnop", 9) == "abcd…mnop"


def test_pad_counts_cells():
    assert pad("算子", 6) == "算子  " and pad("算子", 6, right=True) == "  算子" and pad("abcdefg", 3) == "abcdefg"


def test_clean_spells_out_what_acts_and_keeps_what_is_text():
    assert clean("a\x1b[0m\u202eb\x9b\u200b") == "a\\x1b[0m\\u202eb\\x9b\\u200b"
    assert clean("算子 é \t\n") == "算子 é \t\n"
