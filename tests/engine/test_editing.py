"""The language of what-if edits: what it accepts, and where it points when it does not."""

from __future__ import annotations

import pytest

from npu_advisor.base.errors import RuleError
from npu_advisor.engine.editing import parse_edits
from npu_advisor.graph.replay import EDITABLE
from npu_advisor.model.schema import SCHEMA
from npu_advisor.rules.spec import FIX_PARTS


def test_an_edit_has_a_kind_a_table_a_condition_and_a_number() -> None:
    scale, cap, remove = parse_edits(
        [
            'scale kernels where type == "a where b by c" and dur_us > 3 by 0.8',
            "cap comms at dur_us / 2 us",
            "\tremove  ops\nwhere (name == 'x')",
        ]
    )
    assert (scale.kind, scale.table) == ("scale", "kernels")
    assert scale.condition is not None
    assert scale.condition.text == 'type == "a where b by c" and dur_us > 3'
    assert scale.value is not None
    assert scale.value.text == "0.8"
    assert (cap.condition, cap.value and cap.value.text) == (None, "dur_us / 2")
    assert (remove.kind, remove.table, remove.value) == ("remove", "ops", None)


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("scal kernels by 2", "scal", "did you mean 'scale'?"),
        ("", "", "an edit begins with one of remove"),
        ("remove", "e", "'remove' needs a table: kernels"),
        ("remove kernel", "kernel", "unknown table 'kernel'; did you mean 'kernels'?"),
        ("scale ops by 2", "ops", "'scale' cannot edit 'ops'; 'scale' edits kernels, tasks, comms"),
        ("remove kernels wher x", "wher", "did you mean 'where'?"),
        ("remove kernels by 2", "by", "'remove' takes no 'by'"),
        ("scale kernels", "s", "'scale' needs 'by'"),
        ("scale kernels by 1 by 2", "by", "'by' stands here a second time"),
        ("scale kernels by -1", "-1", "not negative"),
        ("scale kernels by type", "type", "a number is needed"),
        ("cap kernels at 5", "5", "ends with its unit"),
        ("cap kernels at us", "t", "an expression is missing"),
        ('remove kernels where tpye == "x"', "tpye", "has no column 'tpye'; did you mean 'type'?"),
        ("remove kernels where dur_us", "dur_us", "is needed"),
        ("remove kernels where", "e", "an expression is missing"),
        ("remove kernels where dur_us > > 3", ">", "not an expression"),
    ],
)
def test_a_fault_says_what_and_where(text: str, marked: str, message: str) -> None:
    with pytest.raises(RuleError) as raised:
        parse_edits(["remove kernels", text])
    problem = raised.value.problems[-1]
    assert message in problem.message
    assert problem.file == "--edit 2"
    if marked:
        at = problem.column - 1
        assert problem.text[at : at + problem.width] == marked


def test_every_fault_of_every_edit_is_told() -> None:
    with pytest.raises(RuleError) as raised:
        parse_edits(["scal kernels", 'scale kernels where tpye == "x" by colour'])
    assert [problem.file for problem in raised.value.problems] == ["--edit 1", "--edit 2", "--edit 2"]


def test_the_kinds_are_those_of_rules() -> None:
    assert set(EDITABLE) == set(FIX_PARTS) - {"memory"}
    assert {table for tables in EDITABLE.values() for table in tables} <= set(SCHEMA)
