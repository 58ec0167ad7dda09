"""Pairing of flow ends: reuse in time, several ends, clocks that run early, halves."""

import numpy as np
from graph.build import arrow

from npu_advisor.graph.flows import pair
from npu_advisor.model.table import Table


def points(*ends):
    rows = [row for group in ends for row in (group if isinstance(group, list) else [group])]
    return Table.build(
        "flow_points",
        {
            "category": [row["category"] for row in rows],
            "id": [row["id"] for row in rows],
            "finish": [row["finish"] for row in rows],
            "track": [row["track"] for row in rows],
            "start_ns": [int(row["at"] * 1000) for row in rows],
        },
    )


def pairs(flows):
    return sorted(zip((flows.from_ns // 1000).tolist(), (flows.to_ns // 1000).tolist(), strict=True))


def test_an_id_used_again_pairs_in_time_order():
    flows = pair(points(arrow("a", 7, (0, 10), (3, 45)), arrow("a", 7, (0, 60), (3, 200))), "a")
    assert pairs(flows) == [(10, 45), (60, 200)]
    assert flows.unmatched == 0


def test_one_start_may_have_several_ends():
    ends = [*arrow("a", 7, (0, 10), (3, 45)), arrow("a", 7, (0, 0), (3, 50))[1]]
    assert pairs(pair(points(ends), "a")) == [(10, 45), (10, 50)]


def test_an_end_before_its_start_still_pairs():
    assert pairs(pair(points(arrow("a", 7, (0, 10), (3, 8))), "a")) == [(10, 8)]


def test_halves_are_counted_and_categories_kept_apart():
    lonely_start, lonely_end = arrow("a", 1, (0, 1), (3, 2))[0], arrow("a", 2, (0, 1), (3, 2))[1]
    flows = pair(points(arrow("a", 3, (0, 5), (3, 6)), lonely_start, lonely_end, arrow("b", 1, (0, 1), (3, 9))), "a")
    assert pairs(flows) == [(5, 6)]
    assert flows.unmatched == 2


def test_lookup_is_exact():
    flows = pair(points(arrow("a", 3, (0, 5), (3, 6))), "a")
    assert flows.into(np.array([3, 3, 2]), np.array([6000, 6001, 6000])).tolist() == [0, -1, -1]
