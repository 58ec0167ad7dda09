"""The solver and the edits on random small graphs, against an oracle that tries every path."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_kit import weights

from npu_advisor.graph.replay import Edit, merge, solve
from npu_advisor.graph.replay.arrays import DROPPED, HOST, LONG_AGO, TASK, Into, Net
from npu_advisor.graph.replay.changes import Change
from npu_advisor.graph.replay.order import CycleError, topological
from npu_advisor.graph.replay.reweigh import Mix, Mixes, Reweighing
from npu_advisor.graph.replay.solve import Solver


def _ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@st.composite
def nets(draw: st.DrawFn) -> Net:
    """Up to nine nodes; edges lead from lower to higher numbers, host edges lie on lane 0."""
    size = draw(st.integers(2, 9))
    pairs = [(a, b) for a in range(size) for b in range(a + 1, size)]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=14, unique=True))
    w = draw(st.lists(st.integers(0, 50), min_size=len(chosen), max_size=len(chosen)))
    src, dst = _ints([a for a, _ in chosen]), _ints([b for _, b in chosen])
    roots = draw(st.lists(st.integers(0, 100), min_size=size, max_size=size))
    # Recorded times are the solution itself, so that replay of the unedited graph gives them back.
    rec = _ints(_oracle(roots, src.tolist(), dst.tolist(), w))
    host = draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
    lane = np.where(host, 0, -1)
    kind = np.where(host, HOST, TASK)
    return Net(rec, np.zeros(size, dtype=np.int64), src, dst, _ints(w), kind, lane)


def _oracle(first: list[int], src: list[int], dst: list[int], w: list[int]) -> list[int]:
    """The longest path into every node, by following every path back."""

    @cache
    def time(node: int) -> int:
        into = [(a, weight) for a, b, weight in zip(src, dst, w, strict=True) if b == node and weight > DROPPED // 2]
        return max((time(a) + weight for a, weight in into), default=first[node])

    return [time(node) for node in range(len(first))]


@st.composite
def edits(draw: st.DrawFn, net: Net) -> Edit:
    """What fixes are made of, shortening only: host time that goes, limits, dropped waits."""
    count = len(net.src)
    edge = st.integers(0, count - 1)
    spans = draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=3))
    limits = draw(st.lists(st.tuples(edge, st.integers(0, 50)), max_size=4))
    into = np.bincount(net.dst, minlength=len(net.rec))
    spare = [number for number in range(count) if into[net.dst[number]] > 1]
    drops = draw(st.lists(st.sampled_from(spare), max_size=1)) if spare else []
    return Edit(
        cut=(
            _ints([0] * len(spans)),
            _ints([low for low, _ in spans]),
            _ints([low + length for low, length in spans]),
        ),
        drop=_ints(drops),
        limit=(_ints([number for number, _ in limits]), _ints([value for _, value in limits])),
    )


def _times(net: Net, w: np.ndarray) -> np.ndarray:
    return Solver(net.rec, net.src, net.dst).solve(w)


@given(nets())
def test_times_are_the_longest_paths(net: Net) -> None:
    assert _times(net, net.w).tolist() == _oracle(net.rec.tolist(), net.src.tolist(), net.dst.tolist(), net.w.tolist())


@given(nets())
def test_removing_nothing_changes_nothing(net: Net) -> None:
    assert np.array_equal(weights(net, net.w, Edit()), net.w)
    assert np.array_equal(_times(net, weights(net, net.w, merge([]))), net.rec)


@given(st.data())
def test_an_edit_agrees_with_the_oracle_and_never_lengthens(data: st.DataObject) -> None:
    net = data.draw(nets())
    one, two = data.draw(edits(net)), data.draw(edits(net))
    w = weights(net, net.w, one)
    times = _times(net, w)
    assert times.tolist() == _oracle(net.rec.tolist(), net.src.tolist(), net.dst.tolist(), w.tolist())
    both = weights(net, net.w, merge([one, two]))
    assert (both <= w).all()
    assert (w <= net.w).all()
    kept = np.array(
        [(both[net.dst == node] > DROPPED // 2).any() or not (net.dst == node).any() for node in range(len(net.rec))]
    )
    if kept.all():
        assert (_times(net, both) <= times).all()
        assert (times <= net.rec).all()
        assert net.rec.max() - _times(net, both).max() <= net.rec.max()


@given(st.data())
def test_only_edges_that_an_edit_touches_change_and_a_few_are_weighed_like_all(data: st.DataObject) -> None:
    net = data.draw(nets())
    parts = data.draw(st.lists(edits(net), max_size=3))
    made = Reweighing(net, net.w)
    touched, w = made.touched(parts), made.of(parts, np.arange(len(net.w)))
    assert np.array_equal(np.delete(w, touched), np.delete(net.w, touched))
    some = _ints(sorted(data.draw(st.sets(st.integers(0, len(net.w) - 1)))))
    assert np.array_equal(made.of(parts, some), w[some])


@given(st.data())
def test_a_set_differs_from_another_one_in_what_the_weights_of_both_do(data: st.DataObject) -> None:
    net = data.draw(nets())
    parts = data.draw(st.lists(edits(net), max_size=4))
    mine, other = ([part for part in parts if data.draw(st.booleans())] for _ in range(2))
    home = _ints(data.draw(st.lists(st.integers(0, 2), min_size=len(net.w), max_size=len(net.w)))).astype(np.uint16)
    mixes = Mixes(Reweighing(net, net.w), parts, home)
    found = mixes.change(Mix(map(id, mine)), Mix(map(id, other)))
    after, before = weights(net, net.w, *mine), weights(net, net.w, *other)
    edges = [edge for part, _ in found for edge in part.tolist()]
    assert sorted(edges) == np.flatnonzero(after != before).tolist()
    assert mixes.size(Mix(map(id, mine)), Mix(map(id, other))) == len(edges)
    assert all(np.array_equal(w, after[edge]) and (np.diff(home[edge]) >= 0).all() for edge, w in found)


@given(st.data())
def test_edits_commute(data: st.DataObject) -> None:
    net = data.draw(nets())
    parts = data.draw(st.lists(edits(net), max_size=4))
    order = data.draw(st.permutations(parts))
    assert np.array_equal(weights(net, net.w, merge(parts)), weights(net, net.w, merge(order)))


def test_removal_beats_any_duration_and_the_smallest_duration_counts() -> None:
    net = Net(*(_ints(column) for column in ([0, 9], [0, 0], [0], [1], [9], [TASK], [-1])))
    longer, shorter = (Edit(assign=(_ints([0]), _ints([ns]))) for ns in (20, 15))
    assert weights(net, net.w, longer)[0] == 20
    assert weights(net, net.w, merge([longer, shorter]))[0] == 15
    gone = Edit(limit=(_ints([0]), _ints([0])))
    assert weights(net, net.w, merge([longer, gone]))[0] == weights(net, net.w, merge([gone, longer]))[0] == 0


def test_a_hidden_task_saves_nothing() -> None:
    """Node 3 waits for the longer of two ways; what is hidden beside it may vanish."""
    src, dst, w = _ints([0, 0, 1, 2]), _ints([1, 2, 3, 3]), _ints([10, 40, 5, 5])
    net = Net(_ints([0, 10, 40, 45]), _ints([0] * 4), src, dst, w, _ints([TASK] * 4), _ints([-1] * 4))
    assert _times(net, weights(net, w, Edit(limit=(_ints([0]), _ints([0]))))).max() == 45


def test_a_cycle_is_refused() -> None:
    with pytest.raises(CycleError):
        Solver(_ints([0, 0]), _ints([0, 1]), _ints([1, 0]))


def _plain(rec: np.ndarray, src: np.ndarray, dst: np.ndarray, w: np.ndarray) -> list[int]:
    """Every node's time by one plain pass over nodes whose causes have lower numbers."""
    times: list[int] = rec.tolist()
    for node in range(len(times)):
        into = np.flatnonzero((dst == node) & (w > DROPPED // 2)).tolist()
        times[node] = max((times[src[edge]] + int(w[edge]) for edge in into), default=times[node])
    return times


def _lanes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Four lanes that wait for each other, at times of a day: recorded times, edges, how gladly each is chained."""
    src = np.concatenate((np.arange(396), rng.integers(0, 380, 504)))
    dst = np.concatenate((np.arange(4, 400), src[396:] + 1 + rng.integers(0, 20, 504)))
    return np.sort(rng.integers(0, 86_400 * 10**9, 400)), src, dst, np.repeat((0, 1), (396, 504))


def _some(rng: np.random.Generator, edges: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """A share of the edges with other weights, a few of them dropped or long ago."""
    chosen = np.flatnonzero(rng.random(edges) < share)
    w = rng.integers(-5, 10**10, len(chosen))
    w[rng.random(len(chosen)) < 0.2] = DROPPED
    w[rng.random(len(chosen)) < 0.05] = LONG_AGO
    return chosen, w


@pytest.mark.parametrize("nodes", [1, 7, 64, 1000])
def test_changes_of_weights_agree_with_a_plain_pass_over_the_nodes(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of any size, three sets at a time, on top of each other or not."""
    monkeypatch.setattr(solve, "NODES", nodes)
    monkeypatch.setattr(solve, "SETS", 3)
    rng = np.random.default_rng(5)
    rec, src, dst, rank = _lanes(rng)
    w = np.where(rng.random(900) < 0.1, DROPPED, rng.integers(-5, 10**10, 900))
    made, changes, whole = Solver(rec, src, dst, rank), [], []
    for on, share in ((-1, 0.0), (-1, 0.3), (1, 0.1), (-1, 1.0), (1, 0.0), (3, 0.05), (0, 0.01)):
        edge, value = _some(rng, 900, share)
        cut = int(rng.integers(len(edge) + 1))
        changes.append(Change([(edge[:cut], value[:cut]), (edge[cut:], value[cut:])], on))
        whole.append((w if on < 0 else whole[on]).copy())
        whole[-1][edge] = value
    assert made.solve(w).tolist() == _plain(rec, src, dst, w)
    assert made.ends(w, changes) == [max(0, *_plain(rec, src, dst, one)) for one in whole]
    bound = [np.where(one == LONG_AGO, DROPPED, one) for one in whole]
    assert [made.solve(one).tolist() for one in bound] == [_plain(rec, src, dst, one) for one in bound]


@pytest.mark.parametrize("back", [False, True])
def test_a_solver_is_extended(back: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By edges that agree with its order, or that ask for another one; they replace each other, and may be dropped."""
    monkeypatch.setattr(solve, "NODES", 50)
    rng = np.random.default_rng(6)
    rec, src, dst, rank = _lanes(rng)
    w = rng.integers(0, 10**10, 900)
    made = Solver(rec, src, dst, rank)
    before = made.solve(w).tolist()
    more = _ints([10, 200, 30]), _ints([390, 399, 31])
    if back:
        # Recorded in another order than the one in which they now happen.
        rec = rec.copy()
        rec[[30, 31]] = rec[[31, 30]]
        made = Solver(rec, src[src != 30], dst[src != 30], rank[src != 30])
        src, dst, w = src[src != 30], dst[src != 30], w[src != 30]
        before = made.solve(w).tolist()
    made.extend(_ints([5]), _ints([300]), 1)
    made.extend(*more, 1)
    longer = np.append(w, _ints([5, DROPPED, 10**12]))
    assert made.solve(longer).tolist() == _plain(rec, np.append(src, more[0]), np.append(dst, more[1]), longer)
    assert made.ends(w, [Change([(_ints([len(w) + 2]), _ints([10**12]))])]) == [
        max(_plain(rec, np.append(src, more[0][2]), np.append(dst, more[1][2]), np.append(w, 10**12)))
    ]
    with pytest.raises(CycleError):
        made.extend(_ints([390, 10]), _ints([10, 390]), 1)
    assert made.solve(longer).tolist() == _plain(rec, np.append(src, more[0]), np.append(dst, more[1]), longer)
    assert made.solve(w).tolist() == before


def test_edges_that_lead_back_in_time_are_ordered_by_cause() -> None:
    src, dst = _ints([3, 2, 0, 1]), _ints([2, 1, 4, 4])
    assert topological(_ints([0, 5, 6, 7, 9]), src, dst).tolist() == [0, 3, 2, 1, 4]
    assert Solver(_ints([0, 5, 6, 7, 9]), src, dst).solve(_ints([1, 1, 1, 1])).tolist() == [0, 9, 8, 7, 10]


def test_an_edge_of_long_ago_never_binds_and_is_still_an_edge() -> None:
    """Node 1 has only such an edge, as often as a fix may make one: what lies behind it follows its other edge."""
    count = 3000
    src, dst = np.zeros(count + 2, dtype=np.int64), np.append(np.arange(1, count + 1), [count + 1, count + 1])
    src[-2:] = [1, count + 2]
    rec = np.full(count + 3, 86_400 * 10**9)
    w = np.append(np.full(count, LONG_AGO), [7, 5])
    times = Solver(rec, src, dst).solve(w)
    assert times[count + 1] == 86_400 * 10**9 + 5
    assert (times[1 : count + 1] < 0).all()


def test_edges_along_lanes() -> None:
    into = Into()
    into.put(_ints([4, 5, 6]), _ints([-1, 8, 9]))
    into.put(_ints([1, 2]), _ints([-1, 3]))
    assert into.of(_ints([6, 2, 4, 3, -1, 99])).tolist() == [9, 3, -1, -1, -1, -1]
    assert [node for node in range(9) if into.begins(node)] == [1, 4]
    assert into.of(_ints([0, 3, 7])).tolist() == [-1, -1, -1]
