"""Types of 16 bits and fewer: how often each pattern of bits occurs says everything, exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from tui_profiler.figures.moments import Sums, joined
from tui_profiler.probe.parameters.distribution import Distribution, Numbers, distribution
from tui_profiler.probe.parameters.moments import sums_of
from tui_profiler.probe.parameters.values import Values


def is_narrow(dtype: torch.dtype) -> bool:
    """Tell whether each value is a pattern of at most 16 bits."""
    return dtype.itemsize <= 2 and not dtype.is_complex


def count_bits(values: Values, read: Callable[[int], None]) -> tuple[Sums, Distribution]:
    """Go through all values once."""
    bits = 8 * values.dtype.itemsize
    counts = torch.zeros(1 << bits, dtype=torch.int64)
    for piece in values.pieces():
        counts += torch.bincount(_places(piece), minlength=1 << bits).cpu()
        read(piece.numel() * piece.element_size())
    table = _values(values.dtype)
    found = counts.numpy()
    finite = np.isfinite(table)
    sums = sums_of(table[finite & (found > 0)], found[finite & (found > 0)])
    apart = Sums(
        nans=int(found[np.isnan(table)].sum()), infinities=int(found[np.isinf(table)].sum())
    )
    # Bins of whole numbers may be narrower than one: a value apart from the next keeps its bin.
    known = np.unique(table[finite]) if values.dtype.is_floating_point else None
    return joined(sums, apart), distribution(table, table, found, representable=known)


def _places(piece: torch.Tensor) -> torch.Tensor:
    """Give the pattern of each value as a number from 0 on."""
    if piece.element_size() == 1:
        return piece.view(torch.uint8)
    return piece.view(torch.int16).to(torch.int32).add_(1 << 15)


def _values(dtype: torch.dtype) -> Numbers:
    """Give the value of each pattern, in the order of ``_places``."""
    if dtype == torch.bool:
        return np.minimum(np.arange(256), 1).astype(np.float64)
    if dtype.itemsize == 1:
        patterns = torch.arange(256, dtype=torch.uint8)
    else:
        patterns = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16)
    every = patterns.view(dtype)
    # float8 is only known to convert to float32.
    wide = every.to(torch.float32 if dtype.is_floating_point else torch.int64)
    found: Numbers = wide.double().numpy()
    return found
