"""Read one rank: every file it has, each on its own, joined into the raw tables of a :class:`Profile`.

A file that cannot be read costs its own table and is reported; the rank is refused only when nothing at all is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from npu_advisor.base.errors import ProfileError
from npu_advisor.base.heap import give_back
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.base.units import format_us
from npu_advisor.model.profile import KERNELS_LOST, WHOLE_KERNELS, Profile, ProfileInfo
from npu_advisor.model.table import Table
from npu_advisor.readers.cluster import ledger_steps, read_cluster_comms, read_ledger
from npu_advisor.readers.comm import comm_table, read_communication, read_links
from npu_advisor.readers.csvfile import CsvFile, joined
from npu_advisor.readers.discover import RankSource, iter_files
from npu_advisor.readers.info import read_info
from npu_advisor.readers.kernels import comm_rows, device_tables, kernels_of_file, read_kernel_details
from npu_advisor.readers.later import can_wait, register_later
from npu_advisor.readers.msprof import put_iterations, read_iterations
from npu_advisor.readers.notes import Notes, UnreadableFileError, some
from npu_advisor.readers.numbers import Int
from npu_advisor.readers.tables import READERS, read_frees
from npu_advisor.readers.timeline import lose_strays
from npu_advisor.readers.trace import KinetoTraceError, read_trace
from npu_advisor.readers.trace_parallel import begun_ahead
from npu_advisor.readers.trace_tables import Columns, Trace

T = TypeVar("T")
Progress = Callable[[int, int], None]
_OF_TRACE = (
    *("ops", "frames", "enqueues", "dequeues", "apis", "tasks", "comm_tasks", "overlap", "counters", "gcs"),
    *("flow_points", "tracks"),
)
# A trace without an end that changed this recently may have a writer that still runs.
_FRESH_S = 60


def read_rank(source: RankSource, progress: Progress | None = None) -> Profile:
    """The profile of one rank with the raw tables of the schema; ``graph.links`` adds the link columns.

    ``progress`` gets (bytes done, bytes in all).  Rows with times are in start order; a time that a file has lost is
    -1.  Raises ProfileError when no file could be read (``unreadable``, ``db_damaged``) or none holds a row
    (``no_events``).
    """
    try:
        return _Rank(source, progress).read()
    except KinetoTraceError:
        return _Rank(replace(source, form="kineto"), progress).read()
    finally:
        give_back()


class _Rank:
    def __init__(self, source: RankSource, progress: Progress | None) -> None:
        self.source, self.progress = source, progress
        self.sizes = {path: _size(path) for path in iter_files(source)}
        self.before = {path: _state(path) for path in self.sizes}
        self.total, self.done = sum(self.sizes.values()), 0
        self.notes = Notes(source.remarks)
        self.columns: dict[str, Columns] = {}
        self.absent: dict[str, Text] = {}
        self.read_any = False
        self.later: list[str] = []

    def read(self) -> Profile:
        source = self.source
        info = read_info(str(source.path), source.form, source.rank_hint, source.files, self.notes)
        database = source.form == "db" and "cluster_db" not in source.files
        if database:
            info = self._database(info)
        self._remark_on_input(info)
        if database:
            return self._finished(info)
        if source.form == "kineto":
            return self._finished(self._kineto(info))
        with self._scan():
            # While helpers scan the trace, this process reads the rest; what there is to say keeps its order.
            details, of_details = self._noted(self._details)
            reported, of_reported = self._noted(self._reported)
            _, of_tables = self._noted(self._tables)
            _, of_links = self._noted(self._links)
            trace = self._trace()
        self.notes += of_details
        if details is not None:
            details.notes = self.notes
        collectives = self._device(trace, details)
        self.notes += of_reported
        self._collectives(trace, collectives, reported)
        self._iterations(trace)
        self.notes += of_tables + of_links
        if trace is not None and not trace.slices:
            self.notes.say("no_events", "warning", trace.file)
        self._cluster(info.rank)
        self._steps_of_ledger()
        return self._finished(info)

    def _scan(self) -> AbstractContextManager[object]:
        path = self.source.files.get("trace")
        return begun_ahead(path) if path is not None else nullcontext()

    def _noted(self, read: Callable[[], T]) -> tuple[T, Notes]:
        """What ``read`` gives, and what it had to say."""
        kept, self.notes = self.notes, Notes()
        try:
            return read(), self.notes
        finally:
            self.notes = kept

    def _tables(self) -> None:
        for role, (table, reader) in READERS.items():
            path = self.source.files.get(role)
            if path is not None and can_wait(role, path):
                self.later.append(role)
                self._finish(path)
            else:
                self._simple(role, table, reader)
        if "allocs" in self.columns:
            self._simple("operator_memory", "frees", read_frees)

    def _database(self, info: ProfileInfo) -> ProfileInfo:
        """Read the database; ``info`` with what it adds."""
        read: dict[Path, int] = {}

        def progress(path: Path, share: float) -> None:
            read[path] = int(self.sizes.get(path, 0) * share)
            self._tell(sum(read.values()))

        from npu_advisor.readers.sqlite import read_database

        content = read_database(self.source.files, info, self.notes, progress)
        self.columns.update(content.columns)
        self.absent.update(content.absent)
        self.read_any = True
        return content.info

    def _finished(self, info: ProfileInfo) -> Profile:
        if self.later and not self._has_rows():
            for role in self.later:
                self._simple(role, *READERS[role])
        self._refuse_nothing()
        self._still_written()
        self._tell(self.total)
        lose_strays(self.columns, self.notes)
        # What a table keeps in less room is let go at once.
        tables = {name: Table.build(name, self.columns.pop(name), info.rank) for name in list(self.columns)}
        profile = Profile(info, tables, self.notes)
        profile.absent.update(self.absent)
        register_later(profile, self.source)
        return profile

    def _remark_on_input(self, info: ProfileInfo) -> None:
        source = self.source
        if source.form == "db" and "text" in source.files:
            self.notes.say("duplicate_export_forms", "info", source.files["text"].name, "duplicate_export_forms_db")
        elif source.form != "db" and "db" in source.files:
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
        why = self.notes.give_up(path.name, reason)
        self.absent.update(dict.fromkeys(tables, why))

    def _trace(self) -> Trace | None:
        path = self.source.files.get("trace")
        if path is None:
            return None
        done = self.done
        try:
            more = self.source.parts.get("trace", ())
            trace = read_trace(path, self.notes, lambda read: self._tell(done + read), more)
        except UnreadableFileError as error:
            self._give_up(path, error.reason, *_OF_TRACE)
            return None
        finally:
            self._finish(path)
        self.read_any = True
        self.columns.update(trace.tables)
        return trace

    def _kineto(self, info: ProfileInfo) -> ProfileInfo:
        from npu_advisor.readers.kineto import read_kineto

        path, done = self.source.files["trace"], self.done
        try:
            trace = read_kineto(path, self.notes, lambda read: self._tell(done + read))
        except UnreadableFileError as error:
            self._give_up(path, error.reason, *_OF_TRACE)
            return info
        self.read_any = True
        self.columns.update(trace.tables)
        return replace(
            info,
            rank=info.rank if info.rank >= 0 else trace.rank,
            device=trace.device,
            device_kind=trace.device_kind,
            with_stack=trace.with_stack,
            record_shapes=trace.record_shapes,
            profile_memory=trace.profile_memory,
        )

    def _iterations(self, trace: Trace | None) -> None:
        """Steps from the iterations that msprof marks, where the framework marked none."""
        marks = trace.iterations if trace is not None else {}
        path = self.source.files.get("iterations")
        if path is not None and not marks:
            try:
                marks = read_iterations(path, self.notes)
            except UnreadableFileError as error:
                self._give_up(path, error.reason, "steps")
            finally:
                self._finish(path)
        if marks and len(marks["number"]) and "ops" not in self.columns:
            put_iterations(self.columns, marks)

    def _cluster(self, rank: int) -> None:
        files = self.source.files
        if "cluster_step_trace" in files:
            self._simple("cluster_step_trace", "step_trace", lambda path, notes: read_ledger(path, rank, notes))
        if "cluster_db" in files:
            self._cluster_database(files["cluster_db"], rank)
        path = files.get("cluster_communication")
        if path is None:
            return
        try:
            reported = read_cluster_comms(path, rank)
        except UnreadableFileError as error:
            self._give_up(path, error.reason, "comms")
            return
        finally:
            self._finish(path)
        self.read_any = True
        comms, _ = comm_table(None, None, reported, self.notes)
        if comms is not None:
            self.columns["comms"] = comms

    def _cluster_database(self, path: Path, rank: int) -> None:
        from npu_advisor.readers.sqlite_cluster import read_cluster_database

        try:
            found = read_cluster_database(path, rank, self.notes)
        except UnreadableFileError as error:
            self._give_up(path, error.reason, "step_trace", "comms")
            return
        finally:
            self._finish(path)
        self.read_any = self.read_any or bool(found.columns)
        self.columns.update(found.columns)
        self.absent.update(found.absent)

    def _steps_of_ledger(self) -> None:
        """Where the writer's own ledger says most of the steps, that is what there is to show."""
        timed = {"ops", "kernels", "frames", "dequeues", "steps"} & set(self.columns)
        if "step_trace" not in self.columns:
            return
        if timed == {"kernels"} and "trace" not in self.source.files:
            self._lost_kernels()
        elif not timed:
            self.columns["steps"] = ledger_steps(self.columns["step_trace"])
            if "step_trace" in self.source.files:
                self.notes.say("ledger_only", "warning", self.source.files["step_trace"].name)

    def _lost_kernels(self) -> None:
        """Where a CSV of kernels has lost rows, the ledger still tells the steps."""
        ledger = self.columns["step_trace"]
        # The ledger counts what overlaps once, so that a whole file adds up to no less.
        held, told = self.columns["kernels"]["dur_ns"].sum() / 1000, np.nansum(ledger["compute_us"])
        if held < WHOLE_KERNELS * told:
            self.columns["steps"] = ledger_steps(ledger)
            file = self.source.files["kernel_details"].name
            self.notes.say(KERNELS_LOST, "warning", file, "kernels_cut", held=format_us(held), told=format_us(told))

    def _still_written(self) -> None:
        """Say so when a file changed while it was read, or has no end and changed a moment ago."""
        changed = [path.name for path, state in self.before.items() if _state(path) != state]
        if changed:
            self.notes.say("still_written", "warning", changed[0], names=some(changed))
            return
        cut = {note.file for note in self.notes if note.code == "trace_truncated"}
        output = self.source.output
        if not cut or (output is not None and (output / "analyse.done").exists()):
            return
        for path, (_, changed_ns) in self.before.items():
            age = time.time() - changed_ns / 1e9
            if path.name in cut and 0 <= age < _FRESH_S:
                self.notes.say("still_written", "warning", path.name, "still_written_cut", seconds=round(age))

    def _details(self) -> CsvFile | None:
        path = self.source.files.get("kernel_details")
        if path is None:
            return None
        pieces = [self._piece(piece) for piece in (path, *self.source.parts.get("kernel_details", ()))]
        read = [piece for piece in pieces if piece is not None]
        if not read:
            return None
        self.read_any = True
        return joined(read)

    def _piece(self, path: Path) -> CsvFile | None:
        try:
            return read_kernel_details(path, self.notes)
        except UnreadableFileError as error:
            self._give_up(path, error.reason, "kernels", "comms")
            return None
        finally:
            self._finish(path)

    def _device(self, trace: Trace | None, details: CsvFile | None) -> CsvFile | None:
        """kernels and tasks from whichever of kernel_details and trace there are; the rows of the former that are
        collectives.
        """
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
        return collectives

    def _collectives(self, trace: Trace | None, rows: CsvFile | None, reported: Columns | None) -> None:
        """comms from whichever of kernel_details, trace and communication.json there are."""
        comms, slices = comm_table(rows, trace, reported, self.notes)
        if comms is not None:
            self.columns["comms"] = comms
            self.absent.pop("comms", None)
            if trace is not None:
                self._move_flow_ends(comms, slices, trace.comm_ops)

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

    def _reported(self) -> Columns | None:
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

    def _has_rows(self) -> bool:
        return any(name not in ("tracks", "flow_points", "counters", "step_trace") for name in self.columns)

    def _refuse_nothing(self) -> None:
        if self._has_rows():
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


def _state(path: Path) -> tuple[int, int]:
    """Size and time of the last change (ns), by which a change shows."""
    try:
        state = path.stat()
    except OSError:
        return 0, 0
    return state.st_size, state.st_mtime_ns


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
