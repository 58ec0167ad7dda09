"""A job from the summaries of its ranks: the tables that the rules on jobs read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.base.terms import IDLE_OWNERS
from npu_advisor.cluster.matching import Matched, clock_offsets, matched, numbered
from npu_advisor.cluster.model import JobModel
from npu_advisor.cluster.spread import (
    even_stage_factors,
    expert_groups,
    lead_in_steps,
    link_ratios,
    mean_of_group,
    nodes,
)
from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.table import Table

Meta = Mapping[str, Any]
# Ranks whose effect on the job is modelled: those that keep others waiting longest, or have the slowest links.
CANDIDATES = 8


def job_profile(metas: Sequence[Meta], tables: Mapping[str, Table]) -> Profile:
    """A profile of the job with the tables of all ranks, and ``ranks``, ``job`` and ``steps`` made of them."""
    world = max([int(meta["world"]) for meta in metas], default=0)
    facts = _Facts(metas, tables, partial=len(metas) < world)
    info = ProfileInfo(path="", rank=-1, form=metas[0]["form"] if metas else "text")
    profile = Profile(info, {name: table for name, table in tables.items() if len(table)})
    profile.put(facts.kernels())
    profile.put(facts.steps())
    profile.put(facts.ranks())
    profile.put(facts.job(max(world, len(metas))))
    return profile


class _Facts:
    """Columns by rank (a position in ``metas``), and by rank and step."""

    def __init__(self, metas: Sequence[Meta], tables: Mapping[str, Table], *, partial: bool) -> None:
        self.metas, self.tables, self.partial = metas, tables, partial
        self.rank = np.array([meta["rank"] for meta in metas], dtype=np.int64)
        self.count = len(metas)
        self.table = tables["rank_steps"]
        self.of = _positions(self.rank, self.table["rank"])
        self.steps_of = np.maximum(np.bincount(self.of, minlength=self.count), 1)
        self.stage = np.array([meta["stage"] for meta in metas], dtype=np.int64)
        self.comms = tables["rank_comms"]
        self.matched: Matched = matched(self.comms, partial=partial)
        self.comm_rank = _positions(self.rank, self.comms["rank"])
        self.model = JobModel.of(self.table, self.of, self.comms, self.comm_rank, self.matched, self.count)

    # --- by rank -----------------------------------------------------------------------------------------------------

    def mean(self, values: Floats) -> Floats:
        """Of a column of ``rank_steps``, the mean over the steps of each rank."""
        found: Floats = np.bincount(self.of, weights=np.nan_to_num(values), minlength=self.count) / self.steps_of
        return found

    def among_peers(self, values: Floats) -> Floats:
        """The median of the peers of each rank (itself included: one of many hardly moves it, and two share a mean)."""
        found = np.full(self.count, np.nan)
        for stage in np.unique(self.stage):
            rows = np.flatnonzero(self.stage == stage)
            known = values[rows][np.isfinite(values[rows])]
            if len(known) == 2:  # the median of two is neither; the smaller one is what the other could be
                found[rows] = known.min()
            elif len(known):
                found[rows] = np.median(known)
        return found

    def ranks(self) -> Table:
        """The ``ranks`` table."""
        step_us = self.mean(self.table["dur_us"])
        kernel, idle = self.mean(self.table["kernel_us"]), self._idle()
        usual, usual_idle = self.among_peers(kernel), self.among_peers(idle)
        late, late_steps = self._late()
        wait = self._by_comm(self.matched.waits(self.comms))
        columns: dict[str, object] = {
            "rank": self.rank,
            "node": np.array([meta.get("node") for meta in self.metas], dtype=object),
            "stage": self.stage,
            "peers": self._peers(),
            "steps": np.bincount(self.of, minlength=self.count),
            "steps_us": np.bincount(self.of, weights=self.table["dur_us"], minlength=self.count),
            "kernel_us": kernel,
            "peers_kernel_us": usual,
            "kernel_excess": _beyond(kernel, usual),
            "idle_us": idle,
            "peers_idle_us": usual_idle,
            "wait_us": wait,
            "wait_share": wait / step_us,
            "partial": np.full(self.count, self.partial),
            "spread": self._spread(kernel),
        }
        if len(self.comms):
            columns |= {"late_us": late, "late_share": late / step_us, "late_steps": late_steps}
            columns["clock_offset_us"] = clock_offsets(self.comms, self.matched, self.comm_rank, self.count)
        if "p2p_us" in self.table.present:
            p2p = self.mean(self.table["p2p_us"])
            columns |= {"p2p_us": p2p, "p2p_share": p2p / step_us}
        columns |= self._idle_owner() | self._clock() | self._work() | self._slow_parts()
        columns |= (
            self._nodes(_beyond(kernel, usual)) | self._experts() | self._gains(late, kernel, usual, idle, usual_idle)
        )
        return Table.build("ranks", columns)

    def _peers(self) -> Ints:
        _, place, count = np.unique(self.stage, return_inverse=True, return_counts=True)
        found: Ints = count[place] - 1
        return found

    def _idle(self) -> Floats:
        return self.mean(self.table["free_us"] + self.table["prepare_us"])

    def _by_comm(self, values: Floats) -> Floats:
        found: Floats = np.bincount(self.comm_rank, weights=values, minlength=self.count) / self.steps_of
        return found

    def _late(self) -> tuple[Floats, Floats]:
        """What others wait for each rank alone, a step, and in which share of the steps it is the one that is waited
        for longest."""
        step = numbered(self.comms["number"])
        steps, last = int(step.max(initial=-1)) + 1, self.matched.last
        late = np.bincount(step[last] * self.count + self.comm_rank[last], self.matched.late, steps * self.count)
        each = late.reshape(steps, self.count)
        worst = np.bincount(each.argmax(axis=1)[each.max(axis=1) > 0], minlength=self.count) if steps else 0
        return each.sum(axis=0) / self.steps_of, np.zeros(self.count) + worst / max(steps, 1)

    def _spread(self, mean: Floats) -> Floats:
        square = self.mean((np.nan_to_num(self.table["kernel_us"]) - mean[self.of]) ** 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Floats = np.sqrt(square) / mean
        return found

    def _idle_owner(self) -> dict[str, object]:
        if "idle_other_us" not in self.table.present or not self.count:
            return {"idle_owner": np.full(self.count, "other", dtype=object)}
        beyond = np.stack([(own := self.mean(self.table[f"idle_{o}_us"])) - self.among_peers(own) for o in IDLE_OWNERS])
        best = beyond.argmax(axis=0)
        top = beyond.max(axis=0)
        names = np.array(IDLE_OWNERS, dtype=object)[best]
        names[~(top > 0)] = "other"
        return {"idle_owner": names, "idle_excess_us": np.maximum(top, 0.0)}

    def _clock(self) -> dict[str, object]:
        mhz = self.table["mhz"]
        known = np.isfinite(mhz)
        if not known.any():
            return {}
        with np.errstate(invalid="ignore", divide="ignore"):
            own = np.bincount(self.of[known], mhz[known], self.count) / np.bincount(
                self.of[known], minlength=self.count
            )
        usual = self.among_peers(own)
        return {"mhz": own, "peers_mhz": usual, "clock_lack": 1.0 - own / usual}

    def _work(self) -> dict[str, object]:
        """How much each rank has to do: kernels launched, elements read."""
        found: dict[str, object] = {}
        for name in {"calls", "elements"} & self.table.present:
            own = self.mean(self.table[name])
            found[f"{name}_excess"] = _beyond(own, self.among_peers(own))
            if name == "calls":
                found[name] = np.rint(own).astype(np.int64)
        return found

    def _experts(self) -> dict[str, object]:
        if "expert_us" not in self.table.present:
            return {"tokens_us": np.zeros(self.count)}
        group = expert_groups(np.array([meta.get("experts", -1) for meta in self.metas]), self.stage)
        each = np.nan_to_num(self.table["expert_us"])
        own = self.mean(each)
        even = mean_of_group(own, group)
        found: dict[str, object] = {
            "expert_us": own,
            "mean_expert_us": even,
            "expert_lead": lead_in_steps(each, self.table["number"], self.of, group),
            "expert_ranks": np.bincount(group)[group],
            "tokens_us": np.maximum(own - self.among_peers(own), 0.0),
        }
        if "expert_rows" in self.table.present:
            rows = self.mean(self.table["expert_rows"])
            usual = mean_of_group(rows, group)
            found |= {"expert_rows": rows, "mean_expert_rows": usual}
            found["tokens_us"] = np.maximum(own - self.among_peers(own), 0.0) * (rows > usual)
        found["expert_gain_us"] = np.full(self.count, np.nan)
        if self.model.usable:
            factor = np.where(own > 0, even / np.maximum(own, 1e-9), 1.0)
            found["expert_gain_us"] = np.full(self.count, self.model.gain_of_experts(factor))
        return found

    def _slow_parts(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for table, column, to in (("rank_kernels", "type", "slow_type"), ("rank_lines", "line", "slow_source")):
            names, beyond = self._most_beyond(self.tables[table], column)
            if names is not None:
                found[to] = names
                if table == "rank_kernels":
                    found["slow_type_us"] = beyond / self.steps_of
        return found

    def _most_beyond(self, table: Table, column: str) -> tuple[Any, Floats]:
        """For each rank the name on which it spends most time beyond the median of its peers that have it."""
        if not len(table):
            return None, np.zeros(self.count)
        codes, of = table[column].codes.astype(np.int64), _positions(self.rank, table["rank"])
        beyond = table["total_us"] - _median_by(numbered(codes, self.stage[of]), table["total_us"])
        order = np.lexsort((codes, beyond, of))
        last = order[np.append(of[order][1:] != of[order][:-1], True)]
        names, most = np.full(self.count, None, dtype=object), np.zeros(self.count)
        names[of[last]] = table.strings(column)[last]
        most[of[last]] = np.maximum(beyond[last], 0.0)
        names[most <= 0] = None
        return names, most

    def _gains(
        self, late: Floats, kernel: Floats, usual: Floats, idle: Floats, usual_idle: Floats
    ) -> dict[str, object]:
        if not self.model.usable:
            return {}
        gain, host = np.full(self.count, np.nan), np.full(self.count, np.nan)
        for place in np.argsort(-late, kind="stable")[:CANDIDATES].tolist():
            if kernel[place] > usual[place] > 0:
                gain[place] = self.model.gain(place, kernels=usual[place] / kernel[place])
            if idle[place] > usual_idle[place]:
                host[place] = self.model.gain(place, idle=usual_idle[place] / idle[place])
        step_us = np.full(self.count, self.mean(self.table["dur_us"]).mean())
        found = {"gain_us": gain, "host_gain_us": host, "job_step_us": step_us, "then_us": step_us - gain}
        return {**found, "link_gain_us": self._link_gains(), "node_gain_us": self._node_gains(kernel, usual)}

    def _nodes(self, excess: Floats) -> dict[str, object]:
        node, size, least = nodes([meta.get("node") for meta in self.metas], excess)
        return {"node_ranks": size, "node_excess": least} if (node >= 0).any() else {}

    def _node_gains(self, kernel: Floats, usual: Floats) -> Floats:
        """What the job gains by the machines of which all ranks compute longer than their peers."""
        gain, excess = np.full(self.count, np.nan), _beyond(kernel, usual)
        node, _, least = nodes([meta.get("node") for meta in self.metas], excess)
        slow = np.unique(node[least > 0])
        worst = sorted(slow.tolist(), key=lambda one: -float(least[node == one][0]))
        for one in worst[:CANDIDATES]:
            gain[node == one] = self.model.gain_of_ranks(np.where(node == one, 1 / (1 + excess), 1.0))
        return gain

    def _link_gains(self) -> Floats:
        links, gain = self.tables["rank_links"], np.full(self.count, np.nan)
        ratio, slowest = link_ratios(links, _positions(self.rank, links["rank"]), self.count)
        for place in np.argsort(ratio, kind="stable")[:CANDIDATES].tolist():  # NaN comes last
            if ratio[place] < 1 and slowest[place] < 1:
                gain[place] = self.model.gain_of_links(place, float(slowest[place]))
        return gain

    def kernels(self) -> Table:
        """``rank_kernels`` with a number of the peers of each rank."""
        table = self.tables["rank_kernels"]
        return table.with_columns(peers=np.maximum(self.stage, 0)[_positions(self.rank, table["rank"])])

    # --- of the job --------------------------------------------------------------------------------------------------

    def steps(self) -> Table:
        """The ``steps`` of the job: of each number the mean duration over the ranks."""
        numbers, place = np.unique(self.table["number"], return_inverse=True)
        count = np.maximum(np.bincount(place), 1)
        mean = np.bincount(place, self.table["dur_us"]) / count if len(place) else np.zeros(0)
        columns = {
            "number": numbers,
            "start_ns": np.full(len(numbers), -1),
            "dur_ns": np.rint(mean * 1000).astype(np.int64),
        }
        columns["complete"] = np.ones(len(numbers), dtype=bool)
        return Table.build("steps", columns)

    def job(self, world: int) -> Table:
        """The ``job`` table."""
        step_us = float(self.mean(self.table["dur_us"]).mean()) if self.count else np.nan
        columns: dict[str, object] = {"world": [world], "present": [self.count], "step_us": [step_us]}
        uneven, even_spread = self._uneven()
        columns |= {"kernel_spread": [even_spread], "uneven_us": [uneven]}
        if len(self.comms) and self.count > 1:
            wait = float(self._by_comm(self.matched.waits(self.comms)).mean())
            _, persistence = self._late()
            columns |= {"wait_us": [wait], "wait_share": [wait / step_us], "persistence": [float(persistence.max())]}
        if self.model.usable:
            columns |= {"model_error": [self.model.error], "even_gain_us": [self._even_gain()]}
            even = even_stage_factors(self.mean(self.table["kernel_us"]), self.stage)
            if even is not None:
                columns["even_stages_gain_us"] = [self.model.gain_of_ranks(even)]
        return Table.build("job", columns)

    def _even(self) -> Floats:
        """For each row of ``rank_steps`` the mean kernel time of that step over the peers."""
        _, key = np.unique(np.stack([self.table["number"], self.stage[self.of]]), axis=1, return_inverse=True)
        key = key.reshape(-1)
        kernel = np.nan_to_num(self.table["kernel_us"])
        mean: Floats = (np.bincount(key, kernel) / np.maximum(np.bincount(key), 1))[key] if len(key) else kernel
        return mean

    def _uneven(self) -> tuple[float, float]:
        """How much the longest kernel time of a step exceeds the mean of the ranks (us and share), mean over steps."""
        kernel, mean = np.nan_to_num(self.table["kernel_us"]), self._even()
        numbers, place = np.unique(self.table["number"], return_inverse=True)
        most, share = np.zeros(len(numbers)), np.zeros(len(numbers))
        np.maximum.at(most, place, kernel - mean)
        np.maximum.at(share, place, np.where(mean > 0, kernel / np.maximum(mean, 1e-9) - 1, 0.0))
        return (float(most.mean()), float(share.mean())) if len(numbers) else (0.0, 0.0)

    def _even_gain(self) -> float:
        kernel, mean = np.nan_to_num(self.table["kernel_us"]), self._even()
        factor = np.where(kernel > 0, mean / np.maximum(kernel, 1e-9), 1.0)
        return self.model.gain_of_steps(factor)


def _positions(ranks: Ints, of: Ints) -> Ints:
    """The position of each rank in ``ranks`` (sorted)."""
    found: Ints = np.searchsorted(ranks, of)
    return found


def _beyond(own: Floats, usual: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = own / usual - 1.0
    return found


def _median_by(codes: Ints, values: Floats) -> Floats:
    """For each row the median of the rows of its code, 0 or more."""
    order = np.lexsort((values, codes))
    size = np.bincount(codes)
    start = np.cumsum(size) - size
    middle = np.minimum(start + size // 2, len(order) - 1)
    lower = np.minimum(start + np.maximum(size - 1, 0) // 2, len(order) - 1)
    medians = (values[order[middle]] + values[order[lower]]) / 2
    found: Floats = medians[codes]
    return found
