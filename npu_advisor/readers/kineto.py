"""A GPU trace of torch.profiler (Kineto) into the same tables as an Ascend profile.

Launches are joined by ``connection``, which holds Kineto's correlation id.  Starts that the writer gives relative to
``baseTimeNanoseconds`` become times since the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.messages import say
from npu_advisor.graph.nesting import Nesting
from npu_advisor.readers.columns import relabel
from npu_advisor.readers.gpu_names import gpu_comm_type, gpu_kernel_type, is_gpu_comm
from npu_advisor.readers.info import whole
from npu_advisor.readers.kineto_decode import KINETO
from npu_advisor.readers.kineto_events import KINDS, KinetoSorter
from npu_advisor.readers.notes import Notes, UnreadableFileError, some
from npu_advisor.readers.numbers import DAY_NS, Int
from npu_advisor.readers.trace import report_recovery
from npu_advisor.readers.trace_blocks import EventBlocks
from npu_advisor.readers.trace_decode import Recovery, decode
from npu_advisor.readers.trace_spans import no_cyclic_gc
from npu_advisor.readers.trace_tables import Columns

# The component of torch's own allocator on a GPU.
CUDA = "CUDA"
_CPU_DEVICE = 0
_LANES = {"ops": "cpu_op", "apis": "cuda_runtime", "kernels": "kernel"}


@dataclass
class KinetoTrace:
    """Raw tables by name, and what the trace says about its recording (None where it does not)."""

    tables: dict[str, Columns] = field(default_factory=dict)
    rank: int = -1
    device: str | None = None
    device_kind: Literal["gpu", "cpu"] = "gpu"
    with_stack: bool | None = None
    record_shapes: bool | None = None
    profile_memory: bool | None = None


def read_kineto(path: Path, notes: Notes, progress: Callable[[int], None] | None = None) -> KinetoTrace:
    """Read the trace at ``path``; what had to be mended goes to ``notes``.

    Raises UnreadableFileError when the file is empty, no trace, or broken off before its first event.
    """
    blocks, sorter, recovery = EventBlocks(path, progress), KinetoSorter(), Recovery()
    with no_cyclic_gc():
        for block in blocks:
            sorter.add(decode(block, recovery, KINETO))
    if not recovery.events and not blocks.complete:
        raise UnreadableFileError(say("reason.no_whole_event", size=blocks.size))
    absent = [label for kind, label in _LANES.items() if not len(sorter.rows[kind])]
    made = _Tables(path.name, sorter, blocks.root, notes).build()
    report_recovery(path.name, blocks, recovery, absent, notes)
    if not sorter.slices:
        notes.say("no_events", "warning", path.name)
    return made


class _Tables:
    """Joins the blocks, mends durations, sorts by start, names lanes."""

    def __init__(self, file: str, sorter: KinetoSorter, root: Mapping[str, Any], notes: Notes) -> None:
        self.file, self.sorter, self.root, self.notes = file, sorter, root, notes
        self.base = _whole_number(root.get("baseTimeNanoseconds")) or 0
        self.bad: dict[str, int] = {}
        self.lost, self.seen = 0, 0
        self.raw = {kind: self._sorted(kind, sorter.rows[kind].take()) for kind in KINDS}
        self.tracks = self._tracks()

    def build(self) -> KinetoTrace:
        """The trace."""
        made = KinetoTrace(tables={"tracks": self.tracks} if len(self.tracks["pid"]) else {})
        self._host(made.tables)
        self._device(made.tables)
        self._memory(made.tables)
        if self.raw["fwdbwd"]:
            ends = {name: values for name, values in self.raw["fwdbwd"].items() if name != "device"}
            category = Categorical(np.zeros(len(ends["id"]), np.int8), ["fwdbwd"])
            made.tables["flow_points"] = {**ends, "category": category}
        self._describe(made)
        if self.bad:
            kinds = some([f"{kind}: {count}" for kind, count in self.bad.items()], limit=8)
            self.notes.say("bad_duration", "warning", self.file, "bad_duration_trace", kinds=kinds)
        if self.lost:
            self.notes.say(
                "bad_timestamp", "warning", self.file, "bad_timestamp_trace", count=self.lost, rows=self.seen
            )
        return made

    def _sorted(self, kind: str, columns: Columns) -> Columns:
        """Rows with a readable start, in start order (outer before inner), times since the epoch, sound durations."""
        if not columns:
            return {}
        known = columns["start_ns"] >= 0
        self.seen += len(known)
        self.lost += int((~known).sum())
        columns = {name: values[known] for name, values in columns.items()}
        if not known.any():
            return {}
        duration = columns.pop("dur_ns", None)
        columns["start_ns"] = columns["start_ns"] + self.base
        if duration is None:
            order = np.argsort(columns["start_ns"], kind="stable")
            return {name: values[order] for name, values in columns.items()}
        with np.errstate(invalid="ignore"):
            bad = ~(duration >= 0) | (duration > DAY_NS)
        if bad.any():
            self.bad[kind] = int(bad.sum())
        columns["dur_ns"] = np.where(bad, 0, duration).astype(np.int64)
        order = np.lexsort((-columns["dur_ns"], columns["start_ns"]))
        return {name: values[order] for name, values in columns.items()}

    def _tracks(self) -> Columns:
        tracks = self.sorter.tracks
        process = [self._process(pid) for pid in tracks.pids]
        threads = [tracks.threads.get(key) for key in zip(tracks.pids, tracks.tids, strict=True)]
        on_device = [self.raw[kind]["track"] for kind in ("kernels", "tasks") if self.raw[kind]]
        for track in np.unique(np.concatenate(on_device)).tolist() if on_device else ():
            if process[track] is None:
                process[track] = f"GPU {tracks.pids[track]}"
        return {
            "process": np.array(process, dtype=object),
            "thread": np.array([text.strip() if text else None for text in threads], dtype=object),
            "pid": np.array([_lane(pid) for pid in tracks.pids], np.int64),
            "tid": np.array([_lane(tid) for tid in tracks.tids], np.int64),
        }

    def _process(self, pid: int | str) -> str | None:
        label = self.sorter.labels.get(pid)
        return label if label and label != "CPU" else self.sorter.tracks.processes.get(pid)

    def _in_lanes(self, columns: Columns) -> Columns:
        return {**columns, "pid": self.tracks["pid"][columns["track"]], "tid": self.tracks["tid"][columns["track"]]}

    def _host(self, tables: dict[str, Columns]) -> None:
        sorter = self.sorter
        if self.raw["ops"]:
            ops = self._in_lanes(self.raw["ops"])
            ops["name"] = sorter.names.categorical(ops["name"])
            for name, pool, texts in (
                ("stack", sorter.stacks, sorter.stacks.texts),
                ("shapes", sorter.shapes, map(shapes_text, sorter.shapes.texts)),
                ("dtypes", sorter.types, map(types_text, sorter.types.texts)),
            ):
                ops[name] = pool.categorical(ops[name], texts)
                if not len(ops[name].categories):
                    del ops[name]
            tables["ops"] = ops
        if self.raw["frames"]:
            frames = self._in_lanes(self.raw["frames"])
            frames["name"] = sorter.frame_names.categorical(frames["name"])
            tables["frames"] = frames
        if self.raw["apis"]:
            apis = self._in_lanes(self.raw["apis"])
            apis["name"] = sorter.names.categorical(apis["name"])
            apis["level"] = np.full(len(apis["start_ns"]), "runtime", dtype=object)
            tables["apis"] = apis

    def _device(self, tables: dict[str, Columns]) -> None:
        kernels, tasks = self.raw["kernels"], self.raw["tasks"]
        kept = ("track", "start_ns", "dur_ns", "connection", "stream")
        if kernels:
            labels = self.sorter.names.texts
            comm = np.array([*map(is_gpu_comm, labels), False], bool)[kernels["name"]]
            if not comm.all():
                made = self._chosen(kernels, ~comm, kept)
                made["type"] = relabel(made["name"], map(gpu_kernel_type, made["name"].categories))
                made["core"] = np.full(len(made["start_ns"]), "GPU", dtype=object)
                tables["kernels"] = made
            if comm.any():
                tables["comms"] = self._comms(kernels, comm)
        if tasks:
            made = self._chosen(tasks, np.ones(len(tasks["start_ns"]), bool), kept)
            made["task_type"] = self.sorter.categories.categorical(tasks["category"])
            kinds = np.array([*map(_task_kind, made["name"].categories), _task_kind("")], dtype=object)
            made["kind"] = kinds[made["name"].codes]
            tables["tasks"] = made
        devices = np.unique(np.concatenate([rows["device"] for rows in (kernels, tasks) if rows] or [[]]))
        if len(devices[devices >= 0]) > 1:
            self.notes.say("several_devices", "warning", self.file, count=len(devices[devices >= 0]))

    def _chosen(self, columns: Columns, rows: Any, kept: tuple[str, ...]) -> Columns:
        made = {name: columns[name][rows] for name in kept}
        made["name"] = self.sorter.names.categorical(columns["name"][rows])
        return self._in_lanes(made)

    def _comms(self, kernels: Columns, comm: Any) -> Columns:
        made = self._chosen(kernels, comm, ("track", "start_ns", "dur_ns", "connection"))
        told = self.sorter.collectives.categorical(kernels["collective"][comm])
        names = np.array([*made["name"].categories, ""], dtype=object)[made["name"].codes]
        collectives = np.array([*told.categories, ""], dtype=object)[told.codes]
        made["type"] = np.array([gpu_comm_type(*pair) for pair in zip(names, collectives, strict=True)], dtype=object)
        group = self.sorter.groups.categorical(kernels["group"][comm])
        if len(group.categories):
            made["group"] = group
        return made

    def _memory(self, tables: dict[str, Columns]) -> None:
        """Samples and allocations of the device that has most of them; host memory is another matter."""
        events = self.raw["memory"]
        if not events:
            return
        mine = events["device_type"] != _CPU_DEVICE
        devices, counts = np.unique(events["device"][mine], return_counts=True)
        if not len(devices):
            return
        mine &= events["device"] == devices[np.argmax(counts)]
        events = {name: values[mine] for name, values in events.items()}
        sampled = events["allocated"] >= 0
        if sampled.any():
            tables["memory"] = {
                "component": np.full(int(sampled.sum()), CUDA, dtype=object),
                "start_ns": events["start_ns"][sampled],
                "allocated_bytes": events["allocated"][sampled].astype(np.float64),
                "reserved_bytes": _bytes(events["reserved"][sampled]),
            }
        rows = np.flatnonzero(events["size"] > 0)
        if len(rows):
            tables["allocs"] = self._allocs(events, rows, tables.get("ops"))

    def _allocs(self, events: Columns, rows: Int, ops: Columns | None) -> Columns:
        """One row per allocation: released by the next event of its address, asked for by the innermost op around."""
        release = _releases(events)[rows]
        start = events["start_ns"][rows]
        made: Columns = {
            "start_ns": start,
            "dur_ns": np.where(release >= 0, release - start, 0),
            "release_ns": release,
            "size_bytes": events["size"][rows].astype(np.float64),
            "component": np.full(len(rows), CUDA, dtype=object),
        }
        if ops is None:
            return made
        tree = Nesting(ops["track"], ops["start_ns"], ops["start_ns"] + ops["dur_ns"])
        op = tree.innermost(events["track"][rows], start)
        names = np.array([*ops["name"].categories, None], dtype=object)
        return {**made, "op": op, "name": names[np.where(op >= 0, ops["name"].codes[op], -1)]}

    def _describe(self, made: KinetoTrace) -> None:
        root = self.root
        distributed = root.get("distributedInfo")
        rank = whole(distributed.get("rank")) if isinstance(distributed, Mapping) else None
        made.rank = -1 if rank is None else rank
        used = [rows["device"] for rows in (self.raw["kernels"], self.raw["tasks"]) if rows]
        number = int(used[0][0]) if used else 0
        listed = root.get("deviceProperties")
        named = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
        chosen = [entry.get("name") for entry in named if entry.get("id") == number] or [None]
        made.device = str(chosen[0]) if chosen[0] else None
        made.device_kind = "gpu" if used or named or self.raw["apis"] else "cpu"
        stacks = bool(self.raw["frames"]) or "stack" in made.tables.get("ops", {})
        made.with_stack = _switch(root.get("with_stack"), stacks)
        made.record_shapes = _switch(root.get("record_shapes"), "shapes" in made.tables.get("ops", {}))
        made.profile_memory = _switch(root.get("profile_memory"), bool(self.raw["memory"]))


def _releases(events: Columns) -> Int:
    """For each event the time of the next one of the same address if that frees it, -1 otherwise."""
    order = np.lexsort((np.arange(len(events["size"])), events["address"]))
    following = np.full(len(order), -1, np.int64)
    same = events["address"][order][1:] == events["address"][order][:-1]
    frees = events["size"][order][1:] < 0
    following[order[:-1][same & frees]] = events["start_ns"][order[1:][same & frees]]
    return following


def _bytes(values: Int) -> Any:
    return np.where(values >= 0, values.astype(np.float64), np.nan)


def _task_kind(name: str) -> str:
    if name.startswith("Memcpy"):
        return "copy"
    return "event_wait" if name == "Stream Wait Event" else "other"


def _switch(told: object, seen: bool) -> bool | None:
    """A switch as the trace states it; where it does not, what it holds proves that it was on."""
    number = _whole_number(told)
    if number is not None:
        return bool(number)
    return True if seen else None


def _whole_number(value: object) -> int | None:
    return int(value) if isinstance(value, (int, bool)) and abs(value) < 2**62 else None


def _lane(part: int | str) -> int:
    return part if isinstance(part, int) and -(2**63) <= part < 2**63 else -1


def shapes_text(raw: str) -> str:
    """``[[32,3,224,224],[],[[2,2],[3]]]`` -> ``32,3,224,224;;``: lists of tensors stay empty, as Ascend writes them."""
    entries = _list(raw)
    shapes = [entry if isinstance(entry, list) else [] for entry in entries]
    plain = [[] if any(isinstance(dim, (list, dict)) for dim in shape) else shape for shape in shapes]
    return ";".join(",".join(map(str, shape)) for shape in plain)


def types_text(raw: str) -> str:
    """``["float","Scalar"]`` -> ``float;Scalar``."""
    return ";".join(str(entry) for entry in _list(raw))


def _list(raw: str) -> list[Any]:
    try:
        loaded = json.loads(raw)
    except (ValueError, RecursionError):
        return []
    return loaded if isinstance(loaded, list) else []
