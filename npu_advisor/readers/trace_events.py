"""Sort events into kinds as they are decoded; keep of each kind only the columns that some table needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from npu_advisor.readers.columns import Ids, Pool, Rows, to_ns
from npu_advisor.readers.device_names import element_bytes, payload_bytes
from npu_advisor.readers.numbers import Int
from npu_advisor.readers.trace_batch import Batch, Decoded
from npu_advisor.readers.trace_decode import Event

FLOWS = ("async_task_queue", "async_npu", "fwdbwd", "HostToDevice")
_FLOW_NAMES = {"enqueue_to_dequeue": "async_task_queue", "torch_to_npu": "async_npu", "fwdbwd": "fwdbwd"}
GPU = frozenset({"kernel", "cuda_runtime", "cuda_driver", "gpu_memcpy", "Kernel", "Runtime"})
# msprof draws the iterations of a graph on a device lane; only whole ones matter, their parts are no tasks.
_ITERATION = "Iteration Time"
_PARTS_OF_ITERATION = ("FP_BP Time", "Iteration Refresh", "Reduce", "Data_aug Bound")
# Kinds by category; nothing is kept of "".
SLICE_KINDS = {
    "cpu_op": "ops",
    "user_annotation": "ops",
    "python_function": "frames",
    "enqueue": "queue",
    "dequeue": "queue",
    "GC": "gcs",
    _ITERATION: "iterations",
    **dict.fromkeys(_PARTS_OF_ITERATION, ""),
}
FLOW_KINDS = {**dict(zip(FLOWS, FLOWS, strict=True)), "acl_to_npu": "HostToDevice"}
# Names that tell the queue's slices where they have no category.
QUEUE = ("Enqueue", "Dequeue@")
COUNTER = "AI Core Freq"
_KINDS = ("ops", "frames", "queue", "apis", "hardware", "comm_tasks", "plain", "gcs", "iterations", "counters")
# Which pool the codes of a column belong to, where needed by kind.
POOL_OF = {
    ("", "name"): "names",
    ("frames", "name"): "frame_names",
    ("ops", "stack"): "stacks",
    ("ops", "shapes"): "shapes",
    ("ops", "dtypes"): "types",
    ("apis", "item"): "items",
    ("apis", "level"): "levels",
    ("hardware", "task_type"): "task_types",
    ("comm_tasks", "transport"): "links",
    ("comm_tasks", "link"): "links",
}
_POOLS = tuple(dict.fromkeys(POOL_OF.values()))
_NO_SLICES = frozenset({"counters", *FLOWS})


class InLane(Protocol):
    """What every event has, whoever wrote it."""

    name: str
    pid: int | str | None
    tid: int | str | None


class Tracks(dict[Any, int]):
    """Lane number by the (pid, tid) the writer gave; a new pair gets the next number."""

    def __init__(self) -> None:
        self.pids: list[int | str] = []
        self.tids: list[int | str] = []
        self.processes: dict[int | str, str] = {}
        self.threads: dict[tuple[int | str, int | str], str] = {}
        self._known: dict[tuple[int | str, int | str], int] = {}

    def __missing__(self, key: tuple[Any, Any]) -> int:
        pid, tid = (_identity(part) for part in key)
        number = self._known.setdefault((pid, tid), len(self.pids))
        if number == len(self.pids):
            self.pids.append(pid)
            self.tids.append(tid)
        self[key] = number
        return number

    def of(self, events: Sequence[InLane]) -> Int:
        """The lane of each event."""
        pids, tids = [event.pid for event in events], [event.tid for event in events]
        return np.fromiter(map(self.__getitem__, zip(pids, tids, strict=True)), np.int64, len(events))

    def name(self, event: InLane, label: str | int | None) -> None:
        """Take in a metadata event, which gives its lane or its process the name ``label``."""
        if event.name == "process_name" and label is not None:
            self.processes[_identity(event.pid)] = str(label)
        elif event.name == "thread_name" and label is not None:
            self.threads[_identity(event.pid), _identity(event.tid)] = str(label)


def _identity(part: Any) -> int | str:
    """Digits as a number, so that "12" and 12 are one process; anything else as text."""
    if isinstance(part, int):
        return part
    text = str(part)
    try:
        return int(float(text)) if isinstance(part, float) else int(text)
    except (ValueError, OverflowError):
        return text


class Sorted(NamedTuple):
    """What an :class:`EventSorter` holds: columns by kind, and what their codes, ids and lanes stand for."""

    rows: dict[str, dict[str, npt.NDArray[Any]]]
    texts: dict[str, list[str]]
    other_ids: list[Any]
    lanes: list[tuple[int | str, int | str]]
    processes: dict[int | str, str]
    threads: dict[tuple[int | str, int | str], str]
    slices: int
    gpu: int


class EventSorter:
    """The columns of every kind of event of one trace."""

    def __init__(self) -> None:
        self.tracks = Tracks()
        self.names, self.stacks, self.shapes, self.types = Pool(), Pool(), Pool(), Pool()
        self.items, self.levels, self.task_types, self.links = Pool("0"), Pool(), Pool(), Pool()
        self.frame_names = Pool()
        kinds = (
            "ops",
            "frames",
            "queue",
            "apis",
            "hardware",
            "comm_tasks",
            "plain",
            "gcs",
            "iterations",
            "counters",
            *FLOWS,
        )
        self.rows = {kind: Rows() for kind in kinds}
        self._ids = Ids()
        self.slices = 0
        self.gpu = 0
        self._taken: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        self._columns: dict[str, Callable[[Batch], dict[str, Any]]] = {
            "ops": self._ops,
            "frames": self._frames,
            "queue": self._queue,
            "apis": self._apis,
            "hardware": self._hardware,
            "comm_tasks": self._comm_tasks,
            "plain": self._plain,
            "gcs": self._gcs,
            "iterations": self._iterations,
            "counters": self._counters,
            **{category: self._flow_columns(category) for category in FLOWS},
        }

    def sorted(self) -> Sorted:
        """What was taken in, given away as plain values that another process can be sent; the sorter is done with."""
        tracks = self.tracks
        self._sort_no_more()
        return Sorted(
            rows={kind: _joined(blocks) for kind, blocks in self._taken.items()},
            texts={pool: getattr(self, pool).texts for pool in _POOLS},
            other_ids=self._ids.others,
            lanes=list(zip(tracks.pids, tracks.tids, strict=True)),
            processes=tracks.processes,
            threads=tracks.threads,
            slices=self.slices,
            gpu=self.gpu,
        )

    def absorb(self, part: Sorted) -> None:
        """Take in the next stretch of the trace, as another sorter has sorted it; this one is to sort none itself."""
        self._sort_no_more()
        self.slices, self.gpu = self.slices + part.slices, self.gpu + part.gpu
        self.tracks.processes.update(part.processes)
        self.tracks.threads.update(part.threads)
        lanes = np.array([self.tracks[lane] for lane in part.lanes], np.int64)
        for kind, columns in part.rows.items():
            if kind in FLOWS and columns:
                columns["id"] = self._ids.renumbered(columns["id"], part.other_ids)
            for name, values in columns.items():
                pool = POOL_OF.get((kind, name)) or POOL_OF.get(("", name))
                if name == "track":
                    columns[name] = lanes[values]
                elif pool is not None:
                    columns[name] = getattr(self, pool).renumbered(values, part.texts[pool])
            if columns:
                self.rows[kind].extend(**columns)

    def _sort_no_more(self) -> None:
        """Let go of what holds this sorter as it holds it: the cyclic collector would come late, and find a lot."""
        self._columns.clear()

    def add(self, events: list[Event]) -> None:
        """Take in one block."""
        bins: dict[str, list[Event]] = {kind: [] for kind in self.rows}
        by_cat = {cat: bins[kind].append if kind else _leave for cat, kind in SLICE_KINDS.items()}
        flows = {cat: bins[kind].append for cat, kind in FLOW_KINDS.items()}
        uncategorised, unnamed_flow = self._uncategorised(bins), _unnamed_flow(bins)
        for event in events:
            phase = event.ph
            if phase == "X":
                by_cat.get(event.cat, uncategorised)(event)  # type: ignore[arg-type]
            elif phase == "s" or phase == "f":
                flows.get(event.cat, unnamed_flow)(event)  # type: ignore[arg-type]
            elif phase == "M":
                self.tracks.name(event, event.args.name if event.args else None)
            elif phase == "C" and event.name == COUNTER:
                bins["counters"].append(event)
        for kind, chosen in bins.items():
            if chosen:
                self.take(kind, Decoded(chosen))

    def _uncategorised(self, bins: dict[str, list[Event]]) -> Callable[[Event], None]:
        """Slices without a category (CANN, device) are told by their args; their process names may come later."""
        apis, hardware, comm_tasks = bins["apis"].append, bins["hardware"].append, bins["comm_tasks"].append
        queue, plain = bins["queue"].append, bins["plain"].append

        def sort(event: Event) -> None:
            args = event.args
            if event.cat in GPU:
                self.gpu += 1
            elif args is None:
                plain(event)
            elif args.task_type is not None:
                hardware(event)
            elif args.level is not None:
                apis(event)
            elif args.comm_task is not None or args.src_rank is not None:
                comm_tasks(event)
            elif args.correlation is not None and event.name.startswith(QUEUE):
                queue(event)
            else:
                plain(event)

        return sort

    def take(self, kind: str, events: Batch) -> None:
        """Append events of one kind."""
        self._taken[kind].append(self._columns[kind](events))
        self.slices += len(events) if kind not in _NO_SLICES else 0

    def _timed(self, events: Batch) -> dict[str, Any]:
        return {
            "track": events.lanes(self.tracks),
            "start_ns": events.starts(),
            "dur_ns": to_ns(events.floats("dur")),
        }

    def _named(self, events: Batch) -> dict[str, Any]:
        return {"name": events.codes("name", self.names), **self._timed(events)}

    def _ops(self, events: Batch) -> dict[str, Any]:
        return {
            **self._named(events),
            "sequence": events.ids("sequence"),
            "fwd_thread": events.ids("fwd_thread"),
            "stack": events.codes("stack", self.stacks),
            "shapes": events.codes("dims", self.shapes),
            "dtypes": events.codes("types", self.types),
        }

    def _frames(self, events: Batch) -> dict[str, Any]:
        return {
            "name": events.codes("name", self.frame_names),
            **self._timed(events),
            "python_id": events.ids("python_id"),
            "python_parent": events.ids("python_parent", missing=0),
        }

    def _queue(self, events: Batch) -> dict[str, Any]:
        push, told = events.equal("cat", "enqueue"), events.given("cat") & ~events.equal("cat", "")
        if not told.all():
            push |= ~told & events.tests("name", lambda name: name.startswith("Enqueue"))
        return {
            **self._named(events),
            "push": push,
            "correlation": events.ids("correlation"),
        }

    def _apis(self, events: Batch) -> dict[str, Any]:
        return {
            **self._named(events),
            "level": events.codes("level", self.levels),
            "item": events.codes("item", self.items),
            "connection": events.ids("connection", missing=0),
        }

    def _hardware(self, events: Batch) -> dict[str, Any]:
        return {
            **self._named(events),
            "task_type": events.codes("task_type", self.task_types),
            "stream": np.where(events.given("stream"), events.ids("stream"), events.ids("old_stream")),
            "task": events.ids("task"),
            "model": events.ids("model"),
            "connection": events.ids("connection"),
        }

    def _comm_tasks(self, events: Batch) -> dict[str, Any]:
        size = events.floats("size")
        return {
            **self._named(events),
            "src_rank": events.ids("src_rank"),
            "dst_rank": events.ids("dst_rank"),
            "bytes": np.where(size >= 0, size, np.nan),
            "transport": events.codes("transport", self.links),
            "link": events.codes("link", self.links),
        }

    def _plain(self, events: Batch) -> dict[str, Any]:
        types = Pool()
        codes = events.codes("data_type", types)
        return {
            **self._named(events),
            "connection": events.ids("connection"),
            "payload": payload_bytes(events.ids("count"), element_bytes([*types.texts, ""])[codes]),
        }

    def _gcs(self, events: Batch) -> dict[str, Any]:
        return self._timed(events)

    def _iterations(self, events: Batch) -> dict[str, Any]:
        return self._named(events)

    def _counters(self, events: Batch) -> dict[str, Any]:
        return {
            "name": events.codes("name", self.names),
            "start_ns": events.starts(),
            "value": to_ns(events.floats("mhz")) / 1000.0,
        }

    def _flow_columns(self, category: str) -> Callable[[Batch], dict[str, Any]]:
        def columns(events: Batch) -> dict[str, Any]:
            ids, high = self._ids.of(events.values("id")).T
            return {
                "category": np.full(len(events), FLOWS.index(category), np.int8),
                "finish": events.equal("ph", "f"),
                "id": ids,
                "id_high": high,
                "track": events.lanes(self.tracks),
                "start_ns": events.starts(),
            }

        return columns


def _joined(blocks: list[dict[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    """The columns of all blocks, in little room."""
    rows = Rows()
    if blocks:
        rows.extend(**{name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]})
    return rows.take()


def _leave(event: Event) -> None:
    """Keep nothing of an event."""


def _unnamed_flow(bins: dict[str, list[Event]]) -> Callable[[Event], None]:
    """Flows without a category go by their name; those of other categories are not kept."""

    def sort(event: Event) -> None:
        name = "HostToDevice" if event.name.startswith("HostToDevice") else _FLOW_NAMES.get(event.name)
        if name and not event.cat:
            bins[name].append(event)

    return sort
