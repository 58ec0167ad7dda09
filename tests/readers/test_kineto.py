"""GPU traces of torch.profiler: hand-made ones for each trap, and the recorded ones against their facts."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from measured import gaps_of, length, overlap, spans_of
from places import PROFILES, needs_profiles

from npu_advisor import analyze
from npu_advisor.api import load_profile
from npu_advisor.graph.build import event_graph
from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, read_rank
from npu_advisor.readers.gpu_names import gpu_comm_type, gpu_kernel_type, is_gpu_comm
from npu_advisor.readers.kineto import shapes_text, types_text

Event = dict[str, Any]
BASE_NS = 1_751_410_836_000_000_000
HOST, GPU = 500, 0


def piece(name: str, cat: str, at: Any, dur: Any, pid: Any = HOST, tid: Any = HOST, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": dur, "args": args}


def kernel(name: str, at: Any, dur: Any, correlation: int, stream: int = 7, **args: Any) -> Event:
    told = {"device": 0, "stream": stream, "correlation": correlation, "grid": [1, 1, 1], **args}
    return piece(name, "kernel", at, dur, GPU, stream, **told)


def launch(at: Any, correlation: int, name: str = "cudaLaunchKernel") -> Event:
    return piece(name, "cuda_runtime", at, 1, correlation=correlation, cbid=211)


def memory(at: Any, size: int, address: int, total: int, device_type: int = 1) -> Event:
    args = {"Bytes": size, "Addr": address, "Total Allocated": total, "Total Reserved": 4096, "Device Id": 0}
    told = {**args, "Device Type": device_type}
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": HOST, "tid": HOST, "ts": at, "args": told}


def write(folder: Path, events: list[Event], name: str = "host.pt.trace.json", **root: Any) -> Path:
    path = folder / name
    told = {
        "schemaVersion": 1,
        "distributedInfo": {"rank": 3},
        "deviceProperties": [{"id": 0, "name": "GPU X"}],
        **root,
    }
    path.write_text(json.dumps({**told, "traceEvents": events}), encoding="utf-8")
    return path


def read(path: Path) -> Profile:
    (source,) = locate(path)
    assert source.form == "kineto"
    return read_rank(source)


STEP = [
    piece("ProfilerStep#6", "user_annotation", 100, 100),
    piece(
        "aten::mm", "cpu_op", 110, 20, **{"Input Dims": [[2, 3], [], [[4], [5]]], "Input type": ["float", "Scalar", ""]}
    ),
    launch(112, 41),
    kernel("void gemm<128>(int)", 130.5, 10, 41),
    piece("ProfilerStep#6", "gpu_user_annotation", 130.5, 10, GPU, 7),
]


def test_the_chain_from_kernel_to_op(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, STEP))
    assert profile.info.form == "kineto" and profile.info.device_kind == "gpu"
    assert profile.info.device == "GPU X" and profile.rank == 3
    assert [hop.kind for hop in event_graph(profile).chain(0)] == ["kernel", "launch", "op"]
    (row,) = profile.kernels.to_dict("records")
    assert (row["type"], row["core"], row["stream"], row["connection"]) == ("gemm", "GPU", 7, 41)
    assert profile.ops["name"].tolist() == ["ProfilerStep#6", "aten::mm"]  # no copy from the device lane
    assert profile.ops["name"][row["op"]] == "aten::mm"
    assert profile.ops["shapes"].tolist()[1] == "2,3;;" and profile.ops["dtypes"].tolist()[1] == "float;Scalar;"
    assert profile.apis["level"].tolist() == ["runtime"] and row["launch_ns"] == 112_000
    assert profile.steps["number"].tolist() == [6]


def test_starts_count_by_their_digits(tmp_path: Path) -> None:
    events = [
        piece("a", "cpu_op", 1, 1),
        piece("b", "cpu_op", 2, 1),
        piece("c", "cpu_op", 3, 1),
        piece("d", "cpu_op", 4, 1),
    ]
    text = json.dumps({"schemaVersion": 1, "traceEvents": events, "baseTimeNanoseconds": 0})
    for number, start in enumerate(("1695835542481129.127", "1695835542481130", '"1695835542481131.4"', "1.5e99"), 1):
        text = text.replace(f'"ts": {number},', f'"ts": {start},')
    path = tmp_path / "x.json"
    path.write_text(text)
    profile = read(path)
    starts = [1695835542481129127, 1695835542481130000, 1695835542481131400]
    assert profile.ops["start_ns"].tolist() == starts
    assert [(note.code, "1 of 4" in note.message.en) for note in profile.diagnostics] == [("bad_timestamp", True)]


@pytest.mark.parametrize("behind", [True, False])
def test_times_relative_to_a_base(tmp_path: Path, behind: bool) -> None:
    root: Event = {"traceEvents": STEP}
    base = {"baseTimeNanoseconds": BASE_NS}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**root, **base} if behind else {**base, **root}))
    assert read(path).kernels["start_ns"].tolist() == [BASE_NS + 130_500]


def test_the_root_may_follow_the_events(tmp_path: Path) -> None:
    """Lists of objects behind the events look like events; in a long file the blocks must not part there."""
    devices = [{"id": number, "name": f"GPU {number}", "limits": [1, 2]} for number in range(8)]
    many = [piece("aten::add", "cpu_op", 1000 + at, 1, **{"Ev Idx": at}) for at in range(12_000)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"traceEvents": [*STEP, *many], "deviceProperties": devices, "with_stack": 0}))
    profile = read(path)
    assert path.stat().st_size > 1 << 20 and len(profile.ops) == 12_002
    assert not profile.diagnostics and profile.info.device == "GPU 0" and profile.info.with_stack is False


def test_a_trace_cut_anywhere_keeps_its_events(tmp_path: Path) -> None:
    whole = write(tmp_path, STEP).read_bytes()
    for cut in range(whole.index(b'"aten::mm"') + 400, len(whole) - 1, 37):
        path = tmp_path / "cut.json"
        path.write_bytes(whole[:cut])
        profile = read(path)
        assert "trace_truncated" in {note.code for note in profile.diagnostics}
        assert len(profile.ops) == 2


def test_odd_lanes_and_values(tmp_path: Path) -> None:
    events = [
        *STEP,
        piece("PyTorch Profiler (0)", "Trace", 90, 200, "Spans", "PyTorch Profiler"),
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 300},
        kernel("k", 150, -4, 42),
        kernel("k", 160, 5, 43, stream=7, device="0", extra={"deep": [1]}),
        piece("aten::odd", "cpu_op", 170, 1, **{"Input Dims": "none", "Sequence number": None, "Call stack": 7}),
    ]
    profile = read(write(tmp_path, events))
    assert profile.kernels["dur_ns"].tolist() == [10_000, 0, 5_000]
    assert {note.code for note in profile.diagnostics} == {"bad_duration"}
    assert "Spans" not in profile.tracks["process"].tolist() and len(profile.tracks) == 2


def test_lanes_are_named_by_their_labels(tmp_path: Path) -> None:
    named = [
        {"ph": "M", "name": name, "pid": pid, "tid": 0, "ts": 1, "args": {key: value}}
        for name, key in (("process_name", "name"), ("process_labels", "labels"))
        for pid, value in ((HOST, "python" if key == "name" else "CPU"), (GPU, "python" if key == "name" else "GPU 0"))
    ]
    tracks = read(write(tmp_path, [*named, *STEP])).tracks
    lanes = set(zip(tracks["process"], tracks["tid"], strict=True))
    assert {("python", HOST), ("GPU 0", 7)} <= lanes


def test_unnamed_device_lanes(tmp_path: Path) -> None:
    tracks = read(write(tmp_path, STEP)).tracks
    assert tracks["process"][tracks["tid"] == 7].tolist() == ["GPU 0"]


def test_copies_sets_and_waits_are_no_kernels(tmp_path: Path) -> None:
    more = [
        piece("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", 141, 2, GPU, 7, stream=7, correlation=5, device=0),
        piece("Memset (Device)", "gpu_memset", 144, 2, GPU, 7, stream=7, correlation=6, device=0),
        piece("Stream Wait Event", "cuda_sync", 147, 2, GPU, 7, stream=7, correlation=7, device=0),
    ]
    profile = read(write(tmp_path, [*STEP, *more]))
    assert len(profile.kernels) == 1
    assert profile.tasks["kind"].tolist() == ["copy", "other", "event_wait"]


def test_collectives(tmp_path: Path) -> None:
    told = {"Collective name": "allreduce", "Process Group Name": "0"}
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    profile = load_profile(write(tmp_path, [*STEP, launch(115, 44), kernel(name, 135.5, 10, 44, 20, **told)]))
    (row,) = profile.comms.to_dict("records")
    assert (row["type"], row["group"], row["dur_ns"]) == ("allReduce", "0", 10_000)
    assert len(profile.kernels) == 1 and profile.ops["name"][row["op"]] == "aten::mm"
    (step,) = profile.steps.to_dict("records")
    assert (step["compute_us"], step["comm_us"], step["exposed_comm_us"]) == (10, 10, 5)


def test_memory_events_become_allocations(tmp_path: Path) -> None:
    events = [
        *STEP,
        memory(111, 512, 9000, 1512),
        memory(113, 256, 9500, 1768),
        memory(125, -512, 9000, 1256),
        memory(126, 1024, 9000, 2280),
        memory(127, 64, 1, 64, device_type=0),
        memory(150, -8, 7, 2272),
    ]
    profile = load_profile(write(tmp_path, events))
    allocs = profile.allocs
    assert allocs["size_bytes"].tolist() == [512, 256, 1024]
    assert allocs["release_ns"].tolist() == [125_000, -1, -1] and allocs["dur_ns"].tolist() == [14_000, 0, 0]
    assert set(allocs["name"]) == {"aten::mm"} and set(allocs["component"]) == {"CUDA"}
    assert len(profile.memory) == 5 and profile.table("profile")["peak_allocated_bytes"][0] == 2280
    alive = profile.peak_owners
    assert alive["size_bytes"][alive["recorded"]].sum() == 256 + 1024 and profile.info.profile_memory is True


def test_forward_op_by_arrow_and_by_sequence(tmp_path: Path) -> None:
    def ends(number: int, at: int, to: int) -> list[Event]:
        flow = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": HOST}
        return [{**flow, "ph": "s", "tid": 1, "ts": at}, {**flow, "ph": "f", "bp": "e", "tid": 2, "ts": to}]

    events = [
        piece("aten::mul", "cpu_op", 10, 5, tid=1),
        piece("aten::sub", "cpu_op", 20, 5, tid=1, **{"Sequence number": 8, "Fwd thread id": 0}),
        piece("MulBackward0", "cpu_op", 30, 5, tid=2),
        piece("SubBackward0", "cpu_op", 40, 5, tid=2, **{"Sequence number": 8, "Fwd thread id": 1}),
        *ends(4, 10, 30),
    ]
    ops = load_profile(write(tmp_path, [*events, kernel("k", 50, 1, 1)])).ops
    forward = dict(zip(ops["name"], ops["forward"], strict=True))
    assert ops["name"][forward["MulBackward0"]] == "aten::mul" and ops["name"][forward["SubBackward0"]] == "aten::sub"


def test_the_line_comes_from_python_functions(tmp_path: Path) -> None:
    frames = [
        piece("train.py(9): step", "python_function", 105, 60, **{"Python id": 1, "Python parent id": None}),
        piece("torch/nn/modules/module.py(3): __call__", "python_function", 108, 40, **{"Python id": 2}),
    ]
    profile = load_profile(write(tmp_path, [*STEP, *frames]))
    assert profile.kernels["source"].tolist() == ["train.py(9): step"] and profile.info.with_stack is True


def test_a_late_giveaway(tmp_path: Path) -> None:
    """Nothing at the beginning says Kineto; the kernels further on do."""
    host = [{**piece("aten::add", "cpu_op", 1 + at, 0.5), "args": {}} for at in range(2000)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"traceEvents": [*host, *STEP]}))
    (source,) = locate(path)
    assert source.form == "trace"
    profile = read_rank(source)
    assert profile.info.form == "kineto" and len(profile.kernels) == 1 and len(profile.ops) == 2002


def test_the_first_kineto_spelled_categories_large(tmp_path: Path) -> None:
    spelt = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    events = [{**event, "cat": spelt.get(event["cat"], event["cat"])} for event in STEP[:4]]
    profile = load_profile(write(tmp_path, events))
    assert profile.ops["name"][profile.kernels["op"][0]] == "aten::mm"


def test_several_devices_are_told(tmp_path: Path) -> None:
    other = {**kernel("k", 150, 1, 50), "args": {"device": 1, "stream": 7, "correlation": 50}, "pid": 1}
    assert "several_devices" in {note.code for note in read(write(tmp_path, [*STEP, other])).diagnostics}


def test_a_trace_without_a_device(tmp_path: Path) -> None:
    report = analyze(write(tmp_path, STEP[:2], deviceProperties=[]))
    assert {rule.outcome for rule in report.rules} == {"skipped"}
    without = {rule.id for rule in report.rules if rule.reason is None or "no device" not in rule.reason.en}
    assert without == {"memory-peak", "memory-growth"}  # these are about any device, and nothing was allocated


def test_rules_about_npus_are_skipped_with_that_reason(tmp_path: Path) -> None:
    report = analyze(write(tmp_path, STEP))
    told = {rule.id: (rule.outcome, rule.reason.en if rule.reason else "") for rule in report.rules}
    for rule in ("dispatch-dequeue-gap", "layout-transdata", "optimizer-native", "kernel-top-cost"):
        assert told[rule] == ("skipped", "the rule is about NPUs, this profile was recorded on a GPU")
    assert "GPU" not in told["memory-peak"][1] and not report.findings
    assert report.profiler_call is None or "torch_npu" not in report.profiler_call
    assert not any("torch_npu" in (rule.enable or "") for rule in report.rules)


NATIVE = "void at::native::"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ampere_sgemm_32x32_sliced1x4_tn", "ampere_sgemm_32x32_sliced1x4_tn"),
        ("void cask_cudnn::computeOffsetsKernel<false, false>(cask_cudnn::Params)", "computeOffsetsKernel"),
        (f"{NATIVE}(anonymous namespace)::softmax<float>(int, float const*)", "softmax"),
        (
            f"{NATIVE}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, x<3ul> >(int)",
            "vectorized_elementwise_kernel<CUDAFunctor_add>",
        ),
        (
            f"{NATIVE}elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, "
            "float, float, at::native::binary_internal::MulFunctor<float> > >(int)::{lambda()#1}>(int)",
            "elementwise_kernel<MulFunctor>",
        ),
        ("void cutlass::Kernel2<cutlass_80_op>(cutlass_80_op::Params)", "Kernel2<cutlass_80_op>"),
        ("_ZN2at6native12_GLOBAL__N_17softmaxIfEEvPT_", "softmax"),
        ("_Z4gemmPf", "gemm"),
        ("_Zbroken", "_Zbroken"),
        ("void (*)(", "void (*)("),
    ],
)
def test_short_names_of_kernels(name: str, short: str) -> None:
    assert gpu_kernel_type(name) == short


def test_names_of_collectives() -> None:
    assert is_gpu_comm("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)") and not is_gpu_comm("gemm")
    assert gpu_comm_type("ncclKernel_ReduceScatter_RING(x)", "") == "reduceScatter"
    assert gpu_comm_type("ncclDevKernel_Generic(x)", "all_to_all") == "all_to_all"


def test_lists_as_text() -> None:
    assert shapes_text("[[1,2],[],3,[[1]]]") == "1,2;;;" and shapes_text("[") == "" and types_text('["a","b"]') == "a;b"


# ---- the recorded ones ----------------------------------------------------------------------------------------

RECORDED = ("gpu-alexnet-a100", "gpu-bert-small-h100", "gpu-vit-h100", "gpu-qwen1.5-0.5b-h100")
Facts = dict[str, Any]


@cache
def _truth(name: str) -> tuple[str, Facts]:
    entries = json.loads((PROFILES / "TRUTH.json").read_text())["profiles"][name]["entries"]
    (pair,) = entries.items()
    return pair


@cache
def _linked(name: str) -> Profile:
    return load_profile(PROFILES / name)


@cache
def _written(name: str) -> Event:
    raw = (PROFILES / name / _truth(name)[0]).read_bytes()
    loaded: Event = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    return loaded


@pytest.fixture(params=RECORDED)
def recorded(request: pytest.FixtureRequest) -> tuple[str, Profile, Facts]:
    return request.param, _linked(request.param), _truth(request.param)[1]


def _ns(us: float) -> int:
    return round(us * 1000)


@needs_profiles
def test_recorded_counts(recorded: tuple[str, Profile, Facts]) -> None:
    _, profile, facts = recorded
    cats, kernels = facts["cats"], facts["kernels"]
    assert profile.info.device == facts["device"] and profile.info.form == "kineto"
    assert len(profile.kernels) == kernels["compute"] and len(profile.table("comms")) == kernels["communication"]
    assert len(profile.ops) == cats["cpu_op"] + cats["user_annotation"]
    assert len(profile.table("frames")) == facts["host_ops"]["python_function_events"]
    assert len(profile.apis) == cats["cuda_runtime"] + cats.get("cuda_driver", 0)
    tasks = profile.table("tasks").frame
    for cat in ("gpu_memcpy", "gpu_memset"):
        rows = tasks[tasks["task_type"] == cat] if len(tasks) else tasks
        assert len(rows) == facts[cat]["count"]
        assert abs((rows["dur_ns"].sum() if len(rows) else 0) - _ns(facts[cat]["total_us"])) <= 1
    marks = [row for row in profile.ops.to_dict("records") if row["name"].startswith("ProfilerStep#")]
    assert [(row["name"], row["dur_ns"]) for row in marks] == [(s["name"], _ns(s["dur_us"])) for s in facts["steps"]]


@needs_profiles
def test_recorded_kernel_time(recorded: tuple[str, Profile, Facts]) -> None:
    _, profile, facts = recorded
    kernels, told = profile.kernels, facts["kernels"]
    assert abs(kernels["dur_ns"].sum() - _ns(told["kernel_time_us"])) <= 1
    for entry in told["top_by_name"]:
        rows = kernels[kernels["name"] == entry["name"]]
        assert len(rows) == entry["count"] and abs(rows["dur_ns"].sum() - _ns(entry["total_us"])) <= 1


@needs_profiles
def test_recorded_device_time(recorded: tuple[str, Profile, Facts]) -> None:
    _, profile, facts = recorded
    steps = profile.steps["number"].tolist()
    for label, told in facts["device_time"].items():
        number = label.removeprefix("ProfilerStep#")
        row = steps.index(int(number)) if number.isdigit() else (0 if steps == [-1] else -1)
        _same_device_time(profile.kernels[profile.kernels["step"] == row], told)
    if "device_time_whole" in facts:
        _same_device_time(profile.kernels, facts["device_time_whole"])


def _same_device_time(rows: pd.DataFrame, told: Facts) -> None:
    spans = spans_of(rows)
    window = spans[-1][1] - spans[0][0]
    assert len(rows) == told["kernels"] and rows["stream"].nunique() == told["streams"]
    assert abs(window - _ns(told["window_us"])) <= 1
    assert abs(length(spans) - _ns(told["busy_compute_us"])) <= 1
    assert abs(length(gaps_of(spans)) - _ns(told["idle_us"])) <= 1


@needs_profiles
def test_recorded_links(recorded: tuple[str, Profile, Facts]) -> None:
    _, profile, facts = recorded
    kernels, told = profile.kernels, facts["links"]
    assert int((kernels["api"] >= 0).sum()) == told["launch_found"]
    assert int((kernels["op"] >= 0).sum()) == told["host_op"]
    frames = profile.table("frames").frame
    launches = profile.apis.iloc[kernels["api"][kernels["api"] >= 0]]
    inside = 0
    for track, at in zip(launches["track"], launches["start_ns"], strict=True):
        mine = frames[frames["track"] == track] if len(frames) else frames
        inside += bool(len(mine)) and bool(((mine["start_ns"] <= at) & (mine["start_ns"] + mine["dur_ns"] > at)).any())
    assert inside == told["python_stack"]


@needs_profiles
def test_recorded_memory(recorded: tuple[str, Profile, Facts]) -> None:
    name, profile, facts = recorded
    told = facts.get("memory")
    if told is None:
        assert not profile.has("memory") and not profile.has("allocs")
        return
    memory_rows = profile.memory
    base = _written(name).get("baseTimeNanoseconds", 0)
    peak = int(memory_rows["allocated_bytes"].to_numpy().argmax())
    assert len(memory_rows) == told["events"]
    assert memory_rows["allocated_bytes"][peak] == told["peak_allocated_bytes"]
    assert memory_rows["reserved_bytes"].max() == told["peak_reserved_bytes"]
    assert abs(int(memory_rows["start_ns"][peak]) - base - _ns(told["peak_allocated_at_us"])) <= 1
    allocs = profile.allocs
    # What each event of the file adds, summed over the allocations that are alive, must give the total again.
    alive = allocs[(allocs["release_ns"] < 0)]
    freed = [event["args"] for event in _written(name)["traceEvents"] if event.get("name") == "[memory]"]
    net = sum(args["Bytes"] for args in freed if args["Device Type"] == 1)
    gone = memory_rows["allocated_bytes"].iloc[-1] - memory_rows["allocated_bytes"].iloc[0]
    first = next(args["Bytes"] for args in freed if args["Device Type"] == 1)
    assert gone + first == net and alive["size_bytes"].sum() >= net


@needs_profiles
def test_recorded_starts_are_those_of_the_file(recorded: tuple[str, Profile, Facts]) -> None:
    name, profile, _ = recorded
    loaded = _written(name)
    base = loaded.get("baseTimeNanoseconds", 0)
    written = sorted(base + _ns(event["ts"]) for event in loaded["traceEvents"] if event.get("cat") == "kernel")
    assert np.abs(profile.kernels["start_ns"].to_numpy() - np.array(written)).max() <= 1


@needs_profiles
def test_recorded_ones_read_without_a_remark(recorded: tuple[str, Profile, Facts]) -> None:
    name, profile, facts = recorded
    steps = set() if facts["steps"] else {"no_step_markers"}
    assert {note.code for note in profile.diagnostics} - {"clock_skew"} == steps, name
    assert overlap(spans_of(profile.kernels), spans_of(profile.kernels)) > 0
