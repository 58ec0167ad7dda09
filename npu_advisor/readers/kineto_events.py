"""Sort the events of a Kineto trace into kinds as they are decoded, and keep the columns that some table needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from npu_advisor.base.numbering import Numbering
from npu_advisor.readers.columns import Pool, Rows, durations, ids
from npu_advisor.readers.kineto_decode import KinetoArgs, KinetoEvent
from npu_advisor.readers.numbers import Int, ns_from_text
from npu_advisor.readers.trace_events import Tracks

# Categories, the capitalised ones of the first Kineto versions included; copies of host ranges on the device
# (gpu_user_annotation), the profiler's own overhead and its spans are no work of the job.
_KINDS = {
    "cpu_op": "ops",
    "Operator": "ops",
    "user_annotation": "ops",
    "python_function": "frames",
    "cuda_runtime": "apis",
    "cuda_driver": "apis",
    "hip_runtime": "apis",
    "Runtime": "apis",
    "kernel": "kernels",
    "Kernel": "kernels",
    "gpu_memcpy": "tasks",
    "Memcpy": "tasks",
    "gpu_memset": "tasks",
    "Memset": "tasks",
    "cuda_sync": "tasks",
}
KINDS = ("ops", "frames", "apis", "kernels", "tasks", "memory", "fwdbwd")
_NO_ARGS = KinetoArgs()
_LATEST = 2**62


class KinetoSorter:
    """The columns of every kind of event of one trace. Starts are as written, in ns; -1 where unreadable."""

    def __init__(self) -> None:
        self.tracks = Tracks()
        self.labels: dict[int | str, str] = {}
        self.names, self.frame_names, self.stacks = Pool(), Pool(), Pool()
        self.shapes, self.types, self.groups, self.collectives, self.categories = (Pool() for _ in range(5))
        self.rows = {kind: Rows() for kind in KINDS}
        self.slices = 0
        self._flows = Numbering()
        self._fill: dict[str, Callable[[Rows, list[KinetoEvent]], None]] = {
            "ops": self._ops,
            "frames": self._frames,
            "apis": self._apis,
            "kernels": self._device,
            "tasks": self._device,
            "memory": self._memory,
            "fwdbwd": self._flow_ends,
        }

    def add(self, events: list[KinetoEvent]) -> None:
        """Take in one block."""
        bins: dict[str, list[KinetoEvent]] = {kind: [] for kind in KINDS}
        for event in events:
            phase = event.ph
            if phase == "X":
                kind = _KINDS.get(event.cat or "")
                if kind is not None:
                    bins[kind].append(event)
            elif phase == "i":
                if event.name == "[memory]":
                    bins["memory"].append(event)
            elif phase == "M":
                self._name(event)
            elif event.cat == "fwdbwd" and phase in ("s", "f"):
                bins["fwdbwd"].append(event)
        for kind, chosen in bins.items():
            if chosen:
                self._fill[kind](self.rows[kind], chosen)
                self.slices += len(chosen) if kind != "fwdbwd" else 0

    def _name(self, event: KinetoEvent) -> None:
        args = event.args
        if args is None:
            return
        if event.name == "process_labels" and args.labels:
            track = self.tracks[event.pid, event.tid]
            self.labels[self.tracks.pids[track]] = args.labels
        else:
            self.tracks.name(event, args.name)

    def _timed(self, events: list[KinetoEvent]) -> dict[str, Any]:
        return {
            "track": self.tracks.of(events),
            "start_ns": _starts(events),
            "dur_ns": durations([event.dur for event in events]),
        }

    def _named(self, events: list[KinetoEvent]) -> dict[str, Any]:
        return {"name": self.names.codes([event.name for event in events]), **self._timed(events)}

    def _ops(self, rows: Rows, events: list[KinetoEvent]) -> None:
        args = [event.args or _NO_ARGS for event in events]
        rows.extend(
            **self._named(events),
            sequence=ids([arg.sequence for arg in args]),
            fwd_thread=ids([arg.fwd_thread for arg in args]),
            stack=self.stacks.codes([arg.stack for arg in args]),
            shapes=self.shapes.codes([_text(arg.dims) for arg in args]),
            dtypes=self.types.codes([_text(arg.types) for arg in args]),
        )

    def _frames(self, rows: Rows, events: list[KinetoEvent]) -> None:
        args = [event.args or _NO_ARGS for event in events]
        rows.extend(
            name=self.frame_names.codes([event.name for event in events]),
            **self._timed(events),
            python_id=ids([arg.python_id for arg in args]),
            python_parent=ids([arg.python_parent for arg in args], missing=0),
        )

    def _apis(self, rows: Rows, events: list[KinetoEvent]) -> None:
        args = [event.args or _NO_ARGS for event in events]
        rows.extend(**self._named(events), connection=ids([arg.correlation for arg in args], missing=0))

    def _device(self, rows: Rows, events: list[KinetoEvent]) -> None:
        args = [event.args or _NO_ARGS for event in events]
        rows.extend(
            **self._named(events),
            category=self.categories.codes([event.cat for event in events]),
            connection=ids([arg.correlation for arg in args]),
            stream=ids([arg.stream for arg in args]),
            device=ids([arg.device for arg in args]),
            collective=self.collectives.codes([arg.collective for arg in args]),
            group=self.groups.codes([arg.group for arg in args]),
        )

    def _memory(self, rows: Rows, events: list[KinetoEvent]) -> None:
        args = [event.args or _NO_ARGS for event in events]
        rows.extend(
            track=self.tracks.of(events),
            start_ns=_starts(events),
            size=ids([arg.size for arg in args], missing=0),
            address=ids([arg.address for arg in args]),
            allocated=ids([arg.allocated for arg in args]),
            reserved=ids([arg.reserved for arg in args]),
            device=ids([arg.device_id for arg in args]),
            device_type=ids([arg.device_type for arg in args]),
        )

    def _flow_ends(self, rows: Rows, events: list[KinetoEvent]) -> None:
        rows.extend(
            finish=np.array([event.ph == "f" for event in events], bool),
            id=self._flows.of([event.id for event in events]),
            track=self.tracks.of(events),
            start_ns=_starts(events),
        )


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode("utf-8", "replace")


def _starts(events: list[KinetoEvent]) -> Int:
    value, ok = ns_from_text([bytes(event.ts).strip(b'"') for event in events])
    return np.where(ok & (value >= 0) & (value < _LATEST), value, -1)
