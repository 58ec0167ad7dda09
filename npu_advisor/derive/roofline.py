"""How long each kernel would take at the speed of light of its chip: the roofline.

``t_roof = max(bytes / bandwidth, operations / rate)``, both at 0.8 of their peak, which is what well-written kernels
reach.  Bytes are those of all inputs and outputs, read or written once.  Operations are known for matrix products in
16 bit only: the rate of the cube in fp32 is not published, and attention may skip what a mask hides.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from npu_advisor.base.shapes import dtype_bytes, tensor_dims
from npu_advisor.derive.hardware import CUBE_CORES, VECTOR_CORES, hardware
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

Floats = npt.NDArray[np.float64]
REACHED = 0.8
MATMULS = ("MatMul", "BatchMatMul")
HALF = ("FLOAT16", "DT_FLOAT16", "BF16", "DT_BF16", "BFLOAT16")
_SHAPED = ("type", "input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes")


def roofline(profile: Profile) -> Table:
    """The ``roofline`` table: one row per kernel, in the order of ``kernels``.

    Empty where the cores of the chip are not known; without its rates where only the cores are.
    """
    found, kernels = hardware(profile), profile.table("kernels")
    if found is None or any(name not in kernels.present for name in (*_SHAPED, "core", "block_dim")):
        return Table.build("roofline", {}, profile.rank)
    core = np.asarray(kernels["core"], dtype=object)
    on_cube, on_vector = np.isin(core, CUBE_CORES), np.isin(core, VECTOR_CORES)
    moved, operations = _work(kernels)
    columns = {
        **{name: kernels[name] for name in ("start_ns", "dur_ns", "op", "step", "source", "source_how", "type")},
        "core": kernels["core"],
        "cores": np.where(on_cube, found.cube_cores, np.where(on_vector, found.vector_cores, -1)),
        "used": kernels["block_dim"],
        "bytes": moved,
        "operations": np.where(on_cube, operations, np.nan),
        "chip_how": np.full(len(kernels), found.how, dtype=object),
        "kernel": np.arange(len(kernels)),
    }
    if found.chip is not None:
        memory_us = moved / (REACHED * found.chip.bandwidth) * 1e6
        cube_us = operations / (REACHED * found.chip.cube_flops) * 1e6
        roof = np.where(on_cube, np.maximum(memory_us, cube_us), np.where(on_vector, memory_us, np.nan))
        limit = np.where(np.isnan(roof), 2, on_cube & (cube_us > memory_us))
        columns |= {
            "roof_us": roof,
            "over_us": np.maximum(kernels["dur_us"] - roof, 0.0),
            "bound": np.array(("memory", "compute", None), dtype=object)[limit],
            "chip": np.full(len(kernels), found.chip.name, dtype=object),
        }
    return Table.build("roofline", columns, profile.rank)


def _work(kernels: Table) -> tuple[Floats, Floats]:
    """Bytes moved and operations of each kernel, each kind of kernel looked at once."""
    codes = np.stack([kernels[name].codes for name in _SHAPED], axis=1)
    kinds, inverse = np.unique(codes, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)  # numpy 2.0 gives it the axes of the codes
    names = [kernels[name].categories for name in _SHAPED]
    moved, operations = np.full(len(kinds), np.nan), np.full(len(kinds), np.nan)
    for row, kind in enumerate(kinds):
        text = [
            str(categories[code]) if code >= 0 else "" for categories, code in zip(names, kind.tolist(), strict=True)
        ]
        type_, shapes, dtypes, formats, out_shapes, out_dtypes = text
        if type_:
            moved[row] = tensors_bytes(shapes, dtypes) + tensors_bytes(out_shapes, out_dtypes)
            if type_.startswith(MATMULS) and set(dtypes.split(";")[:2]) <= set(HALF):
                operations[row] = matmul_operations(shapes, formats, out_shapes)
    inverse = inverse.reshape(-1)
    return moved[inverse], operations[inverse]


def tensors_bytes(shapes: str, dtypes: str) -> float:
    """Bytes of all tensors (``32,3;64`` with ``FLOAT;FLOAT``); NaN when one cannot be told."""
    tensors, names = tensor_dims(shapes), dtypes.split(";")
    if tensors is None or len(tensors) != len(names):
        return float("nan")
    total = 0.0
    for dims, name in zip(tensors, names, strict=True):
        # An optional input that was left out has an empty member.
        total += float(math.prod(dims)) * (dtype_bytes(name) or float("nan")) if dims else 0.0
    return total


def matmul_operations(shapes: str, formats: str, out_shapes: str) -> float:
    """Multiplications and additions, 2 M N K for each product of a batch; NaN unless everything is plain (ND).

    With A of b M K elements, B of b K N and the result of b M N, their product is b (b M N K)^2, transposed or not.
    """
    tensors, outs = tensor_dims(shapes), tensor_dims(out_shapes)
    plain = all(name.strip() in ("ND", "NCHW") for name in formats.split(";")[:2])
    if not plain or tensors is None or outs is None or len(tensors) < 2 or len(outs) < 1:
        return float("nan")
    left, right, out = tensors[0], tensors[1], outs[0]
    if min(len(left), len(right), len(out)) < 2:
        return float("nan")
    batch = max(math.prod(right[:-2]), 1) if right[:-2] == out[:-2] else 1
    return 2.0 * math.sqrt(float(math.prod(left)) * float(math.prod(right)) * float(math.prod(out)) / batch)
