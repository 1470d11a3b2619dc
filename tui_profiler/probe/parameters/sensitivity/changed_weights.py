"""Weights as they are after quantisation or pruning, in their own dtype.

1. Quantisation is symmetric, round to nearest (half to even): the largest magnitude of what has one
   scale is the largest number of the format. As in Krishnamoorthi, arXiv 1806.08342, section 2.
2. Nothing is written into the weight: a new tensor is given.
"""

from __future__ import annotations

import torch
from torch import nn

from tui_profiler.messages.sensitivity import Scheme

_LARGEST = {"int8": 127.0, "int4": 7.0}
_FLOATS = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}


def changed(weight: torch.Tensor, scheme: Scheme, channel_axis: int = 0) -> torch.Tensor:
    """Give the weight as a scheme makes it.

    Args:
        weight: of two axes or more, all of its values finite.
        scheme: what is done to it.
        channel_axis: its axis of output channels.
    """
    exact = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
    if scheme.change == "values":
        found = without_values(exact, scheme.share)
    elif scheme.change == "channels":
        found = without_channels(exact, scheme.share, channel_axis)
    else:
        axes = [axis for axis in range(exact.dim()) if axis != channel_axis]
        found = quantised(exact, scheme.change, axes if scheme.per == "channel" else None)
    return found.to(weight.dtype)


def quantised(exact: torch.Tensor, stored: str, axes: list[int] | None) -> torch.Tensor:
    """Give values as they come back from a narrower format.

    Args:
        exact: float32 or float64.
        stored: ``int8``, ``int4``, ``float8_e4m3fn``, ``float8_e5m2``.
        axes: those that share a scale; None: all.
    """
    magnitude = exact.abs()
    top = magnitude.amax() if axes is None else magnitude.amax(dim=axes, keepdim=True)
    top = torch.where(top > 0, top, torch.ones_like(top))
    if stored in _LARGEST:
        scale = top / _LARGEST[stored]
        return (exact / scale).round_().mul_(scale)
    dtype = _FLOATS[stored]
    scale = top / torch.finfo(dtype).max
    return (exact / scale).to(dtype).to(exact.dtype).mul_(scale)


def without_values(exact: torch.Tensor, share: float) -> torch.Tensor:
    """Give a copy whose smallest values are zero: exactly that share of them, rounded."""
    count = round(exact.numel() * min(max(share, 0.0), 1.0))
    found = exact.clone()
    if not count:
        return found
    magnitude = exact.abs().flatten()
    limit = magnitude.kthvalue(count).values
    goes = magnitude < limit
    # Of equal magnitudes those that come first go, so that it is that many and no more.
    equal = (magnitude == limit).nonzero().flatten()
    goes[equal[: count - int(goes.sum())]] = True
    return found.masked_fill_(goes.view(exact.shape), 0.0)


def without_channels(exact: torch.Tensor, share: float, axis: int) -> torch.Tensor:
    """Give a copy whose weakest output channels are zero; at least one channel stays."""
    channels = exact.shape[axis]
    count = min(round(channels * min(max(share, 0.0), 1.0)), channels - 1)
    axes = [other for other in range(exact.dim()) if other != axis]
    norms = torch.linalg.vector_norm(exact, dim=axes)
    weakest = norms.argsort(stable=True)[:count]
    return exact.index_fill(axis, weakest, 0.0)


def channel_axis_of(module: nn.Module) -> int:
    """Give the axis of output channels of a module's weights."""
    return 1 if isinstance(module, nn.modules.conv._ConvTransposeNd) else 0
