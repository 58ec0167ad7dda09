"""cluster_analysis.db: the ranks, step times and operations that the text files of the cluster tool give."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from databases import Recording
from making import op, write_csv, write_trace

from npu_advisor.api import load_profiles
from npu_advisor.base.errors import ProfileError
from npu_advisor.cli.app import main
from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, read_rank
from npu_advisor.readers.discover import RankSource

NAME = "cluster_analysis.db"
STEPS = "ClusterStepTraceTime"
# By column of the database, the title in the CSV.
LEDGER = {
    "step": "Step",
    "type": "Type",
    "index": "Index",
    "computing": "Computing",
    "communication_not_overlapped": "Communication(Not Overlapped)",
    "overlapped": "Overlapped",
    "communication": "Communication",
    "free": "Free",
    "stage": "Stage",
    "bubble": "Bubble",
    "communication_not_overlapped_and_exclude_receive": "Communication(Not Overlapped and Exclude Receive)",
    "preparing": "Preparing",
}
ROWS: list[tuple[Any, ...]] = [
    (7, "rank", "2", 30.125, 5, 1, 6, 20, 55.125, 0, 5, 4),
    (8, "rank", "2", 31, 6, 1, 7, -0.5, 36.5, 0, 6, 4),
    (7, "rank", "10", 20, 8, 1, 9, 10, 38, 2, 6, 1),
    (7, "stage", "(2, 10)", 900, 8, 1, 9, 20, 55, 0, 5, 4),
    (7, "stage", "1", 800, 8, 1, 9, 20, 55, 0, 5, 4),
]
SEND, REDUCE = ("hcom_send__1_0_1", "77"), ("hcom_allReduce__2_0_1", "88")
# (rank, (op, group), start us, elapsed, transit, wait, synchronisation, idle in ms, sizes in MB by transport)
OPERATIONS: list[tuple[Any, ...]] = [
    (10, REDUCE, 1_700_000_000_000_150.25, 3.0, 1.0, 0.5, 0.25, 1.25, {"HCCS": 4, "RDMA": 2}),
    (10, SEND, 1_700_000_000_000_100.5, 2.0, 0.5, 1.5, 0.0, 0.0, {"HCCS": 3, "SDMA": 3}),
    (2, REDUCE, 1_700_000_000_000_150.75, 2.5, 1.0, 0.0, 0.0, 1.5, {}),
]
TIMES = ("start_timestamp", "elapsed_time", "transit_time", "wait_time", "synchronization_time", "idle_time")
TITLES = (
    "Start Timestamp(us)",
    *(f"{name} Time(ms)" for name in ("Elapse", "Transit", "Wait", "Synchronization", "Idle")),
)
VARIANTS = ("ClusterCommunication", "ClusterCommAnalyzer", "CommAnalyzer")


def made(prefix: str = "ClusterCommunication", without: tuple[str, ...] = ()) -> Recording:
    """The database of ROWS and OPERATIONS; ``without`` leaves out columns."""
    newest = prefix == VARIANTS[0]
    parallel = ["dp_index INTEGER", "pp_index INTEGER", "tp_index INTEGER"] if newest else []
    operation = ["step TEXT", "rank_id INTEGER", "hccl_op_name TEXT", "group_name TEXT"]
    schema = {
        STEPS: [
            *(f"{name} {'TEXT' if name in ('step', 'type', 'index') else 'NUMERIC'}" for name in LEDGER),
            *parallel,
        ],
        f"{prefix}Time": [*operation, *(f"{name} NUMERIC" for name in TIMES), "wait_time_ratio NUMERIC"],
        f"{prefix}Bandwidth": [*operation, "band_type TEXT", "transit_size NUMERIC", "package_size NUMERIC"],
        "CommunicationGroupMapping" if newest else "CommunicationGroup": ["type TEXT", "rank_set TEXT"],
    }
    kept = {table: [part for part in parts if part.split()[0] not in without] for table, parts in schema.items()}
    # "index" is a word of SQL.
    return Recording({table: ", ".join(parts).replace("index TEXT", '"index" TEXT') for table, parts in kept.items()})


def fill(recording: Recording, prefix: str = "ClusterCommunication") -> Recording:
    for row in ROWS:
        recording.add(STEPS, **dict(zip(LEDGER, row, strict=True)))
    for rank, (name, group), *times, sizes in OPERATIONS:
        key = {"step": "step7", "rank_id": rank, "hccl_op_name": name, "group_name": group}
        recording.add(f"{prefix}Time", **key, **dict(zip(TIMES, times, strict=True)))
        total = {**key, "hccl_op_name": "Total Op Info"}
        recording.add(f"{prefix}Time", **total, **dict(zip(TIMES, times, strict=True)))
        for transport, size in sizes.items():
            for package in (1, 2):
                more = {"band_type": transport, "transit_size": size, "package_size": package}
                recording.add(f"{prefix}Bandwidth", **key, **more)
    return recording


def write(path: Path, recording: Recording, drop: tuple[str, ...] = ()) -> Path:
    """As ``Recording.write``, with the quotes that the column ``index`` needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    for table, columns in recording.schema.items():
        if table in drop:
            continue
        connection.execute(f"CREATE TABLE {table} ({columns})")
        names = [part.split()[0].strip('"') for part in columns.split(", ")]
        places, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
        rows = [[row.get(name) for name in names] for row in recording.rows[table]]
        connection.executemany(f"INSERT INTO {table} ({places}) VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    return path


def text(folder: Path) -> Path:
    """The same as text files."""
    write_csv(folder, "cluster_step_trace_time.csv", list(LEDGER.values()), [list(row) for row in ROWS])
    steps: dict[str, Any] = {}
    for rank, (name, group), *times, sizes in OPERATIONS:
        moved = {transport: {"Transit Size(MB)": size} for transport, size in sizes.items()}
        entry = {
            "Communication Time Info": dict(zip(TITLES, times, strict=True)),
            "Communication Bandwidth Info": moved,
        }
        steps.setdefault(f"{name}@{group}", {})[str(rank)] = entry
    (folder / "cluster_communication.json").write_text(json.dumps({"collective": {"step7": steps}}))
    return folder


def codes(profile: Profile) -> list[str]:
    return [note.code for note in profile.diagnostics]


def plain(profile: Profile) -> dict[str, Any]:
    names = ("step_trace", "steps", "comms")
    tables = {name: getattr(profile, name) for name in names if profile.has(name)}
    return {name: json.loads(table.to_json(orient="split", double_precision=15)) for name, table in tables.items()}


def outcome(source: RankSource) -> str:
    try:
        return "db_damaged" if "db_damaged" in codes(read_rank(source)) else "silent"
    except ProfileError as error:
        return error.code


def only_error(path: Path) -> ProfileError:
    (source,) = locate(path)
    with pytest.raises(ProfileError) as error:
        read_rank(source)
    return error.value


@pytest.mark.parametrize("prefix", VARIANTS)
def test_a_database_gives_what_the_text_files_give(tmp_path: Path, prefix: str) -> None:
    path = write(tmp_path / "db" / "cluster_analysis_output" / NAME, fill(made(prefix), prefix))
    expected = load_profiles(text(tmp_path / "text"))
    for given in (tmp_path / "db", path.parent, path):
        profiles = load_profiles(given)
        assert [profile.rank for profile in profiles] == [2, 10]
        assert [plain(profile) for profile in profiles] == [plain(profile) for profile in expected]
        assert [codes(profile) for profile in profiles] == [["ledger_only", "negative_value", "ranks_missing"], []]
        assert {profile.info.form for profile in profiles} == {"db"}
    two, ten = profiles
    assert two.steps["number"].tolist() == [7, 8] and two.steps["compute_us"].tolist() == [30.125, 31]
    send, reduce = ten.comms.to_dict("records")
    assert (send["name"], send["group"], send["bytes"], send["wait_us"]) == (*SEND, 3e6, 1500)
    assert (reduce["start_ns"] - send["start_ns"], reduce["dur_ns"], reduce["bytes"]) == (49_750, 3_000_000, 6e6)


def test_a_step_that_was_not_marked(tmp_path: Path) -> None:
    recording = made()
    recording.add(STEPS, **dict(zip(LEDGER, (None, *ROWS[0][1:]), strict=True)))
    (profile,) = load_profiles(write(tmp_path / NAME, recording))
    assert profile.steps["number"].tolist() == [-1] and profile.steps["compute_us"].tolist() == [30.125]


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    without = ("type", "bubble", "preparing", "step", "idle_time", "band_type", "dp_index", "group_name")
    recording = fill(made(without=without))
    recording.rows[STEPS] = recording.rows[STEPS][:4]
    two, ten = load_profiles(write(tmp_path / NAME, recording))
    assert (two.rank, ten.rank) == (2, 10) and two.steps["number"].tolist() == [-1, -1]
    assert ten.steps["compute_us"].tolist() == [20] and ten.steps["prepare_us"].tolist() == [0]
    assert ten.comms["wait_us"].tolist() == [1500, 500] and ten.comms["idle_us"].isna().all()


@pytest.mark.parametrize("column", ["index", "computing"])
def test_without_what_a_ledger_needs_the_operations_are_left(tmp_path: Path, column: str) -> None:
    two, ten = load_profiles(write(tmp_path / NAME, fill(made(without=(column,)))))
    assert (two.rank, ten.rank) == (2, 10) and len(ten.comms) == 2 and not ten.has("step_trace")
    assert "file_unreadable" in codes(ten) and column in ten.absent["step_trace"].en


def test_operations_of_no_rank(tmp_path: Path) -> None:
    two, ten = load_profiles(write(tmp_path / NAME, fill(made(without=("rank_id",)))))
    assert len(two.steps) == 2 and not ten.has("comms") and "rank_id" in ten.absent["comms"].en


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    two, ten = load_profiles(write(tmp_path / "a" / NAME, fill(made()), drop=("ClusterCommunicationTime",)))
    (note,) = [note for note in ten.diagnostics if note.code == "db_table_missing"]
    assert note.severity == "info" and len(two.steps) == 2 and "comms" in ten.absent
    two, ten = load_profiles(write(tmp_path / "b" / NAME, fill(made()), drop=(STEPS, "ClusterCommunicationBandwidth")))
    (note,) = [note for note in ten.diagnostics if note.code == "db_table_missing"]
    assert note.severity == "warning" and STEPS in ten.absent["step_trace"].en
    assert len(ten.comms) == 2 and ten.comms["bytes"].isna().all()


def test_databases_of_nothing(tmp_path: Path) -> None:
    tables = tuple(table for table in made().schema if table != "CommunicationGroupMapping")
    assert STEPS in str(only_error(write(tmp_path / "none" / NAME, fill(made()), drop=tables)).found)
    assert only_error(write(tmp_path / "empty" / NAME, made())).code == "unreadable"
    for name, content in (("void", b""), ("words", b"no database"), ("head", b"SQLite format 3\0" + b"\xff" * 5000)):
        path = tmp_path / name / NAME
        path.parent.mkdir()
        path.write_bytes(content)
        for given in (path, path.parent):
            error = only_error(given)
            assert error.code == "unreadable" and NAME in str(error.found)


def test_a_cut_database_never_breaks_the_reader(tmp_path: Path) -> None:
    whole = fill(made())
    for number in range(400):
        whole.add(STEPS, **dict(zip(LEDGER, (number, *ROWS[0][1:]), strict=True)))
    content = write(tmp_path / "whole" / NAME, whole).read_bytes()
    outcomes = set()
    for share in range(1, 10):
        path = tmp_path / NAME
        path.write_bytes(content[: len(content) * share // 10])
        outcomes |= {outcome(source) for source in locate(path)}
    assert "db_damaged" in outcomes and outcomes <= {"db_damaged", "unreadable", "no_events"}


def test_the_csv_beside_it_is_used(tmp_path: Path) -> None:
    recording = made()
    recording.add(STEPS, **dict(zip(LEDGER, (7, "rank", "5", *ROWS[0][3:]), strict=True)))
    write(text(tmp_path) / NAME, recording)
    two, ten = load_profiles(tmp_path)
    assert (two.rank, ten.rank, two.info.form) == (2, 10, "csv")
    (note,) = [note for note in two.diagnostics if note.code == "duplicate_export_forms"]
    assert note.file == NAME and "duplicate_export_forms" not in codes(ten)
    (tmp_path / "cluster_step_trace_time.csv").unlink()
    assert [profile.rank for profile in load_profiles(tmp_path)] == [5]


def test_a_damaged_database_beside_text_does_not_matter(tmp_path: Path) -> None:
    (text(tmp_path) / NAME).write_bytes(b"no database")
    assert [profile.rank for profile in load_profiles(tmp_path)] == [2, 10]


def test_profiles_say_more(tmp_path: Path) -> None:
    write(tmp_path / "cluster_analysis_output" / NAME, fill(made()))
    write_trace(tmp_path / "r" / "ASCEND_PROFILER_OUTPUT", [op("a", 0, 1)])
    (source,) = locate(tmp_path)
    profile = read_rank(source)
    assert len(profile.ops) == 1 and "cluster_output_skipped" in codes(profile)


def test_nothing_appears_beside_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / NAME, fill(made()))
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute(f"UPDATE {STEPS} SET computing = 21 WHERE \"index\" = '10'")
    writer.commit()
    before = {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}
    assert f"{NAME}-wal" in before
    assert load_profiles(path)[1].steps["compute_us"].tolist() == [21]
    assert main([str(path), "-f", "json", "-q", "-o", str(tmp_path / "report.json")]) == 0
    assert {entry.name: entry.read_bytes() for entry in path.parent.iterdir()} == before
    writer.close()
