"""Shapes of operators that a fake run works out at length: the same answer, sooner.

``native_batch_norm`` on fake tensors runs through a decomposition of some twenty operators. With
running statistics its output is shaped like its input, and it saves nothing: ResNet-50 then traces
in a third of the time. ``native_layer_norm`` is the same: Swin-T takes a quarter longer without.
``_grouped_mm`` on fake tensors knows what CUDA takes, bfloat16; the CPU multiplies float32 and
float16 as well, and mixtures of experts would have to run for real.
``tests/probe/trace/fake/test_shortcuts.py`` holds the answers equal.
"""

from __future__ import annotations

import torch

from tui_profiler.probe.torch_compat.internals import FakeTensor, Operator, on_meta

_EMPTY_LIKE = torch.ops.aten.empty_like.default
_NEW_EMPTY = torch.ops.aten.new_empty.default
_BATCH_NORM = torch.ops.aten.native_batch_norm.default
_LAYER_NORM = torch.ops.aten.native_layer_norm.default
_NEW_EMPTY_STRIDED = torch.ops.aten.new_empty_strided.default
_GROUPED = getattr(torch.ops.aten._grouped_mm, "default", None)
_LINE_BYTES = 16
"""Rows of grouped products begin at multiples of it."""


def shortcut(operator: Operator, args: tuple[object, ...]) -> object | None:
    """Give what a fake run of ``operator`` would, or None where there is no shorter way."""
    if operator is _BATCH_NORM:
        return _batch_norm(args)
    if operator is _GROUPED:
        return _grouped_product(args)
    return _layer_norm(args) if operator is _LAYER_NORM else None


def _batch_norm(args: tuple[object, ...]) -> tuple[torch.Tensor, ...] | None:
    given, _, _, running_mean, _, is_training = args[:6]
    if is_training or running_mean is None or not isinstance(given, FakeTensor):
        return None
    mode, device = given.fake_mode, given.fake_device
    nothing = (given, (0,))
    return (
        on_meta(_EMPTY_LIKE, mode, device, (given,), {}),
        on_meta(_NEW_EMPTY, mode, device, nothing, {}),
        on_meta(_NEW_EMPTY, mode, device, nothing, {}),
    )


def _layer_norm(args: tuple[object, ...]) -> tuple[torch.Tensor, ...] | None:
    """Answer like the input, and with one mean and deviation for each that is normalised."""
    given, axes = args[:2]
    if not isinstance(given, FakeTensor) or not isinstance(axes, list) or given.is_cuda:
        return None
    # In half precision the means have a type that depends on the weights'.
    if given.dtype is not torch.float32 or not given.is_contiguous():
        return None
    if tuple(given.shape[given.dim() - len(axes) :]) != tuple(axes):
        return None  # torch says what is wrong
    mode, device = given.fake_mode, given.fake_device
    saved = (given, (*given.shape[: given.dim() - len(axes)], *(1 for _ in axes)))
    return (
        on_meta(_EMPTY_LIKE, mode, device, (given,), {}),
        on_meta(_NEW_EMPTY, mode, device, saved, {}),
        on_meta(_NEW_EMPTY, mode, device, saved, {}),
    )


def _grouped_product(args: tuple[object, ...]) -> torch.Tensor | None:
    """Answer as the CPU does, in the dtypes that the fake run refuses.

    One: (rows, in) with the ends of its groups, or (groups, rows, in). Other: (groups, in, out).
    """
    if len(args) < 2 or any(argument is not None for argument in args[3:]):
        return None
    one, other, ends = args[0], args[1], args[2] if len(args) > 2 else None
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return None
    is_fake = isinstance(one, FakeTensor) or one.device.type == "meta"
    if not is_fake or one.device.type not in ("cpu", "meta") or other.device != one.device:
        return None
    if one.dtype not in (torch.float32, torch.float16) or other.dtype != one.dtype:
        return None
    if other.dim() != 3 or one.dim() != (3 if ends is None else 2):
        return None
    if one.shape[-1] != other.shape[1] or (ends is None and one.shape[0] != other.shape[0]):
        return None
    step = _LINE_BYTES // one.dtype.itemsize
    if not _is_in_lines(one, step) or not _is_in_lines(other, step):
        return None  # The CPU refuses it, and its own sentence says why.
    shape = (*one.shape[:-1], other.shape[2])
    width = -(-shape[-1] // step) * step
    strides = (width, 1) if len(shape) == 2 else (shape[1] * width, width, 1)
    if not isinstance(one, FakeTensor):
        return torch.empty_strided(shape, strides, dtype=one.dtype, device=one.device)
    given = (one, shape, strides)
    return on_meta(_NEW_EMPTY_STRIDED, one.fake_mode, one.fake_device, given, {})


def _is_in_lines(tensor: torch.Tensor, step: int) -> bool:
    """Tell whether one of the last two axes is dense, and the other begins at whole lines."""
    rows, columns = tensor.stride()[-2:]
    return (columns == 1 and rows % step == 0) or (rows == 1 and columns % step == 0)
