"""Which call is which: ops put in, taken out, moved, with other shapes; lines that moved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from npu_advisor.api import finish
from npu_advisor.compare.calls import Calls
from npu_advisor.compare.match import Matching, Recording
from npu_advisor.compare.vocabulary import common_name, kernel_class
from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.table import Table

Op = tuple[str, str, int]


Range = tuple[str, int, int]


def _profile(ops: Sequence[Op], ranges: Sequence[Range] = (), modules: Sequence[Range] = ()) -> Profile:
    """One step with ``ops`` (name, shapes, line of main.py; 0 none) one after the other, 10 us each, and ranges and
    modules (name, first op, last op) around some of them, outer ones first."""
    clock = count(1_000_000, 10_000)
    starts = [next(clock) for _ in ops]
    end = next(clock)
    rows = [("ProfilerStep#1", "", 0, 999_000, end - 999_000)]
    rows += [(name, "", 0, starts[low] - 10, starts[high] + 8_100 - starts[low]) for name, low, high in ranges]
    rows += [(*op, start, 8_000) for op, start in zip(ops, starts, strict=True)]
    columns = {
        "name": [row[0] for row in rows],
        "shapes": [row[1] for row in rows],
        "stack": [f"/home/me/main.py({row[2]}): train" if row[2] else "" for row in rows],
        "start_ns": [row[3] for row in rows],
        "dur_ns": [row[4] for row in rows],
        "track": [0] * len(rows),
    }
    tracks = Table.build("tracks", {"process": ["Python"], "thread": ["main"], "pid": [1], "tid": [1]})
    frames = {
        "name": [f"nn.Module: {name}" for name, _, _ in modules],
        "start_ns": [starts[low] - 1_000 + number for number, (_, low, _) in enumerate(modules)],
        "dur_ns": [starts[high] - starts[low] + 9_900 - 2 * number for number, (_, low, high) in enumerate(modules)],
        "track": [0] * len(modules),
    }
    tables = {"ops": Table.build("ops", columns), "tracks": tracks, "frames": Table.build("frames", frames)}
    return finish(Profile(ProfileInfo("made", rank=0), tables))


def _matched(base: Sequence[Op], new: Sequence[Op]) -> list[tuple[str, str | None, str | None, str | None, str | None]]:
    """(name, base shapes, new shapes, base line, new line) of every group, in the order found."""
    matching = Matching([Recording(_profile(base), [0])], [Recording(_profile(new), [0])])
    return [
        (
            (group.new or group.base or _none()).name,
            group.base and group.base.shapes,
            group.new and group.new.shapes,
            group.site.base and group.site.base.rpartition("/")[2],
            group.site.new and group.site.new.rpartition("/")[2],
        )
        for group in matching.groups
    ]


def _none() -> object:
    raise AssertionError("a group without a call")


LAYER: list[Op] = [("aten::linear", "8,16;16,16", 3), ("aten::relu", "8,16", 4), ("aten::linear", "8,16;4,16", 5)]


def test_a_call_put_in_between_is_the_only_difference() -> None:
    new = [LAYER[0], ("aten::to", "8,16", 4), LAYER[1], LAYER[2]]
    found = _matched(LAYER * 3, new * 3)
    assert [each for each in found if each[1] is None] == [
        ("aten::to", None, "8,16", "main.py(4): train", "main.py(4): train")
    ]
    assert sum(each[1] is not None for each in found) == 3


def test_lines_that_moved_are_the_same_lines() -> None:
    moved = [(name, shapes, line + 2) for name, shapes, line in LAYER]
    found = _matched(LAYER, moved)
    assert [each[3:] for each in found] == [
        (f"main.py({line}): train", f"main.py({line + 2}): train") for line in (3, 4, 5)
    ]


def test_another_batch_size_changes_shapes_and_no_call() -> None:
    larger = [(name, shapes.replace("8,16", "32,16"), line) for name, shapes, line in LAYER]
    assert [each[1:3] for each in _matched(LAYER, larger)] == [
        ("8,16;16,16", "32,16;16,16"),
        ("8,16", "32,16"),
        ("8,16;4,16", "32,16;4,16"),
    ]


def test_not_by_name_only() -> None:
    """Of two linears the one with the other shapes is gone, not the last one."""
    found = _matched([LAYER[0], LAYER[2], LAYER[0]], [LAYER[0], LAYER[0]])
    assert [each[1:3] for each in found if each[2] is None] == [("8,16;4,16", None)]


def test_a_call_that_changed_places_is_the_same_call() -> None:
    found = _matched([*LAYER, ("aten::item", "1", 9)], [("aten::item", "1", 9), *LAYER])
    assert all(each[1] is not None and each[2] is not None for each in found)


# ---- down the module tree -------------------------------------------------------------------------------------

SAME: Op = ("aten::linear", "8,16;16,16", 3)


def _partners(base: Profile, new: Profile) -> list[int | None]:
    """For each call of base, in order: which call of new is in the same place of the tree (None: no one)."""
    one, other = Recording(base, [0]), Recording(new, [0])
    matching = Matching([one], [other])
    first, second = one.calls.in_step(0, 0).tolist(), other.calls.in_step(0, 0).tolist()
    pairs = dict(matching._pairs(one, 0, other, 0))
    return [second.index(pairs[call]) if call in pairs else None for call in first]


def test_a_module_taken_out_takes_its_own_calls_along() -> None:
    """Three equal calls, of which those of the first module go: by their order alone the last one would be missing."""
    base = _profile([SAME] * 3, modules=[("Block_0", 0, 2), ("Embedding_0", 0, 0), ("Mlp_0", 1, 2)])
    new = _profile([SAME] * 2, modules=[("Block_0", 0, 1), ("Mlp_0", 0, 1)])
    assert _partners(base, new) == [None, 0, 1]
    assert _partners(_profile([SAME] * 3), _profile([SAME] * 2)) == [0, 1, None]


def test_a_layer_put_in_between_renumbers_the_others_and_moves_none() -> None:
    other: Op = ("aten::linear", "8,16;32,16", 4)
    base = _profile([SAME, other, other, SAME], modules=[("Net_0", 0, 3), ("Layer_0", 0, 1), ("Layer_1", 2, 3)])
    inserted = [("Net_0", 0, 5), ("Layer_0", 0, 1), ("Layer_1", 2, 3), ("Layer_2", 4, 5)]
    new = _profile([SAME, other, other, other, other, SAME], modules=inserted)
    assert _partners(base, new) == [0, 1, 4, 5]


def test_a_wrapper_around_the_model_is_looked_through() -> None:
    inner = [("Net_0", 0, 2), ("Block_0", 0, 1)]
    wrapped = [("DistributedDataParallel_0", 0, 2), ("Trainer_0", 0, 2), *inner]
    found = Recording(_profile(LAYER, modules=wrapped), [0])
    modules = [found.calls.kinds[kind].module for kind in found.calls.kind]
    assert modules == ["Trainer/Net/Block", "Trainer/Net/Block", "Trainer/Net"]
    assert _partners(_profile(LAYER, modules=inner), _profile(LAYER, modules=wrapped)) == [0, 1, 2]


def test_other_classes_of_modules_do_not_stand_between_equal_calls() -> None:
    one = _profile(LAYER * 2, modules=[("Bert_0", 0, 5), ("Layer_0", 0, 2), ("Layer_1", 3, 5)])
    other = _profile(LAYER * 2, modules=[("Vit_0", 0, 5), ("Embedding_0", 0, 0), ("Encoder_0", 1, 5)])
    assert _partners(one, other) == [0, 1, 2, 3, 4, 5]


def test_ranges_are_looked_through() -> None:
    plain, ranged = _profile(LAYER), _profile(LAYER, [("my forward", 0, 1), ("Optimizer.step#SGD.step", 2, 2)])
    names = [[calls.kinds[kind].name for kind in calls.kind] for calls in (Calls(plain), Calls(ranged))]
    assert names[0] == names[1] == ["aten::linear", "aten::relu", "aten::linear"]


def test_shapes_are_compared_as_every_writer_gives_them() -> None:
    found = _matched([("aten::mm", "4,4;\r\n4,4;\r\n", 1)], [("aten::mm", "4,4;4,4", 1)])
    assert [each[1:3] for each in found] == [("4,4;4,4", "4,4;4,4")]


def test_ops_of_a_device_have_a_common_name() -> None:
    assert common_name("npu::npu_fusion_attention") == common_name("aten::_scaled_dot_product_flash_attention")
    assert common_name("aten::mm") == "aten::mm"


def test_kernels_have_the_class_of_their_work_on_every_device() -> None:
    cases = {
        "matmul": [("MatMulV2", "aten::linear"), ("ampere_sgemm_32x32_sliced1x4_tn", "aten::addmm"), ("nvjet_tst", "")],
        "attention": [("FlashAttentionScore", ""), ("flash_fwd_kernel", "")],
        "norm": [("LayerNormV3", ""), ("vectorized_layer_norm_kernel", "")],
        "conversion": [("TransData", "Conv2D"), ("Cast", ""), ("nchwToNhwcKernel", "aten::cudnn_convolution")],
        "convolution": [
            ("Conv2D", ""),
            ("fft2d_r2c_32x32", ""),
            ("Kernel2<cutlass_tensorop>", "aten::cudnn_convolution"),
        ],
        "optimizer": [("ApplyAdamW", ""), ("multi_tensor_apply_kernel", "")],
        "elementwise": [("Mul", ""), ("vectorized_elementwise_kernel<MulFunctor>", ""), ("Relu", "")],
        "communication": [("ncclDevKernel_AllReduce_Sum", "")],
        "copy": [("TensorMove", "")],
        "pooling": [("MaxPoolWithArgmaxV1", ""), ("max_pool_forward_nchw", "")],
        "other": [("NobodyKnows", "aten::nobody")],
    }
    for name, kernels in cases.items():
        assert [kernel_class(*kernel) for kernel in kernels] == [name] * len(kernels)
