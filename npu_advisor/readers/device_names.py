"""What a device task is, told by its name and task type: communication, compute, copy, event; and a kernel's type."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.numbering import factorize
from npu_advisor.readers.numbers import Int

_COMM = re.compile(r"^(?:hcom_|hccl|lccl)", re.IGNORECASE)
_COMM_TYPE = re.compile(r"^(?:hcom_|hccl_?|lccl_?)(?P<type>[A-Za-z]+)", re.IGNORECASE)
# A node of a graph: MindSpore appends its number, ``Default/AllReduce-op534_0``.
_GRAPH_NODE = re.compile(r"(?:^|/)(?P<type>[^/]+?)-op\d+(?:_\d+)*$")
COMM_CORES = ("HCCL", "COMMUNICATION")
# Beginnings of names and task types that do not compute, blanks and underscores removed.
_NOT_COMPUTE = (
    "EVENT",
    "NOTIFY",
    "MEMCPY",
    "MEMSETASYNC",
    "REDUCEASYNC",
    "SDMA",
    "RDMA",
    "PCIEDMA",
    "PLACEHOLDER",
    "PROFILING",
    "WRITEVALUE",
    "WAITVALUE",
    "STREAMSYNC",
    "STREAMWAIT",
    "MODELEXECUTE",
    "MODELMAINT",
)
_KINDS = (
    ("copy", ("MEMCPY", "SDMASQE", "PCIEDMA")),
    ("event_record", ("EVENTRECORD",)),
    ("event_wait", ("EVENTWAIT",)),
    ("notify", ("NOTIFY",)),
)
_CORES = {
    "AICPU": "AI_CPU",
    "AICORE": "AI_CORE",
    "AIVECTORCORE": "AI_VECTOR_CORE",
    "KERNELAICORE": "AI_CORE",
    "KERNELAIVEC": "AI_VECTOR_CORE",
    "KERNELAICPU": "AI_CPU",
    "STARSCOMMON": "DSA_SQE",
}


def is_comm_name(name: str) -> bool:
    """Whether ``name`` (or a type) is that of a collective: hcom_*, Hccl*, lccl*."""
    return bool(_COMM.match(name))


def comm_type(name: str) -> str:
    """``hcom_allReduce__586_0_1``, ``HcclAllreduce``, ``lcclAllReduce__7_0_1`` -> ``allReduce``, ``allreduce``, ..."""
    found = _COMM_TYPE.match(name) or _GRAPH_NODE.search(name)
    kind = found["type"] if found else name
    return kind[:1].lower() + kind[1:]


def _squeezed(text: str) -> str:
    return re.sub(r"[\s_]", "", text).upper()


def core_name(text: str) -> str:
    """One spelling per core: ``AI CPU``, ``AICPU``, ``KERNEL_AICPU`` -> ``AI_CPU``; ``N/A`` -> nothing."""
    return "" if text in ("N/A", "") else _CORES.get(_squeezed(text), text)


def task_kind(name: str, task_type: str) -> str:
    """Kind of a device task that does not compute; its name says more than its type, which may be a placeholder."""
    for text in (_squeezed(name), _squeezed(task_type)):
        for kind, beginnings in _KINDS:
            if text.startswith(beginnings):
                return kind
    return "other"


def computes(name: str, task_type: str) -> bool:
    """Whether a device task is a compute kernel (not a copy, an event, a notify, or part of a collective)."""
    if is_comm_name(name):
        return False
    return not any(_squeezed(text).startswith(_NOT_COMPUTE) for text in (name, task_type))


def kernel_type(name: str) -> str:
    """Operator type from a kernel's name, for files that write ``N/A``.

    ``trans_TransData_12`` -> TransData, ``x_MemSet`` -> MemSet, ``aclnnMm_MatMulCommon_MatMulV2`` -> MatMulV2,
    ``a/b/Conv2D1`` -> Conv2D, ``Default/Cast-op239`` -> Cast.
    """
    found = re.match(r"^trans_(.+)_\d+$", name)
    if found:
        return found[1]
    if name.endswith("_MemSet"):
        return "MemSet"
    if name.startswith("aclnn") and "_" in name:
        return name.rpartition("_")[2]
    node = _GRAPH_NODE.search(name)
    if node:
        return node["type"]
    last = name.rpartition("/")[2]
    return last.rstrip("0123456789") or last


def pairs(first: Categorical, second: Categorical) -> tuple[list[tuple[str, str]], Int]:
    """The distinct (first, second) texts, "" where missing, and the number of each row's pair."""
    width = len(second.categories) + 1
    numbers, uniques = factorize(first.codes.astype(np.int64) * width + second.codes + 1)
    firsts, seconds = [*first.categories, ""], [*second.categories, ""]
    texts = []
    for unique in uniques:
        one, other = divmod(int(unique), width)
        texts.append((firsts[one] if one >= 0 else "", seconds[other - 1] if other else ""))
    return texts, numbers.astype(np.int64)


# Bytes of one element of each type that HCCL sends, by the names the profiler prints and, in databases, their numbers.
_WIDTHS = {
    "INT8": 1,
    "INT16": 2,
    "INT32": 4,
    "FP16": 2,
    "FP32": 4,
    "INT64": 8,
    "UINT64": 8,
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "FP64": 8,
    "BFP16": 2,
    "INT128": 16,
}
HCCL_TYPES = dict(enumerate(_WIDTHS))


def element_bytes(types: Iterable[str]) -> npt.NDArray[np.float64]:
    """Width of an element of each type, 0 where it is unknown."""
    return np.array([_WIDTHS.get(name, 0) for name in types], dtype=np.float64)


def payload_bytes(count: Int, width: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Size of the tensors that collectives work on: elements times their width; NaN where either is unknown."""
    return np.where((count > 0) & (width > 0), count * width, np.nan)
