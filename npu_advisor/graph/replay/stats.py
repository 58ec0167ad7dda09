"""Which statistic of which events each elastic weight is: always over events where that edge must have bound."""

from __future__ import annotations

import numpy as np

from npu_advisor.base.intervals import Ints, Mask

US = 1000
# An edge bound when the other constraint was satisfied this long before.
CLEAR = 20 * US
# Host and device clocks differ by tens of us, with either sign.
CLOCKS = 50 * US
ENOUGH = 3
# No launch takes longer, clock offset included: beyond it the stream was never seen idle.
SLOWEST = 100 * US


def median(values: Ints, default: int) -> int:
    """The median in ns, or the default where there are too few values to trust."""
    return int(np.median(values)) if len(values) >= ENOUGH else default


def per_class(values: Ints, bound: Mask, classes: Ints, default: int) -> Ints:
    """For every event the median over the events of its class that bound; the smallest value of its class (at least
    0 and at most the default) where too few did."""
    found = np.full(len(values), default, dtype=np.int64)
    for one in np.unique(classes):
        mine = classes == one
        chosen = values[mine & bound]
        lowest = max(min(int(values[mine].min()), default), 0)
        found[mine] = median(chosen, lowest)
    return found


def launch_latency(delay: Ints, idle: Mask, known: Mask) -> int:
    """Launch to start: the median over idle streams where a tenth of the tasks met one, else the lower envelope.

    A latency that is too high eats slack: the edge would seem to bind at its recorded start for good.
    """
    if not known.any():
        return 0
    chosen = delay[known & idle]
    if len(chosen) >= max(ENOUGH, 0.1 * known.sum()):
        return int(np.median(chosen))
    return min(int(delay[known].min()), SLOWEST)
