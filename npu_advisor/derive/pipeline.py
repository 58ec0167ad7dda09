"""Pipeline parallelism: how long each step waits for its neighbours, and how long it would with an even schedule."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npu_advisor.derive.comm import is_p2p
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

_STAGES = ("pipeline_model_parallel_size", "pipeline_parallel_size")
_VIRTUAL = "virtual_pipeline_model_parallel_size"


def bubbles(profile: Profile) -> Table:
    """The ``bubbles`` table: one row per step with point-to-point communication.

    The ledger's own Bubble counts receives only; send-and-receive batches wait just the same. ``ideal_share`` is what
    one-forward-one-backward costs at least, (p - 1) / (v m + p - 1) with p stages, v chunks a stage and m
    micro-batches; missing unless the recording tells p and m.
    """
    pieces, steps = profile.table("exposed"), profile.table("steps")
    if not profile.has("exposed"):
        return Table.build("bubbles", {}, profile.rank)
    rows = np.flatnonzero(is_p2p(pieces["type"]) & (pieces["step"] >= 0))
    numbers = np.unique(pieces["step"][rows])
    wait = np.bincount(pieces["step"][rows], weights=pieces["dur_us"][rows], minlength=len(steps))[numbers]
    # Each step's longest wait speaks for it.
    order = rows[np.lexsort((-pieces["dur_ns"][rows], pieces["step"][rows]))]
    spokesman = order[np.unique(pieces["step"][order], return_index=True)[1]]
    columns = {
        **{name: steps[name][numbers] for name in ("start_ns", "dur_ns")},
        "wait_us": wait,
        "share": wait / steps["dur_us"][numbers],
        "ideal_share": np.full(len(numbers), ideal_share(profile.info.metadata)),
        "step": numbers,
        **{name: pieces[name][spokesman] for name in ("comm", "op", "source", "source_how")},
    }
    return Table.build("bubbles", columns, profile.rank)


def ideal_share(metadata: Mapping[str, object]) -> float:
    """The least share of a step that an even pipeline idles; NaN unless stages and micro-batches are told."""
    told = metadata.get("distributed_args")
    arguments = told if isinstance(told, Mapping) else {}
    stages = next((count for name in _STAGES if (count := _count(arguments.get(name)))), 0)
    chunks = _count(arguments.get(_VIRTUAL)) or 1
    batch, micro, replicas = (
        _count(arguments.get(name)) for name in ("global_batch_size", "micro_batch_size", "data_parallel_size")
    )
    if not (stages and batch and micro and replicas):
        return float("nan")
    return (stages - 1) / (chunks * batch / (micro * replicas) + stages - 1)


def _count(value: object) -> int:
    text = str(value)
    return int(text) if text.isdigit() and len(text) < 10 else 0
