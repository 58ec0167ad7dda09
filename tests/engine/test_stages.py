from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rulekit import ints, make_rule, profile_of

from npu_advisor.engine.compile import compile_rule
from npu_advisor.engine.pipeline import run_stages
from npu_advisor.engine.rows import Rows
from npu_advisor.model.profile import Profile


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rules")


def run(folder: Path, find: str, profile: Profile) -> Rows:
    return run_stages(profile, compile_rule(make_rule(folder, find)).stages)


def column(rows: Rows, name: str) -> list[Any]:
    return rows.column(name).spread(len(rows)).scalars(rows.profile)


STEPS = [{"number": 7, "start_us": 0, "dur_us": 100}, {"number": 8, "start_us": 100, "dur_us": 100}]
KERNELS = [
    {"type": "MatMul", "start_us": 0, "dur_us": 40, "step": 0, "source": "a.py:1"},
    {"type": "Cast", "start_us": 50, "dur_us": 10, "step": 0, "source": "a.py:2"},
    {"type": "Cast", "start_us": 55, "dur_us": 10, "step": 1, "source": "a.py:3"},
    {"start_us": 100, "dur_us": 30, "step": 1, "source": "a.py:3"},
]


def test_where_let_sort_limit(folder: Path) -> None:
    find = """
      - from: kernels
      - where: dur_us < 40
      - let: {twice: dur_us * 2, more: twice + 1}
      - sort: [type, -more]
      - limit: 2
    """
    rows = run(folder, find, profile_of(kernels=KERNELS))
    assert column(rows, "more") == [21.0, 21.0]
    assert column(rows, "source") == ["a.py:2", "a.py:3"]  # ties keep their order, a missing type would come last
    assert ints(rows.base_members(1)["kernels"]) == [2]


def test_group_collects_members_and_every_aggregate(folder: Path) -> None:
    find = """
      - from: kernels
      - group:
          by: [type]
          agg:
            n: count()
            long: count(dur_us > 20)
            total: sum(dur_us)
            small: min(dur_us)
            large: max(dur_us)
            avg: mean(dur_us)
            mid: median(dur_us)
            high: p95(dur_us)
            lines: nunique(source)
            often: mode(source)
            start: first(source)
            worst: heaviest(source, dur_us)
            running: busy()
    """
    rows = run(folder, find, profile_of(kernels=KERNELS, steps=STEPS))
    assert column(rows, "type") == ["MatMul", "Cast", None]
    assert column(rows, "n") == [1, 2, 1]
    assert column(rows, "long") == [1, 0, 1]
    assert column(rows, "total") == [40.0, 20.0, 30.0]
    assert (column(rows, "small"), column(rows, "large")) == ([40.0, 10.0, 30.0], [40.0, 10.0, 30.0])
    assert column(rows, "avg") == column(rows, "mid") == column(rows, "high") == [40.0, 10.0, 30.0]
    assert column(rows, "lines") == [1, 2, 1]
    assert column(rows, "often") == column(rows, "start") == column(rows, "worst") == ["a.py:1", "a.py:2", "a.py:3"]
    assert column(rows, "running") == [40.0, 15.0, 30.0]  # a union, not a sum
    assert [ints(rows.base_members(row)["kernels"]) for row in range(3)] == [[0], [1, 2], [3]]


def test_aggregates_skip_missing_values(folder: Path) -> None:
    kernels = [{"block_dim": -1, "dur_us": 1}, {"block_dim": 4, "dur_us": 1}, {"block_dim": 8, "dur_us": 1}]
    find = """
      - from: kernels
      - group:
          by: []
          agg:
            {mean: mean(block_dim), low: min(block_dim), p: p95(block_dim), n: count(block_dim), none: max(wait_us)}
    """
    rows = run(folder, find, profile_of(kernels=kernels))
    assert [column(rows, name) for name in ("mean", "low", "p", "n", "none")] == [[6.0], [4], [7.8], [2], [None]]


def test_heaviest_adds_up_each_value(folder: Path) -> None:
    kernels = [{"source": "a", "dur_us": 5}, {"source": "b", "dur_us": 3}, {"source": "b", "dur_us": 3}, {"dur_us": 90}]
    find = "\n- from: kernels\n- group:\n    by: []\n    agg:\n      s: heaviest(source, dur_us)\n"
    assert column(run(folder, find, profile_of(kernels=kernels)), "s") == ["b"]


def test_nothing_grouped_is_no_row(folder: Path) -> None:
    find = "\n- from: kernels\n- where: dur_us > 1000\n- group: {by: [], agg: {n: count()}}\n"
    assert len(run(folder, find, profile_of(kernels=KERNELS))) == 0


def test_group_twice_unites_members_and_keeps_keys(folder: Path) -> None:
    find = """
      - from: kernels
      - group: {by: [step, type], agg: {us: sum(dur_us)}}
      - group: {by: [step], agg: {us: max(us), kinds: count()}}
      - let: {share: us / step.dur_us}
    """
    rows = run(folder, find, profile_of(kernels=KERNELS, steps=STEPS))
    assert column(rows, "step") == [7, 8]  # a key reads as its table's label
    assert column(rows, "share") == [0.4, 0.3]
    assert [ints(rows.base_members(row)["kernels"]) for row in range(2)] == [[0, 1], [2, 3]]


def test_gaps_end_with_their_event_and_stay_in_the_step(folder: Path) -> None:
    dequeues = [
        {"name": "a", "track": 1, "step": 0, "start_us": 0, "dur_us": 50},
        {"name": "inside", "track": 1, "step": 0, "start_us": 10, "dur_us": 5},
        {"name": "b", "track": 1, "step": 0, "start_us": 60, "dur_us": 10},
        {"name": "other lane", "track": 2, "step": 0, "start_us": 65, "dur_us": 5},
        {"name": "next step", "track": 1, "step": 1, "start_us": 120, "dur_us": 5},
        {"name": "no step", "track": 1, "step": -1, "start_us": 500, "dur_us": 5},
    ]
    rows = run(
        folder, "\n- from: dequeues\n- gaps: {lane: track, within: step}\n", profile_of(dequeues=dequeues, steps=STEPS)
    )
    assert column(rows, "name") == ["b"]
    assert (column(rows, "start_ns"), column(rows, "dur_us"), column(rows, "end_ns")) == ([50_000], [10.0], [60_000])
    assert ints(rows.base_members(0)["dequeues"]) == [2]


EVENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=14)


def _silences(events: Sequence[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
    """(lane, start, end) of every stretch between two events of a lane in which none of it runs."""
    out = set()
    for lane in {event[0] for event in events}:
        mine = [(start, start + length) for which, start, length in events if which == lane]
        silent = [
            t for t in range(min(s for s, _ in mine), max(s for s, _ in mine)) if not any(s <= t < e for s, e in mine)
        ]
        points = {s for s, _ in mine}  # an event without length still ends a silence
        for t in silent:
            if t - 1 not in silent or t in points:
                end = next(u for u in range(t + 1, 60) if u not in silent or u in points)
                out.add((lane, t, end))
    return out


@settings(max_examples=60)
@given(EVENTS)
def test_gaps_agree_with_counting(folder: Path, events: list[tuple[int, int, int]]) -> None:
    table = [{"track": lane, "start_ns": start, "dur_ns": length} for lane, start, length in events]
    rows = run(folder, "\n- from: dequeues\n- gaps: {lane: track}\n", profile_of(dequeues=table))
    found = set(zip(column(rows, "track"), column(rows, "start_ns"), column(rows, "end_ns"), strict=True))
    assert found == _silences(events)


SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 12)), max_size=10)


@settings(max_examples=60)
@given(SPANS, SPANS)
def test_cover_agrees_with_counting(
    folder: Path, rows_at: list[tuple[int, int]], idle_at: list[tuple[int, int]]
) -> None:
    profile = profile_of(
        kernels=[{"start_ns": start, "dur_ns": length} for start, length in rows_at],
        idle=[{"start_ns": start, "dur_ns": length, "owner": "dispatch"} for start, length in idle_at],
    )
    find = """
      - from: kernels
      - cover:
          lost_us: {from: idle, where: owner == "dispatch"}
      - group: {by: [], agg: {lost_us: sum(lost_us)}}
    """
    idle = {t for start, length in idle_at for t in range(start, start + length)}
    detail = run(folder, find, profile)
    if not rows_at:
        assert len(detail) == 0
        return
    each = [{t for t in range(start, start + length) if t in idle} for start, length in rows_at]
    assert detail.detail is not None
    assert column(detail.detail, "lost_us") == pytest.approx([len(ns) / 1000 for ns in each])
    for row, expected in enumerate(each):
        start, end = detail.detail.covered["lost_us"].of(row)
        assert {t for s, e in zip(start, end, strict=True) for t in range(s, e)} == expected
    start, end = detail.covered["lost_us"].of(0)
    assert {t for s, e in zip(start, end, strict=True) for t in range(s, e)} == set().union(*each)
    assert all(e < s for e, s in zip(end[:-1], start[1:], strict=True))  # united: nothing touches


def test_cover_counts_only_what_the_condition_keeps(folder: Path) -> None:
    idle = [{"start_us": 0, "dur_us": 5, "owner": "sync"}, {"start_us": 5, "dur_us": 5, "owner": "dispatch"}]
    find = '\n- from: kernels\n- cover:\n    lost_us: {from: [idle, gcs], where: owner == "dispatch"}\n'
    profile = profile_of(kernels=[{"start_us": 0, "dur_us": 20}], idle=idle, gcs=[{"start_us": 12, "dur_us": 2}])
    assert column(run(folder, find, profile), "lost_us") == [5.0]


OPS: list[Mapping[str, Any]] = [
    {"name": "step", "dur_us": 100},
    {"name": "Optimizer.step#SGD.step", "parent": 0, "dur_us": 50, "source": "t.py:9"},
    {"name": "aten::mul_", "parent": 1, "dur_us": 5},
    {"name": "aten::add_", "parent": 1, "dur_us": 5},
    {"name": "aten::conv2d", "parent": 0, "dur_us": 5},
]


def _tree() -> Profile:
    return profile_of(
        ops=OPS,
        enqueues=[{"op": 2}, {"op": 3}, {"op": 3}, {"op": 4}, {"op": -1}],
        kernels=[
            {"type": "Mul", "op": 2, "start_us": 12, "dur_us": 3},
            {"type": "Add", "op": 3, "start_us": 20, "dur_us": 4},
            {"type": "Conv2D", "op": 4, "start_us": 5, "dur_us": 7},
            {"type": "Lost", "op": -1, "start_us": 1, "dur_us": 9},
        ],
    )


def test_under_aggregates_everything_below_an_op(folder: Path) -> None:
    find = """
      - from: ops
      - where: glob(name, "Optimizer.step#*") or name == "step" or name == "aten::add_"
      - under:
          launches: count(enqueues)
          busy_us: sum(kernels.dur_us)
          names: nunique(enqueues.op.name)
          begin: min(kernels.start_ns)
          adds: count(kernels.type == "Add")
          inner: count(ops)
          union_us: busy(kernels)
          kind: heaviest(kernels.type, kernels.dur_us)
    """
    rows = run(folder, find, _tree())
    assert column(rows, "launches") == [4, 3, 2]
    assert column(rows, "busy_us") == column(rows, "union_us") == [14.0, 7.0, 4.0]
    assert column(rows, "names") == [3, 2, 1]
    assert column(rows, "begin") == [5000, 12000, 20000]
    assert column(rows, "adds") == [1, 1, 1]
    assert column(rows, "inner") == [5, 3, 1]  # the op itself counts
    assert column(rows, "kind") == ["Conv2D", "Add", "Add"]


def test_under_starts_from_the_op_of_other_rows(folder: Path) -> None:
    rows = run(folder, "\n- from: kernels\n- under: {n: count(ops)}\n", _tree())
    assert column(rows, "n") == [1, 1, 1, 0]


def test_climb_finds_the_nearest_ancestor(folder: Path) -> None:
    find = "\n- from: kernels\n- climb: {to: 'startswith(name, \"Optimizer\")', as: optimizer}\n"
    rows = run(folder, find, _tree())
    assert column(rows, "optimizer") == ["Optimizer.step#SGD.step", "Optimizer.step#SGD.step", None, None]
    assert column(rows, "optimizer.source") == ["t.py:9", "t.py:9", None, None]
    own = run(folder, "\n- from: ops\n- climb: {to: 'true', as: above}\n", _tree())
    assert column(own, "above") == [None, "step", "Optimizer.step#SGD.step", "Optimizer.step#SGD.step", "step"]


def test_stacked_tables_keep_their_members_apart(folder: Path) -> None:
    profile = profile_of(kernels=[{"dur_us": 1}, {"dur_us": 2}], tasks=[{"dur_us": 4}])
    rows = run(
        folder, "\n- from: [kernels, tasks]\n- where: dur_us > 1\n- group: {by: [], agg: {us: sum(dur_us)}}\n", profile
    )
    assert column(rows, "us") == [6.0]
    assert {name: ints(at) for name, at in rows.base_members(0).items()} == {"kernels": [1], "tasks": [0]}


def test_every_table_has_a_rank(folder: Path) -> None:
    assert (
        column(run(folder, "\n- from: kernels\n- where: rank == 0\n", profile_of(kernels=KERNELS)), "rank") == [0] * 4
    )


def test_keys_point_into_whole_tables_when_only_some_steps_are_looked_at(folder: Path) -> None:
    ops = [
        {"name": "other step", "parent": -1, "step": -1},
        {"name": "loop", "parent": -1, "step": -1},
        {"name": "call", "parent": 1, "step": 0},
    ]
    profile = profile_of(ops=ops, steps=STEPS[:1], kernels=[{"dur_us": 3, "op": 2, "step": 0}])
    profile.focused = True
    find = """
      - from: ops
      - climb: {to: name == "loop", as: loop}
      - under: {us: sum(kernels.dur_us)}
    """
    rows = run(folder, find, profile)
    assert (column(rows, "loop.name"), column(rows, "us")) == (["loop"], [3.0])
