"""The overlay: on the profile's own clock, beside the trace or inside it."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from chrome_trace import faults
from places import DEMO, PROFILES, needs_profiles

from npu_advisor import analyze, load_profile
from npu_advisor.cli.app import main

PROFILE = next(DEMO.glob("*_ascend_pt"))
TRACE = "ASCEND_PROFILER_OUTPUT/trace_view.json"


def _ns(text: str) -> int:
    whole, _, part = text.partition(".")
    return int(whole) * 1000 + int(part)


def _exact_us(event: dict) -> float:
    """The duration of a slice: one that another follows at once is drawn a little shorter, and says so."""
    return float(event.get("args", {}).get("duration", f"{event['dur']} us").removesuffix(" us"))


@pytest.fixture(scope="module")
def overlay(tmp_path_factory) -> list[dict]:
    path = tmp_path_factory.mktemp("overlay") / "overlay.json"
    assert main([str(DEMO), "-f", "trace", "-o", str(path), "-q", "--lang", "en"]) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def _slices(overlay: list[dict], kind: str) -> list[dict]:
    return [event for event in overlay if event.get("cat") == f"npu-advisor.{kind}"]


def test_idle_track_is_the_idle_table(overlay):
    idle = load_profile(DEMO).idle
    slices = _slices(overlay, "idle")
    assert [_ns(event["ts"]) for event in slices] == idle["start_ns"].tolist()
    assert [_exact_us(event) for event in slices] == pytest.approx(idle["dur_us"].tolist())
    assert all(0 <= _exact_us(event) - event["dur"] <= 0.513 for event in slices)
    assert {event["name"] for event in slices} == {f"idle: {owner}" for owner in idle["owner"].unique()}


def test_every_finding_about_time_has_a_track_inside_the_recording(overlay):
    tracks = {event["args"]["name"] for event in overlay if event["name"] == "thread_name"}
    steps = load_profile(DEMO).steps
    low, high = int(steps["start_ns"].min()), int(steps["start_ns"].max() + steps["dur_ns"].max())
    for finding in analyze(DEMO).findings:
        if finding.saving is None:
            continue
        assert f"{finding.rule_id}: {finding.title.en}" in tracks
        mine = [event for event in _slices(overlay, "finding") if event["args"]["rule"] == finding.rule_id]
        assert mine and all(low - 10**7 <= _ns(event["ts"]) <= high for event in mine)
        assert mine[0]["args"]["message"] == finding.message.en


def test_critical_path_never_overlaps_itself(overlay):
    slices = _slices(overlay, "critical")
    start = np.array([_ns(event["ts"]) for event in slices])
    end = start + np.array([round(event["dur"] * 1000) for event in slices])
    assert len(slices) > 3 and (start[1:] >= end[:-1]).all()


def test_overlay_keeps_to_the_trace_event_format(overlay):
    assert faults(overlay) == []


@needs_profiles
@pytest.mark.parametrize(
    "name", ["npu-alexnet-text-l1", "npu-alexnet-db-l0", "npu-trace-only-2024", "gpu-bert-small-h100"]
)
def test_overlay_of_a_real_profile_keeps_to_the_format(name, tmp_path):
    path = tmp_path / "overlay.json"
    assert main([str(PROFILES / name), "-f", "trace", "-o", str(path), "-q"]) == 0
    assert faults(json.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("name", ["merged.json", "merged.json.gz"])
def test_merged_file_holds_the_trace_and_the_overlay(name, overlay, tmp_path):
    path = tmp_path / name
    assert main([str(DEMO), "-f", "trace", "--merge", "-o", str(path), "-q", "--lang", "en"]) == 0
    raw = path.read_bytes()
    merged = json.loads(gzip.decompress(raw) if name.endswith("gz") else raw)
    own = json.loads((PROFILE / TRACE).read_text(encoding="utf-8"))
    assert merged == [*own, *overlay]
    ours = {event["pid"] for event in overlay}
    assert not ours & {event.get("pid") for event in own}


def test_merging_into_a_trace_of_torch_profiler(tmp_path):
    events = json.loads((PROFILE / TRACE).read_text(encoding="utf-8"))
    from npu_advisor.cli.merge import write_overlay

    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events[:3]}))
    write_overlay('[{"ph": "M"}]\n', str(tmp_path / "out.json"), {0: trace})
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "schemaVersion": 1,
        "traceEvents": [*events[:3], {"ph": "M"}],
    }
    trace.write_text("[ ]")
    write_overlay('[{"ph": "M"}]\n', str(tmp_path / "out.json"), {0: trace})
    assert json.loads((tmp_path / "out.json").read_text()) == [{"ph": "M"}]


def test_a_cut_trace_and_the_trace_itself_are_refused(tmp_path, capsys):
    profile = Path(shutil.copytree(PROFILE, tmp_path / PROFILE.name))
    trace = profile / TRACE
    whole = trace.read_bytes()
    assert main([str(profile), "-f", "trace", "--merge", "-o", str(trace), "-q"]) == 2
    assert trace.read_bytes() == whole
    trace.write_bytes(whole[: len(whole) * 3 // 4])
    assert main([str(profile), "-f", "trace", "--merge", "-o", str(tmp_path / "out.json"), "-q"]) == 3
    assert main([str(profile), "--merge", "-q"]) == 2
    assert "--merge" in capsys.readouterr().err


def test_overlay_goes_to_stdout_too(capsysbinary):
    assert main([str(DEMO), "-f", "trace", "-q"]) == 0
    assert json.loads(capsysbinary.readouterr().out)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory) -> Path:
    """Two ranks whose traces use the same process numbers and flow ids."""
    folder = tmp_path_factory.mktemp("ranks")
    for rank in (0, 1):
        copy = shutil.copytree(PROFILE, folder / f"host{rank}_1_20250101000000000_ascend_pt")
        for info in copy.glob("profiler_info*.json"):
            text = info.read_text(encoding="utf-8").replace('"rank_id": 0', f'"rank_id": {rank}')
            info.with_name(f"profiler_info_{rank}.json").write_text(text, encoding="utf-8")
            if rank:
                info.unlink()
    return folder


def test_several_ranks_are_merged_and_kept_apart(two_ranks, tmp_path):
    path = tmp_path / "merged.json"
    assert main([str(two_ranks), "-f", "trace", "--merge", "-o", str(path), "-q", "--lang", "en"]) == 0
    merged = json.loads(path.read_text(encoding="utf-8"))
    own = json.loads((PROFILE / TRACE).read_text(encoding="utf-8"))
    names = {event["pid"]: event["args"]["name"] for event in merged if event["name"] == "process_name"}
    assert len(names) == len(set(names.values()))
    recorded = [event["args"]["name"] for event in own if event["name"] == "process_name"]
    wanted = {f"rank {rank}: {name}" for rank in (0, 1) for name in recorded}
    assert set(names.values()) == wanted | {"npu-advisor, rank 0", "npu-advisor, rank 1"}
    for rank in (0, 1):
        pids = {pid for pid, name in names.items() if name.startswith(f"rank {rank}: ")}
        mine = [event for event in merged if event.get("pid") in pids]
        assert list(map(_unchanged, mine)) == list(map(_unchanged, own))
    flows = [event for event in merged if event["ph"] in "sf"]
    ends = {}
    for event in flows:
        ends.setdefault((event["cat"], event["id"]), set()).add(names[event["pid"]].partition(":")[0])
    assert len(flows) == 2 * sum(event["ph"] in "sf" for event in own)
    assert flows and all(len(ranks) == 1 for ranks in ends.values())


def _unchanged(event: dict) -> dict:
    """What merging leaves alone."""
    kept = {key: value for key, value in event.items() if key not in ("pid", "id")}
    return kept | {"args": None} if event["name"] in ("process_name", "process_sort_index") else kept


def test_several_ranks_that_nothing_tells_apart_are_refused(two_ranks, tmp_path, capsys):
    twice = [str(two_ranks), str(shutil.copytree(two_ranks, tmp_path / "again"))]
    assert main([*twice, "-f", "trace", "--merge", "-o", str(tmp_path / "out.json"), "-q"]) == 2
    assert "4 traces" in capsys.readouterr().err
    assert main([str(two_ranks), "--rank", "1", "-f", "trace", "--merge", "-o", str(tmp_path / "one.json"), "-q"]) == 0


def test_a_cut_trace_among_several_leaves_no_file_behind(two_ranks, tmp_path):
    ranks = Path(shutil.copytree(two_ranks, tmp_path / "ranks"))
    trace = next(ranks.glob(f"host1*/{TRACE}"))
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) * 3 // 4])
    path = tmp_path / "out.json"
    assert main([str(ranks), "-f", "trace", "--merge", "-o", str(path), "-q"]) == 3
    assert not path.exists()
