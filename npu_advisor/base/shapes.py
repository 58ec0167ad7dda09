"""Sizes of tensors from the texts in which CANN and torch give their shapes and types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.integer[Any]]
Texts = Sequence[object] | npt.NDArray[Any]

# A longer dimension is damage: no tensor has it, and Python refuses to read some of them.
MOST_DIGITS = 15

# Bytes per element as CANN (FLOAT, DT_BF16) and torch (float, c10::Half) spell the types.
_SIZES = {
    8: "double float64 int64 uint64 long longint complex64 c10::complex<float>",
    4: "float float32 int int32 uint32 hifloat32",
    2: "float16 half c10::half bfloat16 bf16 c10::bfloat16 int16 uint16 short shortint",
    1: "bool int8 uint8 char unsignedchar signedchar hifloat8 float8_e5m2 float8_e4m3fn",
    16: "complex128 c10::complex<double>",
}
DTYPE_BYTES = {name: size for size, names in _SIZES.items() for name in names.split()}


def dtype_bytes(name: str) -> int | None:
    """Bytes of one element of the type ``name``, None for an unknown one."""
    return DTYPE_BYTES.get(name.strip().lower().replace(" ", "").removeprefix("dt_").removeprefix("torch."))


def tensor_dims(shapes: str) -> list[tuple[int, ...]] | None:
    """The dimensions of each tensor of ``32,3;64`` (none for an empty member), None when it is no list of shapes."""
    tensors = []
    for shape in shapes.strip().strip('"').split(";"):
        dims = [dim.strip() for dim in shape.strip().strip('"[]').split(",") if dim.strip()]
        if not all(dim.isdecimal() and len(dim) <= MOST_DIGITS for dim in dims):
            return None
        tensors.append(tuple(int(dim) for dim in dims))
    return tensors


def tensor_sizes(shapes: str) -> list[float] | None:
    """Elements of each tensor of ``32,3;64`` (0 for an empty member), None when it is no list of shapes."""
    tensors = tensor_dims(shapes)
    if tensors is None:
        return None
    return [float(np.prod([float(dim) for dim in dims])) if dims else 0.0 for dims in tensors]


def _pair_bytes(shapes: str, dtypes: str) -> float:
    sizes, names = tensor_sizes(shapes), dtypes.split(";")
    if sizes is None or len(sizes) != len(names):
        return float("nan")
    total = 0.0
    for size, name in zip(sizes, names, strict=True):
        each = dtype_bytes(name)
        if size and each is None:
            return float("nan")
        total += size * (each or 0)
    return total


def tensor_bytes(shape: Codes, shapes: Texts, dtype: Codes, dtypes: Texts) -> npt.NDArray[np.float64]:
    """Bytes of all tensors of each row: ``shape`` and ``dtype`` index the texts ``shapes`` and ``dtypes``.

    NaN where either is missing (-1), a type is unknown or the two differ in length.
    """
    width = len(dtypes) + 1
    pairs, inverse = np.unique((shape.astype(np.int64) + 1) * width + dtype + 1, return_inverse=True)
    sizes = np.full(len(pairs), np.nan)
    for index, pair in enumerate(pairs):
        first, second = pair // width - 1, pair % width - 1
        if first >= 0 and second >= 0:
            sizes[index] = _pair_bytes(str(shapes[first]), str(dtypes[second]))
    found: npt.NDArray[np.float64] = sizes[inverse.reshape(np.shape(shape))]
    return found
