"""Recorded profiles of NPUs and GPUs against each other."""

from __future__ import annotations

from functools import lru_cache

import pytest
from places import PROFILES, needs_profiles

from npu_advisor.api import compare
from npu_advisor.base.messages import say
from npu_advisor.comparison import Comparison
from npu_advisor.report.comparison import verdict

pytestmark = needs_profiles


@lru_cache(maxsize=8)
def _compared(base: str, new: str) -> Comparison:
    # Findings are not what these tests look at: one rule is quicker than all.
    return compare(PROFILES / base, PROFILES / new, select=["layout-transdata"])


FORWARD = {"aten::conv2d": 5, "aten::max_pool2d": 3, "aten::adaptive_avg_pool2d": 1, "aten::linear": 3}


def test_gpu_and_npu_forward_ops_are_matched_pairwise() -> None:
    found = _compared("gpu-alexnet-a100", "npu-alexnet-text-l1")
    assert (found.base_device, found.new_device) == ("gpu", "npu")
    for name, calls in FORWARD.items():
        mine = [each for each in found.main.ops if each.name == name and each.new_shapes is not None]
        assert sum(each.calls.new or 0.0 for each in mine) == calls
        assert {each.status for each in mine} == {"matched"}
        assert [each.calls.base for each in mine] == [each.calls.new for each in mine]
        assert all(each.kernels.base and each.kernels.new and each.host_us.base and each.host_us.new for each in mine)


def test_conversions_of_the_npu_are_listed_with_their_lines() -> None:
    only = {
        (each.side, each.type): each for each in _compared("gpu-alexnet-a100", "npu-alexnet-text-l1").main.one_sided
    }
    trans = only["new", "TransData"]
    assert trans.kernels == 57 and trans.us == pytest.approx(1423.2, abs=0.1)
    assert [place.line for place in trans.locations] == [354]
    assert "Conv2D" in trans.ops
    assert only["new", "Cast"].kernels == 4
    assert ("base", "nchwToNhwcKernel") in only


def test_classes_have_launches_and_time_on_both_sides() -> None:
    classes = {each.name: each for each in _compared("gpu-alexnet-a100", "npu-alexnet-text-l1").main.classes}
    assert (classes["conversion"].kernels.base, classes["conversion"].kernels.new) == (12, 66)
    assert classes["communication"].kernels.new == 4
    assert "other" not in classes


@pytest.mark.parametrize("pair", [("gpu-bert-small-h100", "gpu-vit-h100"), ("gpu-vit-h100", "gpu-qwen1.5-0.5b-h100")])
def test_gpu_against_gpu(pair: tuple[str, str]) -> None:
    main = _compared(*pair).main
    assert main.matched_calls > 40
    told = main.attribution
    assert sum(cause.us for cause in told.causes) + told.remainder_us == pytest.approx(told.change_us)
    assert abs(told.remainder_us) < 0.05 * abs(told.change_us)
    assert told.causes[0].name is not None and told.causes[0].new_location is None


@pytest.mark.parametrize("name", ["npu-alexnet-text-l1", "npu-alexnet-db-l0", "npu-csv-only-2023", "gpu-vit-h100"])
def test_a_recording_against_itself_shows_nothing(name: str) -> None:
    for pair in _compared(name, name).pairs:
        assert pair.step.change == 0.0 and pair.attribution.causes == [] and pair.one_sided == []
        assert not any(each.path_us.change or each.calls.change or each.kernels.change for each in pair.ops)


def test_the_forms_of_one_script_match_in_full() -> None:
    pair = _compared("npu-alexnet-text-l1", "npu-alexnet-db-l1").main
    assert (pair.matched_calls, pair.base_only_calls, pair.new_only_calls) == (139, 0, 0)
    assert not any(each.kernels.change for each in pair.ops)
    assert pair.step.judgement is not None and pair.step.judgement.verdict == "untested"


@pytest.mark.parametrize("name", ["npu-trace-only-2024", "npu-msprof-op-summary-2023", "npu-csv-only-2023"])
def test_sides_that_know_little_still_add_up(name: str) -> None:
    pair = _compared(name, "npu-alexnet-text-l1").main
    told = pair.attribution
    assert told.basis == ("critical_path" if name == "npu-trace-only-2024" else "ledger")
    assert sum(cause.us for cause in told.causes) + told.remainder_us == pytest.approx(told.change_us, abs=1e-3)
    assert sum(part.new or 0.0 for part in pair.ledger) == pytest.approx(pair.step.new)


def test_the_warm_iteration_of_the_gpu_is_the_one_that_is_matched() -> None:
    """Its first convolution took 10.8 s on the host, the same one of the second iteration 8.8 ms."""
    found = _compared("gpu-alexnet-a100", "npu-alexnet-text-l1").main
    first = next(each for each in found.ops if each.new_shapes == "32,3,224,224;64,3,11,11;64")
    assert first.host_us.base == 8825.0 and (first.kernels.base, first.kernels.new) == (3, 4)
    assert (found.base_chip, found.new_chip) == ("A100-PG509-200", "Ascend910B2")


def test_what_launches_inside_a_matched_call_is_told_where_it_differs() -> None:
    found = _compared("gpu-alexnet-a100", "npu-alexnet-text-l1").main
    linear = next(each for each in found.ops if each.new_shapes == "32,9216;4096,9216;4096")
    assert [(each.path, each.kernels.base, each.kernels.new) for each in linear.inner] == [("aten::addmm", 2, 1)]
    relu = next(each for each in found.ops if each.new_shapes == "32,64,55,55" and each.name == "aten::relu_")
    assert [each.path for each in relu.inner] == ["aten::clamp_min_", ""]


def test_modules_have_the_calls_of_their_inner_modules_and_of_their_backward() -> None:
    found = {each.new: each for each in _compared("npu-alexnet-text-l1", "npu-alexnet-db-l1").main.modules}
    net, conv = found["AlexNet"], found["AlexNet/Sequential/Conv2d"]
    assert net.base == "AlexNet" and conv.base == conv.new
    # Five convolutions forward, five backward: 20 and 50 kernels (11 + 11 + 11 + 11 + 6).
    assert (conv.calls.base, conv.calls.new, conv.kernels.base, conv.kernels.new) == (10, 10, 70, 70)
    inner = [each for path, each in found.items() if path and path.startswith("AlexNet/") and path.count("/") == 1]
    assert sum(each.kernels.new or 0 for each in inner) == net.kernels.new


def test_models_of_other_classes_are_aligned_and_their_modules_paired() -> None:
    found = _compared("gpu-bert-small-h100", "gpu-vit-h100").main
    pairs = {(each.base or "").rpartition("/")[2]: (each.new or "").rpartition("/")[2] for each in found.modules}
    assert pairs["BertLayer"] == "ViTLayer" and pairs["BertSdpaSelfAttention"] == "ViTSdpaSelfAttention"


def test_waits_that_only_one_side_can_tell_are_no_change() -> None:
    """Level0 does not record the sub-tasks of collectives, so what waits and what transfers is one there."""
    found = _compared("npu-alexnet-text-l0", "npu-alexnet-text-l1")
    for pair in found.pairs:
        causes = pair.attribution.causes
        assert "other_rank" not in {cause.kind for cause in causes}
        assert "waiting_us" not in [each.key for each in pair.extra]
        reducer = next(each for each in causes if each.base_location and each.base_location.line == 365)
        both = next(each for each in reducer.work if each.key == "communication_us")
        whole = next(each for each in pair.extra if each.key == "comm_us")
        assert (both.base, both.new) == (pytest.approx(whole.base), pytest.approx(whole.new))
    told = {each.name: (each.base, each.new) for each in found.settings}
    assert told["level"] == ("Level0", "Level1")


def test_waits_that_both_sides_tell_are_told_apart() -> None:
    pair = _compared("npu-alexnet-text-l1", "npu-alexnet-db-l1").main
    waits = next(each for each in pair.extra if each.key == "waiting_us")
    assert waits.base is not None and waits.new is not None and 90_000 < waits.new < waits.base
    (cause,) = pair.attribution.causes
    assert (cause.kind, cause.rank, cause.knock_on_us) == ("other_rank", 5, 0.0)


def test_totals_of_steps_alone_make_a_ledger() -> None:
    pair = _compared("npu-cluster-output-8r-2023", "npu-alexnet-text-l1").pairs[0]
    parts = {each.key: each.base for each in pair.ledger}
    # cluster_step_trace_time.csv, rank 0: computing, not overlapped, free.
    told = {"compute": 80_309.687, "communication": 683_731.29, "other": 990_605.104}
    assert {key: parts[key] for key in told} == pytest.approx(told, abs=0.01)
    assert sum(us or 0.0 for us in parts.values()) == pytest.approx(pair.step.base)


def test_a_recording_without_step_marks_is_not_called_a_step() -> None:
    found = _compared("gpu-alexnet-a100", "npu-alexnet-text-l1")
    text = verdict(lambda key, **fields: say(key, **fields).en, found.main)
    assert text == "A whole recording of 43,425 ms stands against a step of 156 ms."
