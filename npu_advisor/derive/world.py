"""Which ranks a job has, as far as the recording of one of them tells, and what its groups are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from npu_advisor.model.profile import Profile

# dst_rank of a sub-task that stays on this card.
LOCAL = 4294967295
# What the recording calls groups of ranks that share experts.
EXPERT_ROLES = ("ep", "exp")


class RankGroup(NamedTuple):
    """A communicator: the hash that collectives call it by, its role (tp, dp, ...) and its ranks in the job."""

    hash: str
    role: str
    ranks: tuple[int, ...]


def group_hash(name: str) -> str:
    """The number by which communication.json calls the communicator ``name``.

    Two polynomial hashes modulo 2^32, with factors 29 and 131, side by side in 64 bits.
    """
    high = low = 0
    for char in name:
        high = (high * 29 + ord(char)) % 2**32
        low = (low * 131 + ord(char)) % 2**32
    return str(high * 2**32 + low)


def rank_groups(profile: Profile) -> list[RankGroup]:
    """The communicators that profiler_metadata.json lists; none where there is no such list."""
    found = []
    for name, group in _objects(profile.info.metadata.get("parallel_group_info")):
        ranks = group.get("global_ranks")
        if isinstance(ranks, list) and all(isinstance(rank, int) and rank >= 0 for rank in ranks):
            found.append(RankGroup(group_hash(name), str(group.get("group_name") or ""), tuple(ranks)))
    return found


def world_size(profile: Profile) -> int:
    """How many ranks the job has at least, counting this one.

    The size that the framework noted; else the largest rank in any group, among those that sub-tasks of collectives
    wait for, or at the end of a link of a group.
    """
    arguments = profile.info.metadata.get("distributed_args")
    told = arguments.get("world_size") if isinstance(arguments, Mapping) else None
    if isinstance(told, int) and told > 0:
        return told
    seen = [profile.rank, *(rank for group in rank_groups(profile) for rank in group.ranks)]
    tasks, links = profile.table("comm_tasks"), profile.table("links")
    for rows in (tasks["src_rank"], tasks["dst_rank"], links["src"], links["dst"]):
        real = rows[(rows >= 0) & (rows != LOCAL)]
        seen.append(int(real.max(initial=-1)))
    return max(seen) + 1


def stage_of(profile: Profile) -> int:
    """The pipeline stage of this rank, from its place in its ``pp`` group; -1 where no such group is listed."""
    for group in rank_groups(profile):
        if group.role == "pp" and profile.rank in group.ranks:
            return group.ranks.index(profile.rank)
    return -1


def experts_of(profile: Profile) -> int:
    """The first of the ranks that share experts with this one, -1 where no such group is listed."""
    for group in rank_groups(profile):
        if group.role in EXPERT_ROLES and profile.rank in group.ranks:
            return min(group.ranks)
    return -1


def missing_ranks(profiles: list[Profile]) -> list[int]:
    """Ranks of the job that are not among ``profiles``, in order; none where the profiles are not of one run."""
    ranks = [profile.rank for profile in profiles]
    if len(set(ranks)) < len(ranks) or min(ranks, default=-1) < 0:
        return []
    return np.setdiff1d(np.arange(max(map(world_size, profiles))), ranks).tolist()  # type: ignore[no-any-return]


def as_ranges(numbers: Sequence[int], limit: int = 8) -> str:
    """``2-5, 7``: numbers in order, runs as ranges; from ``limit`` ranges on the rest is counted."""
    values = np.asarray(numbers, dtype=np.int64)
    runs = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1) if len(values) else []
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:limit]]
    rest = sum(map(len, runs[limit:]))
    return ", ".join(shown) + (f", … (+{rest})" if rest else "")


def _objects(value: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    for name, entry in value.items() if isinstance(value, Mapping) else ():
        if isinstance(entry, Mapping):
            yield str(name), entry
