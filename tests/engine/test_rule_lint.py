from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from rulekit import EMIT, rule_text, write

from npu_advisor.engine.lint import lint_dirs

GOOD_CASES = """
    rule: layout-sample
    cases:
      - {name: fires, given: {kernels: [{dur_us: 1}]}, expect: [{calls: 1}]}
      - {name: silent, given: {kernels: []}, expect: []}
"""
FIND = """
    - from: kernels
    - group: {by: [type], agg: {us: sum(dur_us), calls: count(), bytes: sum(op.dur_us)}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lint(here: Path, find: str = FIND, *, cases: str | None = GOOD_CASES, **parts: str) -> list[str]:
    write(here, "shared: [Cast]\nmixed: [Cast, 1]\n", "lists.yaml")
    write(here, rule_text(find, **parts))
    if cases is not None:
        write(here, dedent(cases), "layout-sample.test.yaml")
    return [str(problem) for problem in lint_dirs([here])]


def test_a_good_rule_has_no_problem(here: Path) -> None:
    assert lint(here) == []


@pytest.mark.parametrize(
    ("stage", "problem"),
    [
        (
            '- where: "type in $shared and durr_us > 3"',
            "6:33: error: table 'kernels' has no column 'durr_us'; did you mean 'dur_us'?\n"
            '      - where: "type in $shared and durr_us > 3"\n' + " " * 36 + "^^^^^^^",
        ),
        (
            "- where: >\n      type in $shared\n      and type == 3",
            "8:21: error: cannot compare text with a number\n            and type == 3\n" + " " * 24 + "^",
        ),
        (
            "- where: dur_us + 1",
            "6:12: error: this is a number, a condition is needed\n      - where: dur_us + 1\n               "
            "^^^^^^^^^^",
        ),
        (
            "- where: type in $sharde",
            "6:20: error: unknown parameter or list '$sharde'; did you mean '$shared'?\n"
            "      - where: type in $sharde\n                       ^^^^^^^",
        ),
        (
            "- where: type in $mixed",
            "6:20: error: list '$mixed' mixes texts and numbers\n"
            "      - where: type in $mixed\n                       ^^^^^^",
        ),
        (
            "- let: {x: $shared}",
            "6:14: error: a column cannot be a list\n      - let: {x: $shared}\n                 ^^^^^^^",
        ),
        (
            "- gaps: {lane: trak}",
            "6:18: error: table 'kernels' has no column 'trak'; did you mean 'track'?\n"
            "      - gaps: {lane: trak}\n                     ^^^^",
        ),
        (
            "- gaps: {lane: track + 1}",
            "6:18: error: 'track + 1' is not the name of a column\n"
            "      - gaps: {lane: track + 1}\n                     ^^^^^^^^^",
        ),
        (
            "- cover: {c: {from: idel}}",
            "6:23: error: unknown table 'idel'; did you mean 'idle'?\n"
            "      - cover: {c: {from: idel}}\n                          ^^^^",
        ),
        (
            "- cover: {c: {from: memory}}",
            "6:23: error: rows of table 'memory' are not intervals\n"
            "      - cover: {c: {from: memory}}\n                          ^^^^^^",
        ),
        (
            "- cover: {c: {from: idle, where: ownr == 'gc'}}",
            "6:36: error: table 'idle' has no column 'ownr'; did you mean 'owner'?\n"
            "      - cover: {c: {from: idle, where: ownr == 'gc'}}\n" + " " * 39 + "^^^^",
        ),
        (
            "- under: {n: count(kernel)}",
            "6:22: error: unknown table 'kernel'; did you mean 'kernels'?\n"
            "      - under: {n: count(kernel)}\n                         ^^^^^^",
        ),
        (
            "- under: {n: count(steps)}",
            "6:22: error: rows of table 'steps' have no op to be under\n"
            "      - under: {n: count(steps)}\n                         ^^^^^",
        ),
        (
            "- under: {n: sum(1)}",
            "6:16: error: name one table: count(kernels) or sum(kernels.dur_us)\n"
            "      - under: {n: sum(1)}\n                   ^^^^^^",
        ),
        (
            "- under: {n: 'sum(kernels.dur_us + ops.dur_us)'}",
            "6:17: error: an aggregate looks at one table only\n"
            "      - under: {n: 'sum(kernels.dur_us + ops.dur_us)'}\n                    " + "^" * 32,
        ),
        (
            "- climb: {to: nam == 'x', as: o}",
            "6:17: error: table 'ops' has no column 'nam'; did you mean 'name'?\n"
            "      - climb: {to: nam == 'x', as: o}\n                    ^^^",
        ),
        (
            "- group: {by: [tpye]}",
            "6:18: error: table 'kernels' has no column 'tpye'; did you mean 'type'?\n"
            "      - group: {by: [tpye]}\n                     ^^^^",
        ),
        (
            "- group: {by: [], agg: {x: smu(dur_us)}}",
            "6:30: error: unknown aggregate 'smu'; did you mean 'sum'?\n"
            "      - group: {by: [], agg: {x: smu(dur_us)}}\n" + " " * 33 + "^^^",
        ),
        (
            "- group: {by: [], agg: {x: dur_us}}",
            "6:30: error: an aggregate is needed: one of sum, count, min, max, mean, median, p95, nunique, "
            "mode, first, "
            "heaviest, busy\n      - group: {by: [], agg: {x: dur_us}}\n" + " " * 33 + "^^^^^^",
        ),
        (
            "- group: {by: [], agg: {x: sum(type)}}",
            "6:34: error: 'sum' needs a number here\n"
            "      - group: {by: [], agg: {x: sum(type)}}\n" + " " * 37 + "^^^^",
        ),
        (
            "- group: {by: [], agg: {x: sum()}}",
            "6:30: error: 'sum' takes 1 arguments, not 0\n"
            "      - group: {by: [], agg: {x: sum()}}\n" + " " * 33 + "^^^",
        ),
        (
            "- group: {by: [type]}\n  - where: dur_us > 1",
            "7:12: error: no column 'dur_us' here; after 'group' there are only 'type'\n"
            "      - where: dur_us > 1\n               ^^^^^^",
        ),
        (
            "- group: {by: [type]}\n  - gaps: {lane: type}",
            "7:5: error: 'gaps' needs rows with start_ns and dur_ns\n      - gaps: {lane: type}\n        ^^^^",
        ),
        (
            "- group: {by: [type]}\n  - under: {n: count(ops)}",
            "7:5: error: 'under' needs rows of 'ops' or rows with a key 'op'\n      - under: {n: "
            "count(ops)}\n        ^^^^^",
        ),
        (
            "- sort: [-op]",
            "6:12: error: cannot sort by the key 'op'; name a column of it\n      - sort: [-op]\n               ^^^",
        ),
        (
            "- from: ops",
            "6:5: error: 'from' is the first stage, and only the first\n      - from: ops\n        ^^^^",
        ),
    ],
)
def test_stages(here: Path, stage: str, problem: str) -> None:
    find = f"- from: kernels\n{stage.replace(chr(10) + '  - ', chr(10) + '- ')}"
    assert lint(here, find) == [f"layout-sample.yaml:{problem}"]


def test_an_unknown_table_is_said_once(here: Path) -> None:
    find = "- from: kernel\n- where: whatever > 1\n- group: {by: [type]}\n"
    assert lint(here, find) == [
        "layout-sample.yaml:5:11: error: unknown table 'kernel'; did you mean 'kernels'?\n"
        "      - from: kernel\n              ^^^^^^"
    ]


@pytest.mark.parametrize(
    ("emit", "problem"),
    [
        (
            "at: sorce",
            "8:7: error: no column 'sorce' here; after 'group' there are only 'type', 'us', 'calls', 'bytes'\n"
            "      at: sorce\n          ^^^^^",
        ),
        ("at: us", "8:7: error: 'us' is not a column of source lines\n      at: us\n          ^^"),
        (
            "recorded: type",
            "8:13: error: 'recorded' is a time in us, 'type' is not a number\n      recorded: type\n          "
            "      ^^^^",
        ),
        (
            "fix: {remove: kernel}",
            "8:17: error: unknown table 'kernel'; did you mean 'kernels'?\n      fix: {remove: kernel}\n"
            "                    ^^^^^^",
        ),
        (
            "fix: {remove: counters}",
            "8:17: error: fix table 'counters' cannot be reached from rows of 'kernels'\n      fix: {remove: "
            "counters}\n"
            "                    ^^^^^^^^",
        ),
        (
            "fix: {scale: kernels, by: type}",
            "8:29: error: this is text, a number is needed\n      fix: {scale: kernels, by: type}\n"
            + " " * 32
            + "^^^^",
        ),
        (
            "fix: {memory: us2}",
            "8:17: error: no column 'us2' here; after 'group' there are only 'type', 'us', 'calls', 'bytes'; "
            "did you mean"
            " 'us'?\n      fix: {memory: us2}\n                    ^^^",
        ),
        (
            "claim: us",
            "8:10: error: 'us' is not a column of 'cover'\n      claim: us\n             ^^",
        ),
        (
            "evidence: {by: [tpye], agg: {x: sum(type)}}",
            "8:19: error: table 'kernels' has no column 'tpye'; did you mean 'type'?\n"
            "      evidence: {by: [tpye], agg: {x: sum(type)}}\n                      ^^^^",
        ),
        (
            "evidence: {by: [tpye], agg: {x: sum(type)}}",
            "8:39: error: 'sum' needs a number here\n"
            "      evidence: {by: [tpye], agg: {x: sum(type)}}\n" + " " * 42 + "^^^^",
        ),
    ],
)
def test_emit(here: Path, emit: str, problem: str) -> None:
    assert f"layout-sample.yaml:{problem}" in lint(here, emit=EMIT.replace("emit:\n", f"emit:\n  {emit}\n"))


@pytest.mark.parametrize(
    ("english", "chinese", "problem"),
    [
        (
            "{call} calls",
            "{call}",
            "8:19: error: no column 'call' here; after 'group' there are only 'type', 'us', 'calls', 'bytes'; did you"
            " mean 'calls'?",
        ),
        ("{calls} {us}", "{us}", "8:37: error: 'zh' and 'en' use different fields: ['calls']"),
        ("{us:us}", "{us}", "8:32: error: 'zh' and 'en' use different fields: ['us', 'us:us']"),
        ("{us:sec}", "{us:us}", "8:22: error: unknown format 'sec'; use us, pct, bytes, n"),
        ("{type:us}", "{type:us}", "8:19: error: format 'us' needs a number"),
        (
            "{us!r}",
            "{us}",
            "8:18: error: '{us!r}' is not a field; write {column} or {column:format}, and {{ for a brace",
        ),
        ("a } b", "a", "8:20: error: '}' is not a field; write {column} or {column:format}, and {{ for a brace"),
    ],
)
def test_texts(here: Path, english: str, chinese: str, problem: str) -> None:
    emit = f'emit:\n  message: {{en: "{english}", zh: "{chinese}"}}\n'
    heads = [found.splitlines()[0] for found in lint(here, emit=emit)]
    assert f"layout-sample.yaml:{problem}" in heads


def test_texts_may_name_parameters_and_titles_may_have_fields(here: Path) -> None:
    emit = 'emit:\n  message: {en: "{calls} over {limit:us}", zh: "{calls} {limit:us}"}\n'
    assert lint(here, params="limit: {default: 5, doc: d}\n", emit=emit) == []


def test_advice_is_checked_like_the_message(here: Path) -> None:
    suggest = "suggest:\n  - {effort: local, en: 'a {tpye}', zh: a, when: tpye == 'Cast'}\n"
    heads = [found.splitlines()[0] for found in lint(here, suggest=suggest)]
    known = "here; after 'group' there are only 'type', 'us', 'calls', 'bytes'; did you mean 'type'?"
    assert heads == [
        f"layout-sample.yaml:10:29: error: no column 'tpye' {known}",
        "layout-sample.yaml:10:41: error: 'zh' and 'en' use different fields: ['tpye']",
        f"layout-sample.yaml:10:50: error: no column 'tpye' {known}",
    ]


def test_recorded_may_be_bytes_only_where_the_cure_is_memory(here: Path) -> None:
    find = "- from: peak_owners\n- group: {by: [source], agg: {size: sum(size_bytes)}}\n"
    emit = EMIT.replace("emit:\n", "emit:\n  recorded: size\n")
    assert [found.splitlines()[0] for found in lint(here, find, emit=emit)] == [
        "layout-sample.yaml:8:13: error: 'recorded' is a time in us, 'size' is in bytes"
    ]
    assert lint(here, find, emit=emit.replace("recorded", "fix: {memory: size}\n  recorded")) == []


@pytest.mark.parametrize(
    ("name", "emit", "problem"),
    [
        ("mask-to-wher", "at: source", "unknown codemod 'mask-to-wher'; did you mean 'mask-to-where'?"),
        ("mask-to-where", "", "a codemod changes the line of the finding: 'emit' needs 'at'"),
        (
            "torch-fused-optimizer",
            "at: source",
            "codemod 'torch-fused-optimizer' reads the finding's column 'optimizer'",
        ),
        ("mask-to-where", "at: source", None),
    ],
)
def test_codemods(here: Path, name: str, emit: str, problem: str | None) -> None:
    find = "- from: kernels\n- group: {by: [type], agg: {calls: count(), source: 'heaviest(source, dur_us)'}}"
    suggest = f"suggest:\n  - {{effort: local, en: a, zh: a, codemod: {name}}}\n"
    heads = [found.splitlines()[0] for found in lint(here, find, emit=EMIT + f"  {emit}\n", suggest=suggest)]
    assert [head.partition("error: ")[2] for head in heads] == ([] if problem is None else [problem])


def test_versions(here: Path) -> None:
    heads = lint(here, emit=f"applies: {{cann: 8.x}}\n{EMIT}")
    assert heads[0].startswith(
        "layout-sample.yaml:7:17: error: '8.x' is not a version range; write >=8.0 or >=8.0,<9\n"
    )


@pytest.mark.parametrize(
    ("cases", "problem"),
    [
        (
            None,
            "layout-sample.yaml:1:5: error: rule 'layout-sample' has no cases; write layout-sample.test.yaml beside it",
        ),
        (
            GOOD_CASES.replace("rule: layout-sample", "rule: layout-other"),
            "layout-sample.test.yaml:2:7: error: these are cases of 'layout-other', the rule is 'layout-sample'",
        ),
        (
            GOOD_CASES.replace("expect: [{calls: 1}]", "expect: []"),
            "layout-sample.test.yaml:3:1: error: no case fires; a rule needs at least one case that expects a finding",
        ),
        (
            GOOD_CASES.replace("expect: []", "expect: [{}]"),
            "layout-sample.test.yaml:3:1: error: no case is silent; a rule needs at least one case with 'expect: []'",
        ),
        (
            GOOD_CASES.replace("expect: []", "expect: [], outcome: skipped"),
            "layout-sample.test.yaml:3:1: error: no case is silent; a rule needs at least one case with 'expect: []'",
        ),
        (
            GOOD_CASES.replace("given: {kernels: []}, ", ""),
            "layout-sample.test.yaml:5:5: error: a case has either 'given' or 'profile'",
        ),
        (
            GOOD_CASES.replace("name: fires", "nam: fires"),
            "layout-sample.test.yaml:4:6: error: unknown key 'nam'; did you mean 'name'?",
        ),
    ],
)
def test_cases(here: Path, cases: str | None, problem: str) -> None:
    assert problem in [found.splitlines()[0] for found in lint(here, cases=cases)]


def test_form_and_meaning_of_all_files_come_together(here: Path) -> None:
    write(here, "nothing: here\n", "layout-broken.yaml")
    found = lint(here, "- from: kernels\n- where: durr_us > typ\n- sort: [x]\n")
    assert [problem.split(" error: ")[0] for problem in found] == [
        *["layout-broken.yaml:1:1:"] * len([p for p in found if p.startswith("layout-broken")]),
        "layout-sample.yaml:6:12:",
        "layout-sample.yaml:6:22:",
        "layout-sample.yaml:7:12:",
    ]
    assert any("unknown key 'nothing'" in problem for problem in found)
