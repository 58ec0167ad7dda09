"""What runs inside a call: the ops below it that launch, by their place in the op tree."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npu_advisor.base.intervals import Ints
from npu_advisor.compare.calls import Calls
from npu_advisor.compare.noise import change
from npu_advisor.compare.vocabulary import common_name
from npu_advisor.comparison import InnerChange
from npu_advisor.graph.nesting import nesting_of
from npu_advisor.model.profile import Profile

_MOST = 12
Launched = dict[int, dict[str, tuple[float, float]]]


def inner_paths(profile: Profile, calls: Calls, op: Ints) -> list[str]:
    """By row of ``op`` (ops, -1 none): the names of the ops from below its call down to it, with ``/`` between them;
    empty where the call launches by itself. Scopes of the writer (``aclnnAddmm``) are no ops."""
    ops, parent = profile.table("ops"), nesting_of(profile, "ops").parent
    names = [common_name(str(name)) for name in ops["name"].categories]
    paths: dict[int, str] = {-1: ""}
    for row in np.unique(op[op >= 0]).tolist():
        chain: list[str] = []
        at, call = row, calls.of_op[row]
        while call >= 0 and at >= 0 and at != calls.row[call]:
            chain += [name for name in [names[ops["name"].codes[at]]] if "::" in name]
            at = int(parent[at])
        paths[row] = "/".join(reversed(chain))
    return [paths[row] for row in op.tolist()]


def launched(side: pd.DataFrame) -> Launched:
    """By group of calls and path inside it: launches and their time in us, per step."""
    kernels = side[(side["group"] >= 0) & (side["table"] == "kernels")]
    sums = kernels.groupby(["group", "inner"], as_index=False, sort=False)["us"].agg(["size", "sum"])
    found: Launched = {}
    columns = [sums[name].tolist() for name in ("group", "inner", "size", "sum")]
    for group, path, count, us in zip(*columns, strict=True):
        found.setdefault(group, {})[path] = (count / side.attrs["steps"], us / side.attrs["steps"])
    return found


def inner_changes(base: dict[str, tuple[float, float]], new: dict[str, tuple[float, float]]) -> list[InnerChange]:
    """The ops inside one group of calls, in the order in which they launch; none where both sides launch alike."""
    counts = [{path: count for path, (count, _) in side.items()} for side in (base, new)]
    if counts[0] == counts[1]:
        return []
    found = []
    for path in list(dict.fromkeys((*base, *new)))[:_MOST]:
        (one, one_us), (other, other_us) = (side.get(path, (0.0, 0.0)) for side in (base, new))
        kernels, us = change("kernels", (one, other)), change("kernel_us", (one_us, other_us))
        found.append(InnerChange(path=path, kernels=kernels, kernel_us=us))
    return found
