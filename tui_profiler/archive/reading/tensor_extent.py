"""Arithmetic on shapes and strides: nothing is allocated, whatever they claim."""

from __future__ import annotations

from collections.abc import Sequence

from tui_profiler.archive.reading import limits


def number_of_elements(shape: Sequence[int]) -> int | None:
    """Give the product of the sizes; None where it is 2**62 or more, or a size is negative."""
    if len(shape) > limits.DIMENSIONS:
        return None
    elements = 1
    for size in shape:
        if not 0 <= size < limits.LARGEST_SIZE:
            return None
        elements *= size
    return elements if elements < limits.LARGEST_SIZE else None


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Give the strides, in elements, of a row-major tensor; as torch, a size of 0 counts as 1."""
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
    """Give how many elements a storage must have to hold the tensor's last one."""
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
