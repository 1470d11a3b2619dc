"""How far two outputs of a model are from each other.

Sums are taken in float64, a bounded part of a tensor at a time. Of a module that gives floating
values only those are in the error; of what else it gives, how many values differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch

from tui_profiler.messages import OutputError

_VALUES_AT_ONCE = 1 << 20
_MOST_DEPTH = 50


class NotComparableError(Exception):
    """Two outputs that have no values in common places; its text says why."""


class _Sums(NamedTuple):
    largest: float = 0.0
    squares: float = 0.0
    reference_squares: float = 0.0
    values: int = 0
    others_differ: int = 0

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(
            max(self.largest, other.largest),
            self.squares + other.squares,
            self.reference_squares + other.reference_squares,
            self.values + other.values,
            self.others_differ + other.others_differ,
        )


def tensors_of(output: object, depth: int = 0) -> list[torch.Tensor]:
    """Return tensors of an output in order; those of objects that are no containers are left."""
    if isinstance(output, torch.Tensor):
        return [output]
    if depth > _MOST_DEPTH:
        return []
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, list | tuple):
        return [tensor for part in output for tensor in tensors_of(part, depth + 1)]
    return []


def output_error(before: object, after: object, again: object = None) -> OutputError:
    """Hold the output of a changed model against that of the model as it is.

    Args:
        before: of the model as it is.
        after: of the changed one. Where its first axis is a multiple of the other's, as with a
            larger batch, its beginning is compared.
        again: of the model as it is, once more.

    Raises:
        NotComparableError: they have other shapes, or hold no tensors.
    """
    sums = _compared(before, after)
    noise = _relative(_compared(before, again)) if again is not None else 0.0
    return OutputError(sums.largest, _relative(sums), sums.values, sums.others_differ, noise)


def _relative(sums: _Sums) -> float:
    if sums.reference_squares > 0:
        return math.sqrt(sums.squares / sums.reference_squares)
    return 0.0 if sums.squares == 0 else math.inf


def _compared(before: object, after: object) -> _Sums:
    ours, theirs = tensors_of(before), tensors_of(after)
    if not ours:
        raise NotComparableError("the output holds no tensors")
    if len(ours) != len(theirs):
        raise NotComparableError(f"the outputs hold {len(ours)} and {len(theirs)} tensors")
    sums = _Sums()
    for one, other in zip(ours, theirs, strict=True):
        sums = sums.plus(_of_tensors(one, _beginning(other, one)))
    if not sums.values and not any(tensor.numel() for tensor in ours):
        raise NotComparableError("the output holds no values")
    return sums


def _beginning(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Cut a larger batch down to the size of the smaller one."""
    shape, wanted = tuple(tensor.shape), tuple(like.shape)
    if shape == wanted:
        return tensor
    if shape[1:] != wanted[1:] or not shape or not wanted[0] or shape[0] % wanted[0]:
        raise NotComparableError(f"the outputs have the shapes {wanted} and {shape}")
    return tensor[: wanted[0]]


def _of_tensors(before: torch.Tensor, after: torch.Tensor) -> _Sums:
    if before.is_quantized or after.is_quantized:
        before, after = before.dequantize(), after.dequantize()
    if before.is_complex() and after.is_complex():
        before, after = torch.view_as_real(before), torch.view_as_real(after)
    if not before.is_floating_point() or not after.is_floating_point():
        differ = int((before.cpu() != after.cpu()).sum())
        return _Sums(others_differ=differ)
    sums = _Sums()
    flat, other = before.detach().reshape(-1), after.detach().reshape(-1)
    for start in range(0, flat.numel(), _VALUES_AT_ONCE):
        one = flat[start : start + _VALUES_AT_ONCE].double()
        two = other[start : start + _VALUES_AT_ONCE].double()
        # The same infinity or no number on both sides is no difference.
        same = (one == two) | (one.isnan() & two.isnan())
        off = torch.where(same, 0.0, (one - two).abs()).nan_to_num(nan=math.inf)
        finite = one.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        squares, of_reference = float(off.square().sum()), float(finite.square().sum())
        sums = sums.plus(_Sums(float(off.max()), squares, of_reference, one.numel()))
    return sums
