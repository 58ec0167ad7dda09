"""Summaries are written as files and read again, together, as one table of each kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: the extra [cluster] is not installed")
pytest.importorskip("fsspec", reason="no fsspec: the extra [cluster] is not installed")

from npu_advisor.cluster import store
from npu_advisor.cluster.store import Store, Summary
from npu_advisor.derive.ranks import SUMMARY_TABLES
from npu_advisor.model.table import Table


def _summary(rank: int) -> Summary:
    """Rank n has n kernel types, of which the last has no line, and a clock only where n is odd."""
    steps = {"number": [10, 11], "start_ns": [0, 5], "dur_ns": [5, 5], "kernel_us": [1.5, rank]}
    kernels = {
        "type": [f"Type{number}" for number in range(rank)],
        "calls": range(rank),
        "total_us": np.arange(rank) + 0.5,
        "line": [f"train.py({number}): f" for number in range(rank - 1)] + [None] * (rank > 0),
    }
    given = {"rank_steps": steps | ({"mhz": [1800.0, np.nan]} if rank % 2 else {}), "rank_kernels": kernels}
    tables = [Table.build(name, given.get(name, {}), rank) for name in SUMMARY_TABLES]
    return Summary({"rank": rank}, {"findings": [], "of": rank}, tables)


def _loaded(folder: Path) -> tuple[list[int], dict[str, Table], list[int]]:
    documents: list[int] = []
    names = [file.name for file in folder.glob("*.parquet")]
    metas, tables = Store(str(folder)).load(names, lambda _, document: documents.append(document["of"]))
    return [meta["rank"] for meta in metas], tables, documents


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_all_ranks_make_one_table_of_each_kind(batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_BATCH", batch)
    files = Store(str(tmp_path))
    for rank, name in ((3, "b"), (0, "c"), (2, "a")):
        files.write(f"{name}.parquet", _summary(rank))
    ranks, tables, documents = _loaded(tmp_path)
    assert ranks == [0, 2, 3] == sorted(documents)
    steps, kernels = tables["rank_steps"], tables["rank_kernels"]
    assert steps["rank"].tolist() == [0, 0, 2, 2, 3, 3]
    assert steps["kernel_us"].tolist() == [1.5, 0, 1.5, 2, 1.5, 3]
    assert np.isnan(steps["mhz"]).tolist() == [True, True, True, True, False, True]
    assert kernels.strings("type").tolist() == ["Type0", "Type1", "Type0", "Type1", "Type2"]
    assert kernels.strings("line").tolist() == [
        "train.py(0): f",
        None,
        "train.py(0): f",
        "train.py(1): f",
        None,
    ]
    assert kernels["calls"].tolist() == [0, 1, 0, 1, 2]
    assert kernels["calls"].dtype == np.int64


def test_columns_that_no_rank_has_stay_absent(tmp_path: Path) -> None:
    files = Store(str(tmp_path))
    for rank in (0, 2):
        files.write(f"{rank}.parquet", _summary(rank))
    _, tables, _ = _loaded(tmp_path)
    assert "mhz" not in tables["rank_steps"].present
    assert len(tables["rank_links"]) == 0


def test_of_a_rank_that_was_recorded_twice_the_later_name_counts(tmp_path: Path) -> None:
    files = Store(str(tmp_path))
    files.write("early.parquet", _summary(2))
    files.write("late.parquet", Summary({"rank": 2}, {"of": 9}, _summary(3).tables))
    ranks, tables, documents = _loaded(tmp_path)
    assert (ranks, documents) == ([2], [9])
    assert len(tables["rank_kernels"]) == 3


def test_what_a_rank_told_keeps_its_order(tmp_path: Path) -> None:
    """The first figure in bytes of a finding is the one that heads it."""
    told = {"kept_bytes": 3, "biggest_bytes": 2}
    files, found = Store(str(tmp_path)), []
    files.write("a.parquet", replace(_summary(1), document=told))
    files.load(["a.parquet"], lambda _, document: found.append(list(document)))
    assert found == [["kept_bytes", "biggest_bytes"]]
