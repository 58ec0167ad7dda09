from __future__ import annotations

import gc
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from making import CANN, DEVICE, HCCL, HOST, OVERLAP, flow, lanes, ns, op, piece, task, us, write_trace

from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.trace import KinetoTraceError, read_trace
from npu_advisor.readers.trace_blocks import EventBlocks
from npu_advisor.readers.trace_tables import Trace

WHOLE = [op(f"aten::op{number}", number * 10, 5) for number in range(40)]


def read(folder: Path, events: object) -> tuple[Trace, Notes]:
    notes = Notes()
    return read_trace(write_trace(folder, events), notes), notes  # type: ignore[arg-type]


def names(trace: Trace, table: str = "ops") -> list[str]:
    return list(trace.tables[table]["name"])


def codes(notes: Notes) -> list[str]:
    return [note.code for note in notes]


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
@pytest.mark.parametrize("indent", [None, 1])
def test_blocks_cut_at_every_seam_lose_nothing(tmp_path: Path, separators: tuple[str, str], indent: int | None) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(WHOLE, separators=separators, indent=indent))
    for size in (1, 50, 333, 1 << 20):
        blocks = EventBlocks(path, block=size)
        events = [event for block in blocks for event in json.loads(block.text)]
        assert events == WHOLE and blocks.complete


def test_block_offsets_are_positions_in_the_file(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "\ufeff \n" + json.dumps(WHOLE))
    text = path.read_bytes()
    blocks = list(EventBlocks(path, block=300))
    assert len(blocks) > 5
    assert all(text[block.offset : block.offset + len(block.text) - 2] == block.text[1:-1] for block in blocks)


def test_object_form_tail_and_gzip(tmp_path: Path) -> None:
    wrapped = {"schemaVersion": 1, "traceEvents": WHOLE, "otherData": {"list": [1, [2]]}, "traceName": "a]}"}
    path = tmp_path / "any.name"
    path.write_bytes(gzip.compress(json.dumps(wrapped).encode()))
    notes = Notes()
    trace = read_trace(path, notes)
    assert len(names(trace)) == 40 and not notes


def test_progress_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    path, seen = write_trace(tmp_path, WHOLE), []
    read_trace(path, Notes(), seen.append)
    assert seen == sorted(seen) and seen[-1] == path.stat().st_size


def test_cyclic_gc_is_as_before(tmp_path: Path) -> None:
    assert gc.isenabled()
    read(tmp_path, WHOLE)
    assert gc.isenabled()
    with pytest.raises(UnreadableFileError):
        read(tmp_path, "no trace")
    assert gc.isenabled()


def test_a_cut_costs_one_event_and_is_told(tmp_path: Path) -> None:
    text = json.dumps([*lanes(), *WHOLE])
    cut = text.index("aten::op30")
    trace, notes = read(tmp_path, text[: cut + 5])
    assert len(names(trace)) == 30 and codes(notes) == ["trace_truncated"]
    message = notes[0].message.en
    where = text.index('{"ph": "X", "name": "aten::op30')
    assert f"byte {where} of {cut + 5}" in message
    assert "CANN, Ascend Hardware, Overlap Analysis" in message and "Python" not in message


def test_a_cut_between_events_is_told_too(tmp_path: Path) -> None:
    text = json.dumps(WHOLE)
    trace, notes = read(tmp_path, text[: text.index('{"ph": "X", "name": "aten::op30"')])
    assert len(names(trace)) == 30 and codes(notes) == ["trace_truncated"]


def test_a_cut_gzip_keeps_what_came_through(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    packed = gzip.compress(json.dumps([op(f"aten::x{n}", n, 1) for n in range(30000)]).encode())
    path.write_bytes(packed[: len(packed) // 2])
    notes = Notes()
    trace = read_trace(path, notes)
    assert 1000 < len(names(trace)) < 30000 and codes(notes) == ["trace_truncated"]


def test_nothing_whole_before_the_cut(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="before the first whole event"):
        read(tmp_path, '[{"ph": "X", "na')


@pytest.mark.parametrize("text", ["", "   ", "hello", '{"a": 1}', "\0\0"])
def test_no_trace(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableFileError):
        read(tmp_path, text)


def test_bad_escapes_are_repaired_and_paths_kept(tmp_path: Path) -> None:
    stack = r"C:\proj\lib\site-packages\torch\nn\module.py(3): f;\r\nC:\proj\users\train.py(12): step"
    good = json.dumps(op("aten::a", 1, 1))
    bad = json.dumps(op("aten::b", 3, 1)).replace('"Fwd thread id": 0', f'"Fwd thread id": 0, "Call stack": "{stack}"')
    trace, notes = read(tmp_path, f"[{good}, {bad},{json.dumps(op('aten::c', 5, 1))}]")
    assert names(trace) == ["aten::a", "aten::b", "aten::c"]
    assert trace.tables["ops"]["stack"][1] == stack.replace(r";\r\n", ";\r\n")
    assert codes(notes) == ["trace_json_repaired"] and "1 events were repaired" in notes[0].message.en


def test_nan_and_control_characters(tmp_path: Path) -> None:
    events = [task("k", 1, 2, **{"bandwidth(GB/s)": float("inf")}), op("aten::\x01b", 2, float("nan")), *WHOLE]
    text = json.dumps(events).replace("\\u0001", "\x01").replace("Infinity", "-inf")
    trace, notes = read(tmp_path, text)
    assert len(names(trace)) == 41 and trace.tables["ops"]["dur_ns"][0] in (0, 5000)
    assert codes(notes) == ["bad_duration", "trace_json_repaired"] and "2 events" in notes[1].message.en


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = write_trace(tmp_path, WHOLE)
    path.write_bytes(path.read_bytes().replace(b"op7", b"op\x9f\xff"))
    notes = Notes()
    trace = read_trace(path, notes)
    assert len(names(trace)) == 40 and "aten::op\ufffd\ufffd" in names(trace)
    assert codes(notes) == ["trace_invalid_utf8"]


def test_an_event_beyond_repair_is_counted(tmp_path: Path) -> None:
    text = json.dumps(WHOLE).replace('"name": "aten::op7"', '"name": aten::op7')
    trace, notes = read(tmp_path, text)
    assert len(names(trace)) == 39 and "1 could not be read" in notes[0].message.en


def test_a_seam_inside_an_event_does_not_split_it(tmp_path: Path) -> None:
    inner = [{"name": "a"}, {"name": "b"}]
    odd = op("aten::odd", 500, 1, inner=inner, **{"Call stack": 'x }, {"name": 1'})
    broken = json.dumps(op("aten::e", 600, 1)).replace("aten::e", r"aten::\e")
    trace, notes = read(tmp_path, "[" + json.dumps(odd) + ", " + broken + "]")
    assert names(trace) == ["aten::odd", r"aten::\e"] and codes(notes) == ["trace_json_repaired"]


def test_values_of_odd_types_cost_only_themselves(tmp_path: Path) -> None:
    odd = op("aten::odd", 1, 1, **{"Call stack": ["a"], "Input Dims": 5})
    odd["pid"] = 100.0
    trace, notes = read(tmp_path, [odd, *WHOLE])
    assert names(trace)[:2] == ["aten::op0", "aten::odd"] and not notes
    assert set(trace.tables["ops"]["pid"]) == {100}


def test_every_kind_of_slice_finds_its_table(tmp_path: Path) -> None:
    queue = {"correlation_id": 3}
    events = [
        op("aten::mm", 0, 50, **{"Input Dims": "2,3", "Input type": "float", "Call stack": "a.py(1): f"}),
        piece("Enqueue", 1, 2, cat="enqueue", args=queue),
        piece("Dequeue@mm", 4, 3, tid=2, cat="dequeue", args=queue),
        piece("main.py(3): f", 0, 60, cat="python_function", args={"Python id": 8, "Python parent id": 4}),
        piece("GC", 9, 1, cat="GC", args={}),
        piece("AscendCL@aclnnMm", 4, 1, CANN, 2, args={"level": "acl", "item_id": "0", "connection_id": 0}),
        piece("Node@launch", 5, 1, CANN, 2, args={"level": "node", "item_id": "mm_k", "connection_id": 5}),
        task("mm_k", 10, 5),
        task("MEMCPY_ASYNC", 16, 1, "SDMA_SQE"),
        piece("hcom_allReduce__1_0_1", 20, 9, HCCL, 0, args={"connection_id": 6, "count": 2}),
        piece("Notify_Wait", 20, 4, HCCL, 1, args={"task type": "Notify_Wait", "src rank": 0, "dst rank": 5}),
        piece("Computing", 10, 5, OVERLAP, 0),
        {"ph": "C", "name": "AI Core Freq", "pid": 9, "tid": 0, "ts": f"{us(0)[:-4]}", "args": {"MHz": 1800}},
        {"ph": "C", "name": "QoS", "pid": 9, "tid": 0, "ts": us(0), "args": {"value": 1}},
        *lanes(),
    ]
    trace, notes = read(tmp_path, events)
    tables = trace.tables
    assert not notes
    assert {name: len(columns["start_ns"]) for name, columns in tables.items() if "start_ns" in columns} == {
        **dict.fromkeys(("ops", "frames", "enqueues", "dequeues", "gcs", "comm_tasks", "overlap", "counters"), 1),
        "apis": 2,
    }
    assert list(tables["apis"]["name"]) == ["aclnnMm", "launch"] and list(tables["apis"]["level"]) == ["acl", "node"]
    assert tables["apis"]["item"][1] == "mm_k" and tables["apis"]["connection"].tolist() == [0, 5]
    assert tables["ops"]["start_ns"].tolist() == [ns(0)] and tables["ops"]["dur_ns"].tolist() == [50_000]
    assert tables["ops"]["shapes"][0] == "2,3" and tables["ops"]["dtypes"][0] == "float"
    assert tables["dequeues"]["correlation"].tolist() == [3] and tables["dequeues"]["tid"].tolist() == [2]
    assert tables["frames"]["python_parent"].tolist() == [4]
    assert tables["counters"]["value"].tolist() == [1800.0] and tables["counters"]["start_ns"].tolist() == [ns(0)]
    assert tables["comm_tasks"]["dst_rank"].tolist() == [5]
    assert list(trace.hardware["name"]) == ["mm_k", "MEMCPY_ASYNC"] and trace.hardware["model"].tolist() == [-1, -1]
    assert trace.comm_ops["connection"].tolist() == [6]
    assert trace.slices == 12


def test_host_rows_come_in_start_order_outer_first(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, [op("inner", 5, 1), op("late", 9, 1), op("outer", 5, 3)])
    assert names(trace) == ["outer", "inner", "late"]


def test_pid_and_tid_as_text_never_run_together(tmp_path: Path) -> None:
    events = [piece("a", 1, 1, "1", "23", cat="cpu_op"), piece("b", 2, 1, "12", "3", cat="cpu_op")]
    events += [piece("c", 3, 1, 1, 23, cat="cpu_op"), piece("d", 4, 1, "Spans", "x", cat="cpu_op")]
    ops = read(tmp_path, events)[0].tables["ops"]
    assert ops["track"].tolist() == [0, 1, 0, 2]
    assert ops["pid"].tolist() == [1, 12, 1, -1] and ops["tid"].tolist() == [23, 3, 23, -1]


def test_processes_without_a_name_are_told_by_what_runs_there(tmp_path: Path) -> None:
    events = [
        op("a", 1, 1),
        task("k", 2, 1),
        flow("HostToDevice", "s", "9", 1, CANN, 2),
        piece("Free", 1, 1, OVERLAP, 3),
    ]
    events.append(piece("hcom_broadcast__1_0_1", 3, 1, HCCL, 0))
    trace, _ = read(tmp_path, events)
    process = dict(zip(trace.tracks["pid"], trace.tracks["process"], strict=True))
    assert (process[HOST], process[DEVICE], process[CANN]) == ("Python", "Ascend Hardware", "CANN")
    assert names(trace, "overlap") == ["Free"] and list(trace.comm_ops["name"]) == ["hcom_broadcast__1_0_1"]


def test_flow_ids_are_numbered_within_their_category(tmp_path: Path) -> None:
    big = str(2**70 + 1)
    events = [
        *(flow("async_npu", phase, 7, at) for phase, at in (("s", 1), ("f", 2))),
        *(flow("fwdbwd", phase, 7, at) for phase, at in (("s", 1), ("f", 3))),
        *(flow("HostToDevice", phase, number, 1) for phase, number in (("s", big), ("s", str(2**70)), ("f", big))),
        {**flow("acl_to_npu", "s", 4, 1), "name": "acl_to_npu"},
        flow("MsTx", "s", 1, 1),
    ]
    points = read(tmp_path, [op("a", 1, 1), *events])[0].tables["flow_points"]
    seen = list(zip(points["category"], points["finish"], points["id"], strict=True))
    assert seen == [
        ("async_npu", False, 0),
        ("async_npu", True, 0),
        ("fwdbwd", False, 0),
        ("fwdbwd", True, 0),
        *(("HostToDevice", *rest) for rest in ((False, 0), (False, 1), (True, 0), (False, 2))),
    ]


def test_times_as_numbers_and_with_a_tab(tmp_path: Path) -> None:
    events = [op("a", 0, 1), op("b", 0, 1), op("c", 0, 1)]
    events[0]["ts"], events[1]["ts"], events[2]["ts"] = 1000.25, 2000, "1700000000000000.125\t"
    ops = read(tmp_path, events)[0].tables["ops"]
    assert ops["start_ns"].tolist() == [1_000_250, 2_000_000, 1_700_000_000_000_000_125]


def test_impossible_host_durations(tmp_path: Path) -> None:
    trace, notes = read(tmp_path, [op("a", 0, -1), op("b", 1, 9.3e15), op("c", 2, 4), {**op("d", 3, 0), "dur": None}])
    assert trace.tables["ops"]["dur_ns"].tolist() == [0, 0, 4000, 0]
    assert codes(notes) == ["bad_duration"] and "ops: 3" in notes[0].message.en


def test_notebook_cells_are_noted(tmp_path: Path) -> None:
    stack = {"Call stack": "/var/ipykernel_12/345.py(3): <module>"}
    assert codes(read(tmp_path, [op("a", 0, 1, **stack)])[1]) == ["notebook_source"]
    assert codes(read(tmp_path, [op("a", 0, 1, **{"Call stack": "ipykernel_help.py(3): f"})])[1]) == []


@pytest.mark.parametrize("wrapped", [True, False])
def test_gpu_traces_are_told_apart(tmp_path: Path, wrapped: bool) -> None:
    kernels = [piece("gemm", 1, 2, 0, 7, cat="kernel"), op("aten::mm", 0, 1)]
    events = json.dumps({"deviceProperties": [{"id": 0}], "traceEvents": kernels} if wrapped else kernels)
    with pytest.raises(KinetoTraceError):
        read(tmp_path, events)


def test_columns_are_what_the_schema_takes(tmp_path: Path) -> None:
    ops = read(tmp_path, WHOLE)[0].tables["ops"]
    assert ops["start_ns"].dtype == np.int64 and "stack" not in ops and "bad" not in ops
