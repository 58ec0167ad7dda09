"""Read one rank: every file it has, each on its own, joined into the raw tables of a :class:`Profile`.

A file that cannot be read costs its own table and is reported; the rank is refused only when nothing at all is left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from npu_advisor.base.errors import ProfileError
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.table import Table
from npu_advisor.readers.comm import comm_table, read_communication, read_links
from npu_advisor.readers.csvfile import CsvFile
from npu_advisor.readers.info import read_info
from npu_advisor.readers.kernels import comm_rows, device_tables, kernels_of_file, read_kernel_details
from npu_advisor.readers.locate import RankSource, iter_files
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.numbers import Int
from npu_advisor.readers.tables import READERS
from npu_advisor.readers.trace import read_trace
from npu_advisor.readers.trace_tables import Columns, Trace

Progress = Callable[[int, int], None]
_OF_TRACE = (
    *("ops", "frames", "enqueues", "dequeues", "apis", "tasks", "comm_tasks", "overlap", "counters", "gcs"),
    *("flow_points", "tracks"),
)


def read_rank(source: RankSource, progress: Progress | None = None) -> Profile:
    """The profile of one rank with the raw tables of the schema; ``graph.links`` adds the link columns.

    ``progress`` gets (bytes done, bytes in all).  Rows with times are in start order; a time that a file has lost is
    -1.  Raises ProfileError when no file could be read (``unreadable``), none holds a row (``no_events``) or the
    trace is a GPU's (``gpu_trace``).
    """
    return _Rank(source, progress).read()


class _Rank:
    def __init__(self, source: RankSource, progress: Progress | None) -> None:
        self.source, self.progress = source, progress
        self.sizes = {path: _size(path) for path in iter_files(source)}
        self.total, self.done = sum(self.sizes.values()), 0
        self.notes = Notes(source.remarks)
        self.columns: dict[str, Columns] = {}
        self.absent: dict[str, Text] = {}
        self.read_any = False

    def read(self) -> Profile:
        source = self.source
        info = read_info(str(source.path), source.form, source.rank_hint, source.files, self.notes)
        self._remark_on_input(info)
        trace = self._trace()
        details = self._details()
        self._device(trace, details)
        for role, (table, reader) in READERS.items():
            self._simple(role, table, reader)
        self._links()
        if trace is not None and not trace.slices:
            self.notes.say("no_events", "warning", trace.file)
        self._refuse_nothing()
        self._tell(self.total)
        tables = {name: Table.build(name, columns, info.rank) for name, columns in self.columns.items()}
        profile = Profile(info, tables, self.notes)
        profile.absent.update(self.absent)
        return profile

    def _remark_on_input(self, info: ProfileInfo) -> None:
        source = self.source
        if "db" in source.files:
            self.notes.say("duplicate_export_forms", "info", source.files["db"].name)
        if source.form == "trace":
            self.notes.say("trace_only_input", "warning", source.files["trace"].name)
        elif info.rank < 0 and source.output is not None:
            self.notes.say("rank_unknown", "info", source.path.name)

    def _tell(self, done: int) -> None:
        if self.progress:
            self.progress(min(done, self.total), self.total)

    def _finish(self, path: Path) -> None:
        self.done += self.sizes.get(path, 0)
        self._tell(self.done)

    def _give_up(self, path: Path, reason: Text, *tables: str) -> None:
        self.notes.unreadable(path.name, reason)
        for table in tables:
            self.absent[table] = Text(en=f"{path.name}: {reason.en}", zh=f"{path.name}：{reason.zh}")

    def _trace(self) -> Trace | None:
        path = self.source.files.get("trace")
        if path is None:
            return None
        done = self.done
        try:
            trace = read_trace(path, self.notes, lambda read: self._tell(done + read))
        except UnreadableFileError as error:
            self._give_up(path, error.reason, *_OF_TRACE)
            return None
        finally:
            self._finish(path)
        self.read_any = True
        self.columns.update(trace.tables)
        return trace

    def _details(self) -> CsvFile | None:
        path = self.source.files.get("kernel_details")
        if path is None:
            return None
        try:
            file = read_kernel_details(path, self.notes)
        except UnreadableFileError as error:
            self._give_up(path, error.reason, "kernels", "comms")
            return None
        finally:
            self._finish(path)
        self.read_any = True
        return file

    def _device(self, trace: Trace | None, details: CsvFile | None) -> None:
        """kernels, tasks and comms from whichever of kernel_details, trace and communication.json there are."""
        kernels: Columns | None = None
        slices = np.zeros(0, np.int64)
        collectives: CsvFile | None = None
        if details is not None:
            comm = comm_rows(details)
            collectives = details.keep(comm)
            if not comm.all():
                kernels, slices = kernels_of_file(details.keep(~comm), trace, self.notes)
        if trace is not None:
            kernels_given = kernels is not None
            kernels, tasks = device_tables(trace, kernels, slices, self.notes)
            if kernels_given and kernels is not None:
                self._move_flow_ends(kernels, slices, trace.hardware)
            if tasks is not None:
                self.columns["tasks"] = tasks
        if kernels is not None:
            self.columns["kernels"] = kernels
            self.absent.pop("kernels", None)
            model = kernels.get("model")
            if model is not None and (model >= 0).any():
                self.notes.say("graph_mode", "info", self._device_file(), kernels=int((model >= 0).sum()))
        comms, rows = comm_table(collectives, trace, self._reported(), self.notes)
        if comms is not None:
            self.columns["comms"] = comms
            self.absent.pop("comms", None)
            if trace is not None:
                self._move_flow_ends(comms, rows, trace.comm_ops)

    def _device_file(self) -> str:
        path = self.source.files.get("kernel_details") or self.source.files.get("trace")
        return path.name if path else ""

    def _move_flow_ends(self, table: Columns, rows: Int, slices: Columns) -> None:
        """Let the flows that end at a slice end at the row made of it: two files may round its start differently."""
        flows = self.columns.get("flow_points")
        known = rows >= 0
        if flows is None or not known.any():
            return
        old, new = slices["start_ns"][rows[known]], table["start_ns"][known]
        moved = old != new
        if not moved.any():
            return
        track = slices["track"][rows[known]][moved]
        shifts = dict(zip(zip(track.tolist(), old[moved].tolist(), strict=True), new[moved].tolist(), strict=True))
        starts = flows["start_ns"].copy()
        for point in np.flatnonzero(flows["finish"] & np.isin(starts, old[moved])):
            starts[point] = shifts.get((int(flows["track"][point]), int(starts[point])), starts[point])
        self.columns["flow_points"] = {**flows, "start_ns": starts}

    def _reported(self) -> pd.DataFrame | None:
        path = self.source.files.get("communication")
        if path is None:
            return None
        try:
            reported = read_communication(path)
        except UnreadableFileError as error:
            self.notes.unreadable(path.name, error.reason)
            return None
        finally:
            self._finish(path)
        self.read_any = True
        return reported

    def _simple(self, role: str, table: str, reader: Callable[[Path, Notes], Columns]) -> None:
        path = self.source.files.get(role)
        if path is None:
            return
        try:
            columns = reader(path, self.notes)
        except UnreadableFileError as error:
            self._give_up(path, error.reason, table)
            return
        finally:
            self._finish(path)
        self.read_any = True
        if len(next(iter(columns.values()))):
            self.columns[table] = columns

    def _links(self) -> None:
        self._simple("communication_matrix", "links", lambda path, _: read_links(path))

    def _refuse_nothing(self) -> None:
        if any(name not in ("tracks", "flow_points", "counters", "step_trace") for name in self.columns):
            return
        path = self.source.path
        unread = [note for note in self.notes if note.code == "file_unreadable"]
        if not self.read_any and unread:
            found = Text(
                en="; ".join(f"{note.file}: {note.message.en}" for note in unread),
                zh="；".join(f"{note.file}：{note.message.zh}" for note in unread),
            )
            raise ProfileError(path, say("error.unreadable", path=path), found, say("do.inputs"), code="unreadable")
        raise ProfileError(path, say("error.no_events", path=path), None, say("do.no_events"), code="no_events")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
