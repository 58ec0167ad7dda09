"""The sorted events of a trace as tables: lanes named, durations mended, rows in start order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.frame import is_notebook, parse_frame, split_stack
from npu_advisor.base.numbering import factorize, paired
from npu_advisor.readers.columns import Pool
from npu_advisor.readers.device_names import is_comm_name
from npu_advisor.readers.join import outer_first
from npu_advisor.readers.notes import Notes, some
from npu_advisor.readers.numbers import DAY_NS, Bool, Int
from npu_advisor.readers.trace_events import FLOWS, EventSorter

Columns = dict[str, Any]
OVERLAP = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
COMM_PROCESSES = ("HCCL", "Communication")
_LAYERS = {
    "AscendCL": "acl",
    "ACL": "acl",
    "Node": "node",
    "Runtime": "runtime",
    "Hccl": "hccl",
    "Communication": "hccl",
    "Model": "model",
    "GE": "model",
}
_LEVELS = {"communication": "hccl"}


@dataclass
class Trace:
    """Raw columns by table name, without the columns that the graph adds; texts are categoricals.

    ``hardware`` are all device tasks (name, task_type, times, track, stream, task, model, connection), ``comm_ops``
    the collectives (name, times, track, connection), ``iterations`` those that msprof marks (number, times);
    ``events`` counts what was decoded.
    """

    file: str
    tables: dict[str, Columns] = field(default_factory=dict)
    hardware: Columns = field(default_factory=dict)
    comm_ops: Columns = field(default_factory=dict)
    iterations: Columns = field(default_factory=dict)
    tracks: Columns = field(default_factory=dict)
    events: int = 0
    slices: int = 0


class TraceTables:
    """Joins the blocks, names the lanes, mends durations, sorts by start."""

    def __init__(self, file: str, sorter: EventSorter, notes: Notes, mend_paths: bool) -> None:
        self.file, self.sorter, self.notes, self.mend_paths = file, sorter, notes, mend_paths
        self.raw = {kind: rows.take() for kind, rows in sorter.rows.items()}
        self.bad: dict[str, int] = {}

    def build(self) -> Trace:
        """The trace."""
        trace = Trace(self.file, slices=self.sorter.slices)
        trace.tracks = self._tracks()
        process = trace.tracks["process"]
        names = self.sorter.names
        self._spread_plain(process)
        for kind in (
            "ops",
            "frames",
            "queue",
            "apis",
            "hardware",
            "comm_tasks",
            "gcs",
            "iterations",
            "comm_ops",
            "overlap",
        ):
            self.raw[kind] = self._sorted(kind, self.raw.get(kind, {}))
        self._ops(trace)
        self._queue(trace, names)
        self._apis(trace, names)
        if self.raw["comm_tasks"]:
            trace.tables["comm_tasks"] = self._texts(
                self.raw["comm_tasks"], name=names, transport=self.sorter.links, link=self.sorter.links
            )
        for kind in ("gcs", "overlap"):
            if self.raw[kind]:
                trace.tables[kind] = self._texts(self.raw[kind], name=names)
        if self.raw["counters"]:
            counters = self.raw["counters"]
            order = np.argsort(counters["start_ns"], kind="stable")
            trace.tables["counters"] = self._texts({key: values[order] for key, values in counters.items()}, name=names)
        self._flows(trace)
        if self.raw["hardware"]:
            trace.hardware = self._texts(self.raw["hardware"], name=names, task_type=self.sorter.task_types)
            trace.hardware["bad"] = self.raw["hardware"]["bad"]
        if self.raw["comm_ops"]:
            trace.comm_ops = self._texts(self.raw["comm_ops"], name=names)
            trace.comm_ops["bad"] = self.raw["comm_ops"]["bad"]
        self._iterations(trace)
        self._lanes_of(trace)
        self._report_durations()
        return trace

    def _tracks(self) -> Columns:
        """process, thread (text, None where unnamed), pid, tid of every lane, by its number."""
        tracks = self.sorter.tracks
        process = [tracks.processes.get(pid) for pid in tracks.pids]
        self._guess_processes(process)
        return {
            "process": np.array(process, dtype=object),
            "thread": np.array([*map(tracks.threads.get, zip(tracks.pids, tracks.tids, strict=True))], dtype=object),
            "pid": np.array([*map(_number, tracks.pids)], np.int64),
            "tid": np.array([*map(_number, tracks.tids)], np.int64),
        }

    def _guess_processes(self, process: list[str | None]) -> None:
        """Name the processes whose metadata are missing (Level0 prunes CANN's, a cut loses any) by what runs there."""
        if None not in process:
            return
        guesses = [("ops", "Python"), ("queue", "Python"), ("frames", "Python"), ("apis", "CANN")]
        guesses += [("hardware", "Ascend Hardware"), ("comm_tasks", "HCCL")]
        for kind, label in guesses:
            if self.raw[kind]:
                self._guess(process, self.raw[kind]["track"], label)
        launches = self.raw["HostToDevice"]
        if launches:
            self._guess(process, launches["track"][~launches["finish"]], "CANN")

    def _guess(self, process: list[str | None], tracks: Int, label: str) -> None:
        pids = self.sorter.tracks.pids
        met = np.flatnonzero(np.bincount(tracks, minlength=len(pids)))
        unnamed = {pids[track] for track in met.tolist() if process[track] is None}
        for track, pid in enumerate(pids):
            if pid in unnamed:
                process[track] = label

    def _spread_plain(self, process: Any) -> None:
        """Slices without telling args go where their process says, else where their name does."""
        plain = self.raw["plain"]
        self.raw["comm_ops"], self.raw["overlap"] = {}, {}
        if not plain:
            return
        labels, tracks = self.sorter.names.texts, plain["track"]

        def of(*processes: str | None) -> Bool:
            here: Bool = np.array([name in processes for name in process], bool)[tracks]
            return here

        def named(test: Callable[[str], bool]) -> Bool:
            by_name: Bool = np.array([*map(test, labels), False], bool)[plain["name"]]
            both: Bool = by_name & of(None)
            return both

        overlap = of("Overlap Analysis") | named(lambda label: label in OVERLAP)
        comm = of(*COMM_PROCESSES) | named(is_comm_name)
        api = of("CANN") | named(lambda label: label.partition("@")[0] in _LAYERS and "@" in label)
        timed = ("name", "track", "start_ns", "dur_ns")
        self._move(plain, overlap, "overlap", timed)
        self._move(plain, comm, "comm_ops", (*timed, "connection", "payload"))
        self._move(plain, api, "apis", (*timed, "connection"), level=-1, item=-1)
        self._move(
            plain, of("Ascend Hardware"), "hardware", (*timed, "connection"), task_type=-1, stream=-1, task=-1, model=-1
        )
        self._move(plain, of("Python"), "ops", timed, sequence=-1, fwd_thread=-1, stack=-1, shapes=-1, dtypes=-1)

    def _move(self, plain: Columns, chosen: Any, kind: str, names: tuple[str, ...], **filled: int) -> None:
        count = int(chosen.sum())
        if not count:
            return
        rows = {name: plain[name][chosen] for name in names}
        rows.update({name: np.full(count, value, np.int8) for name, value in filled.items()})
        there = self.raw[kind]
        self.raw[kind] = {name: np.concatenate([there[name], rows[name]]) for name in rows} if there else rows

    def _sorted(self, kind: str, columns: Columns) -> Columns:
        """Sound int64 durations, and the rows in start order, outer before inner."""
        if not columns:
            return {}
        duration = columns["dur_ns"]
        with np.errstate(invalid="ignore"):
            bad = ~(duration >= 0) | (duration > DAY_NS)
        if bad.any():
            self.bad[kind] = int(bad.sum())
        whole = np.where(bad, 0, duration).astype(np.int64)
        order = outer_first(columns["start_ns"], whole)
        result = {name: values[order] for name, values in columns.items() if name != "dur_ns"}
        result["dur_ns"] = whole[order]
        result["bad"] = bad[order]
        return result

    def _texts(self, columns: Columns, **pools: Pool) -> Columns:
        made = {name: values for name, values in columns.items() if name != "bad"}
        for name, pool in pools.items():
            if name in made:
                made[name] = pool.categorical(made[name])
        return made

    def _ops(self, trace: Trace) -> None:
        sorter = self.sorter
        if self.raw["ops"]:
            ops = self._texts(self.raw["ops"], name=sorter.names, shapes=sorter.shapes, dtypes=sorter.types)
            stacks = [_unescaped(text) for text in sorter.stacks.texts] if self.mend_paths else sorter.stacks.texts
            ops["stack"] = sorter.stacks.categorical(ops["stack"], stacks)
            for optional in ("stack", "shapes", "dtypes"):
                if not len(ops[optional].categories):
                    del ops[optional]
            trace.tables["ops"] = ops
            if any(in_notebook(stack) for stack in stacks):
                self.notes.say("notebook_source", "info", self.file)
        if self.raw["frames"]:
            pool = sorter.frame_names
            names = [_unescaped(text) for text in pool.texts] if self.mend_paths else pool.texts
            frames = self._texts(self.raw["frames"])
            frames["name"] = pool.categorical(frames["name"], names)
            trace.tables["frames"] = frames

    def _queue(self, trace: Trace, names: Pool) -> None:
        queue = self.raw["queue"]
        for table, chosen in (("enqueues", True), ("dequeues", False)):
            if queue and (rows := queue["push"] == chosen).any():
                kept = {name: values[rows] for name, values in queue.items() if name not in ("push", "bad")}
                trace.tables[table] = self._texts(kept, name=names)

    def _apis(self, trace: Trace, names: Pool) -> None:
        if not self.raw["apis"]:
            return
        apis = self._texts(self.raw["apis"], item=self.sorter.items)
        prefixes = [_LAYERS.get(text.partition("@")[0], "") if "@" in text else "" for text in names.texts]
        bare = [text.partition("@")[2] if prefix else text for text, prefix in zip(names.texts, prefixes, strict=True)]
        levels = [_LEVELS.get(text, text) for text in self.sorter.levels.texts]
        by_prefix = np.array([*prefixes, ""], dtype=object)[apis["name"]]
        given = np.array([*levels, ""], dtype=object)[apis["level"]]
        apis["level"] = np.where(given == "", by_prefix, given)
        apis["name"] = names.categorical(apis["name"], bare)
        trace.tables["apis"] = apis

    def _iterations(self, trace: Trace) -> None:
        if not self.raw["iterations"]:
            return
        marks = self._texts(self.raw["iterations"], name=self.sorter.names)
        digits = [re.search(r"(\d{1,9})$", label) for label in marks["name"].categories]
        number = np.array([*(int(found[1]) if found else -1 for found in digits), -1], np.int64)[marks["name"].codes]
        trace.iterations = {"number": number, "start_ns": marks["start_ns"], "dur_ns": marks["dur_ns"]}

    def _flows(self, trace: Trace) -> None:
        parts = [self.raw[category] for category in FLOWS if self.raw[category]]
        if parts:
            for part in parts:
                part["id"] = _numbered(part["id"], part.pop("id_high"))
            flows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            trace.tables["flow_points"] = {**flows, "category": Categorical(flows["category"], FLOWS)}

    def _lanes_of(self, trace: Trace) -> None:
        """Add pid and tid, as the writer gave them, to every table that has lanes."""
        pid, tid = trace.tracks["pid"], trace.tracks["tid"]
        for name, columns in trace.tables.items():
            if "track" in columns and name != "flow_points":
                columns["pid"], columns["tid"] = pid[columns["track"]], tid[columns["track"]]
        hardware = trace.hardware
        if hardware:
            unknown = hardware["stream"] < 0
            hardware["stream"] = np.where(unknown, tid[hardware["track"]], hardware["stream"])
        if len(pid):
            trace.tables["tracks"] = trace.tracks

    def _report_durations(self) -> None:
        """Host lanes only: what becomes of device slices is known when kernel_details is read."""
        host = {kind: count for kind, count in self.bad.items() if kind not in ("hardware", "comm_ops")}
        if host:
            kinds = some([f"{kind}: {count}" for kind, count in host.items()], limit=8)
            self.notes.say("bad_duration", "warning", self.file, "bad_duration_trace", kinds=kinds)


def _numbered(low: Int, high: Int) -> Int:
    """Numbers of pairs of numbers, in the order met."""
    by_high, highs = factorize(high)
    by_low, _ = factorize(low)
    return by_low if len(highs) == 1 else paired(by_low, by_high)


def _number(part: int | str) -> int:
    return part if isinstance(part, int) and -(2**63) <= part < 2**63 else -1


def in_notebook(stack: str) -> bool:
    """Whether some frame of the stack is a notebook cell."""
    if "ipy" not in stack:
        return False
    frames = (parse_frame(text) for text in split_stack(stack))
    return any(frame is not None and is_notebook(frame.path) for frame in frames)


def _unescaped(text: str) -> str:
    r"""Undo the escapes that a JSON parser saw in a Windows path written with single backslashes.

    Where ``C:\proj`` made the text illegal, ``\t`` and ``\n`` of the same path were legal and became a tab and a
    newline.  The breaks between frames (``;CRLF``, ``;LF``) stay.
    """
    for char, escape in (("\t", "\\t"), ("\b", "\\b"), ("\f", "\\f")):
        text = text.replace(char, escape)
    text = re.sub(r"(?<!;)\r", r"\\r", text)
    return re.sub(r"(?<!;)(?<!;\r)\n", r"\\n", text)
