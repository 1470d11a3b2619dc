"""Moments of the finite values, from sums about a mean."""

from __future__ import annotations

import math

import numpy as np

from tui_profiler.figures.moments import Sums
from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import Moments
from tui_profiler.probe.parameters.distribution import Counts, Distribution, Numbers

NEAR_ZERO = 1e-3
"""Of the root mean square."""


def sums_of(values: Numbers, counts: Counts | None = None) -> Sums:
    """Give the sums of finite values in memory, each so many times; no NaN, no infinity."""
    if not values.size:
        return Sums()
    times = None if counts is None else counts.astype(np.float64)
    count = values.size if counts is None else int(counts.sum())
    mean = float(values.sum() if times is None else values @ times) / count
    away = values - mean
    # What rounding left in the mean is taken out once more.
    mean += float(away.sum() if times is None else away @ times) / count
    away = values - mean
    square = away * away
    weighted = square if times is None else square * times
    sizes = np.abs(values)
    zeros = values.size - np.count_nonzero(values) if counts is None else counts[sizes == 0].sum()
    return Sums(
        count=count,
        mean=mean,
        second=float(weighted.sum()),
        third=float(weighted @ away),
        fourth=float(weighted @ square),
        magnitudes=float(sizes.sum() if times is None else sizes @ times),
        minimum=float(values.min()),
        maximum=float(values.max()),
        zeros=int(zeros),
    )


def moments(sums: Sums, table: Distribution) -> Moments:
    """Give the figures that sums stand for; those near 0 are counted in the table."""
    if not sums.count:
        nothing = Unknown("no value is finite")
        none = math.nan
        return Moments(
            *(0, sums.nans, sums.infinities, 0, 0, 0.0),
            *(none, none, none, none),
            *(nothing, nothing, 0.0, 0.0),
        )
    mean_square = sums.second / sums.count + sums.mean**2
    below = float(table.parted(np.array([NEAR_ZERO * math.sqrt(mean_square)]))[0])
    near = int(table.counts[np.abs(table.near) < below].sum()) if below else sums.zeros
    return Moments(
        count=sums.count,
        nans=sums.nans,
        infinities=sums.infinities,
        zeros=sums.zeros,
        near_zeros=near,
        near_zero_below=below,
        mean=sums.mean,
        std=math.sqrt(sums.second / sums.count),
        minimum=sums.minimum,
        maximum=sums.maximum,
        skewness=_over(sums.third, sums, 1.5),
        kurtosis=_less(_over(sums.fourth, sums, 2.0), 3.0),
        l1=sums.magnitudes,
        l2=math.sqrt(mean_square * sums.count),
    )


def _over(sum_of_powers: float, sums: Sums, power: float) -> Figure:
    variance = sums.second / sums.count
    if sums.minimum == sums.maximum or not variance:
        return Unknown("all values are equal")
    scale = variance**power if variance < 1e150 else math.inf
    found = sum_of_powers / sums.count / scale if scale else math.inf
    if not math.isfinite(found) or not math.isfinite(sum_of_powers) or not math.isfinite(scale):
        return Unknown("powers of its values are beyond float64")
    return found


def _less(figure: Figure, much: float) -> Figure:
    return figure if isinstance(figure, Unknown) else figure - much
