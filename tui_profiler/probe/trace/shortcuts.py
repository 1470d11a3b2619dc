"""Shapes of operators that a fake run works out at length: the same answer, sooner.

``native_batch_norm`` on fake tensors runs through a decomposition of some twenty operators. With
running statistics its output is shaped like its input, and it saves nothing: ResNet-50 then traces
in a third of the time. ``native_layer_norm`` is the same: Swin-T takes a quarter longer without.
``tests/probe/test_trace_shortcuts.py`` holds the answers equal.
"""

from __future__ import annotations

import torch

from tui_profiler.probe.torch_internals import FakeTensor, Operator, on_meta

_EMPTY_LIKE = torch.ops.aten.empty_like.default
_NEW_EMPTY = torch.ops.aten.new_empty.default
_BATCH_NORM = torch.ops.aten.native_batch_norm.default
_LAYER_NORM = torch.ops.aten.native_layer_norm.default


def shortcut(operator: Operator, args: tuple[object, ...]) -> object | None:
    """Give what a fake run of ``operator`` would, or None where there is no shorter way."""
    if operator is _BATCH_NORM:
        return _batch_norm(args)
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
