from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from making import KERNEL_HEAD, kernel, op, write_csv, write_info, write_trace

from npu_advisor.base.errors import ProfileError
from npu_advisor.readers import locate, locate_all

OUTPUT = "ASCEND_PROFILER_OUTPUT"


def rank(folder: Path, number: object = 0) -> Path:
    write_trace(folder / OUTPUT, [op("a", 0, 1)])
    write_info(folder, number)
    return folder


def refused(path: Path) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        locate(path)
    assert caught.value.exit_code == 3
    return caught.value


def test_the_same_rank_from_every_level(tmp_path: Path) -> None:
    folder = rank(tmp_path / "run" / "any name")
    (folder / "PROF_000001_20250101_ABC" / "device_0").mkdir(parents=True)
    write_csv(folder / "PROF_000001_20250101_ABC", "kernel_details.csv", KERNEL_HEAD, [])
    for given in (tmp_path, tmp_path / "run", folder, folder / OUTPUT):
        (source,) = locate(given)
        assert (source.path, source.output, source.form, source.rank_hint) == (folder, folder / OUTPUT, "text", 0)
        assert {role: path.name for role, path in source.files.items()} == {
            "trace": "trace_view.json",
            "info": "profiler_info_0.json",
        }


def test_ranks_in_order_unknown_ones_last(tmp_path: Path) -> None:
    for name, number in (("a", 10), ("b", "2"), ("c", -1), ("d", None)):
        rank(tmp_path / name, number)
    (tmp_path / "d" / "profiler_info_0.json").rename(tmp_path / "d" / "profiler_info_7.json")
    (tmp_path / "c" / "profiler_info_0.json").rename(tmp_path / "c" / "profiler_info.json")
    assert [(source.path.name, source.rank_hint) for source in locate(tmp_path)] == [
        ("b", 2),
        ("d", 7),
        ("a", 10),
        ("c", -1),
    ]


def test_paths_that_lead_to_one_rank_find_it_once(tmp_path: Path) -> None:
    one, two = rank(tmp_path / "run" / "r0"), rank(tmp_path / "run" / "r1", 1)
    (tmp_path / "link").symlink_to(one)
    found = locate_all([one, tmp_path / "run", two / OUTPUT, tmp_path / "link"])
    assert [source.path for source in found] == [one, two]


def test_a_folder_that_one_may_not_enter_is_passed_over(tmp_path: Path) -> None:
    folder, closed = rank(tmp_path / "run" / "r0"), tmp_path / "run" / "closed"
    (closed / "inside").mkdir(parents=True)
    closed.chmod(0)
    if os.access(closed / "inside", os.F_OK):
        pytest.skip("this user may enter every folder")
    assert [source.path for source in locate(tmp_path)] == [folder]
    assert refused(closed).code == "nothing_found"
    assert refused(closed / "inside").what.en.startswith("you may not look at")


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    rank(tmp_path / "run" / "r0")
    (tmp_path / "run" / "r0" / "up").symlink_to(tmp_path / "run")
    (tmp_path / "again").symlink_to(tmp_path / "run" / "r0")
    assert len(locate(tmp_path)) == 1


def test_folders_are_searched_to_a_depth(tmp_path: Path) -> None:
    rank(tmp_path / "1/2/3/4/5/6")
    rank(tmp_path / "1/2/3/4/5/6/7/8")
    assert [source.path.name for source in locate(tmp_path)] == ["6"]


def test_files_of_every_kind(tmp_path: Path) -> None:
    odd = write_trace(tmp_path, [op("a", 0, 1)], "chrome.json")
    packed = tmp_path / "packed.bin"
    packed.write_bytes(gzip.compress(json.dumps({"traceEvents": []}).encode()))
    for path in (odd, packed):
        (source,) = locate(path)
        assert source.form == "trace" and source.files == {"trace": path} and source.output is None
    table = write_csv(tmp_path, "any.csv", KERNEL_HEAD, [kernel("k", 1, 2)])
    (source,) = locate(table)
    assert source.form == "csv" and source.files == {"kernel_details": table}
    memory = write_csv(tmp_path, "memory_record.csv", ["Component"], [])
    assert set(locate(memory)[0].files) == {"memory_record"}


def test_bare_traces_count_when_there_is_nothing_else(tmp_path: Path) -> None:
    write_trace(tmp_path, [op("a", 0, 1)], "one.json")
    write_trace(tmp_path / "sub", [op("a", 0, 1)], "two.json")
    write_trace(tmp_path, '{"not": "a trace"}', "settings.json")
    assert [source.path.name for source in locate(tmp_path)] == ["one.json", "two.json"]
    rank(tmp_path / "r0")
    assert [source.path.name for source in locate(tmp_path)] == ["r0"]


def test_text_wins_over_the_database_beside_it(tmp_path: Path) -> None:
    folder = rank(tmp_path / "r0")
    (folder / OUTPUT / "ascend_pytorch_profiler_0.db").touch()
    (source,) = locate(tmp_path)
    assert source.form == "text" and source.files["db"].name == "ascend_pytorch_profiler_0.db"


def test_database_alone(tmp_path: Path) -> None:
    output = tmp_path / "r0" / OUTPUT
    output.mkdir(parents=True)
    (output / "ascend_pytorch_profiler_0.db").touch()
    write_csv(output, "step_trace_time.csv", ["Step", "Computing"], [[1, 2]])
    write_info(tmp_path / "r0")
    (output / "analysis.db").touch()
    own = {"db": "ascend_pytorch_profiler_0.db", "analysis": "analysis.db", "info": "profiler_info_0.json"}
    for path in (tmp_path, output, output / "ascend_pytorch_profiler_0.db"):
        (source,) = locate(path)
        assert source.form == "db" and source.rank_hint == 0
        assert {role: file.name for role, file in source.files.items()} == {**own, "text": "step_trace_time.csv"}
    (alone,) = locate(output / "analysis.db")
    assert alone.form == "db" and alone.files == {"analysis": output / "analysis.db"}


def test_databases_of_several_ranks_in_one_folder(tmp_path: Path) -> None:
    for number in (3, 1):
        (tmp_path / f"ascend_pytorch_profiler_{number}.db").touch()
    write_info(tmp_path, 1, name="profiler_info_1.json")
    (tmp_path / "analysis.db").touch()
    sources = locate(tmp_path)
    assert [source.rank_hint for source in sources] == [1, 3]
    assert [set(source.files) for source in sources] == [{"db", "info"}, {"db"}]
    (one,) = locate(tmp_path / "ascend_pytorch_profiler_3.db")
    assert one.rank_hint == 3 and set(one.files) == {"db"}


def test_a_database_beside_tables_without_a_trace(tmp_path: Path) -> None:
    """The database says more than the table of kernels, unless it is no database at all."""
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [kernel("k", 1, 2)])
    (tmp_path / "ascend_pytorch_profiler.db").touch()
    assert locate(tmp_path)[0].form == "csv"
    (tmp_path / "ascend_pytorch_profiler.db").write_bytes(b"SQLite format 3\0")
    assert locate(tmp_path)[0].form == "db"


def test_raw_data_alone(tmp_path: Path) -> None:
    raw = tmp_path / "node_1_20250101_ascend_pt"
    (raw / "FRAMEWORK").mkdir(parents=True)
    (raw / "PROF_000001_20250101_ABC").mkdir()
    (raw / OUTPUT).mkdir()
    error = refused(tmp_path)
    assert error.code == "not_parsed_profile" and error.found is not None and error.do is not None
    assert "FRAMEWORK, PROF_000001_20250101_ABC" in error.found.en and "never parsed" in error.what.en
    assert f"analyse('{tmp_path}')" in error.do.en and f"analyse('{tmp_path}')" in error.do.zh


def test_ranks_left_out_are_named(tmp_path: Path) -> None:
    rank(tmp_path / "r1", 1)
    (tmp_path / "r0" / "FRAMEWORK").mkdir(parents=True)
    (tmp_path / "r2" / OUTPUT).mkdir(parents=True)
    (tmp_path / "r2" / OUTPUT / "ascend_pytorch_profiler.db").touch()
    source, database = locate(tmp_path)
    assert (source.form, database.form) == ("text", "db")
    assert [remark.code for remark in source.remarks] == ["not_parsed_profile"]
    assert source.remarks[0].message.en.endswith(": r0")


def test_recorded_arguments_are_named_as_such(tmp_path: Path) -> None:
    args = tmp_path / "node_1_20250101_ascend_pt_op_args" / "123"
    args.mkdir(parents=True)
    (args / "1.json").write_text("[]")
    assert refused(tmp_path).code == "op_args"


def test_a_missing_path_suggests_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "result").mkdir()
    error = refused(tmp_path / "resuld")
    assert error.code == "not_found" and error.do is not None and error.do.en == f"did you mean {tmp_path / 'result'}"
    far = refused(tmp_path / "no" / "where")
    assert far.found is not None and str(tmp_path / "no") in far.found.en


def test_an_empty_folder_suggests_the_full_one_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank(tmp_path / "result" / "rank0_ascend_pt")
    (tmp_path / "results").mkdir()
    for name in "ab":
        (tmp_path / "results" / name).touch()
    monkeypatch.chdir(tmp_path)
    error = refused(Path("results"))
    assert error.code == "nothing_found" and error.found is not None and error.do is not None
    assert error.found.en.startswith("2 files, no *_ascend_pt folder")
    assert error.do.en == "did you mean ./result  (rank0_ascend_pt)"


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "a.json").write_text("[1, 2]")
    assert refused(tmp_path / "notes.txt").code == "unknown_file"
    assert refused(tmp_path / "a.json").code == "unknown_file"
    (tmp_path / "empty.json").touch()
    assert refused(tmp_path / "empty.json").code == "unknown_file"
