"""Weights after quantisation or pruning, and how a model has them for a while.

1. Quantisation is symmetric, round to nearest (half to even): the largest magnitude of what has one
   scale is the largest number of the format. As in Krishnamoorthi, arXiv 1806.08342, section 2.
2. Nothing is written into the weight: a new tensor is given.
3. The memory of the weight is never written to: the tensors get other memory, and their own back.
   So it is what it was to the last bit, also after an exception, and a file that is mapped stays.
4. Every parameter and buffer that lies on the same bytes sees the new values: tied weights, also as
   views of one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from tui_profiler.messages import Unknown
from tui_profiler.messages.parameters import Scheme
from tui_profiler.probe.torch_compat.internals import storage_key

_LARGEST = {"int8": 127.0, "int4": 7.0}
_FLOATS = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}


def changed(weight: torch.Tensor, scheme: Scheme, channel_axis: int = 0) -> torch.Tensor:
    """Return the weight as a scheme makes it.

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
    """Return values as they come back from a narrower format.

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
    """Return a copy whose smallest values are zero: exactly that share of them, rounded."""
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
    """Return a copy whose weakest output channels are zero; at least one channel stays."""
    channels = exact.shape[axis]
    count = min(round(channels * min(max(share, 0.0), 1.0)), channels - 1)
    axes = [other for other in range(exact.dim()) if other != axis]
    norms = torch.linalg.vector_norm(exact, dim=axes)
    weakest = norms.argsort(stable=True)[:count]
    return exact.index_fill(axis, weakest, 0.0)


def channel_axis_of(module: nn.Module) -> int:
    """Return the axis of output channels of a module's weights."""
    return 1 if isinstance(module, nn.modules.conv._ConvTransposeNd) else 0


class Aliases(NamedTuple):
    """The tensors that share memory with a weight, the weight first."""

    tensors: tuple[torch.Tensor, ...]
    low: int
    """Where the first value of any of them lies in the storage, in values."""
    high: int
    """Behind the last one."""


class Storages:
    """Which parameters and buffers of a model lie in which storage."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._tensors: dict[int, list[torch.Tensor]] = {}
        for tensor in tensors:
            key = storage_key(tensor)
            if key is not None and tensor.numel():
                self._tensors.setdefault(key, []).append(tensor)

    def beside(self, weight: torch.Tensor) -> list[torch.Tensor]:
        """Return those in the storage of one tensor."""
        key = storage_key(weight)
        return [] if key is None else self._tensors.get(key, [])


def aliases_of(weight: torch.Tensor, beside: Iterable[torch.Tensor]) -> Aliases | Unknown:
    """Find what shares memory with a weight; gives the reason where it cannot be replaced.

    Args:
        weight: strided, not empty.
        beside: what lies in the same storage, the weight among them or not.
    """
    if any(
        size > 1 and step == 0 for size, step in zip(weight.shape, weight.stride(), strict=True)
    ):
        return Unknown("one value of it stands for many: it is expanded")
    found = {id(weight): weight}
    low, high = _span(weight)
    for tensor in beside:
        first, last = _span(tensor)
        if tensor.dtype != weight.dtype:
            return Unknown("a tensor of another type lies in the same storage")
        if first < high and low < last:
            found[id(tensor)] = tensor
            low, high = min(low, first), max(high, last)
    return Aliases(tuple(found.values()), low, high)


@contextmanager
def replaced(aliases: Aliases, values: torch.Tensor) -> Iterator[None]:
    """Let a weight, and what lies on the same memory, have other values.

    Args:
        aliases: the weight first.
        values: of its shape and dtype.
    """
    weight, low = aliases.tensors[0], aliases.low
    with torch.no_grad():
        memory = weight.detach().as_strided((aliases.high - low,), (1,), low).clone()
        memory.as_strided(weight.shape, weight.stride(), weight.storage_offset() - low).copy_(
            values
        )
    before = [tensor.data for tensor in aliases.tensors]
    try:
        for tensor in aliases.tensors:
            place = tensor.storage_offset() - low
            tensor.data = memory.as_strided(tensor.shape, tensor.stride(), place)
        yield
    finally:
        for tensor, own in zip(aliases.tensors, before, strict=True):
            tensor.data = own


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first value of a tensor in its storage, and what is behind its last one."""
    first = int(tensor.storage_offset())
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return first, first + sum((size - 1) * step for size, step in pairs) + 1
