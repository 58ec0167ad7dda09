"""Every problem of the stages that look at sequences, at other ranks and at other tables has its place and its hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from rulekit import rule_text, write

from npu_advisor.engine.lint import lint_dirs

CHAIN = "- from: kernels\n- chain: {lane: stream, symbols: {T: type == 'Cast', M: 'true'}, pattern: 'T M? T'}\n"
GROUPED = "- from: kernels\n- group: {by: [type], agg: {us: sum(dur_us)}}\n"
JOINED = "- from: kernels\n- join: {on: [type], from: [{from: ops}, {group: {by: [type], agg: {n: count()}}}]}"


def lint(folder: Path, find: str) -> list[str]:
    write(folder, rule_text(find))
    found = lint_dirs([folder], tests=False)
    assert all(problem.line >= 5 and problem.column > 3 for problem in found)
    return [problem.message for problem in found]


@pytest.mark.parametrize(
    ("find", "problems"),
    [
        (CHAIN + "- where: M1.dur_us > T2.dur_us", []),
        (CHAIN + "- where: T3.dur_us > 1", ["no match has a 'T3', only 'T1', 'T2'"]),
        (CHAIN + "- where: T1.durr_us > 1", ["table 'kernels' has no column 'durr_us'; did you mean 'dur_us'?"]),
        (CHAIN + "- where: isnull(T1)", ["'T1' is an event; name a column of it, such as T1.dur_us"]),
        (CHAIN.replace("T M?", "TT M?"), ["unknown symbol 'TT'; did you mean 'T'?"]),
        (CHAIN.replace("stream", "straem"), ["table 'kernels' has no column 'straem'; did you mean 'stream'?"]),
        (CHAIN.replace("chain", "chian"), ["unknown stage 'chian'; did you mean 'chain'?"]),
        (CHAIN.replace("lane", "lain"), ["missing key 'lane'", "unknown key 'lain'; did you mean 'lane'?"]),
        (
            GROUPED + "- chain: {lane: type, symbols: {T: us > 1}, pattern: T}",
            ["'chain' needs rows with start_ns and dur_ns"],
        ),
        (GROUPED + "- compare: {across: rank, within: [type], value: us}\n- where: excess > 1", []),
        (
            GROUPED + "- compare: {across: rank, value: us}",
            ["'compare' needs one row for each 'within'; group by nothing else before it"],
        ),
        (
            GROUPED + "- compare: {across: ranks, within: type, value: us}",
            ["'across' is one of rank, run; did you mean 'rank'?"],
        ),
        (
            GROUPED + "- compare: {across: run, within: [tyqe], value: us}",
            [
                "'compare' needs one row for each 'within'; group by nothing else before it",
                "no column 'tyqe' here; after 'group' there are only 'type', 'us'; did you mean 'type'?",
            ],
        ),
        (GROUPED + "- compare: {across: run, within: [type], value: type}", ["this is text, a number is needed"]),
        (GROUPED + "- compare: {across: run, within: [type], value: us}\n" * 2, ["a rule compares once"]),
        (JOINED.replace("ops", "kernels"), []),
        (JOINED, ["table 'ops' has no column 'type'; did you mean 'dtypes'?"]),
        (
            JOINED.replace("ops", "kernels").replace("by: [type]", "by: [type, stream]"),
            ["'join' needs one row for each 'on'; group by nothing else before it"],
        ),
        (
            JOINED.replace("ops", "kernels").replace("{group", "{groop"),
            ["unknown stage 'groop'; did you mean 'group'?"],
        ),
        (JOINED.replace("ops", "kernels") + "\n- let: {n: 1}\n- where: n > 0", []),
        (
            "- from: kernels\n- let: {n: 1}\n" + JOINED.replace("ops", "kernels").partition("\n")[2],
            ["'join' adds a column 'n', and there is one already; call that otherwise"],
        ),
    ],
)
def test_problems(tmp_path: Path, find: str, problems: list[str]) -> None:
    assert sorted(lint(tmp_path, find)) == sorted(problems)


def test_places_inside_a_pipeline_of_a_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    find = """\
    - from: kernels
    - join:
        on: [type]
        from:
          - from: kernels
          - where: durr_us > 1
          - group: {by: [type]}
    """
    write(tmp_path, rule_text(find))
    assert [str(problem) for problem in lint_dirs([tmp_path], tests=False)] == [
        "layout-sample.yaml:10:18: error: table 'kernels' has no column 'durr_us'; did you mean 'dur_us'?\n"
        "            - where: durr_us > 1\n"
        "                     ^^^^^^^"
    ]
