"""Write small profiles by hand: one function per file, defaults for what a test does not care about."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

HOST, CANN, DEVICE, HCCL, OVERLAP = 100, 102624, 102816, 102880, 103136
BASE = 1_700_000_000_000_000
KERNEL_HEAD = ["Step Id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)"]
Event = dict[str, Any]


def us(offset: float) -> str:
    """``offset`` us after the base time, as the writers print it."""
    whole, thousandths = divmod(round(offset * 1000), 1000)
    return f"{BASE + whole}.{thousandths:03d}"


def ns(offset: float) -> int:
    """The same time as the tables hold it."""
    return BASE * 1000 + round(offset * 1000)


def piece(name: str, at: float, dur: float, pid: Any = HOST, tid: Any = 1, **more: Any) -> Event:
    """A slice; ``cat`` and ``args`` as given."""
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": us(at), "dur": dur, **more}


def op(name: str, at: float, dur: float, tid: int = 1, **args: Any) -> Event:
    """A torch op."""
    return piece(name, at, dur, tid=tid, cat="cpu_op", args={"Sequence number": -1, "Fwd thread id": 0, **args})


def task(name: str, at: float, dur: float, kind: str = "AI_CORE", stream: int = 2, **args: Any) -> Event:
    """A device task."""
    told = {"Model Id": 4294967295, "Task Type": kind, "Physic Stream Id": stream, "Task Id": 7, "connection_id": 5}
    return piece(name, at, dur, DEVICE, stream, args={**told, **args})


def flow(category: str, phase: str, number: Any, at: float, pid: int = HOST, tid: int = 1) -> Event:
    """One end of a flow."""
    names = {"async_npu": "torch_to_npu", "async_task_queue": "enqueue_to_dequeue"}
    name = names.get(category, category)
    return {"ph": phase, "name": name, "id": number, "pid": pid, "tid": tid, "ts": us(at), "cat": category}


def lanes() -> list[Event]:
    """The names of the processes."""
    named = (
        (HOST, "Python"),
        (CANN, "CANN"),
        (DEVICE, "Ascend Hardware"),
        (HCCL, "HCCL"),
        (OVERLAP, "Overlap Analysis"),
    )
    return [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}} for pid, name in named]


def write_trace(folder: Path, events: list[Event] | str, name: str = "trace_view.json") -> Path:
    """``events`` as an array on one line, or raw text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(events if isinstance(events, str) else json.dumps(events, ensure_ascii=False), encoding="utf-8")
    return path


def write_csv(folder: Path, name: str, head: list[str], rows: list[list[Any]], bom: bool = False) -> Path:
    """A CSV as the writers make it, CRLF included."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as handle:
        csv.writer(handle).writerows([head, *rows])
    return path


def kernel(name: str, at: float, dur: Any, kind: str = "MatMulV2", core: str = "AI_CORE", step: Any = 1) -> list[Any]:
    """A row under ``KERNEL_HEAD``."""
    return [step, name, kind, core, us(at) + "\t", dur]


def write_info(folder: Path, rank: Any = 0, level: str = "Level1", name: str = "profiler_info_0.json") -> Path:
    """profiler_info of a rank."""
    folder.mkdir(parents=True, exist_ok=True)
    common = {"with_stack": True, "record_shapes": False, "schedule": {"_wait": 1, "active": 2}}
    config = {"common_config": common, "experimental_config": {"_profiler_level": level}}
    path = folder / name
    path.write_text(json.dumps({"config": config, "rank_id": rank, "cann_version": "8.3"}), encoding="utf-8")
    return path
