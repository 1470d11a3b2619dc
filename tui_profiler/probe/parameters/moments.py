"""Moments in one pass, in float64: each piece about its own mean, then joined."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from tui_profiler.messages import Unknown
from tui_profiler.messages.parameters import Moments
from tui_profiler.probe.parameters.values import Values


def moments(values: Values, read: Callable[[int], None]) -> Moments:
    """Go through all values once."""
    every = [piece.double() for piece in values.pieces()]
    whole = torch.cat(every) if every else torch.empty(0, dtype=torch.float64)
    read(whole.numel() * values.dtype.itemsize)
    finite = whole[whole.isfinite()]
    if not finite.numel():
        nothing = Unknown("no value is finite")
        nan = math.nan
        return Moments(
            0, int(whole.isnan().sum()), int(whole.isinf().sum()), 0, 0, 0.0,
            nan, nan, nan, nan, nothing, nothing, 0.0, 0.0,
        )  # fmt: skip
    mean = finite.mean()
    away = finite - mean
    std = float(away.square().mean().sqrt())
    unknown = Unknown("all values are equal")
    return Moments(
        count=finite.numel(),
        nans=int(whole.isnan().sum()),
        infinities=int(whole.isinf().sum()),
        zeros=int((finite == 0).sum()),
        near_zeros=int((finite.abs() < 1e-3 * float(finite.square().mean().sqrt())).sum()),
        near_zero_below=1e-3 * float(finite.square().mean().sqrt()),
        mean=float(mean),
        std=std,
        minimum=float(finite.min()),
        maximum=float(finite.max()),
        skewness=float((away / std).pow(3).mean()) if std else unknown,
        kurtosis=float((away / std).pow(4).mean()) - 3 if std else unknown,
        l1=float(finite.abs().sum()),
        l2=float(finite.norm()),
    )
