"""The figures of a report once more, the slow way: plain Python over the raw JSON and CSV text of one rank.

Nothing here uses the product or numpy; every question is a loop over all events. It reads what a text profile with a
CANN lane holds (Level1 and up) and leaves damage alone.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

Span = tuple[int, int]
OWNERS = ("gc", "alloc", "compile", "sync", "data", "dispatch", "other")
_CAUSES = {
    "alloc": r"(aclMallocMemInner|aclrtMalloc|aclrtFree).*",
    "compile": r"(aclopCompileAndExecute|opCompile).*",
    "sync": r"(aclrtSynchronize|StreamSynchronize|DeviceSynchronize|EventSynchronize|MemCopySync).*|aclrtMemcpy",
}
_LIBRARY = re.compile(r"site-packages/|dist-packages/|/lib(64)?/python[\d.]*/")
_FRAME = re.compile(r"(?P<path>.+)\((?P<line>\d+)\): (?P<function>.*)")
REFILL_NS = 20_000
NO_RANK = 4294967295


def ns(us: Any) -> int:
    """Microseconds as text or number in ns."""
    return int((Decimal(str(us).strip()) * 1000).to_integral_value(ROUND_HALF_EVEN))


@dataclass
class Event:
    """A slice; ``lane`` is (pid, tid)."""

    name: str
    start: int
    end: int
    lane: tuple[int, int]
    cat: str = ""
    args: dict[str, Any] = field(default_factory=dict)

    def covers(self, at: int) -> bool:
        return self.start <= at < self.end


@dataclass
class Task:
    """A kernel or a collective, with its slice in the trace."""

    name: str
    start: int
    end: int
    slice: Event | None = None
    launch: int | None = None
    launched_on: int | None = None
    op: Event | None = None
    step: int | None = None


@dataclass
class Step:
    """A step's mark on the host and, once closed, its wall window and device window."""

    number: int
    host: Span
    window: Span = (0, 0)
    device: Span | None = None


class Raw:
    """One rank as its files say."""

    def __init__(self, rank_dir: Path) -> None:
        self.output = rank_dir / "ASCEND_PROFILER_OUTPUT"
        loaded = json.loads((self.output / "trace_view.json").read_text(encoding="utf-8"))
        self.events: list[dict[str, Any]] = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
        self.process = {
            event["pid"]: event["args"]["name"]
            for event in self.events
            if event["ph"] == "M" and event["name"] == "process_name"
        }
        self.slices = [self._slice(event) for event in self.events if event["ph"] == "X"]

    def _slice(self, event: dict[str, Any]) -> Event:
        start = ns(event["ts"])
        lane = (event["pid"], event["tid"])
        return Event(
            event["name"], start, start + ns(event["dur"]), lane, event.get("cat", ""), event.get("args") or {}
        )

    def _of(self, *processes: str) -> list[Event]:
        return [event for event in self.slices if self.process.get(event.lane[0]) in processes]

    @cached_property
    def ops(self) -> list[Event]:
        return [event for event in self.slices if event.cat in ("cpu_op", "user_annotation")]

    @cached_property
    def calls(self) -> list[Event]:
        return self._of("CANN")

    # ---- the device -------------------------------------------------------------------------------------------

    @cached_property
    def tasks(self) -> tuple[list[Task], list[Task]]:
        """Kernels and collectives, each with its launch, op and step."""
        kernels, comms = [], []
        with (self.output / "kernel_details.csv").open(encoding="utf-8-sig", newline="") as handle:
            for row in csv.DictReader(handle):
                start = ns(row["Start Time(us)"])
                task = Task(row["Name"].strip(), start, start + ns(row["Duration(us)"]))
                is_comm = row["Accelerator Core"] in ("HCCL", "COMMUNICATION") or task.name.startswith("hcom_")
                (comms if is_comm else kernels).append(task)
        if not comms:
            comms = [Task(event.name, event.start, event.end) for event in self._collectives]
        for task, slices in [(t, self._of("Ascend Hardware")) for t in kernels] + [
            (t, self._collectives) for t in comms
        ]:
            near = [one for one in slices if one.name == task.name and abs(one.start - task.start) < 1000]
            task.slice = min(near, key=lambda one: abs(one.start - task.start), default=None)
            self._link(task)
            task.step = self._step_of(task)
        return kernels, comms

    @cached_property
    def _collectives(self) -> list[Event]:
        return [event for event in self._of("HCCL", "Communication") if event.name.startswith("hcom_")]

    @cached_property
    def _arrows(self) -> dict[str, dict[tuple[int, int, int], tuple[int, int, int]]]:
        """By category: where an arrow ends (pid, tid, ns) -> where it starts."""
        starts: dict[tuple[str, Any], list[dict[str, Any]]] = defaultdict(list)
        for event in self.events:
            if event["ph"] == "s":
                starts[event["cat"], event["id"]].append(event)
        found: dict[str, dict[tuple[int, int, int], tuple[int, int, int]]] = defaultdict(dict)
        for event in self.events:
            candidates = starts.get((event.get("cat"), event.get("id"))) if event["ph"] == "f" else None
            if candidates:
                end = ns(event["ts"])
                before = [one for one in candidates if ns(one["ts"]) <= end] or candidates[:1]
                start = max(before, key=lambda one: ns(one["ts"]))
                where = (start["pid"], start["tid"], ns(start["ts"]))
                found[event["cat"]][event["pid"], event["tid"], end] = where
        return found

    def _link(self, task: Task) -> None:
        if task.slice is None:
            return
        arrow = self._arrows["HostToDevice"].get((*task.slice.lane, task.slice.start))
        if arrow is None:
            return
        _, task.launched_on, task.launch = arrow
        for dequeue in self._cat("dequeue"):
            if dequeue.lane[1] == task.launched_on and dequeue.covers(task.launch):
                enqueue = self._enqueue_of(dequeue)
                task.op = self.innermost(enqueue.lane, enqueue.start) if enqueue else None
                return
        lanes = {op.lane for op in self.ops if op.lane[1] == task.launched_on}
        task.op = next((self.innermost(lane, task.launch) for lane in lanes), None)

    def _cat(self, cat: str) -> list[Event]:
        return [event for event in self.slices if event.cat == cat]

    @cached_property
    def _queue(self) -> dict[str, dict[Any, list[Event]]]:
        found: dict[str, dict[Any, list[Event]]] = {"enqueue": defaultdict(list), "dequeue": defaultdict(list)}
        for cat, by_id in found.items():
            for event in sorted(self._cat(cat), key=lambda one: one.start):
                by_id[event.args["correlation_id"]].append(event)
        return found

    def _enqueue_of(self, dequeue: Event) -> Event | None:
        """The push of a pop: the n-th of the same id."""
        number = dequeue.args["correlation_id"]
        nth = self._queue["dequeue"][number].index(dequeue)
        pushes = self._queue["enqueue"][number]
        return pushes[nth] if nth < len(pushes) else None

    def innermost(self, lane: tuple[int, int], at: int) -> Event | None:
        """The op of a thread that is open at a time and began last."""
        is_open = [op for op in self.ops if op.lane == lane and op.covers(at)]
        return max(is_open, key=lambda op: (op.start, -op.end), default=None)

    # ---- source lines -----------------------------------------------------------------------------------------

    def line_of(self, op: Event) -> tuple[str, str] | None:
        """(how, ``path(line): function``) from own stack, ancestors, or the forward op; None where all say nothing."""
        around = sorted(self._around(op), key=lambda one: (one.start, -one.end), reverse=True)
        for how, event in [("own", op), *(("ancestor", one) for one in around)]:
            frame = self._own(event)
            if frame:
                return how, frame
        for event in (op, *around):
            forward = self._forward(event)
            if forward is not None:
                found = self.line_of(forward)
                if found and found[0] in ("own", "ancestor"):
                    return "forward", found[1]
        return None

    def _around(self, op: Event) -> list[Event]:
        """Ops of the thread that hold this one whole."""
        same = [one for one in self.ops if one.lane == op.lane and one is not op]
        return [
            one
            for one in same
            if one.start <= op.start and op.end <= one.end and (one.end - one.start > op.end - op.start)
        ]

    def _own(self, op: Event) -> str | None:
        if op.name.startswith("ProfilerStep#"):
            return None
        for text in re.split(r";\s*", op.args.get("Call stack", "")):
            found = _FRAME.fullmatch(text.strip())
            if found and not _LIBRARY.search(found["path"]) and not found["path"].startswith("<"):
                return text.strip()
        return None

    def _forward(self, op: Event) -> Event | None:
        arrow = self._arrows["fwdbwd"].get((*op.lane, op.start))
        if arrow is not None:
            return self.innermost(arrow[:2], arrow[2])
        number, thread = op.args.get("Sequence number", -1), op.args.get("Fwd thread id", 0)
        if number < 0 or thread <= 0:
            return None
        before = [
            one
            for one in self.ops
            if one.args.get("Sequence number") == number
            and one.args.get("Fwd thread id") == 0
            and one.start <= op.start
        ]
        return max(before, key=lambda one: one.start, default=None)

    # ---- steps ------------------------------------------------------------------------------------------------

    @cached_property
    def _marks(self) -> list[Step]:
        marks = [(re.fullmatch(r"ProfilerStep#(\d+)", op.name), op) for op in self.ops]
        return sorted((Step(int(m[1]), (op.start, op.end)) for m, op in marks if m), key=lambda step: step.host)

    def _step_of(self, task: Task) -> int | None:
        if task.op is None:
            return None
        return next((step.number for step in self._marks if step.host[0] <= task.op.start < step.host[1]), None)

    @cached_property
    def steps(self) -> list[Step]:
        """The marks with windows that tile time."""
        kernels, comms = self.tasks
        before = None
        for step in self._marks:
            own = [task for task in (*kernels, *comms) if task.step == step.number]
            step.device = (min(task.start for task in own), max(task.end for task in own)) if own else None
            end = max(step.host[1], step.device[1] if step.device else 0)
            start = step.host[0]
            if before is not None:
                end, start = max(end, before), max(start, before)
            step.window, before = (start, end), end
        return self._marks

    def ledger(self, step: Step) -> dict[str, int]:
        """ns of the step by kind, one elementary interval after the other."""
        kernels, comms = self.tasks
        low, high = step.window
        first, last = step.device or (high, high)
        total: dict[str, int] = defaultdict(int)
        for start, end in _elementary([low, high, first, last], [*kernels, *comms], low, high):
            computing, communicating = _covered(kernels, start), _covered(comms, start)
            total["communication"] += (end - start) * communicating
            if computing:
                total["compute"] += end - start
            elif communicating:
                total["exposed_communication"] += end - start
            else:
                part = "prepare" if start < first else "free" if start < last else "after_last_kernel"
                total[part] += end - start
        return total

    def busy(self) -> int:
        """ns with a kernel running, step by step."""
        kernels, _ = self.tasks
        return sum(
            sum(
                end - start
                for start, end in _union([(task.start, task.end) for task in kernels if task.step == number])
            )
            for number in {task.step for task in kernels} - {None}
        )

    # ---- idle time --------------------------------------------------------------------------------------------

    def _owner_spans(self) -> dict[str, list[Span]]:
        spans = {"gc": [(event.start, event.end) for event in self.slices if event.cat == "GC"]}
        for owner, pattern in _CAUSES.items():
            calls = [call for call in self.calls if re.fullmatch(pattern, call.name.rpartition("@")[2])]
            spans[owner] = [(call.start, call.end) for call in calls]
        loader = [op for op in self.ops if op.name.startswith("enumerate(DataLoader)")]
        spans["data"] = [(op.start, op.end) for op in loader]
        return spans

    def idle_owners(self, step: Step) -> dict[str, int]:
        """ns of the step's idle time by owner."""
        kernels, comms = self.tasks
        everything = sorted((*kernels, *comms), key=lambda task: task.start)
        low, high = step.window[0], step.device[1] if step.device else step.window[0]
        busy = _union([(task.start, task.end) for task in everything])
        idle, at = [], low
        for start, end in [*busy, (high, high)]:
            if start > at:
                idle.append((at, min(start, high)))
            at = max(at, end)
        idle = [(start, end) for start, end in idle if end > start]
        ending = [next(task for task in everything if task.start >= end) for _, end in idle]
        waits = [
            task.start - task.launch
            for task, (start, _) in zip(ending, idle, strict=True)
            if task.launch is not None and task.launch >= start
        ]
        latency = min(max(int(median(waits)), 0), 50_000) if waits else 20_000
        causes, copies = self._owner_spans(), self._copies()
        total: dict[str, int] = defaultdict(int)
        for (start, end), task in zip(idle, ending, strict=True):
            queued = task.launch is not None and task.launch + latency < start
            borders = sorted(
                {start, end, *(at for spans in (*causes.values(), copies) for span in spans for at in span)}
            )
            inside = [at for at in borders if start <= at <= end]
            for a, b in pairwise(inside):
                owner = next((o for o in OWNERS if any(x <= a < y for x, y in causes.get(o, ()))), None)
                if queued or owner is None:
                    owner = "other"
                    if not queued and task.launch is not None and not any(x <= a < y for x, y in copies):
                        owner = "sync" if self._drained(start, causes["sync"]) else "dispatch"
                total[owner] += b - a
        return total

    def _drained(self, at: int, syncs: list[Span]) -> bool:
        """Whether the last sync that had begun when the device ran dry was open or had just returned."""
        begun = [span for span in syncs if span[0] <= at]
        return bool(begun) and max(begun)[1] + REFILL_NS >= at

    def _copies(self) -> list[Span]:
        kinds = ("PCIE_DMA_SQE", "SDMA_SQE", "MEMCPY_ASYNC")
        return [
            (one.start, one.end)
            for one in self._of("Ascend Hardware")
            if one.args.get("Task Type") in kinds or "memcpy" in one.name.lower()
        ]

    # ---- who was waited for -----------------------------------------------------------------------------------

    def waits(self, step: Step) -> dict[int, int]:
        """ns of exposed communication that the step spends waiting for one peer alone, by peer."""
        kernels, comms = self.tasks
        total: dict[int, int] = defaultdict(int)
        for comm in comms:
            longest: dict[int, Event] = {}
            for task in self._of("HCCL", "Communication"):
                peer = task.args.get("dst rank")
                if task.name != "Notify_Wait" or not comm.start <= task.start < comm.end:
                    continue
                if peer is None or peer in (NO_RANK, task.args.get("src rank")):
                    continue
                if peer not in longest or task.end - task.start > longest[peer].end - longest[peer].start:
                    longest[peer] = task
            if not longest:
                continue
            peers = sorted(longest, key=lambda rank: longest[rank].end - longest[rank].start, reverse=True)
            late = longest[peers[0]]
            second = longest[peers[1]].end - longest[peers[1]].start if len(peers) > 1 else 0
            low, high = max(late.start + second, step.window[0]), min(late.end, step.window[1], comm.end)
            for start, end in _elementary([low, high], kernels, low, high):
                if not _covered(kernels, start):
                    total[peers[0]] += end - start
        return {peer: length for peer, length in total.items() if length}

    # ---- memory -----------------------------------------------------------------------------------------------

    def peak(self) -> tuple[float, int]:
        """Bytes and ns of the highest total of both allocators, or of PyTorch's own."""
        samples: dict[str, list[tuple[float, int]]] = defaultdict(list)
        with (self.output / "memory_record.csv").open(encoding="utf-8-sig", newline="") as handle:
            for row in csv.DictReader(handle):
                if row["Total Allocated(MB)"].strip():
                    mb = float(row["Total Allocated(MB)"])
                    samples[row["Component"]].append((mb * 2**20, ns(row["Timestamp(us)"])))
        chosen = samples.get("PTA+GE") or samples["PTA"]
        top = max(size for size, _ in chosen)
        return top, min(at for size, at in chosen if size == top)

    def alive_at(self, at: int) -> list[float]:
        """Bytes of each recorded block that is allocated at a time, largest first."""
        blocks = []
        with (self.output / "operator_memory.csv").open(encoding="utf-8-sig", newline="") as handle:
            for row in csv.DictReader(handle):
                size = float(row["Size(KB)"]) * 1024
                release = row["Release Time(us)"].strip()
                if size > 0 and ns(row["Allocation Time(us)"]) <= at and (not release or ns(release) > at):
                    blocks.append(size)
        return sorted(blocks, reverse=True)


def _union(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def _elementary(borders: list[int], tasks: list[Task], low: int, high: int) -> list[Span]:
    """Pieces of [low, high) in which nothing begins or ends."""
    cuts = sorted({at for at in (*borders, *(t.start for t in tasks), *(t.end for t in tasks)) if low <= at <= high})
    return list(pairwise(cuts))


def _covered(tasks: list[Task], at: int) -> bool:
    return any(task.start <= at < task.end for task in tasks)
