"""Element types, and arithmetic on shapes and strides: nothing is allocated, whatever they claim.

Sources: the table of storage types in torch/storage.py (``_dtype_to_storage_type_map``), the
dtypes of torch/csrc/utils/tensor_dtypes.cpp, ``Dtype`` in safetensors/src/tensor.rs, and the
``ScalarType`` enumeration of torch/_export/serde/schema.py.
"""

from collections.abc import Sequence

from tui_profiler.archive.reading import limits

BITS = {
    "bool": 8,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "uint32": 32,
    "int32": 32,
    "uint64": 64,
    "int64": 64,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex32": 32,
    "complex64": 64,
    "complex128": 128,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float4_e2m1fn_x2": 8,
    "float6_e2m3": 6,
    "float6_e3m2": 6,
    "float4": 4,
    "qint8": 8,
    "quint8": 8,
    "qint32": 32,
    "quint4x2": 4,
    "quint2x4": 2,
    "bcomplex32": 32,
    "bits8": 8,
    "bits16": 16,
    "bits1x8": 8,
    "bits2x4": 8,
    "bits4x2": 8,
}
"""Bits of one element. ``float6_…`` and ``float4`` are safetensors' own: torch has no name."""

SAFETENSORS = {
    "BOOL": "bool",
    "F4": "float4",
    "F6_E2M3": "float6_e2m3",
    "F6_E3M2": "float6_e3m2",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}
"""safetensors' name of a dtype to torch's."""

STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "BFloat16Storage": "bfloat16",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "QInt8Storage": "qint8",
    "QInt32Storage": "qint32",
    "QUInt8Storage": "quint8",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
    "UntypedStorage": "uint8",
    "_UntypedStorage": "uint8",
}
"""Class of a storage, in a pickle, to the dtype of its elements."""

SCALAR_TYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    9: "complex32",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz",
    33: "float8_e8m0fnu",
    34: "uint32",
    35: "uint64",
}
"""The number of a dtype in an exported program to its name."""


def number_of_elements(shape: Sequence[int]) -> int | None:
    """Return the product of the sizes; None where it is 2**62 or more, or a size is negative."""
    if len(shape) > limits.DIMENSIONS:
        return None
    elements = 1
    for size in shape:
        if not 0 <= size < limits.LARGEST_SIZE:
            return None
        elements *= size
    return elements if elements < limits.LARGEST_SIZE else None


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a row-major tensor; as torch, a size of 0 counts as 1."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Say if the elements lie row-major without gaps; the stride of a size of 1 does not matter."""
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def elements_reached(shape: Sequence[int], strides: Sequence[int], offset: int) -> int:
    """Return how many elements a storage must have to hold the tensor's last one."""
    if 0 in shape:
        return 0
    if not shape:
        return offset + 1
    if len(shape) == 1:
        return offset + (shape[0] - 1) * strides[0] + 1
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return offset + last + 1


def is_expanded(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Say if elements along some axis are one and the same: more shape than values."""
    return 0 in strides and any(
        size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True)
    )
