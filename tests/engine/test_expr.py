from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rulekit import profile_of

from npu_advisor.engine.expr import ExprError, Fault, compile_expression, parse
from npu_advisor.engine.rows import Rows
from npu_advisor.engine.scope import Reads, StaticScope

NAMES: dict[str, Any] = {"types": ["TransData", "Cast"], "limit": 10, "pattern": "^Tr", "flag": True, "word": "Cast"}
KERNELS = [
    {
        "type": "TransData",
        "dur_us": 4,
        "op": 0,
        "input_shapes": "2,3;4",
        "input_dtypes": "FLOAT;DT_BF16",
        "block_dim": 8,
    },
    {"type": "Cast", "dur_us": 20, "op": 1, "input_shapes": "N/A", "input_dtypes": "FLOAT"},
    {"dur_us": 30, "input_shapes": ";5", "input_dtypes": "INT64;INT64", "block_dim": 0},
]
OPS = [{"name": "aten::conv2d", "dur_us": 1}, {"name": "aten::to", "parent": 0, "dur_us": 1}]


def evaluate(text: str, table: str = "kernels") -> list[Any]:
    profile = profile_of(kernels=KERNELS, ops=OPS, profile=[{"step_us": 100, "env.TASK_QUEUE_ENABLE": "2"}])
    faults: list[Fault] = []
    expression = compile_expression(text, StaticScope((table,), NAMES, Reads()), faults)
    assert expression is not None, faults
    rows = Rows.start(profile, (table,))
    return expression.evaluate(rows).spread(len(rows)).scalars(profile)


def faults_of(text: str, tables: tuple[str, ...] = ("kernels",)) -> list[Fault]:
    faults: list[Fault] = []
    compile_expression(text, StaticScope(tables, NAMES, Reads()), faults)
    return faults


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("type", ["TransData", "Cast", None]),
        ("dur_us + 1", [5.0, 21.0, 31.0]),
        ("dur_us / 0", [None, None, None]),
        ("start_ns + dur_ns == end_ns", [True, True, True]),
        ("-dur_us * 2", [-8.0, -40.0, -60.0]),
        ("block_dim", [8, None, 0]),
        ("block_dim + 1", [9, None, 1]),
        ("block_dim >= 0", [True, False, True]),  # a comparison with a missing value is false
        ("block_dim != 8", [False, False, True]),
        ("not (block_dim == 8)", [False, True, True]),
        ("type == 'Cast'", [False, True, False]),
        ("type != $word", [True, False, False]),
        ("type in $types", [True, True, False]),
        ("type not in ['Cast', \"X\"]", [True, False, False]),
        ("block_dim in [0, 1]", [False, False, True]),
        ("block_dim not in [0, 1]", [True, False, False]),
        ("glob(type, 'Tr*')", [True, False, False]),
        ("glob(type, $types)", [True, True, False]),
        ("matches(type, $pattern)", [True, False, False]),
        ("contains(type, 'as')", [False, True, False]),
        ("startswith(type, ['Tr', 'Ca'])", [True, True, False]),
        ("extract(type, '^T(.)') == 'r'", [True, False, False]),
        ("extract(type, 'a.') == 'as'", [False, True, False]),
        ("isnull(extract(type, '^T'))", [False, True, True]),
        ("isnull(type) or isnull(op.name)", [False, False, True]),
        ("op.name", ["aten::conv2d", "aten::to", None]),
        ("op.parent.name", [None, "aten::conv2d", None]),
        ("op == op.parent", [False, False, False]),
        ("has(input_shapes)", [True, True, True]),
        ("has(aic_mac_ratio) or has(op.stack)", [False, False, False]),
        ("5 < dur_us <= 20", [False, True, False]),
        ("$flag and true", [True, True, True]),
        ("min(dur_us, $limit, 7)", [4.0, 7.0, 7.0]),
        ("max(dur_us, 10)", [10.0, 20.0, 30.0]),
        ("clip(dur_us, 5, 25)", [5.0, 20.0, 25.0]),
        ("abs(dur_us - 20)", [16.0, 0.0, 10.0]),
        ("ratio(dur_us, profile.step_us)", [0.04, 0.2, 0.3]),
        ("numel(input_shapes)", [10.0, None, 5.0]),
        ("nbytes(input_shapes, input_dtypes)", [6 * 4 + 4 * 2.0, None, 40.0]),
        ("profile.env.TASK_QUEUE_ENABLE == '2'", [True, True, True]),
        ("(type == 'Cast') * dur_us", [0.0, 20.0, 0.0]),
        ("dur_us\n  > 5", [False, True, True]),
    ],
)
def test_values(text: str, values: list[Any]) -> None:
    assert evaluate(text) == pytest.approx(values)


def test_absolute_times_stay_exact() -> None:
    late = 1_736_408_883_704_643_213
    profile = profile_of(kernels=[{"start_ns": late, "dur_us": 1}])
    faults: list[Fault] = []
    expression = compile_expression(
        "min(end_ns, start_ns + 1) - 1 == start_ns", StaticScope(("kernels",), {}, Reads()), faults
    )
    assert expression is not None
    assert expression.evaluate(Rows.start(profile, ("kernels",))).data.tolist() == [True]


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("durr_us > 3", "table 'kernels' has no column 'durr_us'; did you mean 'dur_us'?", 0),
        ("op.nam == 'x'", "table 'ops' has no column 'nam'; did you mean 'name'?", 0),
        ("type.name == 'x'", "'type' of table 'kernels' is not a key, '.name' cannot follow it", 0),
        ("type in $typs", "unknown parameter or list '$typs'; did you mean '$types'?", 8),
        ("dur_us > 1 and globb(type, 'x')", "unknown function 'globb'; did you mean 'glob'?", 15),
        ("dur_us ** 2", "'**' is not part of the language", 7),
        ("dur_us // 2", "this operator is not part of the language", 0),
        ("type > 'a'", "text has no order", 7),
        ("type == 3", "cannot compare text with a number", 8),
        ("op == 'aten::to'", "cannot compare a key with text; name a column of it, such as op.name", 6),
        ("op == step", "cannot compare a key with a key; name a column of it, such as op.name", 6),
        ("'a' in type", "'in' needs a list; for a part of a text use contains(text, part)", 7),
        ("dur_us in $types", "this is a number, the list holds texts", 0),
        ("dur_us is 3", "'is' is not part of the language; use == or isnull(x)", 0),
        ("type == None", "there is no None; use isnull(x)", 8),
        ("type + 1", "this is text, '+' needs a number", 0),
        ("dur_us and type", "this is a number, a condition is needed", 0),
        ("abs(dur_us, 1)", "'abs' takes 1 arguments, not 2", 0),
        ("glob(type, op.name)", "a text or a list of texts is needed here, written out or as $name", 11),
        ("matches(type, 'a(')", "not a regular expression: missing ), unterminated subpattern at position 1", 14),
        ("matches(type, '(a+)+')", "a regular expression may not repeat a group that repeats or chooses inside", 14),
        ("matches(type, '(a|a)*')", "a regular expression may not repeat a group that repeats or chooses inside", 14),
        ("matches(type, '.*.*.*.*x')", "a regular expression has at most 2 repeats (* + {n,m})", 14),
        ("matches(type, '(.)\\\\1')", "a regular expression may not refer back to a group", 14),
        (f"matches(type, '{'a' * 201}')", "a regular expression has at most 200 characters", 14),
        ("type.__class__ == 1", "'type' of table 'kernels' is not a key, '.__class__' cannot follow it", 0),
        ("(1).real", "only columns have dotted names", 0),
        ("type.upper() == 'X'", "only the functions of the language can be called", 0),
        ("[x for x in type]", "a loop is not part of the language", 0),
        ("lambda: 1", "a lambda is not part of the language", 0),
        ("type[0]", "an index is not part of the language", 0),
        ("f'{type}'", "an f-string is not part of the language", 0),
        ("1 if true else 2", "'if' is not part of the language", 0),
        ("abs(*$types)", "'abs' takes plain arguments only", 0),
        ("dur_us > 3 # why", "'#' is not part of the language", 11),
        ("(x := 3)", "':=' is not part of the language", 3),
        ("dur_us > 1e400 - 1e400", "", -1),
        ("dur_us >", "not an expression: invalid syntax", 7),
        ("[1, 'a'] == 2", "a list holds either texts or numbers", 0),
        ("9" * 30 + " > dur_us", f"{'9' * 30} is not a literal of the language", 0),
    ],
)
def test_faults(text: str, message: str, offset: int) -> None:
    if offset < 0:  # infinity is no literal either
        assert "is not a literal of the language" in faults_of(text)[0].message
        return
    fault = faults_of(text)[0]
    assert (fault.message, fault.offset) == (message, offset)


def test_offsets_count_characters_not_bytes() -> None:
    assert faults_of("type == '转换' and durr_us > 1")[0].offset == 17


def test_every_fault_of_an_expression_is_reported() -> None:
    assert [fault.offset for fault in faults_of("durr_us > 1 and typ == 'x' and $no > 1")] == [0, 16, 31]


@pytest.mark.parametrize(
    "text", ["(" * 250 + "1" + ")" * 250, "-" * 1500 + "1", "not " * 400 + "true", "1+" * 400 + "1"]
)
def test_large_expressions_are_refused(text: str) -> None:
    with pytest.raises(ExprError, match=r"an expression has at most|not an expression"):
        parse(text)


def test_overlong_text_is_refused() -> None:
    with pytest.raises(ExprError, match="at most 2000 characters"):
        parse("1 + " * 600 + "1")


def test_stacked_tables_share_columns() -> None:
    profile = profile_of(
        kernels=[{"name": "k", "type": "Cast", "dur_us": 1}], tasks=[{"name": "t", "kind": "copy", "dur_us": 2}]
    )
    rows = Rows.start(profile, ("kernels", "tasks"))
    scope = StaticScope(("kernels", "tasks"), {}, Reads())
    for text, values in (
        ("name", ["k", "t"]),
        ("kind", [None, "copy"]),
        ("type", ["Cast", None]),
        ("dur_us", [1.0, 2.0]),
    ):
        faults: list[Fault] = []
        expression = compile_expression(text, scope, faults)
        assert expression is not None, faults
        assert expression.evaluate(rows).scalars(profile) == values
    assert (
        faults_of("bytes > 1", ("kernels", "tasks"))[0].message
        == "none of the tables 'kernels', 'tasks' has a column 'bytes'"
    )


SAFE = st.recursive(
    st.sampled_from(["dur_us", "block_dim", "3", "0", "2.5"]),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    max_leaves=8,
)


@given(SAFE)
def test_arithmetic_agrees_with_python(text: str) -> None:
    got = evaluate(text)
    for row, value in zip(KERNELS, got, strict=True):
        names = {"dur_us": float(row["dur_us"]), "block_dim": row.get("block_dim", float("nan"))}  # type: ignore[arg-type]
        try:
            expected = eval(text, {"__builtins__": {}}, names)
        except ZeroDivisionError:
            expected = float("nan")
        if not np.isfinite(expected):
            assert value is None
        else:
            assert value == pytest.approx(expected)


@given(st.text(max_size=60))
def test_any_text_gives_faults_or_a_value(text: str) -> None:
    faults: list[Fault] = []
    expression = compile_expression(text, StaticScope(("kernels",), NAMES, Reads()), faults)
    assert (expression is None) == bool(faults)
    assert all(0 <= fault.offset <= len(text) for fault in faults)
