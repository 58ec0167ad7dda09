"""Output of the msprof command: which files of a folder belong together, and what is its own.

Two layouts: ``mindstudio_profiler_output`` with a time stamp in every name (and ``_slice_N`` where a table was cut),
and the older ``device_N/summary`` and ``device_N/timeline`` with one file set per iteration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from npu_advisor.readers.csvfile import CsvFile, read_csv
from npu_advisor.readers.notes import Notes
from npu_advisor.readers.numbers import sound_durations
from npu_advisor.readers.trace_tables import Columns

OUTPUT = "mindstudio_profiler_output"
PROF = re.compile(r"PROF_\d+_\d+_\w+")
DEVICE = re.compile(r"device_\d+")
OLD_FOLDERS = ("timeline", "summary")
_NAME = re.compile(r"(?P<kind>[a-z0-9_]+?)(?:_slice_(?P<slice>\d+))?(?P<numbers>(?:_\d+)+)\.(?P<type>csv|json)")
# (kind, type) -> role.
_ROLES = {
    ("msprof", "json"): "trace",
    ("op_summary", "csv"): "kernel_details",
    ("op_statistic", "csv"): "op_statistic",
    ("api_statistic", "csv"): "api_statistic",
    ("step_trace", "csv"): "iterations",
    ("memory_record", "csv"): "memory_record",
    ("operator_memory", "csv"): "operator_memory",
    ("npu_module_mem", "csv"): "module_memory",
    ("l2_cache", "csv"): "l2_cache",
    ("aicpu", "csv"): "data_preprocess",
}
# Parts of the trace, and the plainest table of tasks: of use only where the whole is not there.
_STAND_IN = {"trace": ("task_time", "hccl", "step_trace"), "kernel_details": ("task_time",)}
_STAMP_DIGITS = 12


@dataclass(frozen=True)
class MsprofFiles:
    """The files of one device: ``folder`` holds them; ``parts`` are the further pieces of a role."""

    folder: Path
    files: dict[str, Path] = field(default_factory=dict)
    parts: dict[str, tuple[Path, ...]] = field(default_factory=dict)


def msprof_files(folder: Path, names: Mapping[str, Path]) -> MsprofFiles | None:
    """The files among ``names`` that msprof wrote, by role; None without a trace or a table of kernels."""
    found: dict[tuple[str, str], list[tuple[tuple[int, ...], int, Path]]] = {}
    for name, path in names.items():
        match = _NAME.fullmatch(name)
        if match:
            numbers = tuple(int(part) for part in match["numbers"][1:].split("_"))
            found.setdefault((match["kind"], match["type"]), []).append((numbers, int(match["slice"] or 0), path))
    chosen = {role: _newest(found[key]) for key, role in _ROLES.items() if key in found}
    for role, kinds in _STAND_IN.items():
        suffix = "json" if role == "trace" else "csv"
        instead = [path for kind in kinds if (kind, suffix) in found for path in _newest(found[kind, suffix])]
        if role not in chosen and instead and not (role == "kernel_details" and "trace" in chosen):
            chosen[role] = instead
    if not {"trace", "kernel_details"} & set(chosen):
        return None
    files = {role: paths[0] for role, paths in chosen.items()}
    return MsprofFiles(folder, files, {role: tuple(paths[1:]) for role, paths in chosen.items() if len(paths) > 1})


def _newest(files: list[tuple[tuple[int, ...], int, Path]]) -> list[Path]:
    """The pieces in order; of exports at several times only those of the latest."""
    latest: dict[tuple[int, ...], int] = {}
    for numbers, _, _ in files:
        if _stamped(numbers):
            latest[numbers[:-1]] = max(numbers[-1], latest.get(numbers[:-1], 0))
    kept = [entry for entry in files if not _stamped(entry[0]) or entry[0][-1] == latest[entry[0][:-1]]]
    longest = max(len(numbers) for numbers, _, _ in kept)
    return [path for numbers, _, path in sorted(kept) if len(numbers) == longest]


def _stamped(numbers: tuple[int, ...]) -> bool:
    return bool(numbers[-1] >= 10 ** (_STAMP_DIGITS - 1))


def msprof_below(folder: Path) -> list[MsprofFiles]:
    """What the folder of one recording (``PROF_*``), of one device of it, or of its output holds, device by device."""
    if folder.name != OUTPUT and _folders(folder, re.compile(OUTPUT)):
        folder = folder / OUTPUT
    found = msprof_files(folder, _files(folder))
    if found is not None:
        return [found]
    devices = [folder] if DEVICE.fullmatch(folder.name) else sorted(_folders(folder, DEVICE))
    below = []
    for device in devices:
        names = {name: path for part in OLD_FOLDERS for name, path in _files(device / part).items()}
        found = msprof_files(device, names)
        if found is not None:
            below.append(found)
    return below


def device_info(found: MsprofFiles) -> Path | None:
    """``info.json.N`` of the device, which names the rank."""
    device = found.folder if DEVICE.fullmatch(found.folder.name) else None
    candidates = [device] if device else sorted(_folders(found.folder.parent, DEVICE))
    if len(candidates) != 1:
        return None
    infos = [path for name, path in _files(candidates[0]).items() if re.fullmatch(r"info\.json\.\d+", name)]
    return infos[0] if infos else None


def _files(folder: Path) -> dict[str, Path]:
    try:
        return {entry.name: entry for entry in sorted(folder.iterdir()) if entry.is_file()}
    except OSError:
        return {}


def _folders(folder: Path, pattern: re.Pattern[str]) -> Iterable[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir() and pattern.fullmatch(entry.name)]
    except OSError:
        return []


def read_iterations(path: Path, notes: Notes) -> Columns:
    """Iterations (number, start_ns, dur_ns) of msprof's step_trace CSV. Raises UnreadableFileError."""
    wanted = {
        "number": ("Iteration ID", "Iteration Id"),
        "end": ("Iteration End(us)", "Iteration End"),
        "duration": ("Iteration Time(us)", "Iteration Time"),
    }
    file: CsvFile = read_csv(path, wanted, ("number", "end", "duration"), notes)
    end = file.times("end")
    duration, bad = sound_durations(*file.durations("duration"))
    known = (end >= 0) & ~bad
    if bad.any():
        notes.say("bad_duration", "warning", path.name, "bad_duration_trace", kinds=f"iterations: {int(bad.sum())}")
    columns = {"number": file.ints("number"), "start_ns": end - duration, "dur_ns": duration}
    return {name: values[known] for name, values in columns.items()}


def put_iterations(tables: dict[str, Columns], iterations: Columns) -> None:
    """Make ``steps`` of the iterations, and give every device task that of its start."""
    order = np.argsort(iterations["start_ns"], kind="stable")
    start, end = iterations["start_ns"][order], (iterations["start_ns"] + iterations["dur_ns"])[order]
    number = iterations["number"][order]
    host = np.full(len(order), np.nan)
    tables["steps"] = {"number": number, "start_ns": start, "dur_ns": end - start, "host_us": host}
    for name in ("kernels", "tasks", "comms"):
        if name not in tables:
            continue
        at = tables[name]["start_ns"]
        row = np.searchsorted(start, at, side="right") - 1
        inside = (row >= 0) & (at < end[np.maximum(row, 0)])
        tables[name]["step"] = np.where(inside, row, -1)
        if name != "tasks":
            tables[name]["step_id"] = np.where(inside, number[np.maximum(row, 0)], -1)
