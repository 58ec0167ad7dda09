"""Communication that nothing hides, whom it waits for, and what a rank knows of the others of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from graph.build import MAIN, QUEUE, STREAM, TRACKS, profile

from npu_advisor.derive import derive, introduce
from npu_advisor.derive.world import group_hash
from npu_advisor.model.profile import Profile

Times = Sequence[tuple[int, int]]


def _rank(rank: int, kernels: Times, comms: Times, waits: Sequence[tuple[int, int, int]] = ()) -> Profile:
    """A rank from (start, duration) of kernels and collectives in us, and (peer, start, duration) of its waits."""
    lane = {"track": STREAM, "step_id": 1}
    tables = {
        "ops": [{"name": "ProfilerStep#1", "track": MAIN, "at": 0, "us": 2000}],
        "kernels": [{"name": "MatMul", "type": "MatMul", "at": at, "us": us, **lane} for at, us in kernels],
        "comms": [
            {
                "name": f"hcom_allReduce__586_{i}_1",
                "type": "allReduce",
                "track": QUEUE,
                "at": at,
                "us": us,
                "step_id": 1,
            }
            for i, (at, us) in enumerate(comms)
        ],
        "comm_tasks": [
            {"name": "Notify_Wait", "track": QUEUE, "at": at, "us": us, "src_rank": rank, "dst_rank": peer}
            for peer, at, us in waits
        ],
    }
    made = profile(rank, tracks=TRACKS, **{name: rows for name, rows in tables.items() if rows})
    return derive(made)


def _pieces(profile: Profile) -> list[tuple[int, float, int]]:
    table = profile.table("exposed")
    columns = (table["start_ns"] // 1000, table["dur_us"], table["peer"])
    return [(int(at), float(us), int(peer)) for at, us, peer in zip(*columns, strict=True)]


def test_only_what_no_kernel_hides_is_exposed() -> None:
    assert _pieces(_rank(0, [(0, 100), (150, 20)], [(50, 200)])) == [(100, 50.0, -1), (170, 80.0, -1)]


def test_the_latest_rank_is_charged_from_when_it_alone_was_missing() -> None:
    profile = _rank(0, [(0, 100)], [(100, 200)], waits=[(1, 110, 10), (5, 110, 120), (7, 110, 40)])
    assert _pieces(profile) == [(100, 10.0, -1), (110, 40.0, -1), (150, 80.0, 5), (230, 70.0, -1)]
    # While several ranks are missing nobody is to blame, but it is a wait all the same.
    assert profile.table("exposed")["late"].tolist() == [False, True, True, False]


@pytest.mark.parametrize("own", [-1, -9])
def test_a_wait_that_lost_its_own_rank_is_for_the_peer_it_names(own: int) -> None:
    """The communicator is listed, but not where in it this rank is."""
    profile = _rank(own, [(0, 100)], [(100, 200)], waits=[(1, 110, 120)])
    name = "10.0.0.1%eth0_60000_0"
    profile.put(profile.table("comms").with_columns(group=[group_hash(name)]))
    profile.info = replace(profile.info, metadata={"parallel_group_info": {name: {"global_ranks": [own, 6]}}})
    assert _pieces(profile)[1] == (110, 120.0, 1)


def test_a_wait_under_a_kernel_costs_nothing() -> None:
    profile = _rank(0, [(0, 100), (100, 130)], [(100, 200)], waits=[(1, 110, 10), (5, 110, 120)])
    assert [peer for _, _, peer in _pieces(profile)] == [-1]


def _run(*ranks: Profile) -> list[Profile]:
    introduce(list(ranks))
    return list(ranks)


def test_of_the_ranks_that_were_read_the_one_that_computes_longest_is_waited_for() -> None:
    run = _run(
        _rank(0, [(0, 900)], [(900, 50)]),
        _rank(1, [(0, 500)], [(500, 450)]),
        _rank(2, [(0, 510)], [(510, 440)]),
    )
    assert _pieces(run[0]) == [(900, 50.0, -1)]
    assert _pieces(run[1]) == [(500, 10.0, -1), (510, 390.0, 0), (900, 50.0, -1)]
    facts = run[0].table("profile")
    assert (facts["kernel_us"][0], facts["others_kernel_us"][0], facts["others_wait_us"][0]) == (900, 505, 390)
    assert run[1].table("profile")["others_wait_us"][0] == 0


def test_a_short_collective_alone_convicts_nobody() -> None:
    """Another rank that nobody recorded may be the late one."""
    run = _run(_rank(0, [(0, 500)], [(520, 50)]), _rank(1, [(0, 500)], [(500, 450)]))
    assert {peer for _, _, peer in _pieces(run[1])} == {-1}


def test_what_the_slow_rank_hides_the_others_would_hide_too() -> None:
    """Its transfers run under its longer computation: on the fast rank they are exposed only because of it."""
    run = _run(_rank(0, [(0, 900)], [(700, 200)]), _rank(1, [(0, 500)], [(500, 400)]))
    assert _pieces(run[1]) == [(500, 400.0, 0)]


@pytest.mark.parametrize("ranks", [(0,), (0, 0), (-1,), (-1, 2)])
def test_one_rank_or_several_runs_are_not_compared(ranks: tuple[int, ...]) -> None:
    run = _run(*(_rank(rank, [(0, 500)], [(500, 100)]) for rank in ranks))
    for one in run:
        assert one.peers == []
        missing = one.missing("profile", "others_kernel_us")
        assert missing is not None
        assert "one rank" in missing.reason.en


def test_without_collectives_nothing_is_exposed_and_that_is_known() -> None:
    profile = _rank(0, [(0, 500)], [])
    assert len(profile.table("exposed")) == 0
    assert profile.missing("exposed", "peer") is None


def test_without_sub_tasks_nobody_knows_for_whom() -> None:
    profile = _rank(0, [(0, 500)], [(500, 100)])
    assert profile.missing("exposed") is None
    missing = profile.missing("exposed", "peer")
    assert missing is not None
    assert "Level1" in missing.enable


def test_how_much_of_a_type_kernels_hide_is_told_at_each_of_its_pieces() -> None:
    """200 us of all-reduce in all, 50 us of them under kernels."""
    profile = _rank(0, [(0, 100), (400, 50)], [(50, 100), (500, 100)])
    assert profile.table("exposed")["hidden_share"].tolist() == [0.25, 0.25]
