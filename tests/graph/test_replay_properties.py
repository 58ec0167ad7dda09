"""What must hold of any run: small random profiles, edits as fixes make them, an oracle that relaxes edge by edge."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_kit import BACKWARD, MAIN, SECOND, STREAM, Run, times, weights

from npu_advisor.graph.replay import Edit, Replayer, merge
from npu_advisor.graph.replay.arrays import DROPPED, TASK

FEW = settings(max_examples=40)
LONG_AGO = -(2**62)


@st.composite
def replayers(draw: st.DrawFn) -> Replayer:
    """A run of up to ten things: queued ops on two streams and two threads, ops that launch by themselves, syncs."""
    run = Run()
    length = st.integers(1, 400)
    for number in range(draw(st.integers(2, 10))):
        what = draw(st.sampled_from(["queued", "queued", "queued", "copy", "direct", "sync", "backward"]))
        if what == "sync":
            run.sync(python=draw(length), drained=run.queue_free + 2)
        elif what == "direct":
            run.now[MAIN] = max(run.now[MAIN], run.queue_free)
            run.direct(f"K{number}", draw(length), python=draw(length))
        elif what == "backward":
            run.now[BACKWARD] = run.now[MAIN] + 40
            run.op(f"K{number}", draw(length), python=draw(length), thread=BACKWARD)
            run.now[MAIN] = run.now[BACKWARD] + 30
        else:
            lane, kind = (SECOND, "tasks") if what == "copy" else (STREAM, "kernels")
            run.op(f"K{number}", draw(length), python=draw(length), lane=lane, kind=kind, dequeue=draw(length) + 8)
    return run.replayer()


@st.composite
def cures(draw: st.DrawFn, made: Replayer) -> Edit:
    """One edit that only removes or shortens."""
    at = made.fixer(0).context
    tables = {name: len(made.profiles[0].table(name)) for name in ("kernels", "ops", "dequeues")}
    kinds = ["cut", *(name for name, rows in tables.items() if rows)]
    kind = draw(st.sampled_from(kinds))
    if kind == "cut":
        low = made.graph.origin + draw(st.integers(0, made.end))
        return at.edit.cut(MAIN, np.array([low]), np.array([low + draw(st.integers(0, 500_000))]))
    some = st.lists(st.integers(0, tables[kind] - 1), min_size=1, max_size=4, unique=True)
    rows = np.array(sorted(draw(some)), dtype=np.int64)
    if kind == "kernels":
        tasks = at.tasks.of("kernels", rows)
        return draw(st.sampled_from([at.edit.remove_tasks(tasks), at.edit.run(tasks, np.full(len(tasks), 5_000))]))
    if kind == "ops":
        return draw(st.sampled_from([at.edit.remove_ops(rows), at.edit.no_wait(MAIN, *_spans(made, rows))]))
    return at.edit.remove_dequeues(rows)


def _spans(made: Replayer, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ops = made.profiles[0].table("ops")
    return ops["start_ns"][rows], ops["end_ns"][rows]


def oracle(rec: np.ndarray, src: np.ndarray, dst: np.ndarray, w: np.ndarray) -> list[int]:
    """The least times that satisfy every edge: relax one edge after the other until nothing moves."""
    live = [edge for edge in zip(src.tolist(), dst.tolist(), w.tolist(), strict=True) if edge[2] > DROPPED // 2]
    held = {end for _, end, _ in live}
    times = [LONG_AGO if node in held else at for node, at in enumerate(rec.tolist())]
    moved = True
    while moved:
        moved = False
        for start, end, weight in live:
            if times[start] > LONG_AGO and times[start] + weight > times[end]:
                times[end], moved = times[start] + weight, True
    return times


@FEW
@given(st.data())
def test_the_solver_agrees_with_the_oracle(data: st.DataObject) -> None:
    made = data.draw(replayers())
    net, rec = made.graph.net, made.calibrated.rec
    edit = merge(data.draw(st.lists(cures(made), max_size=3)))
    for w in (net.w, made.calibrated.w, weights(net, made.calibrated.w, edit)):
        assert made.solver.solve(w, rec).tolist() == oracle(rec, net.src, net.dst, w)


@FEW
@given(replayers())
def test_removing_nothing_changes_nothing(made: Replayer) -> None:
    assert np.array_equal(times(made), made.calibrated.rec)
    assert made.price([]) == made.price(Edit()) == 0


@FEW
@given(st.data())
def test_removing_more_never_lengthens_and_never_saves_more_than_there_is(data: st.DataObject) -> None:
    made = data.draw(replayers())
    parts = data.draw(st.lists(cures(made), min_size=1, max_size=4))
    saved = [made.price(parts[:count]) for count in range(len(parts) + 1)]
    assert saved[0] == 0
    assert saved == sorted(saved)
    assert saved[-1] <= made.end


@FEW
@given(st.data())
def test_edits_commute(data: st.DataObject) -> None:
    made = data.draw(replayers())
    parts = data.draw(st.lists(cures(made), min_size=2, max_size=3))
    changed = [weights(made.graph.net, made.calibrated.w, merge(order)) for order in permutations(parts)]
    assert all(np.array_equal(w, changed[0]) for w in changed)
    assert len({made.price(list(order)) for order in [*permutations(parts), (*parts, *parts)]}) == 1


@FEW
@given(replayers())
def test_a_hidden_kernel_saves_nothing(made: Replayer) -> None:
    """Hidden: every way from it to the end has slack, by the longest ways followed backwards."""
    net, w, at = made.graph.net, made.calibrated.w, times(made)
    ends = np.flatnonzero(at == at.max())
    left = _longest_to(ends, len(at), net.src, net.dst, w)
    for edge in np.flatnonzero(net.kind == TASK).tolist():
        slack = at.max() - (at[net.src[edge]] + w[edge] + left[net.dst[edge]])
        gone = made.price(Edit(limit=(np.array([edge]), np.array([0]))))
        if slack > 0:
            assert gone == 0
        assert 0 <= gone <= w[edge]


def _longest_to(ends: np.ndarray, size: int, src: np.ndarray, dst: np.ndarray, w: np.ndarray) -> list[int]:
    """The longest way from each node to one of ``ends``, long ago where there is none."""
    left = [LONG_AGO] * size
    for end in ends.tolist():
        left[end] = 0
    live = [edge for edge in zip(src.tolist(), dst.tolist(), w.tolist(), strict=True) if edge[2] > DROPPED // 2]
    moved = True
    while moved:
        moved = False
        for start, end, weight in live:
            if left[end] > LONG_AGO and left[end] + weight > left[start]:
                left[start], moved = left[end] + weight, True
    return left
