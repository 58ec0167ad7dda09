"""Forms around the usual folder: gzip, CSVs alone, MindSpore, cluster output, raw and half-written recordings."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import pytest
from making import KERNEL_HEAD, kernel, op, task, write_csv, write_info, write_trace
from places import PROFILES, needs_profiles

from npu_advisor import analyze
from npu_advisor.api import load_profile, load_profiles
from npu_advisor.base.errors import ProfileError
from npu_advisor.cli.app import main
from npu_advisor.model.profile import Profile
from npu_advisor.readers import locate, packed, parse_raw, read_rank
from npu_advisor.readers.packed import Unpacked

OUTPUT = "ASCEND_PROFILER_OUTPUT"
LEDGER = ["Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free"]


def codes(profile: Profile) -> set[str]:
    return {note.code for note in profile.diagnostics}


def only(path: Path) -> Profile:
    (source,) = locate(path)
    return read_rank(source)


def trace_text(count: int = 50) -> bytes:
    events = [op(f"aten::op{number}", number * 10, 5) for number in range(count)]
    return json.dumps([*events, task("k", 5, 2)]).encode()


# ---- gzip -----------------------------------------------------------------------------------------------------


def test_a_gzipped_trace_is_the_plain_one(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "t.json", tmp_path / "t.json.gz"
    plain.write_bytes(trace_text())
    half = len(trace_text()) // 2
    zipped.write_bytes(gzip.compress(trace_text()[:half]) + gzip.compress(trace_text()[half:]) + b"\0\0")
    assert only(zipped).ops.equals(only(plain).ops) and len(only(plain).ops) == 50
    assert codes(only(zipped)) == {"trace_only_input"}


def test_a_cut_gzip_gives_out_what_is_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps([op(f"aten::{hashlib.md5(b'%d' % n).hexdigest()}", n, 1) for n in range(3000)]).encode()
    whole = gzip.compress(text)
    path = tmp_path / "t.json.gz"
    for part in (0.3, 0.6, 0.9):
        path.write_bytes(whole[: int(len(whole) * part)])
        profile = only(path)
        assert abs(len(profile.ops) / 3000 - part) < 0.05
        assert "trace_truncated" in codes(profile)


def test_a_damaged_gzip_says_what_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(trace_text())[:-8] + b"\1\2\3\4\5\6\7\x08")
    assert "gz_damaged" in codes(only(path)) and len(only(path).ops) == 50
    broken = bytearray(gzip.compress(trace_text(4000), 1))
    broken[len(broken) // 2 : len(broken) // 2 + 64] = b"\xff" * 64
    path.write_bytes(bytes(broken))
    assert "trace_truncated" in codes(only(path)) and 1000 < len(only(path).ops) < 3000


def _bomb(unit: bytes, times: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = json.dumps([op("aten::a", 0, 1)])[:-1].encode() + b","
    return b"".join([packer.compress(first), *(packer.compress(unit * 1000) for _ in range(times)), packer.flush()])


@pytest.mark.parametrize(
    "unit", [b" " * 500, json.dumps(op("aten::a" * 60, 1, 1)).encode() + b","], ids=["blank", "events"]
)
def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: bytes) -> None:
    monkeypatch.setattr(packed, "SUSPICIOUS", 4 << 20)
    path = tmp_path / "t.json.gz"
    path.write_bytes(_bomb(unit, 40))
    assert path.stat().st_size * 200 < 20_000_000
    with pytest.raises(ProfileError) as caught:
        analyze(path)
    assert caught.value.exit_code == 3
    assert caught.value.found is not None and "times its size" in caught.value.found.en


def test_a_bomb_is_not_unpacked_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "SUSPICIOUS", 16 << 20)
    bomb = _bomb(b" " * 100, 800)
    stream, taken = Unpacked(io.BytesIO(bomb), len(bomb)), 0
    with pytest.raises(packed.UnreadableFileError):
        while data := stream.read(1 << 20):
            taken += len(data)
    # A file that unpacks to less than that is no danger, however well it was packed.
    assert (15 << 20) <= taken <= (16 << 20) + 200 * len(bomb)


# ---- tables alone ---------------------------------------------------------------------------------------------


def test_slices_of_one_table(tmp_path: Path) -> None:
    for number, name in enumerate("ab"):
        write_csv(tmp_path, f"op_summary_slice_{number}_20250102030405.csv", KERNEL_HEAD, [kernel(name, number, 1)])
    profile = only(tmp_path)
    assert profile.info.form == "csv" and profile.kernels["name"].tolist() == ["a", "b"]


def test_a_ledger_alone(tmp_path: Path) -> None:
    rows = [[4, 10, 5, 1, 6, 20, 2], [5, 11, 5, 1, 6, 20, 2]]
    write_csv(tmp_path, "step_trace_time.csv", [*LEDGER, "Preparing"], rows)
    profile = load_profile(tmp_path / "step_trace_time.csv")
    assert profile.steps["number"].tolist() == [4, 5] and profile.steps["dur_us"].tolist() == [37, 38]
    assert profile.steps["prepare_us"].tolist() == [2, 2] and "ledger_only" in codes(profile)
    report = analyze(tmp_path)
    assert [step.free_us for step in report.steps] == [20, 20] and not report.findings


@pytest.mark.parametrize(("told_us", "cut"), [(2, False), (3, True)])
def test_kernels_that_are_cut_tell_no_steps(tmp_path: Path, told_us: int, cut: bool) -> None:
    """A file of kernels that computes for less than the ledger says has lost rows."""
    folders = [tmp_path / f"host_{rank}_20250102030405000_ascend_pt/ASCEND_PROFILER_OUTPUT" for rank in range(2)]
    for rank, folder in enumerate(folders):
        write_csv(folder, "kernel_details.csv", KERNEL_HEAD, [kernel("a", 0, 1), kernel("b", 5, 1)])
        write_csv(folder, "step_trace_time.csv", LEDGER, [[4, told_us, 5, 1, 6, 20]])
        write_info(folder.parent, rank)
    one, two = load_profiles(tmp_path)
    assert ("kernels_lost" in codes(one)) == cut == (not one.peers) == (not two.peers)
    assert one.kernels["name"].tolist() == ["a", "b"]
    assert one.steps["compute_us"].tolist() == [told_us]
    assert one.steps["free_us"].tolist() == [20 if cut else 4]


def test_mindspore_is_told_apart(tmp_path: Path) -> None:
    head = ["Step ID", *KERNEL_HEAD[1:]]
    for folder in (tmp_path / "a" / "node_1_20250102030405_ascend_ms", tmp_path / "b" / "renamed"):
        write_csv(folder / OUTPUT, "kernel_details.csv", head, [kernel("k", 1, 1, step=7)])
    write_info(tmp_path / "b" / "renamed")
    info = tmp_path / "b" / "renamed" / "profiler_info_0.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "ms_version": "2.4"}))
    for name in "ab":
        profile = only(tmp_path / name)
        assert "mindspore_profile" in codes(profile) and profile.kernels["step_id"].tolist() == [7]


# ---- output of the cluster tool ---------------------------------------------------------------------------------


def cluster(folder: Path) -> Path:
    rows = [
        ["", "rank", 2, 30, 5, 1, 6, 20],
        ["", "rank", 10, 20, 8, 1, 9, 10],
        ["", "stage", "(2, 10)", 30, 8, 1, 9, 20],
    ]
    write_csv(folder, "cluster_step_trace_time.csv", ["Step", "Type", "Index", *LEDGER[1:]], rows)
    times = {"Start Timestamp(us)": 1.7e15, "Elapse Time(ms)": 2.0, "Wait Time(ms)": 1.5}
    moved = {"HCCS": {"Transit Size(MB)": 3}, "SDMA": {"Transit Size(MB)": 3}}
    entry = {"Communication Time Info": times, "Communication Bandwidth Info": moved}
    total = {"Communication Time Info": times}
    operations = {"hcom_send__1_0_1@77": {"10": entry}, "Total Op Info": {"10": total, "2": total}}
    (folder / "cluster_communication.json").write_text(json.dumps({"p2p": {"step": operations}}))
    return folder


def test_cluster_output_is_a_ledger_per_rank(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "cluster_analysis_output")
    for given in (tmp_path, folder, folder / "cluster_step_trace_time.csv"):
        two, ten = load_profiles(given)
        assert (two.rank, ten.rank) == (2, 10) and two.info.form == "csv"
        assert [p.steps["compute_us"].tolist() for p in (two, ten)] == [[30], [20]]
        assert [p.steps["dur_us"].tolist() for p in (two, ten)] == [[55], [38]]
        assert "ledger_only" in codes(two) and "ledger_only" not in codes(ten)
    two, ten = load_profiles(folder)
    (row,) = ten.comms.to_dict("records")
    assert (row["name"], row["group"], row["bytes"], row["wait_us"]) == ("hcom_send__1_0_1", "77", 3e6, 1500)
    assert not two.has("comms")
    report = analyze(folder)
    told = {rule.outcome for rule in report.rules if rule.id in ("kernel-top-cost", "dispatch-dequeue-gap")}
    assert told == {"skipped"}


def test_profiles_say_more_than_cluster_output(tmp_path: Path) -> None:
    cluster(tmp_path / "cluster_analysis_output")
    write_trace(tmp_path / "r" / OUTPUT, [op("a", 0, 1)])
    profile = only(tmp_path)
    assert len(profile.ops) == 1 and "cluster_output_skipped" in codes(profile)


@needs_profiles
def test_recorded_cluster_output() -> None:
    name = "npu-cluster-output-8r-2023"
    told = json.loads((PROFILES / "TRUTH.json").read_text())["profiles"][name]["entries"]["cluster_analysis_output"]
    profiles = load_profiles(PROFILES / name)
    assert [profile.rank for profile in profiles] == list(range(told["ranks"]))
    columns = {"Computing": "compute_us", "Communication(Not Overlapped)": "exposed_comm_us", "Free": "free_us"}
    for title, facts in told["step_trace"].items():
        values = {p.rank: float(p.steps[columns.get(title, "dur_us")][0]) for p in profiles}
        for which, pick in (("max", max), ("min", min)):
            rank = pick(values, key=lambda number: values[number])
            # Stage is the sum of the other three; the file's figure of it is a float of seven digits.
            assert str(rank) == facts[f"{which}_rank"]
            assert abs(values[rank] - facts[which]) < (0.5 if title == "Stage" else 0.001)
        assert abs(sum(values.values()) / len(values) - facts["mean"]) < 0.2
    assert all(profile.has("comms") == (profile.rank in (0, 1)) for profile in profiles)


# ---- not parsed, half parsed, still being written ---------------------------------------------------------------


def raw(folder: Path) -> Path:
    (folder / "FRAMEWORK").mkdir(parents=True)
    (folder / "PROF_000001_20250102030405_ABC" / "device_0").mkdir(parents=True)
    write_info(folder)
    return folder


def refusal(path: Path) -> tuple[str, str]:
    with pytest.raises(ProfileError) as caught:
        locate(path)
    assert caught.value.exit_code == 3 and caught.value.do is not None
    return caught.value.code, caught.value.do.en


def test_raw_recordings_come_with_the_lines_that_parse_them(tmp_path: Path) -> None:
    folder = raw(tmp_path / "x_ascend_pt")
    code, do = refusal(folder)
    assert code == "not_parsed_profile" and f"analyse('{folder}')" in do and len(do.splitlines()) == 2
    quoted = raw(tmp_path / "it's")
    line = refusal(quoted)[1].splitlines()[0]
    assert line.startswith('python -c "') and repr(str(quoted)).strip("\"'") in line.replace("\\'", "'")


def test_an_output_that_holds_nothing_yet(tmp_path: Path) -> None:
    folder = raw(tmp_path / "x_ascend_pt")
    (folder / OUTPUT).mkdir()
    with pytest.raises(ProfileError) as caught:
        locate(folder)
    assert caught.value.found is not None and "broke off, or still runs" in caught.value.found.en


def test_msprof_recordings_are_exported_by_msprof(tmp_path: Path) -> None:
    prof = tmp_path / "PROF_000001_20250102030405_ABC"
    (prof / "device_0").mkdir(parents=True)
    for given in (tmp_path, prof):
        code, do = refusal(given)
        assert code == "not_parsed_profile" and do.startswith("msprof --export=on")


def test_operator_arguments_are_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "x_ascend_pt_op_args" / "12").mkdir(parents=True)
    with pytest.raises(ProfileError) as caught:
        locate(tmp_path)
    assert caught.value.code == "op_args" and "AOE" in caught.value.what.en
    write_trace(tmp_path / "x_ascend_pt" / OUTPUT, [op("a", 0, 1)])
    assert "op_args" in codes(only(tmp_path))


def test_a_trace_without_end_may_still_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "x_ascend_pt" / OUTPUT
    path = write_trace(folder, trace_text().decode()[:-30])
    assert {"trace_truncated", "still_written"} <= codes(only(tmp_path))
    (folder / "analyse.done").touch()
    assert "still_written" not in codes(only(tmp_path))
    (folder / "analyse.done").unlink()
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert "still_written" not in codes(only(tmp_path))


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "x_ascend_pt" / OUTPUT, trace_text().decode())
    (source,) = locate(tmp_path)
    grown: list[int] = []

    def grow(done: int, total: int) -> None:
        if not grown:
            grown.append(path.write_text(path.read_text() + "\n"))

    assert "still_written" in codes(read_rank(source, grow)) and "still_written" not in codes(read_rank(source))


class Parser(types.ModuleType):
    """Stands in for torch_npu: what ``analyse`` does is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> None:
        super().__init__("torch_npu.profiler.profiler")
        self.seen: list[str] = []
        self.fails = fails
        for name in ("torch_npu", "torch_npu.profiler"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        monkeypatch.setitem(sys.modules, self.__name__, self)

    def analyse(self, path: str) -> None:
        print("[INFO] start parsing")
        os.write(1, b"[INFO] a child process\n")
        self.seen.append(path)
        if self.fails:
            raise RuntimeError("no such device")
        write_trace(Path(path) / OUTPUT, [op("aten::a", 0, 9), task("k", 2, 3)])


def test_parsing_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    parser = Parser(monkeypatch)
    folders = [raw(tmp_path / f"{name}_ascend_pt") for name in "ab"]
    assert main([str(tmp_path), "-f", "json", "-q"]) == 3
    assert not parser.seen
    capfd.readouterr()
    assert main([str(tmp_path), "-f", "json", "-q", "--parse"]) == 0
    out, err = capfd.readouterr()
    assert parser.seen == [str(folder) for folder in folders] and "[INFO] a child process" in err
    assert [rank["kernels"] for rank in json.loads(out)["facts"]] == [1, 1]
    assert main([str(tmp_path), "-f", "json", "-q", "--parse"]) == 0
    assert len(parser.seen) == 2


def test_parsing_needs_torch_npu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    folder = raw(tmp_path / "x_ascend_pt")
    assert main([str(folder), "--parse", "--lang", "en"]) == 3
    assert "--parse needs torch_npu" in capsys.readouterr().err
    assert parse_raw(write_trace(tmp_path, [op("a", 0, 1)])) == []


def test_parsing_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Parser(monkeypatch, fails=True)
    with pytest.raises(ProfileError) as caught:
        parse_raw(raw(tmp_path / "x_ascend_pt"))
    assert caught.value.code == "parse_failed"
    assert caught.value.found is not None and "no such device" in caught.value.found.en


# ---- nothing is written ----------------------------------------------------------------------------------------


def _state(folder: Path) -> dict[str, Any]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("form", ["gz", "csv", "cluster", "msprof", "kineto", "raw"])
def test_reading_leaves_the_input_as_it_is(tmp_path: Path, form: str) -> None:
    if form == "gz":
        (tmp_path / "t.json.gz").write_bytes(gzip.compress(trace_text()))
    elif form == "csv":
        write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [kernel("k", 1, 1)])
    elif form == "cluster":
        cluster(tmp_path)
    elif form == "msprof":
        folder = tmp_path / "PROF_000001_20250102030405_ABC" / "device_0" / "timeline"
        write_trace(folder, [task("k", 1, 1)], "msprof_0_1_1.json")
    elif form == "kineto":
        (tmp_path / "t.json").write_text(json.dumps({"deviceProperties": [], "traceEvents": [op("a", 0, 1)]}))
    else:
        raw(tmp_path / "x_ascend_pt")
    before, report = _state(tmp_path), tmp_path.parent / f"{form}.json"
    assert main([str(tmp_path), "-f", "json", "-q", "-o", str(report)]) == (3 if form == "raw" else 0)
    assert _state(tmp_path) == before
