"""What the values of one tensor are like: largest, root mean square, zeros, NaN and Inf.

1. The tensor is only read, below autograd, autocast and the program's modes: no node, no random
   number, no copy of it where all values are finite.
2. On a CPU the figures are there at once. On a GPU they are reduced there into a few numbers, which
   are copied into pinned memory behind it: nothing waits, ``DeviceRows.read`` is asked later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

MOST_ROWS = 20_000
"""Tensors of one step."""
MOST_COUNTED = 2**24
"""Elements on a device whose NaN and Inf are counted: it takes a byte for each meanwhile."""
_DEVICES = ("cpu", "cuda")

without_autocast: Callable[[], AbstractContextManager[object]] = getattr(
    torch._C, "_DisableAutocast", nullcontext
)
"""Under autocast a norm would copy the tensor."""


class Statistics(NamedTuple):
    """Of one tensor, or of several together."""

    elements: int
    largest: float
    """Absolute maximum of the finite ones; NaN where it is not known."""
    norm: float
    """Root of their sum of squares; NaN likewise."""
    zeros: int
    nans: int
    """At least 1 where there is any, even where they were not counted."""
    infs: int

    @property
    def rms(self) -> float:
        """Root of the mean square of the finite elements."""
        finite = self.elements - self.nans - self.infs
        return self.norm / math.sqrt(finite) if finite > 0 else math.nan

    def joined(self, other: Statistics) -> Statistics:
        """Return those of both tensors together."""
        is_known = not (math.isnan(self.largest) or math.isnan(other.largest))
        return Statistics(
            self.elements + other.elements,
            max(self.largest, other.largest) if is_known else math.nan,
            math.hypot(self.norm, other.norm),
            self.zeros + other.zeros,
            self.nans + other.nans,
            self.infs + other.infs,
        )


def is_observed(tensor: Tensor) -> bool:
    """Tell whether the values of a tensor can be told: a plain one of floats, in memory."""
    return (
        tensor.dtype.is_floating_point
        and tensor.layout is torch.strided
        and tensor.device.type in _DEVICES
        and not tensor.is_quantized
        and tensor.numel() > 0
    )


def statistics_of(tensor: Tensor) -> Statistics:
    """Return the statistics of a tensor on a CPU, which ``is_observed``; call it under no_grad."""
    count = tensor.numel()
    least, most = torch.aminmax(tensor)
    largest = max(-least.item(), most.item())  # NaN where either is: aminmax hands it on.
    norm = _norm(tensor).item()
    zeros = count - int(torch.count_nonzero(tensor))
    if math.isfinite(norm) and math.isfinite(largest):
        return Statistics(count, largest, norm, zeros, 0, 0)
    nans, infs = int(torch.isnan(tensor).sum()), int(torch.isinf(tensor).sum())
    finite = tensor[torch.isfinite(tensor)].double()
    if not finite.numel():
        return Statistics(count, math.nan, 0.0, zeros, nans, infs)
    largest = float(finite.abs().max())
    scaled = float(torch.linalg.vector_norm(finite / largest)) if largest else 0.0
    return Statistics(count, largest, scaled * largest, zeros, nans, infs)


def _norm(tensor: Tensor) -> Tensor:
    is_wide = tensor.dtype in (torch.float32, torch.float64)
    norm: Tensor = torch.linalg.vector_norm(tensor, dtype=None if is_wide else torch.float32)
    return norm


class DeviceRows:
    """Statistics that are reduced on a device and read when it has come that far.

    Args:
        is_pinned: whether the memory that they are copied to is pinned; else the copy waits.
    """

    def __init__(self, *, is_pinned: bool) -> None:
        self._rows = torch.empty(MOST_ROWS, 5, dtype=torch.float32, pin_memory=is_pinned)
        self._counts: list[int] = []

    def clear(self) -> None:
        """Begin with the first row again: all were read."""
        self._counts.clear()

    def put(self, tensor: Tensor) -> int | None:
        """Reduce a tensor into the next row and return its place; None where there is no room."""
        place, count = len(self._counts), tensor.numel()
        if place >= MOST_ROWS:
            return None
        least, most = torch.aminmax(tensor)
        largest = torch.maximum(-least, most).float()
        zeros = (count - torch.count_nonzero(tensor)).float()
        nans = infs = torch.full((), math.nan, device=tensor.device)
        if count <= MOST_COUNTED:
            nans = torch.count_nonzero(torch.isnan(tensor)).float()
            infs = torch.count_nonzero(torch.isinf(tensor)).float()
        row = torch.stack((largest, _norm(tensor).float(), zeros, nans, infs))
        self._rows[place].copy_(row, non_blocking=True)
        self._counts.append(count)
        return place

    def read(self, place: int) -> Statistics:
        """Return the statistics of a row that the device has come to."""
        largest, norm, zeros, nans, infs = self._rows[place].tolist()
        count = self._counts[place]
        if math.isfinite(largest) and math.isfinite(norm):
            return Statistics(count, largest, norm, int(zeros), 0, 0)
        if math.isnan(nans):
            nans, infs = float(math.isnan(largest)), float(math.isinf(largest))
        finite = largest if math.isfinite(largest) else math.nan
        return Statistics(count, finite, math.nan, int(zeros), int(nans), int(infs))
