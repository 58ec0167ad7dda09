"""Replay: re-time the host/device event graph of a profile, as recorded or with a cure applied.

Every end of an event is a node, every constraint an edge ``t[dst] >= t[src] + w``; the replayed times are the least
solution. What the trace shows as waiting is elastic: it ends when its cause ends. A saving is the recorded end minus
the end of the edited graph, never a sum of durations.
"""

from npu_advisor.graph.replay.context import Variants
from npu_advisor.graph.replay.edits import Edit, merge
from npu_advisor.graph.replay.fixes import EDITABLE
from npu_advisor.graph.replay.replayer import Replayer

__all__ = ["EDITABLE", "Edit", "Replayer", "Variants", "merge"]
