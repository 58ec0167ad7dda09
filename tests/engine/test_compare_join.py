from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rulekit import ints, make_rule, profile_of, same

from npu_advisor.engine.compile import compile_rule
from npu_advisor.engine.pipeline import run_stages
from npu_advisor.engine.rows import Rows
from npu_advisor.engine.run import run_rule
from npu_advisor.engine.testing import given_profile
from npu_advisor.model.profile import Profile

COMPARE = """
    - from: kernels
    - group: {by: [step, type], agg: {us: sum(dur_us)}}
    - compare: {across: rank, within: [step, type], value: us}
"""
# Steps and types stand in another order on the other ranks: rows are aligned by what they are called.
RANKS: list[dict[str, list[dict[str, Any]]]] = [
    {
        "steps": [{"number": 7, "dur_us": 9}, {"number": 8, "dur_us": 9}],
        "kernels": [
            {"type": "MatMul", "dur_us": 30, "step": 0},
            {"type": "MatMul", "dur_us": 10, "step": 1},
            {"type": "Cast", "dur_us": 5, "step": 1},
            {"dur_us": 4, "step": 1},
        ],
    },
    {
        "steps": [{"number": 8, "dur_us": 9}, {"number": 7, "dur_us": 9}],
        "kernels": [{"type": "MatMul", "dur_us": 20, "step": 0}, {"type": "MatMul", "dur_us": 10, "step": 1}],
    },
    {
        "steps": [{"number": 7, "dur_us": 9}],
        "kernels": [{"type": "Relu", "dur_us": 1, "step": 0}, {"type": "MatMul", "dur_us": 14, "step": 0}],
    },
]


def ranks(*tables: dict[str, list[dict[str, Any]]]) -> list[Profile]:
    profiles = [given_profile(one, same, rank=rank) for rank, one in enumerate(tables)]
    for profile in profiles:
        profile.peers = [other for other in profiles if other is not profile]
    return profiles


def column(rows: Rows, name: str) -> list[Any]:
    return list(rows.column(name).spread(len(rows)).scalars(rows.profile))


def run(folder: Path, find: str, profile: Profile) -> Rows:
    return run_stages(profile, compile_rule(make_rule(folder, find)).stages, profile.peers)


def test_peers_are_aligned_by_name(folder: Path) -> None:
    rows = run(folder, COMPARE, ranks(*RANKS)[0])
    assert column(rows, "type") == ["MatMul", "MatMul", "Cast", None]
    assert column(rows, "median") == [12.0, 20.0, None, None]
    assert column(rows, "excess") == [18.0, -10.0, None, None]
    assert column(rows, "ratio") == [2.5, 0.5, None, None]
    assert column(rows, "peers") == [2, 1, 0, 0]


def test_without_within_whole_ranks_are_compared(folder: Path) -> None:
    find = """
    - from: kernels
    - group: {by: [rank], agg: {us: sum(dur_us)}}
    - compare: {across: rank, value: us / 1}
    - where: excess > 0
    """
    fired = [len(run(folder, find, profile)) for profile in ranks(*RANKS)]
    assert fired == [1, 0, 0]  # 49 against 30 and 15, 30 against 49 and 15


def test_runs_are_compared_with_the_same_rank(folder: Path) -> None:
    first, second, _ = ranks(*RANKS)
    first.runs = [second]
    result = run_rule(make_rule(folder, COMPARE.replace("across: rank", "across: run")), first)
    assert [raw.values["peers"] for raw in result.raw_findings] == [1, 1, 0, 0]


@pytest.mark.parametrize("across", ["rank", "run"])
def test_alone_a_rule_cannot_compare(folder: Path, across: str) -> None:
    made = make_rule(folder, COMPARE.replace("across: rank", f"across: {across}"))
    result = run_rule(made, ranks(RANKS[0])[0])
    assert result.outcome == "skipped"
    assert result.reason is not None
    assert f"only one {across}" in result.reason.en


def test_a_peer_that_lacks_a_column_is_no_peer(folder: Path) -> None:
    bare = {"steps": RANKS[0]["steps"], "kernels": [{"dur_us": 1, "step": 0}]}
    mine, _ = ranks(RANKS[0], bare)
    assert run_rule(make_rule(folder, COMPARE), mine).outcome == "skipped"
    mine, *_ = ranks(RANKS[0], bare, RANKS[1])
    assert [raw.values["peers"] for raw in run_rule(make_rule(folder, COMPARE), mine).raw_findings] == [1, 1, 0, 0]


def test_changed_parameters_are_not_answered_from_before(folder: Path) -> None:
    find = COMPARE.replace("value: us", "value: us * $factor")
    mine = ranks(*RANKS)[0]
    seen = []
    for factor in (1, 2):
        made = make_rule(folder, find, params=f"factor: {{default: {factor}, doc: x}}\n")
        seen.append(run_rule(made, mine).raw_findings[0].values["median"])
    assert seen == [12.0, 24.0]


JOIN = """
    - from: kernels
    - where: dur_us > 4
    - join:
        from:
          - from: kernels
          - group:
              by: [type]
              agg:
                calls: count()
                worst: heaviest(source, dur_us)
                wide: max(block_dim)
        on: [type]
"""


def test_join_adds_the_columns_of_the_one_row_that_agrees(folder: Path) -> None:
    kernels = [
        {"type": "Cast", "dur_us": 5, "source": "a.py:1", "block_dim": 3},
        {"type": "Relu", "dur_us": 1, "source": "a.py:2"},
        {"dur_us": 9, "source": "a.py:3", "block_dim": 9},
        {"type": "Cast", "dur_us": 8, "source": "a.py:4", "block_dim": 2},
    ]
    rows = run(folder, JOIN, profile_of(kernels=kernels))
    assert column(rows, "calls") == [2, None, 2]
    assert column(rows, "worst") == ["a.py:4", None, "a.py:4"]  # a missing type equals nothing
    assert column(rows, "wide") == [3, None, 3]
    assert ints(rows.base_members(2)["kernels"]) == [3]


def test_join_with_another_table_over_a_key(folder: Path) -> None:
    find = """
    - from: kernels
    - group: {by: [step], agg: {us: sum(dur_us)}}
    - join:
        from:
          - from: idle
          - where: owner == "sync"
          - group: {by: [step], agg: {sync_us: sum(dur_us)}}
        on: [step]
    - let: {share: sync_us / us}
    """
    profile = profile_of(**RANKS[0], idle=[{"dur_us": 6, "owner": "sync", "step": 0}, {"dur_us": 1, "step": 1}])
    rows = run(folder, find, profile)
    assert (column(rows, "step"), column(rows, "sync_us")) == ([7, 8], [6.0, None])
    assert column(rows, "share") == [0.2, None]


KEYS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=9)


@given(left=KEYS, right=KEYS)
@settings(max_examples=60)
def test_join_finds_what_a_dictionary_finds(
    folder: Path, left: list[tuple[str, int]], right: list[tuple[str, int]]
) -> None:
    find = """
    - from: kernels
    - join:
        from: [{from: tasks}, {group: {by: [name, stream], agg: {n: count()}}}]
        on: [name, stream]
    """
    profile = profile_of(
        kernels=[{"name": name, "stream": stream, "dur_us": 1} for name, stream in left],
        tasks=[{"name": name, "stream": stream, "dur_us": 1} for name, stream in right],
    )
    rows = run(folder, find, profile)
    assert column(rows, "n") == [right.count(pair) or None for pair in left]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rules")
