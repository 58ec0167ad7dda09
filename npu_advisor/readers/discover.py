"""Find the profiles under a path, by content and not by name: one :class:`RankSource` per rank (and recording)."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from npu_advisor.base.errors import ProfileError
from npu_advisor.base.messages import say
from npu_advisor.model.profile import Diagnostic, Form
from npu_advisor.readers.cluster import ROLES as CLUSTER_ROLES
from npu_advisor.readers.cluster import cluster_ranks
from npu_advisor.readers.comm import read_json
from npu_advisor.readers.info import rank_in_name, rank_of
from npu_advisor.readers.msprof import OUTPUT as MSPROF_OUTPUT
from npu_advisor.readers.msprof import PROF, MsprofFiles, device_info, msprof_below, msprof_files
from npu_advisor.readers.notes import Notes, UnreadableFileError, some
from npu_advisor.readers.trace_blocks import trace_form

OUTPUT = "ASCEND_PROFILER_OUTPUT"
MAX_DEPTH = 6
# Role -> names of the file in an output folder; the first that is there is used.
_ROLES: dict[str, str] = {
    "trace": r"trace_view\.json(\.gz)?",
    "kernel_details": r"kernel_details\.csv|op_summary\.csv",
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
_ANALYSIS = {"analysis": r"(analysis|communication_analyzer)\.db"}
CLUSTER_DB = "cluster_analysis.db"
_INFO_ROLES = {"info": r"profiler_info(_\d+)?\.json", "metadata": r"profiler_metadata\.json"}
# One of these makes a folder a profile; the others alone may be anything.
_TELLING = ("trace", "kernel_details", "operator_details", "step_trace", "operator_memory", "memory_record", "db")
_RAW = re.compile(r"PROF_\d+_\d+_\w+|FRAMEWORK")
_OP_ARGS = re.compile(r".*_op_args?")
_MINDSPORE = re.compile(r".*_ascend_ms|ascend_mindspore_profiler.*")


@dataclass(frozen=True)
class RankSource:
    """The files of one rank: ``path`` is its folder (or the one file given), ``output`` the folder that holds them.

    ``files`` maps a role (trace, kernel_details, info, ...) to a file; ``rank_hint`` is -1 when unknown; ``remarks``
    are what the search has to say, to be shown with this rank; ``parts`` are the further pieces of a role, which belong
    behind its file.
    """

    path: Path
    output: Path | None
    files: Mapping[str, Path]
    form: Form
    rank_hint: int = -1
    remarks: tuple[Diagnostic, ...] = ()
    parts: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all its files that can be looked at."""
        return sum(path.stat().st_size for path in iter_files(self) if path.is_file())


@dataclass
class _Found:
    """What a walk met."""

    sources: list[RankSource] = field(default_factory=list)
    raw: list[Path] = field(default_factory=list)
    op_args: list[Path] = field(default_factory=list)
    traces: list[RankSource] = field(default_factory=list)
    cluster: list[RankSource] = field(default_factory=list)
    files: int = 0


def locate(path: Path) -> list[RankSource]:
    """Every rank under ``path``, ordered by rank: a rank folder, its output folder, one file, or any folder above.

    Raises ProfileError (``code``: not_found, nothing_found, not_parsed_profile, op_args, unknown_file).
    """
    path = Path(path)
    try:
        if not path.exists():
            raise _not_there(path)
        alone = path.is_file()
    except PermissionError as error:
        raise ProfileError(path, say("error.closed", path=path), code="not_found") from error
    if alone:
        return _one_file(path)
    found = _walk(path)
    if not found.sources:
        found.sources, found.traces = found.traces, []
    if not found.sources:
        found.sources, found.cluster = found.cluster, []
    if not found.sources:
        raise _nothing(path, found)
    sources = sorted(found.sources, key=lambda source: (source.rank_hint < 0, source.rank_hint, str(source.path)))
    remarks = _left_out(found)
    if remarks:
        sources[0] = replace(sources[0], remarks=(*remarks, *sources[0].remarks))
    return sources


def locate_all(paths: Iterable[str | Path]) -> list[RankSource]:
    """Every rank under ``paths``, once however many of them lead to it: what was recorded once happened once."""
    found: dict[object, RankSource] = {}
    for source in (source for path in paths for source in locate(Path(path))):
        files = frozenset(map(os.path.realpath, iter_files(source)))
        found.setdefault((files, source.rank_hint), source)
    return list(found.values())


def raw_folders(path: Path) -> list[Path]:
    """The folders at and under ``path`` with a recording of torch_npu that was never parsed."""
    found = _walk(path).raw if path.is_dir() else []
    return [folder for folder in found if not _is_of_msprof(folder)]


def _one_file(path: Path) -> list[RankSource]:
    name = path.name.lower()
    if name == CLUSTER_DB:
        return _cluster(path, {CLUSTER_DB: path})
    if name.endswith(".db"):
        return [_one_database(path)]
    if path.name in CLUSTER_ROLES.values() and (ranks := _cluster(path, {path.name: path})):
        return ranks
    if name.endswith(".csv"):
        exported = msprof_files(path.parent, {path.name: path})
        roles = exported.files if exported else _roles({path.name: path}, _ROLES) or {"kernel_details": path}
        return [_source(path, None, roles, "csv")]
    if form := trace_form(path):
        return [_source(path, None, {"trace": path}, form)]
    raise ProfileError(path, say("error.unknown_file", path=path), do=say("do.inputs"), code="unknown_file")


def _cluster(folder: Path, files: Mapping[str, Path]) -> list[RankSource]:
    """One source for every rank that the cluster tool's output speaks of."""
    roles = {role: files[name] for role, name in CLUSTER_ROLES.items() if name in files}
    form: Form = "csv"
    ranks, database, notes = cluster_ranks(roles), files.get(CLUSTER_DB), Notes()
    if database is not None and ranks and "cluster_step_trace" in roles:
        notes.say("duplicate_export_forms", "info", database.name)
    elif database is not None and ((told := _ranks_in(database)) or not ranks):
        # One that tells of no rank is read all the same, to say what is wrong with it.
        roles, form, ranks = {"cluster_db": database}, "db", told or [-1]
    if not ranks:
        return []
    notes.say("ledger_only", "warning", next(iter(roles.values())).name)
    sources = [RankSource(folder, folder, roles, form, rank) for rank in ranks]
    return [replace(source, remarks=tuple(notes)) for source in sources[:1]] + sources[1:]


def _ranks_in(database: Path) -> list[int]:
    from npu_advisor.readers.sqlite_cluster import database_ranks

    return database_ranks(database)


def _exported(home: Path, found: MsprofFiles) -> RankSource:
    """A source of what msprof exported."""
    info = device_info(found)
    files = {**found.files, "info": info} if info else found.files
    notes = Notes()
    notes.say("msprof_output", "info", home.name)
    return replace(_source(home, found.folder, files, "msprof"), parts=found.parts, remarks=tuple(notes))


def _one_database(path: Path) -> RankSource:
    """A database by its own path; it has the small files beside it where they can only be its own."""
    if re.fullmatch(_ANALYSIS["analysis"], path.name):
        return _source(path, None, {"analysis": path}, "db")
    inner = _listing(path.parent)[1] if re.fullmatch(_ROLES["db"], path.name) else {}
    beside = _listing(path.absolute().parent.parent)[1] if path.absolute().parent.name == OUTPUT else {}
    own = next((found.files for found in _databases(path, None, beside, inner) if found.files["db"] == path), {})
    return _source(path, None, {**own, "db": path}, "db")


def _databases(home: Path, place: Path | None, beside: dict[str, Path], inner: dict[str, Path]) -> list[RankSource]:
    """The databases in one folder, each a rank of its own; role ``text`` is a text file that is passed over."""
    names = sorted(name for name in inner if re.fullmatch(_ROLES["db"], name))
    text = [path for role, path in _roles(inner, _ROLES).items() if role in _TELLING and role != "db"]
    wanted, sources = {**_INFO_ROLES, **_ANALYSIS}, []
    for name in names:
        if len(names) > 1:
            wanted = {"info": rf"profiler_info_{rank_in_name(name)}\.json"}
        files = {"db": inner[name], **_roles({**beside, **inner}, wanted)}
        if text:
            files["text"] = text[0]
        sources.append(_source(home if len(names) == 1 else inner[name], place, files, "db"))
    return sources


def _prefers_database(roles: Mapping[str, Path]) -> bool:
    """Whether the database says most: without a trace beside it, unless it is none and there is a table of kernels."""
    if "db" not in roles or "trace" in roles:
        return False
    from npu_advisor.readers.sqlite_file import is_database

    return "kernel_details" not in roles or is_database(roles["db"])


def _source(path: Path, output: Path | None, files: Mapping[str, Path], form: Form) -> RankSource:
    info: object = None
    if "info" in files:
        try:
            info = read_json(files["info"])
        except UnreadableFileError:
            info = None  # read_rank reads it again and says so
    names = [file.name for file in files.values()]
    notes = Notes()
    written_by = info if isinstance(info, dict) else {}
    if any(map(_MINDSPORE.fullmatch, [path.name, *names])) or {"mindspore_version", "ms_version"} & set(written_by):
        notes.say("mindspore_profile", "warning", path.name)
    return RankSource(path, output, dict(files), form, rank_of(info, names), tuple(notes))


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
        whole = _classify(folder, files, output, folders, found)
        if output is not None:
            seen.add(os.path.realpath(output))
        if depth < MAX_DEPTH and not whole:
            raw = output is not None or folder in found.raw
            below = [entry for entry in folders if _is_open(entry, raw) and not entry.name.startswith(".")]
            stack += [(entry, depth + 1) for entry in sorted(below, reverse=True)]
    return found


def _is_open(folder: Path, raw: bool) -> bool:
    """Whether to look into ``folder``; what msprof left beside a torch profile is a part of that, or not parsed."""
    return folder.name != "FRAMEWORK" and not (raw and PROF.fullmatch(folder.name))


def _listing(folder: Path) -> tuple[list[Path], dict[str, Path]]:
    try:
        entries = sorted(folder.iterdir())
        folders = [entry for entry in entries if entry.is_dir()]
        return folders, {entry.name: entry for entry in entries if entry.is_file()}
    except OSError:
        return [], {}


def _classify(folder: Path, files: dict[str, Path], output: Path | None, folders: list[Path], found: _Found) -> bool:
    """Take ``folder`` as a profile or a raw one; else note the bare traces in it.

    True when the folders below are a part of what was taken.
    """
    inner = _listing(output)[1] if output is not None else files
    roles = _roles(inner, _ROLES)
    framework = any(entry.name == "FRAMEWORK" for entry in folders)
    beside_torch = output is not None or framework or bool(_roles(files, _INFO_ROLES))
    exported = [] if beside_torch else _msprof(folder)
    tables = msprof_files(folder, inner) if "trace" not in roles and not exported else None
    if tables is not None and "trace" not in tables.files:
        roles = {**tables.files, **roles}
    if exported:
        found.sources += [_exported(folder, entry) for entry in exported]
    elif any(role in roles for role in _TELLING):
        home = folder.parent if output is None and folder.name == OUTPUT else folder
        beside = files if home == folder else _listing(home)[1]
        place = folder if output is None else output
        if _prefers_database(roles):
            found.sources += _databases(home, place, beside, inner)
            return False
        roles.update(_roles({**beside, **inner}, _INFO_ROLES))
        source = _source(home, place, roles, _form(roles))
        found.sources.append(replace(source, parts=tables.parts) if tables else source)
    elif _is_raw(folder, folders, beside_torch):
        found.raw.append(folder)
    elif cluster := _cluster(folder, files):
        found.cluster += cluster
    else:
        found.traces += _traces(files)
    return bool(exported)


def _msprof(folder: Path) -> list[MsprofFiles]:
    """What msprof exported into ``folder``, where that is one of its own: one table in any other is just that."""
    below = msprof_below(folder)
    if PROF.fullmatch(folder.name) or folder.name == MSPROF_OUTPUT:
        return below
    return [entry for entry in below if "trace" in entry.files]


def _is_raw(folder: Path, folders: list[Path], beside_torch: bool) -> bool:
    """Whether ``folder`` is a recording that was never parsed, or the folder of such recordings of msprof."""
    if PROF.fullmatch(folder.name):
        return not msprof_below(folder)
    records = [entry for entry in folders if _RAW.fullmatch(entry.name)]
    return bool(records) and (beside_torch or not any(map(msprof_below, records)))


def _traces(files: Mapping[str, Path]) -> list[RankSource]:
    jsons = [path for name, path in files.items() if re.fullmatch(r".*\.json(\.gz)?", name)]
    forms = [(path, trace_form(path)) for path in jsons]
    return [_source(path, None, {"trace": path}, form) for path, form in forms if form is not None]


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
    if found.raw:
        names, code = some([folder.name for folder in found.raw]), "not_parsed_profile"
        notes.say(code, "warning", str(found.raw[0]), f"{code}_skipped", count=len(found.raw), names=names)
    if found.cluster:
        notes.say("cluster_output_skipped", "info", str(found.cluster[0].path))
    if found.op_args:
        notes.say("op_args", "info", str(found.op_args[0]))
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
        return _not_parsed(path, found.raw[0])
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


def _is_of_msprof(raw: Path) -> bool:
    """Whether a raw recording has nothing of the framework's, which is what torch_npu's parser works on."""
    folders, files = _listing(raw)
    return not ({OUTPUT, "FRAMEWORK"} & {entry.name for entry in folders} or _roles(files, _INFO_ROLES))


def _not_parsed(path: Path, raw: Path) -> ProfileError:
    folders = _listing(raw)[0]
    names = some(sorted(entry.name for entry in folders if _RAW.fullmatch(entry.name)) or [raw.name])
    unfinished = any(entry.name == OUTPUT for entry in folders)
    seen = say("found.unfinished" if unfinished else "found.raw_only", names=names)
    if _is_of_msprof(raw):
        return ProfileError(
            path, say("error.msprof", path=path), None, say("do.msprof", path=path), code="not_parsed_profile"
        )
    do = say("do.analyse", path=str(path).replace("\\", "\\\\").replace("'", "\\'"))
    return ProfileError(path, say("error.not_parsed", path=path), seen, do, code="not_parsed_profile")


def iter_files(source: RankSource) -> Iterator[Path]:
    """The files that reading ``source`` opens."""
    passed_over = "text" if source.form == "db" else "db"
    yield from (path for role, path in source.files.items() if role != passed_over)
    for pieces in source.parts.values():
        yield from pieces
