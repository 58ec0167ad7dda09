"""Jobs of generated ranks, put together without going over files and processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npu_advisor.api import load_profiles
from npu_advisor.cluster.job import job_profile
from npu_advisor.cluster.rank import meta
from npu_advisor.derive.ranks import SUMMARY_TABLES, summary_tables
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table


def job_of(folder: Path) -> Profile:
    """The job of the ranks under ``folder``."""
    profiles = load_profiles(folder)
    for profile in profiles:  # each rank is summed up on its own
        profile.peers = []
    tables = [summary_tables(one) for one in profiles]
    stacked = {name: _below([one[place] for one in tables]) for place, name in enumerate(SUMMARY_TABLES)}
    return job_profile([meta(one, one.info.path) for one in profiles], stacked)


def _below(parts: list[Table]) -> Table:
    """Tables of one kind one below the other; columns that none has stay absent."""
    columns = {}
    for column in parts[0].spec.columns:
        if any(column.name in part.present for part in parts):
            read = [part.strings(column.name) if column.kind == "text" else part[column.name] for part in parts]
            columns[column.name] = np.concatenate(read)
    return Table.build(parts[0].spec.name, columns)
