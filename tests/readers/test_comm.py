from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from making import KERNEL_HEAD, kernel, write_csv, write_trace

from npu_advisor.readers import locate, read_rank
from npu_advisor.readers.comm import read_communication, read_links
from npu_advisor.readers.notes import UnreadableFileError

GROUP = "17522688603477080586"


def entry(start: float | None, sdma: float = 3.0, **ms: float) -> dict[str, Any]:
    sizes = {"RDMA": 1.0, "HCCS": 2.0, "PCIE": 0, "SIO": 1.0, "SDMA": sdma}
    times: dict[str, Any] = {"Elapse Time(ms)": 9.0, "Wait Time Ratio": math.nan, **ms}
    if start is not None:
        times["Start Timestamp(us)"] = start
    bandwidth = {name: {"Transit Size(MB)": size, "Bandwidth(GB/s)": math.inf} for name, size in sizes.items()}
    return {"Communication Time Info": times, "Communication Bandwidth Info": bandwidth}


def write(folder: Path, loaded: object, name: str = "communication.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(loaded), encoding="utf-8")
    return path


def test_operations_without_the_totals(tmp_path: Path) -> None:
    split = {"Transit Time(ms)": 1.5, "Wait Time(ms)": 2.0, "Synchronization Time(ms)": 0.5, "Idle Time(ms)": 5.5}
    ops = {
        f"hcom_allReduce__586_0_1@{GROUP}": entry(1700000000000010.0, **split),
        "Total Op Info": entry(None, **split),
    }
    path = write(tmp_path, {"step7": {"p2p": {f"hcom_send__1_0@{GROUP}": entry(None, sdma=0)}, "collective": ops}})
    rows = read_communication(path)
    assert list(rows["name"]) == ["hcom_send__1_0", "hcom_allReduce__586_0_1"] and set(rows["group"]) == {GROUP}
    last = {name: values[1] for name, values in rows.items()}
    assert (last["start_ns"], last["step_id"], last["dur_ns"]) == (1700000000000010000, 7, 9_000_000)
    assert [last[name] for name in ("transit_us", "wait_us", "sync_us", "idle_us")] == [1500, 2000, 500, 5500]
    assert list(rows["bytes"]) == [4e6, 4e6] and rows["start_ns"][0] == -1 and math.isnan(rows["wait_us"][0])


def test_collectives_get_their_split_by_name_and_start(tmp_path: Path) -> None:
    rows = [kernel("hcom_a__1_0_1", 10, 9, "hcom_a_", "HCCL"), kernel("hcom_a__1_0_1", 500, 9, "hcom_a_", "HCCL")]
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, rows)
    ops = {f"hcom_a__1_0_1@{GROUP}": entry(1700000000000500.2, **{"Wait Time(ms)": 0.25})}
    write(tmp_path, {"step": {"collective": ops}})
    comms = read_rank(locate(tmp_path)[0]).comms
    assert math.isnan(comms["wait_us"][0]) and comms["wait_us"][1] == 250 and comms["bytes"][1] == 4e6
    assert list(comms["group"].astype(object).fillna("")) == ["", GROUP]


def test_communication_json_is_the_last_resort(tmp_path: Path) -> None:
    write(tmp_path, {"step1": {"collective": {f"hcom_a__1_0_1@{GROUP}": entry(1700000000000500.0)}}})
    write_csv(tmp_path, "step_trace_time.csv", ["Step", "Computing"], [[1, 5]])
    comms = read_rank(locate(tmp_path)[0]).comms
    assert comms["dur_ns"].tolist() == [9_000_000] and comms["step_id"].tolist() == [1]


def test_links_of_both_key_forms(tmp_path: Path) -> None:
    link = {"Transport Type": "HCCS", "Transit Size(MB)": 2.0, "Transit Time(ms)": 0.5, "Bandwidth(GB/s)": math.inf}
    kinds = {"p2p": {"Total Op Info": {"0-1": link}}, "collective": {"allreduce-top1@9": {"0-12": link, "odd": link}}}
    columns = read_links(write(tmp_path, {"step3": kinds}, "communication_matrix.json"))
    assert {name: list(values) for name, values in columns.items() if name != "bandwidth_gbs"} == {
        "op": ["allreduce-top1@9"],
        "kind": ["collective"],
        "step_id": [3],
        "src": [0],
        "dst": [12],
        "transport": ["HCCS"],
        "bytes": [2e6],
        "transit_us": [500.0],
    }
    assert math.isnan(columns["bandwidth_gbs"][0])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"step1": {"collective": {}}}', '{"step1": 5}'])
def test_nothing_to_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "communication.json"
    path.write_text(text)
    for reader in (read_communication, read_links):
        with pytest.raises(UnreadableFileError):
            reader(path)


def test_a_damaged_file_leaves_the_rest(tmp_path: Path) -> None:
    (tmp_path / "communication.json").write_text('{"step1": {"coll')
    (tmp_path / "communication_matrix.json").write_text("")
    write_trace(tmp_path, [])
    write_csv(tmp_path, "kernel_details.csv", KERNEL_HEAD, [kernel("mm", 1, 2)])
    read = read_rank(locate(tmp_path)[0])
    unread = {note.file for note in read.diagnostics if note.code == "file_unreadable"}
    assert unread == {"communication.json", "communication_matrix.json"} and "links" in read.absent
    assert len(read.kernels) == 1
