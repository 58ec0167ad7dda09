"""What a GPU kernel is, told by its name: collective or not, its short type, the type of its collective."""

from __future__ import annotations

import re

_COMM = re.compile(r"nccl|rccl", re.IGNORECASE)
_COLLECTIVE = re.compile(r"[nr]ccl(?:Dev)?Kernel_([A-Za-z]+)", re.IGNORECASE)
# Kernels whose own name says nothing: what they run is an argument of the template.
_SHELLS = re.compile(r"^(?:\w*elementwise_kernel\w*|reduce_kernel|Kernel2?|device_kernel|multi_tensor_apply_kernel)$")
_NATIVE = re.compile(r"at::native::(?:\(anonymous namespace\)::)?(?:\w+::)*(\w+)")
_WRAPPERS = re.compile(
    r"^(?:gpu_kernel_impl\w*|ReduceOp|func_wrapper_t|(?:[AB]?Unary|Binary)Functor|TensorListMetadata|"
    r"\w*(?:Load|Store)With\w+|\w*OffsetCalculator|\w*TensorIterator\w*)$"
)


def is_gpu_comm(name: str) -> bool:
    """Whether a kernel belongs to a collective library (NCCL, RCCL)."""
    return bool(_COMM.search(name))


def gpu_comm_type(name: str, collective: str) -> str:
    """``ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)`` -> allReduce; else the ``collective`` that torch names."""
    found = _COLLECTIVE.search(name)
    kind = found[1] if found and found[1] != "Generic" else collective or name
    return kind[:1].lower() + kind[1:]


def gpu_kernel_type(name: str) -> str:
    """The function of a kernel without namespaces, template arguments and parameters.

    A kernel that is only a shell names what it runs in angle brackets:
    ``void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, ...>(...)`` ->
    ``vectorized_elementwise_kernel<CUDAFunctor_add>``.
    """
    if name.startswith("_Z"):
        return _mangled(name) or name
    head, inside = _head(name)
    short = head.rpartition("::")[2].rpartition(" ")[2] or name
    if not _SHELLS.match(short) or not inside:
        return short
    functors = [one for one in _NATIVE.findall(inside) if not _WRAPPERS.match(one)]
    inner = functors[0] if functors else re.split(r"[<,(>]", inside, maxsplit=1)[0].rpartition("::")[2].strip()
    return f"{short}<{inner}>" if inner and not inner.isdigit() else short


def _head(name: str) -> tuple[str, str]:
    """The name up to its template arguments or parameters, and the template arguments."""
    text = name.replace("(anonymous namespace)", "").removeprefix("void ")
    end = next((at for at, char in enumerate(text) if char in "<("), len(text))
    if text[end : end + 1] != "<":
        return text[:end].strip(), ""
    depth = 0
    for at in range(end, len(text)):
        depth += (text[at] == "<") - (text[at] == ">" and text[at - 1] != "-")
        if not depth:
            following = text[at + 1 :]
            if following.startswith("::"):  # the template is a namespace or class around the kernel
                return _head(following[2:])
            return text[:end].strip(), text[end + 1 : at]
    return text[:end].strip(), text[end + 1 :]


def _mangled(name: str) -> str:
    """The last identifier of an Itanium-mangled function name, "" when it is not one."""
    at, last = 2 + name[2:].startswith("N"), ""
    while found := re.compile(r"\d+").match(name, at):
        size = int(found[0]) if len(found[0]) < 5 else 0
        last = name[found.end() : found.end() + size]
        if not size or len(last) < size:
            return ""
        at = found.end() + size
    return last
