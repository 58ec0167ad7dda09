"""Iterations of an inference loop: from ranges, from replays, from kernels that come back; and what they hold."""

from __future__ import annotations

from typing import Any

import pytest

from npu_advisor.api import finish
from npu_advisor.derive.iterations import per_step
from npu_advisor.derive.work import work_of
from npu_advisor.engine.testing import given_profile
from npu_advisor.model.profile import Profile

Rows = list[dict[str, Any]]


def profile_of(**given: Rows) -> Profile:
    return given_profile(given, finish)


def replay(at: int, launch: int, *, model: int = 7, rows: int = 8, layers: int = 2, api: int = 0) -> Rows:
    """Kernels of one replay: per layer a matrix product and attention, 20 us each, back to back."""
    kinds = ["MatMulV2", "FusedInferAttentionScore"] * layers + ["ArgMaxV2"]
    return [
        {
            "name": f"{kind}_{index}",
            "type": kind,
            "start_us": at + 20 * index,
            "dur_us": 20,
            "model": model,
            "api": api,
            "launch_ns": launch * 1000,
            "input_shapes": f"{rows},64;64,64",
        }
        for index, kind in enumerate(kinds)
    ]


def eager(at: int, launch: int, *, rows: int = 12, step: int = 50) -> Rows:
    """The same kernels launched one by one."""
    made = replay(at, launch, rows=rows)
    for index, row in enumerate(made):
        row |= {"model": -1, "api": -1, "start_us": at + step * index, "launch_ns": (launch + index) * 1000}
    return made


def columns(profile: Profile, *names: str) -> list[tuple[Any, ...]]:
    table = profile.iterations
    return list(zip(*(table[name] for name in names), strict=True))


LAUNCHES = [{"name": "aclmdlRIExecuteAsync", "level": "acl", "start_us": at, "dur_us": 5} for at in (0, 400, 800)]


def test_each_replay_is_an_iteration_and_owns_the_gap_before_it() -> None:
    kernels = [row for number, at in enumerate((50, 450, 850)) for row in replay(at, at - 50, api=number)]
    profile = profile_of(apis=LAUNCHES, kernels=kernels)
    assert columns(profile, "how", "kind", "phase", "tokens", "replays") == [("graphs", "graph", "decode", 8, 1)] * 3
    table = profile.iterations
    assert table["span_us"].tolist() == [100, 100, 100]
    assert table["gap_us"].tolist()[1:] == [300, 300]
    assert table["gap_us"].isna().tolist() == [True, False, False]
    assert table["dur_us"].tolist() == [100, 400, 400]
    assert profile.profile["iterations"].tolist() == [3]
    assert per_step(profile) == 3


def test_an_eager_pass_has_the_replay_of_the_next_larger_size_as_its_twin() -> None:
    kernels = [*replay(50, 0, api=0), *replay(250, 200, api=1), *eager(600, 550), *eager(900, 850)]
    profile = profile_of(apis=LAUNCHES[:2], kernels=kernels)
    found = columns(profile, "kind", "tokens", "twin_tokens", "twin_us")
    assert [row[:3] for row in found] == [("graph", 8, -1)] * 2 + [("eager", 12, 8)] * 2
    # The usual replay: its gap of 100 us and its 100 us of kernels; the first one's gap is not known.
    assert [row[3] for row in found[2:]] == [200, 200]


def test_a_long_eager_pass_reads_a_prompt_and_has_no_twin() -> None:
    kernels = [*replay(50, 0, api=0), *replay(250, 200, api=1), *eager(600, 550, rows=2048)]
    assert columns(profile_of(apis=LAUNCHES[:2], kernels=kernels), "phase", "twin_tokens")[-1] == ("prefill", -1)


@pytest.mark.parametrize(("sequences", "phase"), [(12, "decode"), (4, "decode"), (5, "prefill"), (1, "prefill")])
def test_query_rows_that_are_no_multiple_of_the_sequences_are_mixed(sequences: int, phase: str) -> None:
    """12 rows of 4 sequences are three drafted tokens each; of 5 or of 1 they hold a prompt."""
    kernels = [*replay(50, 0, api=0), *eager(600, 550)]
    for row in kernels:
        if row["type"].startswith("Fused"):
            blocks = sequences if row["model"] < 0 else 8
            row |= {"input_shapes": f"{row['input_shapes']};{blocks},32", "input_dtypes": "DT_BF16;DT_BF16;INT32"}
    assert columns(profile_of(apis=LAUNCHES[:1], kernels=kernels), "phase")[-1] == (phase,)


def test_pieces_of_one_model_are_one_iteration() -> None:
    """Three graphs replayed in turn, twice; the graph that comes back opens the next pass."""
    apis = [{"name": "aclmdlRIExecuteAsync", "start_us": 100 * n, "dur_us": 5} for n in range(6)]
    kernels = [row for n in range(6) for row in replay(100 * n + 50, 100 * n, model=n % 3, layers=0, api=n)]
    assert columns(profile_of(apis=apis, kernels=[*kernels, attention(900)]), "replays", "kernels") == [(3, 3), (3, 4)]


def attention(at: int) -> dict[str, Any]:
    return {"name": "attention", "type": "PagedAttention", "start_us": at, "dur_us": 5, "stream": 9}


def test_two_batch_sizes_in_turn_are_two_iterations_each() -> None:
    apis = [{"name": "aclmdlRIExecuteAsync", "start_us": 200 * n, "dur_us": 5} for n in range(4)]
    kernels = [row for n in range(4) for row in replay(200 * n + 50, 200 * n, model=n % 2, rows=8 + 8 * (n % 2), api=n)]
    assert columns(profile_of(apis=apis, kernels=kernels), "tokens") == [(8,), (16,), (8,), (16,)]


def test_the_ranges_of_a_framework_come_before_replays() -> None:
    """What is launched before the first range belongs to no iteration; sampling belongs to the range around it."""
    ops = [{"name": "prepare input", "start_us": at, "dur_us": 40} for at in (380, 780)]
    late = {"name": "x", "type": "Add", "start_us": 560, "dur_us": 10, "launch_ns": 470_000}
    kernels = [*replay(50, 0, api=0), *replay(450, 400, api=1), late, *replay(850, 800, api=2)]
    profile = profile_of(apis=LAUNCHES, ops=ops, kernels=kernels)
    assert columns(profile, "how", "kernels", "eager_us") == [("scopes", 6, 10), ("scopes", 5, 0)]


def test_without_graphs_a_kernel_that_comes_back_at_regular_distances_tells() -> None:
    kernels = [row for n in range(4) for row in eager(400 * n, 400 * n)]
    profile = profile_of(kernels=kernels)
    assert columns(profile, "how", "kind")[0] == ("repeats", "eager")
    assert len(profile.iterations) == 4


def test_replays_whose_launches_were_not_recorded_are_told_by_their_names() -> None:
    kernels = [row for n in range(3) for row in replay(300 * n, 0, api=-1)]
    assert columns(profile_of(kernels=kernels), "kernels", "replays") == [(5, 1)] * 3


def test_capturing_is_a_phase_of_its_own() -> None:
    apis = [*LAUNCHES[:2], {"name": "aclmdlRICaptureBegin", "start_us": 300, "dur_us": 5}]
    kernels = [*replay(50, 0, api=0), *replay(450, 400, api=1)]
    assert columns(profile_of(apis=apis, kernels=kernels), "phase") == [("decode",), ("capture",)]


def test_what_trains_has_no_iterations() -> None:
    kernels = [*replay(50, 0, api=0), {"name": "g", "type": "ReluGrad", "start_us": 300, "dur_us": 5}]
    profile = profile_of(apis=LAUNCHES[:1], kernels=kernels)
    assert work_of(profile) == "training"
    assert profile.iterations.empty
    assert per_step(profile) == 1


def test_what_another_thread_finds_meanwhile_is_found() -> None:
    class _Meanwhile(dict[str, Any]):
        def __contains__(self, key: object) -> bool:
            self.setdefault(str(key), "training")
            return super().__contains__(key)

    profile = profile_of(kernels=[{"name": "a", "type": "Add", "dur_us": 5}])
    profile.cache = _Meanwhile()
    assert work_of(profile) == "training"


def test_what_shows_neither_is_neither() -> None:
    profile = profile_of(kernels=[{"name": "a", "type": "Add", "dur_us": 5}])
    assert work_of(profile) is None
    assert "work" not in profile.profile


def test_a_gap_is_the_hosts_where_dispatch_owns_it_and_no_update_runs() -> None:
    ops = [{"name": "prepare input", "start_us": at, "dur_us": 40} for at in (0, 380)]
    apis = [
        *LAUNCHES[:2],
        {"name": "aclmdlRICaptureTaskUpdateBegin", "start_us": 350, "dur_us": 5},
    ]
    kernels = [*replay(50, 0, api=0), *replay(450, 400, api=1)]
    gaps = profile_of(apis=apis, ops=ops, kernels=kernels).iteration_gaps
    # 300 us of idle time from 150 to 450, of which the update takes 350 to 400.
    assert gaps[["dur_us", "host_us", "iteration"]].to_numpy().tolist() == [[300, 250, 1]]
