"""How evenly work and links are spread over the ranks of a job: experts, pipeline stages, and rates of links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.cluster.matching import numbered
from npu_advisor.model.table import Table

# What goes over links of one kind has to be this much, and so many ranks have to use them, to compare rates (bytes).
COMPARABLE_BYTES, COMPARABLE_RANKS = 1 << 24, 4


def expert_groups(told: Ints, stage: Ints) -> Ints:
    """For each rank a number of the ranks that share experts with it: as the recording lists them (``told``, -1 where
    it does not), else all of its stage."""
    return numbered(told, np.where(told < 0, stage, -1))


def mean_of_group(values: Floats, group: Ints) -> Floats:
    """For each rank the mean over its group."""
    size = np.maximum(np.bincount(group), 1)
    found: Floats = (np.bincount(group, np.nan_to_num(values)) / size)[group]
    return found


def lead_in_steps(values: Floats, number: Ints, of: Ints, group: Ints) -> Floats:
    """For each rank the share of its steps in which its value is the largest of its group; rows are by rank and step,
    ``of`` is the rank of each."""
    key = numbered(number, group[of])
    most = np.zeros(int(key.max(initial=-1)) + 1)
    np.maximum.at(most, key, values)
    leads = (values > 0) & (values >= most[key])
    found: Floats = np.bincount(of, leads, len(group)) / np.maximum(np.bincount(of, minlength=len(group)), 1)
    return found


def even_stage_factors(kernel: Floats, stage: Ints) -> Floats | None:
    """By which factor the kernels of each rank change when all stages compute as long as their mean; None without
    stages."""
    known = np.unique(stage[stage >= 0])
    if len(known) < 2 or (stage < 0).any():
        return None
    usual = np.array([np.median(kernel[stage == one]) for one in known])
    if not (usual > 0).all():
        return None
    found: Floats = (usual.mean() / usual)[np.searchsorted(known, stage)]
    return found


def nodes(names: Sequence[str | None], excess: Floats) -> tuple[Ints, Ints, Floats]:
    """For each rank the number of its machine (-1 unknown), how many ranks that has, and the least ``excess`` of
    these, NaN where the machine has one rank or at least half of all, so that nothing is left to compare with."""
    known = sorted({name for name in names if name})
    node = np.array([known.index(name) if name else -1 for name in names], dtype=np.int64)
    size = np.bincount(node + 1, minlength=len(known) + 1)
    least = np.full(len(known) + 1, np.inf)
    np.minimum.at(least, node + 1, np.nan_to_num(excess))
    compared = (node >= 0) & (size[node + 1] > 1) & (2 * size[node + 1] < len(node))
    return node, size[node + 1], np.where(compared, least[node + 1], np.nan)


def link_ratios(links: Table, of: Ints, count: int) -> tuple[Floats, Floats]:
    """For each rank, of its slowest kind of links: the rate of all its links together over the median of the ranks, and
    of the slowest of them, which holds up the others, over the median of all links. NaN where nothing tells."""
    found, slowest = np.full(count, np.nan), np.full(count, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = links["bytes"] / links["transit_us"]
    for transport in range(len(links["transport"].categories)):
        rows = np.flatnonzero((links["transport"].codes == transport) & (links["transit_us"] > 0))
        size, took = (np.bincount(of[rows], links[name][rows], count) for name in ("bytes", "transit_us"))
        known = size >= COMPARABLE_BYTES
        if known.sum() < COMPARABLE_RANKS:
            continue
        own = size[known] / took[known]
        found[known] = np.fmin(found[known], own / np.median(own))
        rows = rows[links["bytes"][rows] >= COMPARABLE_BYTES / 8]
        np.fmin.at(slowest, of[rows], rate[rows] / np.median(rate[rows]))
    return found, slowest
