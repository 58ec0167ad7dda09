"""Find the profiles under a path, by content and not by name: one :class:`RankSource` per rank (and recording)."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from npu_advisor.base.errors import ProfileError
from npu_advisor.base.messages import say
from npu_advisor.model.profile import Diagnostic, Form
from npu_advisor.readers.comm import read_json
from npu_advisor.readers.info import rank_of
from npu_advisor.readers.notes import Notes, UnreadableFileError, some
from npu_advisor.readers.trace_blocks import looks_like_trace

OUTPUT = "ASCEND_PROFILER_OUTPUT"
MAX_DEPTH = 6
# Role -> names of the file in an output folder; the first that is there is used.
_ROLES: dict[str, str] = {
    "trace": r"trace_view\.json(\.gz)?",
    "kernel_details": r"kernel_details\.csv",
    "operator_details": r"operator_details\.csv",
    "operator_memory": r"operator_memory\.csv",
    "memory_record": r"memory_record\.csv",
    "module_memory": r"npu_module_mem\.csv",
    "step_trace": r"step_trace_time\.csv",
    "op_statistic": r"op_statistic\.csv",
    "api_statistic": r"api_statistic\.csv",
    "l2_cache": r"l2_cache\.csv",
    "data_preprocess": r"data_preprocess\.csv",
    "communication": r"communication\.json",
    "communication_matrix": r"communication_matrix\.json",
    "db": r"ascend_(pytorch|mindspore)_profiler(_\d+)?\.db",
}
_INFO_ROLES = {"info": r"profiler_info(_\d+)?\.json", "metadata": r"profiler_metadata\.json"}
_OP_SUMMARY = re.compile(r"op_summary(_slice)?(_\d+)+\.csv|op_summary\.csv")
# One of these makes a folder a profile; the others alone may be anything.
_TELLING = ("trace", "kernel_details", "operator_details", "step_trace", "operator_memory", "memory_record", "db")
_RAW = re.compile(r"PROF_\d+_\d+_\w+|FRAMEWORK")
_OP_ARGS = re.compile(r".*_op_args?")


@dataclass(frozen=True)
class RankSource:
    """The files of one rank: ``path`` is its folder (or the one file given), ``output`` the folder that holds them.

    ``files`` maps a role (trace, kernel_details, info, ...) to a file; ``rank_hint`` is -1 when unknown; ``remarks``
    are what the search has to say, to be shown with this rank.
    """

    path: Path
    output: Path | None
    files: Mapping[str, Path]
    form: Form
    rank_hint: int = -1
    remarks: tuple[Diagnostic, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all its files that can be looked at."""
        return sum(path.stat().st_size for path in iter_files(self) if path.is_file())


@dataclass
class _Found:
    """What a walk met."""

    sources: list[RankSource] = field(default_factory=list)
    raw: list[Path] = field(default_factory=list)
    databases: list[Path] = field(default_factory=list)
    op_args: list[Path] = field(default_factory=list)
    traces: list[Path] = field(default_factory=list)
    files: int = 0


def locate(path: Path) -> list[RankSource]:
    """Every rank under ``path``, ordered by rank: a rank folder, its output folder, one file, or any folder above.

    Raises ProfileError (``code``: not_found, nothing_found, not_parsed_profile, db_form, op_args, unknown_file).
    """
    path = Path(path)
    if not path.exists():
        raise _not_there(path)
    if path.is_file():
        return [_one_file(path)]
    found = _walk(path)
    if not found.sources:
        found.sources = [_source(trace, None, {"trace": trace}, "trace") for trace in found.traces]
    if not found.sources:
        raise _nothing(path, found)
    sources = sorted(found.sources, key=lambda source: (source.rank_hint < 0, source.rank_hint, str(source.path)))
    remarks = _left_out(found)
    if remarks:
        first = sources[0]
        sources[0] = RankSource(first.path, first.output, first.files, first.form, first.rank_hint, remarks)
    return sources


def _one_file(path: Path) -> RankSource:
    name = path.name.lower()
    if name.endswith(".db"):
        raise ProfileError(path, say("error.db_form", path=path), do=say("do.db_form"), code="db_form")
    if name.endswith(".csv"):
        roles = _roles({path.name: path}, _ROLES) or {"kernel_details": path}
        return _source(path, None, roles, "csv")
    if looks_like_trace(path):
        return _source(path, None, {"trace": path}, "trace")
    raise ProfileError(path, say("error.unknown_file", path=path), do=say("do.inputs"), code="unknown_file")


def _source(path: Path, output: Path | None, files: Mapping[str, Path], form: Form) -> RankSource:
    info: object = None
    if "info" in files:
        try:
            info = read_json(files["info"])
        except UnreadableFileError:
            info = None  # read_rank reads it again and says so
    names = [file.name for file in files.values()]
    return RankSource(path, output, dict(files), form, rank_of(info, names))


def _walk(root: Path) -> _Found:
    found, seen = _Found(), set()
    stack = [(root, 0)]
    while stack:
        folder, depth = stack.pop()
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        folders, files = _listing(folder)
        found.files += len(files)
        if _OP_ARGS.fullmatch(folder.name):
            found.op_args.append(folder)
            continue
        output = next((entry for entry in folders if entry.name == OUTPUT), None)
        _classify(folder, files, output, folders, found)
        if output is not None:
            seen.add(os.path.realpath(output))
        if depth < MAX_DEPTH:
            below = [entry for entry in folders if not _RAW.fullmatch(entry.name) and not entry.name.startswith(".")]
            stack += [(entry, depth + 1) for entry in sorted(below, reverse=True)]
    return found


def _listing(folder: Path) -> tuple[list[Path], dict[str, Path]]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return [], {}
    folders = [entry for entry in entries if entry.is_dir()]
    return folders, {entry.name: entry for entry in entries if entry.is_file()}


def _classify(folder: Path, files: dict[str, Path], output: Path | None, folders: list[Path], found: _Found) -> None:
    """Take ``folder`` as a profile, a raw or a database-only one; else note the bare traces in it."""
    inner = _listing(output)[1] if output is not None else files
    roles = _roles(inner, _ROLES)
    roles.setdefault("kernel_details", next((inner[name] for name in inner if _OP_SUMMARY.fullmatch(name)), Path()))
    if roles["kernel_details"] == Path():
        del roles["kernel_details"]
    text = [role for role in _TELLING if role in roles and role != "db"]
    if text and ("db" not in roles or {"trace", "kernel_details"} & set(text)):
        home = folder.parent if output is None and folder.name == OUTPUT else folder
        beside = files if home == folder else _listing(home)[1]
        roles.update(_roles({**beside, **inner}, _INFO_ROLES))
        place = folder if output is None else output
        found.sources.append(_source(home, place, roles, _form(roles)))
    elif "db" in roles:
        found.databases.append(folder)
    elif any(_RAW.fullmatch(entry.name) for entry in folders):
        found.raw.append(folder)
    else:
        jsons = [path for name, path in files.items() if re.fullmatch(r".*\.json(\.gz)?", name)]
        found.traces += [path for path in jsons if looks_like_trace(path)]


def _roles(files: Mapping[str, Path], patterns: Mapping[str, str]) -> dict[str, Path]:
    chosen = {}
    for role, pattern in patterns.items():
        names = sorted(name for name in files if re.fullmatch(pattern, name))
        if names:
            chosen[role] = files[names[0]]
    return chosen


def _form(roles: Mapping[str, Path]) -> Form:
    data = [role for role in roles if role not in ("info", "metadata", "db")]
    if data == ["trace"] and "info" not in roles:
        return "trace"
    return "csv" if "trace" not in roles and "info" not in roles else "text"


def _left_out(found: _Found) -> tuple[Diagnostic, ...]:
    notes = Notes()
    for code, folders in (("not_parsed_profile", found.raw), ("db_form", found.databases)):
        if folders:
            names = some([folder.name for folder in folders])
            notes.say(code, "warning", str(folders[0]), f"{code}_skipped", count=len(folders), names=names)
    return tuple(notes)


def _not_there(path: Path) -> ProfileError:
    parent = path.parent
    near = _nearest(path) if parent.is_dir() else None
    do = say("do.did_you_mean", path=near) if near else say("do.inputs")
    found = None if parent.is_dir() else say("found.no_parent", path=parent)
    return ProfileError(path, say("error.not_found", path=path), found, do, code="not_found")


def _nearest(path: Path) -> Path | None:
    """The entry beside ``path`` with the most similar name."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.name != path.name]
    except OSError:
        return None
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
    return path.parent / close[0] if close else None


def _nothing(path: Path, found: _Found) -> ProfileError:
    if found.raw:
        names = some(sorted(entry.name for entry in _listing(found.raw[0])[0] if _RAW.fullmatch(entry.name)))
        do = say("do.analyse", path=path)
        what, seen = say("error.not_parsed", path=path), say("found.raw_only", names=names)
        if not (found.raw[0] / "FRAMEWORK").is_dir():
            return ProfileError(path, say("error.msprof", path=path), seen, say("do.msprof"), code="not_parsed_profile")
        return ProfileError(path, what, seen, do, code="not_parsed_profile")
    if found.databases:
        names = some([folder.name for folder in found.databases])
        what, seen = say("error.db_form", path=path), say("found.databases", names=names)
        return ProfileError(path, what, seen, say("do.db_form"), code="db_form")
    if found.op_args:
        return ProfileError(path, say("error.op_args", path=path), None, say("do.op_args"), code="op_args")
    near = _nearest(path.absolute())
    do = say("do.inputs")
    if near is not None and near.is_dir() and (ranks := _walk(near).sources):
        beside = str(path.parent / near.name)
        beside = beside if path.is_absolute() or beside.startswith(".") else f"./{beside}"
        do = say("do.did_you_mean_ranks", path=beside, ranks=some([rank.path.name for rank in ranks]))
    return ProfileError(
        path, say("error.nothing", path=path), say("found.nothing", files=found.files), do, code="nothing_found"
    )


def iter_files(source: RankSource) -> Iterator[Path]:
    """The files that reading ``source`` opens."""
    yield from (path for role, path in source.files.items() if role != "db")
