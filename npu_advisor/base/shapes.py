"""Shapes and data types of tensors as CANN and torch write them."""

from __future__ import annotations

# Bytes per element as CANN (FLOAT, DT_BF16) and torch (float, c10::Half) spell the types.
_SIZES = {
    8: "double float64 int64 uint64 long longint complex64 c10::complex<float>",
    4: "float float32 int int32 uint32 hifloat32",
    2: "float16 half c10::half bfloat16 bf16 c10::bfloat16 int16 uint16 short shortint",
    1: "bool int8 uint8 char unsignedchar signedchar hifloat8 float8_e5m2 float8_e4m3fn",
    16: "complex128 c10::complex<double>",
}
_BYTES = {name: size for size, names in _SIZES.items() for name in names.split()}


def dtype_bytes(name: str) -> int | None:
    """Bytes of one element of the type ``name``, None for an unknown one."""
    return _BYTES.get(name.strip().lower().replace(" ", "").removeprefix("dt_").removeprefix("torch."))


def tensor_dims(shapes: str) -> list[tuple[int, ...]] | None:
    """The dimensions of each tensor of ``32,3;64`` (empty for an empty member), None when it is no list of shapes."""
    tensors = []
    for shape in shapes.strip().strip('"').split(";"):
        dims = [dim.strip() for dim in shape.strip().strip('"[]').split(",") if dim.strip()]
        if not all(dim.isdigit() for dim in dims):
            return None
        tensors.append(tuple(int(dim) for dim in dims))
    return tensors
