"""A weight that has other values for a while, under every name that it has.

1. The memory of the weight is never written to: the tensors get other memory, and their own back.
   So it is what it was to the last bit, also after an exception, and a file that is mapped stays.
2. Every parameter and buffer that lies on the same bytes sees the new values: tied weights, also as
   views of one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from tui_profiler.messages import Unknown
from tui_profiler.probe.torch_compat.internals import storage_key


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
        """Give those in the storage of one tensor."""
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
    """Give the first value of a tensor in its storage, and what is behind its last one."""
    first = int(tensor.storage_offset())
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return first, first + sum((size - 1) * step for size, step in pairs) + 1
